"""Routes of labels: what people say about the replies and scores of a run."""

from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from evalspec.curation.labels.current import list_current
from evalspec.curation.labels.drawing import LabelDesign
from evalspec.curation.labels.exchanging import render_labels
from evalspec.curation.labels.files import hash_label
from evalspec.curation.labels.records import LONGEST_NOTE
from evalspec.model.calibrations import JudgeCalibration, MetricCalibration
from evalspec.model.labels import Answer, Label, LabelShare, LabelStats, LabelVerdict, ReplyLabels
from evalspec.service.access import Reading, Reviewing, Running
from evalspec.service.answers import file_headers, render_answer
from evalspec.service.cursors import Cursor, Limit, NextCursor, cut_page, decode_cursor
from evalspec.service.documents import body_config, document_type, page_example, render_document, show_example, to_json
from evalspec.service.examples import RUN_ID
from evalspec.service.indexed_run import find_label_files, open_indexed_run
from evalspec.service.json_bodies import JsonRoute
from evalspec.service.labelling import (
    SUFFIXES,
    TYPES,
    find_case,
    import_content,
    read_calibration,
    read_shown_labels,
    read_stats,
    record_label,
)

ROUTER = APIRouter(prefix="/v1/runs/{run_id}/labels", tags=["labels"], route_class=JsonRoute)
FILES = APIRouter(prefix="/v1/runs/{run_id}/labels", tags=["labels"])

_FILE: dict[str, Any] = {kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in TYPES.values()}

Form = Literal["jsonl", "csv"]
Text = Annotated[str | None, Query(max_length=10_000)]
History = Annotated[bool, Query(description="Include labels that were replaced or withdrawn.")]

_AT = "2026-11-21T10:37:06.257123Z"
_DIGEST = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
LABEL = Label(
    run=RUN_ID,
    dataset="qa",
    sample="refund",
    verdict=LabelVerdict.BAD,
    note="It is 14 days.",
    labeller="ana@example.com",
    at=_AT,
    sample_digest="0f1e2d3c4b5a6978",
    reply_digest=_DIGEST,
)
STATS = LabelStats(
    run=RUN_ID,
    labellers={"ana@example.com": 1},
    replies=(
        ReplyLabels(
            dataset="qa",
            good=LabelShare(labelled=1, units=1, value=0.0, interval=(0.0, 0.975), interval_method="exact"),
        ),
    ),
)

CALIBRATION = JudgeCalibration(
    run=RUN_ID,
    at="2026-11-21T10:37:06Z",
    metrics=(MetricCalibration(dataset="qa", metric="faithfulness", reason="there are no blind random labels"),),
)

Id = Annotated[str, Field(min_length=1, max_length=10_000)]
Attempt = Annotated[int, Field(ge=1, le=1_000_000)]


class AnswerRequest(BaseModel):
    """The caller's answer to one of the judge's questions, such as whether the contexts support a statement."""

    model_config = body_config()
    question: str = Field(max_length=100_000, description="The statement, passage or rubric that the answer is about.")
    value: float = Field(ge=-1e9, le=1e9, description="1: yes; 0: no; the score of a grade of a rubric.")


class LabelRequest(BaseModel):
    """What the caller says about a reply, or about a score. It replaces an earlier label of theirs on the same."""

    model_config = body_config({"dataset": "qa", "sample": "refund", "verdict": "bad", "note": "14 days."})
    sample: Id
    dataset: Id | None = Field(None, description="Needed if several datasets have a sample of this id.")
    attempt: Attempt = 1
    metric: Id | None = Field(None, description="The metric of the score; null: the reply as a whole.")
    verdict: Literal["good", "bad", "agree", "disagree", "rated"] = Field(
        description="Of a reply good or bad; of a score agree or disagree, or rated: the caller's own score."
    )
    value: float | None = Field(
        None, ge=-1e9, le=1e9, description="With disagree and rated: the score that the caller gives."
    )
    answers: list[AnswerRequest] = Field([], max_length=1000, description="With rated, instead of `value`.")
    is_blind: bool = Field(False, description="With rated: the caller has not seen score, reason or verdicts.")
    random: int | None = Field(
        None, ge=1, le=1_000_000, description="With rated: the reply is one of so many that are drawn. Implies blind."
    )
    seed: int = Field(0, ge=-(2**53), le=2**53, description="The seed of `random`.")
    note: str | None = Field(None, max_length=LONGEST_NOTE)
    reply_digest: str | None = Field(
        None, max_length=100, description="The reply that was judged. If the run has another one by now: 409."
    )


class LabelPage(BaseModel):
    """A page of labels, oldest first. `hidden`: labels of others on what the caller has not labelled."""

    model_config = page_example("labels", LABEL, hidden=0)
    labels: list[document_type(Label)]  # type: ignore[valid-type]
    hidden: int
    next_cursor: NextCursor


class ImportAnswer(BaseModel):
    """The outcome of an import. `known`: labels that were there already."""

    model_config = show_example({"added": 12, "known": 0})
    added: int
    known: int


