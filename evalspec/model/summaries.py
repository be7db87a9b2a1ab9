"""The numbers of a metric: thresholds with their outcomes, summaries, slices and repeats."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import force_setattr, replace

from evalspec.model.base import Interval, Number, Record, Statistic, refuse_infinite
from evalspec.model.corrections import Basis, Correction
from evalspec.model.scores import Cause
from evalspec.model.verdicts import VerdictStatus

_ROUNDING = 1e-9
"""Tolerance for rounding errors: a mean of scores of 0.8 may be slightly below 0.8, and must pass a limit of 0.8."""

_Expected = Annotated[int, Meta(description="Number of scores that should have a value: scored, failed and skipped.")]
_NotApplicable = Annotated[
    int, Meta(description="Number of scores where the metric is undefined. They are not in `expected`.")
]
Causes = Annotated[
    Mapping[Cause, int],
    Meta(
        description="Number of scores that are not applicable, by cause: `dataset`, `reply`, `judge` or `other`. "
        "`maxNotApplicable` limits those of reply and judge."
    ),
]


class Direction(StrEnum):
    """The direction in which a metric improves. A threshold that is a bare number limits the other side."""

    HIGHER = "higher"
    LOWER = "lower"


_PASSED = {VerdictStatus.PASS: True, VerdictStatus.FAIL: False}


class Threshold(Record, frozen=True):
    """One limit on a metric, a slice or another statistic, with its outcome once the run is finished."""

    metric: Annotated[str, Meta(description="Name of the metric.")]
    min: Annotated[float | None, Meta(description="The lowest value that passes; null: no minimum.")] = None
    max: Annotated[float | None, Meta(description="The highest value that passes; null: no maximum.")] = None
    slice: Annotated[
        str | None, Meta(description="A tag, or `key=value` of the metadata; null: the whole dataset.")
    ] = None
    stat: Annotated[
        Statistic | None, Meta(description="The statistic that is limited, such as `p95`; null: the metric's own.")
    ] = None
    confidence: Annotated[
        float | None,
        Meta(
            description="Confidence of the interval that must be within the limit too, 0 to 1; null: only the value "
            "must."
        ),
    ] = None
    status: Annotated[
        VerdictStatus, Meta(description="Outcome of this limit. NOT_GATED: the metric was deliberately not measured.")
    ] = VerdictStatus.NOT_GATED
    value: Annotated[
        Number | None, Meta(description="The value that the limit applies to; null: nothing is scored.")
    ] = None
    bound: Annotated[
        Number | None,
        Meta(
            description="The end of the interval that is compared with the limit; null: no `confidence`, or no "
            "interval."
        ),
    ] = None
    scored: Annotated[
        int,
        Meta(description="Number of scores with a value: one a sample, or one a reply if the statistic is not a mean."),
    ] = 0
    expected: _Expected = 0
    not_applicable: _NotApplicable = 0
    not_applicable_causes: Causes = {}
    reason: Annotated[str | None, Meta(description="Why the status is not PASS; null: it is.")] = None
    basis: Annotated[
        Basis | None, Meta(description="What the value of a judged metric rests on; null: the metric has no judge.")
    ] = None

    def __post_init__(self) -> None:
        """Refuse numbers that JSON cannot represent, and complete the counts."""
        refuse_infinite((self.min, self.max, self.value, self.bound))
        complete_causes(self)

    @property
    def is_opinion(self) -> bool:
        """Whether the limit is met only by the word of a judge."""
        return self.status is VerdictStatus.PASS and self.basis is Basis.JUDGE

    def as_stated(self) -> "Threshold":
        """Return the limit without its outcome."""
        low, high = (None if bound is None else float(bound) for bound in (self.min, self.max))
        return Threshold(self.metric, low, high, self.slice, self.stat, self.confidence)

    def undercut_by(self, value: float) -> bool:
        """Return whether a value is below the minimum."""
        return self.min is not None and value < self.min - _ROUNDING * max(1.0, abs(self.min))

    def exceeded_by(self, value: float) -> bool:
        """Return whether a value is above the maximum."""
        return self.max is not None and value > self.max + _ROUNDING * max(1.0, abs(self.max))

    def holds(self, value: float) -> bool:
        """Return whether a value is within the limit. Equal is within."""
        return not self.undercut_by(value) and not self.exceeded_by(value)

    def excess(self, value: float) -> float:
        """Return how far a value exceeds the limit on either side, as a share of the limit. 0 within the limit."""
        below = (self.min - value) / (abs(self.min) or 1.0) if self.min is not None else 0.0
        above = (value - self.max) / (abs(self.max) or 1.0) if self.max is not None else 0.0
        return max(below, above, 0.0)


class LimitStatus(StrEnum):
    """Whether a limit that is stated for a dataset is enforced in it. DEAD: no sample is in its slice."""

    ENFORCED = "enforced"
    OVERRIDDEN = "overridden"
    LIFTED = "lifted"
    DEAD = "dead"


class StatedLimit(Record, frozen=True, kw_only=True):
    """One limit that the manifest or a dataset's file states, and whether it is enforced in one dataset."""

    metric: Annotated[str, Meta(description="Name of the metric.")]
    stat: Annotated[Statistic, Meta(description="The statistic that is limited; the metric's own if none is stated.")]
    slice: Annotated[
        str | None, Meta(description="A tag, or `key=value` of the metadata; null: the whole dataset.")
    ] = None
    min: Annotated[float | None, Meta(description="The lowest value that passes; null: no minimum.")] = None
    max: Annotated[float | None, Meta(description="The highest value that passes; null: no maximum.")] = None
    place: Annotated[str, Meta(description="File and line that state the limit, or the dataset's file.")]
    status: Annotated[
        LimitStatus,
        Meta(
            description="`enforced`: gated in this dataset; `overridden` by the limit at `by`; `lifted` by the null "
            "at `by`; `dead`: no sample of the dataset is in the slice."
        ),
    ]
    by: Annotated[
        str | None, Meta(description="File and line of what overrides or lifts the limit; null: nothing does.")
    ] = None

    def describe(self) -> str:
        """Return the limit and its status in words: `string_match >= 0.9 (agent.yaml:8) is lifted by agent.yaml:12`."""
        bounds = ((">=", self.min), ("<=", self.max))
        limits = " and ".join(f"{sign} {value:g}" for sign, value in bounds if value is not None)
        where = f" in {self.slice}" if self.slice else ""
        end = f"is {self.status} by {self.by}" if self.by else "is dead: no sample is in the slice"
        return f"{self.stat} of {self.metric}{where} {limits} ({self.place}) {end}"


