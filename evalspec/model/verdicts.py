"""The verdict of the gate, and the outcomes of its limits on regressions from a baseline."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple

from msgspec import Meta

from evalspec.model.base import Interval, Number, Record, refuse_infinite

UNDECIDED = "undecided: "
"""Precedes the reasons of a FAIL that are not decided."""


class VerdictStatus(StrEnum):
    """The outcome of a gate. INCOMPLETE: the data do not decide it."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    FAIL = "FAIL"
    INCOMPLETE = "INCOMPLETE"
    NOT_GATED = "NOT_GATED"


class RegressionOutcome(Record, frozen=True):
    """The outcome of one limit on regressions from the baseline. `dataset`: empty if the limit is for all datasets."""

    dataset: str
    metric: Annotated[str | None, Meta(description="null: the limit on newly failing samples, unless ofBaseline.")]
    status: VerdictStatus
    baseline: Number | None = None
    candidate: Number | None = None
    delta: Annotated[Number | None, Meta(description="Candidate minus baseline, over the pairs.")] = None
    interval: Interval | None = None
    p_value: Annotated[
        Number | None,
        Meta(description="Of the one-sided paired test for a deterioration, adjusted over all metrics (maxT)."),
    ] = None
    pairs: Annotated[int, Meta(description="Samples that are scored in both runs.")] = 0
    reason: Annotated[str | None, Meta(description="The evidence for the status.")] = None
    units: Annotated[
        int, Meta(description="Independent samples or clusters among the pairs; 0: nothing was tested.")
    ] = 0
    unpaired: Annotated[int, Meta(description="Samples that are scored in only one of the runs.")] = 0
    proven: Annotated[
        bool, Meta(description="Whether the data exclude a drop beyond maxDrop. Without that, a PASS may be noise.")
    ] = False
    of_baseline: Annotated[
        bool, Meta(description="Whether the baseline is missing, or has a dataset that this run lacks.")
    ] = False

    worsened: Annotated[
        Mapping[str, Number],
        Meta(description="The value in the baseline of each sample that got worse, by id. Empty: the limit holds."),
    ] = {}

    def __post_init__(self) -> None:
        """Refuse numbers that JSON cannot represent."""
        refuse_infinite((self.baseline, self.candidate, self.delta, self.p_value, *(self.interval or ())))

    @property
    def title(self) -> str:
        """The subject of the limit: a metric, new failures or the baseline."""
        return self.metric or ("baseline" if self.of_baseline else "new failures")

    @property
    def label(self) -> str:
        """The subject of the limit with its dataset."""
        return f"{self.dataset}: {self.title}" if self.dataset else self.title

    def explain(self) -> str:
        """Return the reason of the verdict that the outcome gives, if no other shares its line."""
        if not self.dataset:
            return self.reason or self.title
        what = f"{self.metric} against the baseline" if self.metric else "against the baseline"
        known = "" if None in (self.baseline, self.candidate) else f"{self.baseline:.4g} → {self.candidate:.4g}: "
        return f"{self.dataset}: {what}: {known}{self.reason}"


class Verdict(NamedTuple):
    """The verdict of the gate. `partial`: declared metrics or thresholds were deliberately skipped."""

    status: VerdictStatus
    reasons: tuple[str, ...] = ()
    partial: bool = False
