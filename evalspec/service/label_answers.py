"""Requests and answers about labels: records of evalspec as JSON with snake_case names."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from evalspec.model.labels import Label, LabelShare, LabelStats, LabelVerdict, ReplyLabels
from evalspec.service.answers import describe, model_of
from evalspec.service.cursors import NextCursor
from evalspec.service.examples import RUN_ID

LONGEST_NOTE = 4000
_AT = "2026-11-21T10:37:06.257123Z"
_DIGEST = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
_LABEL = Label(
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
LABEL: dict[str, Any] = describe(_LABEL)
_STATS = LabelStats(
    run=RUN_ID,
    labellers={"ana@example.com": 1},
    replies=(
        ReplyLabels(
            dataset="qa",
            good=LabelShare(labelled=1, units=1, value=0.0, interval=(0.0, 0.975), interval_method="exact"),
        ),
    ),
)

LabelAnswer = create_model("LabelAnswer", __base__=model_of(Label, "LabelRecord"))
LabelAnswer.model_config = ConfigDict(json_schema_extra={"examples": [LABEL]})
LabelAnswer.model_rebuild(force=True)

LabelStatsAnswer = create_model("LabelStatsAnswer", __base__=model_of(LabelStats, "LabelStatsRecord"))
LabelStatsAnswer.model_config = ConfigDict(json_schema_extra={"examples": [describe(_STATS)]})
LabelStatsAnswer.model_rebuild(force=True)

Id = Annotated[str, Field(min_length=1, max_length=10_000)]
Attempt = Annotated[int, Field(ge=1, le=1_000_000)]


class LabelRequest(BaseModel):
    """What the caller says about a reply, or about a score. It replaces an earlier label of theirs on the same."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"dataset": "qa", "sample": "refund", "verdict": "bad", "note": "14 days."}]},
    )
    sample: Id
    dataset: Id | None = Field(None, description="Needed if several datasets have a sample of this id.")
    attempt: Attempt = 1
    metric: Id | None = Field(None, description="The metric of the score; null: the reply as a whole.")
    verdict: Literal["good", "bad", "agree", "disagree"] = Field(
        description="Of a reply good or bad; of a score agree or disagree."
    )
    value: float | None = Field(
        None, ge=-1e9, le=1e9, description="With disagree: the score that the caller would have given."
    )
    note: str | None = Field(None, max_length=LONGEST_NOTE)
    reply_digest: str | None = Field(
        None, max_length=100, description="The reply that was judged. If the run has another one by now: 409."
    )


class LabelPage(BaseModel):
    """A page of labels, oldest first. `hidden`: labels of others on what the caller has not labelled."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"labels": [LABEL], "hidden": 0, "next_cursor": None}]})
    labels: list[LabelAnswer]
    hidden: int
    next_cursor: NextCursor


class ImportAnswer(BaseModel):
    """The outcome of an import. `known`: labels that were there already."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"added": 12, "known": 0}]})
    added: int
    known: int