@ROUTER.get("", response_model=LabelPage, summary="List labels")
def list_run_labels(
    run_id: str,
    access: Reading,
    dataset: Text = None,
    sample: Text = None,
    metric: Text = None,
    labeller: Text = None,
    verdict: LabelVerdict | None = None,
    history: History = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """Return the caller's labels, and those of others on what the caller has labelled: nobody sees others' before."""
    place = decode_cursor(cursor, str, str)
    found = read_shown_labels(access, run_id, history=history)
    wanted = {"dataset": dataset, "sample": sample, "metric": metric, "labeller": labeller, "verdict": verdict}
    chosen = {name: value for name, value in wanted.items() if value is not None}
    kept = [one for one in found.labels if all(getattr(one, name) == value for name, value in chosen.items())]
    ordered = [(key, one) for key, one in _order(kept) if place is None or key > place]
    shown, following = cut_page(ordered, limit, lambda entry: entry[0])
    labels = [to_json(one) for _, one in shown]
    return render_answer({"labels": labels, "hidden": found.hidden, "next_cursor": following})


def _order(labels: Sequence[Label]) -> list[tuple[tuple[str, str], Label]]:
    """Return labels with their places, oldest first. Labels of one moment are ordered by their hashes."""
    moments = Counter(one.at for one in labels)
    placed = [((one.at, hash_label(one) if moments[one.at] > 1 else ""), one) for one in labels]
    return sorted(placed, key=lambda entry: entry[0])


@ROUTER.post(
    "", status_code=HTTPStatus.CREATED, response_model=document_type(Label, LABEL), summary="Label a reply or a score"
)
def add_run_label(run_id: str, asked: LabelRequest, access: Reviewing) -> Response:
    """Record what the caller says about a reply, or about the score of a metric for it."""
    run = open_indexed_run(access, run_id)
    is_rated = asked.verdict == "rated"
    case = find_case(run, asked.dataset, asked.sample, asked.attempt, asked.metric, is_rated=is_rated)
    is_drawn = is_rated and asked.random is not None and asked.metric is not None
    made = record_label(
        access,
        run,
        case,
        asked.verdict,
        value=asked.value,
        note=asked.note,
        seen=asked.reply_digest,
        is_blind=asked.is_blind,
        answers=[Answer(one.question, one.value) for one in asked.answers],
        design=LabelDesign(asked.metric or "", size=asked.random, seed=asked.seed) if is_drawn else None,
    )
    return render_document(made, HTTPStatus.CREATED)


@ROUTER.delete("", status_code=HTTPStatus.NO_CONTENT, summary="Withdraw a label")
def withdraw_run_label(
    run_id: str,
    access: Reviewing,
    sample: Annotated[str, Query(max_length=10_000)],
    dataset: Text = None,
    attempt: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    metric: Text = None,
) -> None:
    """Take back the caller's label on a reply, or on the score of a metric for it. The history stays."""
    run = open_indexed_run(access, run_id)
    case = find_case(run, dataset, sample, attempt, metric, is_rated=True)
    record_label(access, run, case, LabelVerdict.WITHDRAWN)


@ROUTER.get("/stats", response_model=document_type(LabelStats, STATS), summary="Show agreement")
def get_label_stats(
    run_id: str,
    access: Reading,
    everything: Annotated[bool, Query(description="Count everybody's labels; needs the scope run.")] = False,
) -> Response:
    """Return how people agree with each other about a run, and how often they agree with its metrics.

    Labels of others on what the caller has not labelled are not counted: a few of them would show each one. Who counts
    everything does not label blindly afterwards: label first.
    """
    return render_document(read_stats(access, run_id, everything=everything))


@ROUTER.get(
    "/calibration",
    response_model=document_type(JudgeCalibration, CALIBRATION),
    summary="Show how the judge agrees with people",
)
def get_calibration(run_id: str, access: Running) -> Response:
    """Return what `evalspec judge calibrate RUN --json` prints, from everybody's blind random labels.

    Who reads it does not label blindly afterwards: label first.
    """
    return render_document(read_calibration(access, run_id))


@FILES.get("/export", summary="Export labels", response_class=Response, responses={200: {"content": _FILE}})
def export_run_labels(
    run_id: str,
    access: Running,
    form: Form = "jsonl",
    history: History = False,
) -> Response:
    """Return everybody's labels as a file. Who reads it does not label blindly afterwards: label first."""
    access.runs.find_folder(run_id)
    every = find_label_files(access.project.root).read(run_id)
    content = render_labels(every if history else list_current(every), SUFFIXES[form])
    headers = file_headers(f"{run_id}.labels{SUFFIXES[form]}")
    return Response(content, headers=headers, media_type=TYPES[form])


async def _read_body(request: Request) -> bytes:
    return await request.body()


@FILES.post("/import", summary="Import labels", openapi_extra={"requestBody": {"content": _FILE}})
def import_run_labels(
    run_id: str, access: Reviewing, content: Annotated[bytes, Depends(_read_body)], form: Form = "jsonl"
) -> ImportAnswer:
    """Add the labels of a file, all or none. Without the scope admin, every line must be the caller's own."""
    done = import_content(access, run_id, content, form)
    return ImportAnswer(added=sum(done.added.values()), known=done.known)