def list_unenforced(dataset: str, limits: Iterable[StatedLimit]) -> list[str]:
    """Return a note for each limit that is stated but not enforced in a dataset."""
    return [f"{dataset}: {limit.describe()}" for limit in limits if limit.status is not LimitStatus.ENFORCED]


def complete_causes(counted: "Threshold | Summary") -> None:
    """Set the number of scores that are not applicable from their causes.

    Files of earlier releases have only the number. Their cause becomes OTHER.
    """
    if counted.not_applicable and not counted.not_applicable_causes:
        force_setattr(counted, "not_applicable_causes", {Cause.OTHER: counted.not_applicable})
    else:
        force_setattr(counted, "not_applicable", sum(counted.not_applicable_causes.values()))


class Summary(Record, frozen=True, kw_only=True):
    """One metric over one dataset, or over one slice of it."""

    value: Annotated[
        Number | None,
        Meta(description="The metric's statistic over the values, in the metric's unit; null: nothing is scored."),
    ]
    statistic: Annotated[
        Statistic,
        Meta(
            description="The statistic of the value: `mean`, or a percentile such as `p95`. A mean has one score a "
            "sample; other statistics have one a reply, so each attempt counts."
        ),
    ] = "mean"
    median: Annotated[Number | None, Meta(description="The median of the values; null: nothing is scored.")] = None
    direction: Annotated[Direction, Meta(description="The direction in which the metric improves.")] = Direction.HIGHER
    scored: Annotated[int, Meta(description="Number of scores with a value.")]
    expected: _Expected = 0
    failed: Annotated[int, Meta(description="Number of scores that could not be computed.")] = 0
    skipped: Annotated[int, Meta(description="Number of scores that were deliberately not computed.")] = 0
    not_applicable: _NotApplicable = 0
    not_applicable_causes: Causes = {}
    interval: Annotated[
        Interval | None, Meta(description="95 % confidence interval of the value; null: see `noInterval`.")
    ] = None
    interval_method: Annotated[
        str | None,
        Meta(
            description="`bounded`: Gaffke's interval, for scores with a range; `order statistics`: for percentiles; "
            "the method of `correction`; null: no interval."
        ),
    ] = None
    median_interval: Annotated[
        Interval | None,
        Meta(description="95 % confidence interval of the median of a metric without a range; null: none, or a range."),
    ] = None
    no_interval: Annotated[str | None, Meta(description="Why there is no interval; null: there is one.")] = None
    units: Annotated[
        int, Meta(description="Number of independent samples, or clusters of samples, that are scored.")
    ] = 0
    bounds: Annotated[
        Interval | None,
        Meta(description="The range of the scores, which intervals rely on; null: an end is open."),
    ] = None
    threshold: Annotated[
        Mapping[Literal["min", "max"], float] | None,
        Meta(
            description="The limit on this value, the tightest if there are several; null: none. Limits on other "
            "statistics are only in the dataset's `thresholds`."
        ),
    ] = None
    passed: Annotated[
        bool | None, Meta(description="Whether that limit passes; null: no limit, undecided, or not measured.")
    ] = None

    correction: Annotated[
        Correction | None,
        Meta(description="What people say beside the judge; then `value` and `interval` are people's. null: no judge."),
    ] = None

    def __post_init__(self) -> None:
        """Complete the counts, and refuse numbers that JSON cannot represent."""
        refuse_infinite((self.value, self.median, *(self.interval or ()), *(self.bounds or ())))
        force_setattr(self, "expected", self.scored + self.failed + self.skipped)
        complete_causes(self)

    def within(self, limit: Threshold | None) -> "Summary":
        """Return a copy with the limit on the value, and whether the value is within it."""
        if limit is None:
            return self
        sides = {side: value for side, value in (("min", limit.min), ("max", limit.max)) if value is not None}
        return replace(self, threshold=sides, passed=_PASSED.get(limit.status))


