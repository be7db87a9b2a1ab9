"""What people say about the replies of a run that a judge scored, and what control cases say about the judge."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from evalspec.model.base import Interval, Number, Record
from evalspec.model.curation import Count

LABEL_SUFFIXES = ".jsonl", ".csv"
"""The suffixes of files of labels."""

_Share = Annotated[float, Meta(gt=0, le=1)]


class DrawKind(StrEnum):
    """How replies were chosen: at RANDOM, STRATIFIED by the judge's value, SEQUENTIAL until decided, or by someone."""

    RANDOM = "random"
    STRATIFIED = "stratified"
    SEQUENTIAL = "sequential"
    CHOSEN = "chosen"


class JudgeCorrection(StrEnum):
    """Whether limits on judged metrics need people's labels."""

    AUTO = "auto"
    REQUIRE = "require"
    OFF = "off"


class Draw(Record, frozen=True, kw_only=True):
    """How a label's reply was drawn. Only labels that were drawn at random can correct a judge."""

    kind: DrawKind = DrawKind.CHOSEN
    seed: int | None = None
    probability: Annotated[
        _Share | None, Meta(description="The probability that the reply was drawn; null: somebody chose it.")
    ] = None
    place: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Place in the random order; null: there is none.")
    ] = None


class PeopleScore(Record, frozen=True, kw_only=True):
    """What people say about the score of one reply, given blindly and drawn at random."""

    id: Annotated[str, Meta(description="The id of the sample.")]
    attempt: Annotated[int, Meta(ge=1)] = 1
    value: Annotated[Number, Meta(description="The mean of the labellers' scores.")]
    labellers: Annotated[int, Meta(ge=1)] = 1
    run: Annotated[str, Meta(description="The run that it was given on.")]
    draw: Draw


class PeopleScores(Record, frozen=True, kw_only=True):
    """The scores of people that count for one metric of one dataset, and how many do not, by reason.

    `alpha`: Krippendorff's, where several people labelled the same replies. `unchanged`: sample and attempt of the
    replies that are byte-identical to one of an earlier run, from whose replies labels were drawn. `unanswered`: of
    those that were drawn and have no label.
    """

    dataset: str
    metric: str
    scores: tuple[PeopleScore, ...] = ()
    unchanged: tuple[tuple[str, int], ...] = ()
    unanswered: tuple[tuple[str, int], ...] = ()
    left_out: Mapping[str, int] = {}
    alpha: Number | None = None


class Basis(StrEnum):
    """What a value of a judged metric rests on: the JUDGE's opinion, or PEOPLE's labels with the judge's scores."""

    JUDGE = "judge"
    PEOPLE = "people"


class Correction(Record, frozen=True, kw_only=True):
    """The mean of what people would say about all replies. `value`, `interval`: null where `reason` says why."""

    judge: Annotated[Number | None, Meta(description="The mean of the judge's scores; null: it has none.")] = None
    people: Annotated[Number | None, Meta(description="The mean of the labels; null: there are none.")] = None
    value: Annotated[Number | None, Meta(description="The estimate; null: see `reason`.")] = None
    interval: Annotated[Interval | None, Meta(description="95 % interval of `value`; null: no estimate.")] = None
    method: Annotated[
        str | None,
        Meta(
            description="`post-stratified` by the judge's value, `labels alone`, or `confidence sequence` of labels "
            "that ended when they decided; null: no estimate."
        ),
    ] = None
    labels: Annotated[Count, Meta(description="Labelled replies that count.")] = 0
    replies: Annotated[Count, Meta(description="Replies that the estimate is about.")] = 0
    missing: Annotated[Count, Meta(description="Replies of strata without enough labels, which may be anything.")] = 0
    unanswered: Annotated[Count, Meta(description="Replies that were drawn and not labelled.")] = 0
    kappa: Annotated[
        Number | None, Meta(description="Weighted kappa of judge and people on the labels; null: unknown.")
    ] = None
    kappa_interval: Annotated[Interval | None, Meta(description="95 % interval of `kappa`; null: unknown.")] = None
    reason: Annotated[str | None, Meta(description="Why there is no estimate; null: there is one.")] = None


class Drift(StrEnum):
    """The state of a judge: UNCHANGED as far as is known, SUSPECTED until other anchors are asked, or DRIFTED."""

    UNCHANGED = "unchanged"
    SUSPECTED = "suspected"
    DRIFTED = "drifted"


class JudgeDrift(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the judge of a metric has changed since its calibration: the same replies, judged then and now.

    `calibration`: the run whose grades are compared. `state`: None: see `reason`. `anchors`: number of replies that
    were judged again. `p_values`: of the first grades, and of all if these were suspicious. `then`: what the judge's
    replies named as its model in the calibration.
    """

    calibration: str
    state: Drift | None = None
    anchors: int = 0
    p_values: tuple[Number, ...] = ()
    then: tuple[str, ...] = ()
    reason: str | None = None


class Controls(Record, frozen=True, kw_only=True):
    """The judge's scores of cases that are known to be good or bad, for one metric of one dataset."""

    dataset: Annotated[str, Meta(description="Name of the dataset that the cases were made from.")]
    metric: Annotated[str, Meta(description="Name of the metric.")]
    good: Annotated[
        tuple[Number, ...], Meta(description="Scores of the known-good cases: the part that is the judge's word.")
    ] = ()
    bad: Annotated[tuple[Number, ...], Meta(description="Scores of the known-bad cases, in the same order.")] = ()
    p_value: Annotated[
        Number | None,
        Meta(description="One-sided p-value of the good cases being scored better (exact, by ranks); null: no test."),
    ] = None
    distinguishes: Annotated[
        bool | None, Meta(description="Whether the judge distinguishes good from bad; null: see `reason`.")
    ] = None
    reason: Annotated[str | None, Meta(description="Why the judge was not tested; null: it was.")] = None
