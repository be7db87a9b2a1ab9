"""Routes of samples: pages of a run's samples, and one sample with all its texts."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field, create_model

from evalspec.model import SampleResult, Score
from evalspec.reports.rows import AttemptRow
from evalspec.service.access import Access, Reading
from evalspec.service.answers import describe, model_of, render_answer
from evalspec.service.cursors import Cursor, Limit, NextCursor, decode_cursor, encode_cursor
from evalspec.service.examples import SAMPLE
from evalspec.service.problems import not_found
from evalspec.service.sample_index import LONGEST_MARK, SampleRow
from evalspec.service.sample_pages import (
    LEAST_TEXT,
    SampleDetails,
    SampleFilter,
    find_sample,
    list_samples,
)

ROUTER = APIRouter(prefix="/v1/runs/{run_id}/samples", tags=["samples"])

MOST_REASONS = 1_000_000

_LEFT_OUT = ("attempts",)
_NOT_OF_ATTEMPTS = ("scores", "unreachable", "oddities", "retries", "answer_digest")
_RESULT: Any = model_of(SampleResult, "SampleRecord", _LEFT_OUT)
_LISTED: dict[str, Any] = {"dataset": "qa", "question": "When is a refund paid?", "response": "In 14 days.", **SAMPLE}

ListedSample = create_model(
    "ListedSample",
    __base__=_RESULT,
    __doc__="A sample in a list. `question`, `response`: their beginnings; null: the run does not keep texts.",
    dataset=(str, ...),
    question=(str | None, ...),
    response=(str | None, ...),
)


class SamplePage(BaseModel):
    """A page of samples, in the order of the run."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"samples": [_LISTED], "next_cursor": None}]})
    samples: list[ListedSample]
    next_cursor: NextCursor


class Turn(BaseModel):
    """One message of a conversation."""

    role: str
    content: str


class AttemptAnswer(BaseModel):
    """One attempt at a sample. Texts are null if the run does not keep them, or the reply lacks them."""

    attempt: int = Field(description="Counts from 1.")
    status: str
    passed: bool | None
    error: str | None
    latency_ms: float | None
    timings_ms: dict[str, float]
    finish_reason: str | None
    response: str | None
    contexts: list[str] | None
    context_ids: list[str] | None
    tool_calls: list[Any] | None
    usage: dict[str, int] | None
    scores: dict[str, model_of(Score, "AttemptScore")]  # type: ignore[valid-type]


_ATTEMPT: dict[str, Any] = {
    "attempt": 1,
    "status": "answered",
    "passed": None,
    "error": None,
    "latency_ms": 412.5,
    "timings_ms": {},
    "finish_reason": "stop",
    "response": "In 14 days.",
    "contexts": ["Refunds are paid within 14 days."],
    "context_ids": ["terms-17"],
    "tool_calls": None,
    "usage": {"input_tokens": 320, "output_tokens": 12},
    "scores": SAMPLE["scores"],
}