Summaries = Annotated[Mapping[str, Summary], Meta(description="The summary of each metric, by name.")]


class SliceResult(Record, frozen=True, kw_only=True):
    """Part of a dataset, and its summaries by metric."""

    name: Annotated[str, Meta(description="A tag, or `key=value` of the metadata.")]
    selected: Annotated[int, Meta(description="Number of samples in it.")]
    small: Annotated[
        bool,
        Meta(
            description="Whether it has fewer than 5 samples to score, so that it is not ranked among the other slices."
        ),
    ] = False
    metrics: Summaries


class Variance(Record, frozen=True):
    """The sources of the variance of a metric over repeats, in the metric's unit squared."""

    replies: Annotated[
        Number | None,
        Meta(
            description="Variance between replies to the same sample, agent and judge together; null: no sample has "
            "two scores."
        ),
    ]
    agent: Annotated[Number | None, Meta(description="Variance of replies without the judge's part; null: unknown.")]
    judge: Annotated[
        Number | None, Meta(description="Variance between gradings of the same reply; null: none was graded twice.")
    ]


class RepeatSummary(Record, frozen=True):
    """Results over several attempts per sample."""

    repeats: Annotated[int, Meta(description="Attempts per sample.")]
    decided: Annotated[
        int,
        Meta(
            description="Number of samples without an undecided attempt. `passAt`, `passAll` and `flaky` are about "
            "them."
        ),
    ]
    pass_at: Annotated[
        Mapping[int, Number],
        Meta(
            description="pass@k by k: the probability that at least one of k attempts passes; empty: no sample is "
            "decided."
        ),
    ]
    pass_all: Annotated[
        Mapping[int, Number],
        Meta(description="pass^k by k: the probability that all of k attempts pass; empty: no sample is decided."),
    ]
    flaky: Annotated[tuple[str, ...], Meta(description="Ids of samples with both passed and failed attempts.")]
    variance: Annotated[Mapping[str, Variance], Meta(description="Where the variance comes from, by metric.")]
