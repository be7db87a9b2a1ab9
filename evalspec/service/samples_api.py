"""Routes of samples: pages of a run's samples, and one sample with all its texts."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from msgspec import Meta
from msgspec.structs import replace
from pydantic import BaseModel, Field

from evalspec.model import AgentReply, Attempt, Sample, SampleResult, SampleStatus
from evalspec.model.base import Record
from evalspec.reports.rows import AttemptRow
from evalspec.service.access import Reading
from evalspec.service.answers import render_answer
from evalspec.service.cursors import Cursor, Limit, NextCursor, cut_page, decode_cursor
from evalspec.service.documents import document_type, page_example, render_document, to_json
from evalspec.service.examples import SAMPLE
from evalspec.service.problems import not_found
from evalspec.service.sample_index import LONGEST_MARK, SampleRow
from evalspec.service.sample_pages import (
    LEAST_TEXT,
    SampleFilter,
    find_sample,
    list_samples,
)

ROUTER = APIRouter(prefix="/v1/runs/{run_id}/samples", tags=["samples"])

MOST_REASONS = 1_000_000


class SampleExcerpt(Record, frozen=True):
    """A sample in a list. `question`, `response`: their beginnings; null: the run does not keep texts."""

    dataset: str
    question: str | None
    response: str | None
    result: SampleResult


class WholeAttempt(Record, frozen=True):
    """One attempt at a sample, with the evidence of its scores."""

    number: Annotated[int, Meta(description="Counts from 1.")]
    result: Attempt
    reply: Annotated[AgentReply | None, Meta(description="null: there is none, or the run does not keep texts.")] = None


class WholeSample(Record, frozen=True):
    """One sample with its texts and attempts. Texts are empty or null if the run does not keep them."""

    dataset: str
    sample: Sample
    result: Annotated[SampleResult, Meta(description="All attempts combined.")]
    attempts: tuple[WholeAttempt, ...]


_SAMPLE = Sample("refund", "When is a refund paid?", references=("In 14 days.",), qrels={"terms-17": 1})
_REPLY = AgentReply(
    "In 14 days.",
    retrieved_contexts=("Refunds are paid within 14 days.",),
    retrieved_context_ids=("terms-17",),
    latency_ms=412.5,
    finish_reason="stop",
)
_ATTEMPT = Attempt(SampleStatus.ANSWERED, 412.5, scores=SAMPLE.scores, finish_reason="stop")
_WHOLE = WholeSample("qa", _SAMPLE, SAMPLE, (WholeAttempt(1, _ATTEMPT, _REPLY),))


class SamplePage(BaseModel):
    """A page of samples, in the order of the run."""

    model_config = page_example("samples", SampleExcerpt("qa", _SAMPLE.question, _REPLY.response, SAMPLE))
    samples: list[document_type(SampleExcerpt)]  # type: ignore[valid-type]
    next_cursor: NextCursor


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
    folder = access.find_indexed(run_id)
    place = decode_cursor(cursor, int)
    after = -1 if place is None else place[0]
    wanted = SampleFilter(
        dataset, metric, failed, beyond_threshold, tuple(tag or ()), tuple(slice or ()), text, after, reason=reason
    )
    rows = list_samples(folder, wanted, limit + 1)
    found, following = cut_page(rows, limit, lambda row: (row.position,))
    return render_answer({"samples": [_list_sample(row) for row in found], "next_cursor": following})


@ROUTER.get("/{dataset}/{sample_id:path}", response_model=document_type(WholeSample, _WHOLE), summary="Show a sample")
def get_sample(run_id: RunId, dataset: str, sample_id: str, access: Reading) -> Response:
    """Return one sample: question, contexts, answers, scores with reasons and evidence, timings."""
    found = find_sample(access.find_indexed(run_id), dataset, sample_id)
    if found is None:
        raise not_found(f"run {run_id} has no sample {sample_id[:100]} in dataset {dataset[:100]}")
    attempts = tuple(map(_describe_attempt, found.attempts))
    return render_document(WholeSample(dataset, found.sample, found.row.result, attempts))


def _list_sample(row: SampleRow) -> dict[str, Any]:
    return to_json(SampleExcerpt(row.dataset, row.question, row.response, row.result))


def _describe_attempt(row: AttemptRow) -> WholeAttempt:
    reply = None if row.exchange is None else row.exchange.reply
    return WholeAttempt(row.number, replace(row.attempt, scores=row.scores), reply)