class SampleAnswer(BaseModel):
    """One sample with its texts and attempts. Texts are empty or null if the run does not keep them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "dataset": "qa",
                    "sample_id": "refund",
                    "question": "When is a refund paid?",
                    "expected": ["In 14 days."],
                    "contexts": None,
                    "reference_contexts": None,
                    "relevant": {"terms-17": 1},
                    "result": SAMPLE,
                    "attempts": [_ATTEMPT],
                }
            ]
        }
    )
    dataset: str
    sample_id: str
    question: str | list[Turn]
    expected: list[str] = Field(description="Right answers.")
    contexts: list[str] | None = Field(description="The contexts of the dataset itself.")
    reference_contexts: list[str] | None
    relevant: dict[str, int] | None = Field(description="Grades by document id.")
    result: _RESULT = Field(description="All attempts combined.")
    attempts: list[AttemptAnswer]


RunId = Annotated[str, Path(max_length=200, description="Id of the run.")]
Mark = Annotated[str, Field(max_length=LONGEST_MARK)]


@ROUTER.get("", response_model=SamplePage, summary="List samples")
def list_run_samples(
    run_id: RunId,
    access: Reading,
    dataset: str | None = None,
    metric: Annotated[str | None, Query(description="Only samples to which this metric applies.")] = None,
    failed: Annotated[
        bool, Query(description="Only samples without a usable reply, or with a score that failed: `metric`'s, or any.")
    ] = False,
    beyond_threshold: Annotated[
        bool, Query(description="Only samples with a score beyond a threshold: of `metric`, or of any.")
    ] = False,
    tag: Annotated[list[Mark] | None, Query(description="Repeatable; a sample needs all.")] = None,
    slice: Annotated[list[Mark] | None, Query(description="A tag, or key=value of the metadata; repeatable.")] = None,
    text: Annotated[
        str | None,
        Query(min_length=LEAST_TEXT, max_length=1000, description="In the question or a response, in any case."),
    ] = None,
    reason: Annotated[
        int | None,
        Query(ge=0, le=MOST_REASONS, description="Only samples that a reason of the verdict is about. Counts from 0."),
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """Return samples of a run. The first request for a run of more than 2,000 samples may be answered with 503."""
    require_samples(access, run_id)
    place = decode_cursor(cursor, int)
    after = -1 if place is None else place[0]
    wanted = SampleFilter(
        dataset, metric, failed, beyond_threshold, tuple(tag or ()), tuple(slice or ()), text, after, reason=reason
    )
    found = list_samples(access.runs.find_folder(run_id), wanted, limit + 1)
    following = encode_cursor(found[limit - 1].position) if len(found) > limit else None
    return render_answer({"samples": [_describe_listed(row) for row in found[:limit]], "next_cursor": following})


@ROUTER.get("/{dataset}/{sample_id:path}", response_model=SampleAnswer, summary="Show a sample")
def get_sample(run_id: RunId, dataset: str, sample_id: str, access: Reading) -> Response:
    """Return one sample: question, contexts, answers, scores with reasons and evidence, timings."""
    require_samples(access, run_id)
    found = find_sample(access.runs.find_folder(run_id), dataset, sample_id)
    if found is None:
        raise not_found(f"run {run_id} has no sample {sample_id[:100]} in dataset {dataset[:100]}")
    return render_answer(_describe_sample(found))


def require_samples(access: Access, run_id: str) -> None:
    """Make sure that the index of a run's samples is current.

    Raises:
        ApiProblem: 404: There is no such run. 409: It is in progress or damaged. 503: The index is being written.
    """
    entry = access.runs.find(run_id)
    access.service.samples.require(access.runs.find_folder(run_id), entry.samples)


def _describe_listed(row: SampleRow) -> dict[str, Any]:
    texts = {"dataset": row.dataset, "question": row.question, "response": row.response}
    return {**texts, **describe(row.result, _LEFT_OUT)}


def _describe_sample(found: SampleDetails) -> dict[str, Any]:
    sample = found.sample
    return {
        "dataset": found.row.dataset,
        "sample_id": sample.id,
        "question": describe(sample.user_input),
        "expected": sample.references,
        "contexts": sample.retrieved_contexts,
        "reference_contexts": sample.reference_contexts,
        "relevant": None if sample.qrels is None else dict(sample.qrels),
        "result": describe(found.row.result, _LEFT_OUT),
        "attempts": [_describe_attempt(row) for row in found.attempts],
    }


def _describe_attempt(row: AttemptRow) -> dict[str, Any]:
    """Return an attempt as JSON. What it says is null if the run does not keep it."""
    exchange = row.exchange
    reply = None if exchange is None else exchange.reply
    return {
        "attempt": row.number,
        **describe(row.attempt, _NOT_OF_ATTEMPTS),
        "response": None if reply is None else reply.response,
        "contexts": None if exchange is None else exchange.retrieved_contexts,
        "context_ids": None if exchange is None else exchange.ranking,
        "tool_calls": None if reply is None else reply.tool_calls,
        "usage": None if reply is None else describe(reply.usage),
        "scores": describe(row.scores),
    }
