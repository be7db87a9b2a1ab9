"""The verdict of the gate, and the outcomes of its limits on regressions from a baseline."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, NamedTuple

from msgspec import Meta

from evalspec.base.foreign_text import cut, inert
from evalspec.base.plural import counted
from evalspec.model.base import Interval, Number, Record, refuse_infinite
from evalspec.model.corrections import Basis

UNDECIDED = "undecided: "
"""Precedes the reasons of a FAIL that are not decided."""
FUTURE_SECONDS = 600.0
"""How far clocks of machines may differ. What is of a later time is of a clock that is wrong."""
_LONGEST_NAME = 120


class RegressionRule(StrEnum):
    """What the comparison with the baseline requires. NOT_WORSE: data that exclude a drop of more than maxDrop."""

    DROP = "drop"
    NOT_WORSE = "notWorse"


class VerdictStatus(StrEnum):
    """The outcome of a gate. INCOMPLETE: the data do not decide it. SHARD: a part of a run, which has no gate."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    FAIL = "FAIL"
    INCOMPLETE = "INCOMPLETE"
    NOT_GATED = "NOT_GATED"
    SHARD = "SHARD"


class ConfirmationStatus(StrEnum):
    """Whether a drop is significant again. NOT_CONFIRMED: it could not be tested again."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    NOT_CONFIRMED = "not confirmed"


class Confirmation(Record, frozen=True):
    """A second test of a drop that was significant: on further attempts at the same samples, at the same level."""

    status: Annotated[
        ConfirmationStatus,
        Meta(description="Whether the drop is significant again. `not confirmed`: it could not be tested again."),
    ]
    reason: Annotated[str, Meta(description="The evidence, or why there was no second test.")]
    candidate: Annotated[
        Number | None, Meta(description="The metric's value in the second attempts; null: there are none.")
    ] = None
    delta: Annotated[
        Number | None, Meta(description="`candidate` minus the baseline's value; null: one of them is null.")
    ] = None
    p_value: Annotated[
        Number | None, Meta(description="One-sided p-value, adjusted over all second tests; null: nothing was tested.")
    ] = None
    pairs: Annotated[int, Meta(description="Samples with a second score that are in the baseline.")] = 0


class ComparedWith(StrEnum):
    """What a run is compared with."""

    BASELINE = "baseline"
    ANCHOR = "anchor"


class RegressionOutcome(Record, frozen=True):
    """The outcome of one limit on regressions from the baseline. `dataset`: empty if the limit is for all datasets."""

    dataset: Annotated[str, Meta(description="Name of the dataset; empty: all datasets.")]
    metric: Annotated[
        str | None, Meta(description="Name of the metric; null: the limit is `newFailures`, or see `ofBaseline`.")
    ]
    status: Annotated[
        VerdictStatus,
        Meta(description="The outcome of this limit. NOT_GATED: the metric was deliberately not measured."),
    ]
    baseline: Annotated[
        Number | None,
        Meta(description="The metric's value in the baseline, over the pairs; null: no pairs, or no metric."),
    ] = None
    candidate: Annotated[
        Number | None, Meta(description="The metric's value in this run, over the pairs; null: no pairs, or no metric.")
    ] = None
    delta: Annotated[Number | None, Meta(description="`candidate` minus `baseline`; null: one of them is null.")] = None
    interval: Annotated[
        Interval | None,
        Meta(
            description="Interval of `delta` with confidence 1 − `alpha`; null: nothing was tested, or it is unknown."
        ),
    ] = None
    p_value: Annotated[
        Number | None,
        Meta(
            description="One-sided p-value of the deterioration, adjusted over all metrics (maxT), or of so many new "
            "failures; null: nothing was tested."
        ),
    ] = None
    pairs: Annotated[
        int, Meta(description="Samples that are scored in both runs. Of `newFailures`: samples that are in both runs.")
    ] = 0
    reason: Annotated[str | None, Meta(description="The evidence for the status; null: not given.")] = None
    units: Annotated[
        int, Meta(description="Independent samples or clusters among the pairs that were tested; 0: nothing was.")
    ] = 0
    unpaired: Annotated[int, Meta(description="Samples that are in both runs, and scored in only one.")] = 0
    proven: Annotated[
        bool, Meta(description="Whether the data exclude a drop of `maxDrop`. If not, a PASS may hide one.")
    ] = False
    of_baseline: Annotated[
        bool,
        Meta(description="Whether the outcome is that the baseline is missing, or has a dataset that this run lacks."),
    ] = False
    worsened: Annotated[
        Mapping[str, Number],
        Meta(
            description="The value in the baseline of each sample that got worse, by id. Empty if the status is PASS, "
            "or if missing scores decide."
        ),
    ] = {}

    basis: Annotated[
        Basis | None,
        Meta(
            description="`people`: `delta` is what people see, by their labels of both runs; `judge`: the scores of a "
            "judge decide that it passes; null: other scores decide."
        ),
    ] = None
    against: Annotated[
        ComparedWith,
        Meta(description="What the run is compared with. The anchor is what the baseline was at first."),
    ] = ComparedWith.BASELINE
    confirmation: Annotated[
        Confirmation | None,
        Meta(description="The second test of a significant drop; null: none was significant, or none was tested."),
    ] = None

    def __post_init__(self) -> None:
        """Refuse numbers that JSON cannot represent."""
        refuse_infinite((self.baseline, self.candidate, self.delta, self.p_value, *(self.interval or ())))

    @property
    def key(self) -> tuple[str, str | None, str]:
        """What it is about: dataset, metric (None for new failures), and what it is compared with."""
        return self.dataset, self.metric, self.against

    @property
    def rests_on_test(self) -> bool:
        """Whether it fails because a test is significant, so that a second one can confirm it."""
        return self.status is VerdictStatus.FAIL and self.p_value is not None

    @property
    def is_compared(self) -> bool:
        """Whether there are pairs to compare. A metric that was skipped on purpose needs none."""
        return self.pairs > 0 or self.status is VerdictStatus.NOT_GATED

    @property
    def title(self) -> str:
        """The subject of the limit: a metric, new failures or the baseline."""
        title = self.metric or ("baseline" if self.of_baseline else "new failures")
        return f"{title} (anchor)" if self.against is ComparedWith.ANCHOR else title

    @property
    def label(self) -> str:
        """The subject of the limit with its dataset."""
        return f"{self.dataset}: {self.title}" if self.dataset else self.title

    def explain(self) -> str:
        """Return the reason of the verdict that the outcome gives, if no other shares its line."""
        if not self.dataset:
            return self.reason or self.title
        what = f"{self.metric} against the {self.against}" if self.metric else "against the baseline"
        known = "" if None in (self.baseline, self.candidate) else f"{self.baseline:.4g} → {self.candidate:.4g}: "
        return f"{self.dataset}: {what}: {known}{self.reason}"


class MeasurementChange(Record, frozen=True):
    """Something about the measurement that changed since the baseline, or that makes its numbers doubtful."""

    kind: Annotated[str, Meta(description="What it is, such as `limit` or `removed`; gate.md lists all kinds.")]
    dataset: Annotated[str | None, Meta(description="Name of the dataset; null: the whole run.")]
    text: Annotated[str, Meta(description="What changed, with old and new value.")]
    blocks: Annotated[
        bool, Meta(description="Whether outcomes are INCOMPLETE where it could change them. If not, it only speaks.")
    ] = False

    def render(self) -> str:
        """Return it as a line."""
        return f"{self.dataset}: {self.text}" if self.dataset else self.text


class Verdict(NamedTuple):
    """The verdict of the gate. `partial`: declared metrics or thresholds were deliberately skipped."""

    status: VerdictStatus
    reasons: tuple[str, ...] = ()
    partial: bool = False


class BaselineOrigin(Record, frozen=True, omit_defaults=True):
    """Where the gate's baseline came from, if a server has it.

    `name`: as in the manifest. `server`: its address. `run`: the run that the baseline holds. `promoted_by`,
    `promoted_at`: of the baseline, or of its anchor. `fetched_at`: when the server sent it, None for a copy of git.
    `sha256`: of the baseline. `copy_of`: why a copy is used. `unkept`: why none was written. `problem`: why there is no
    baseline to compare with.
    """

    name: str
    server: str | None = None
    run: str | None = None
    promoted_by: str | None = None
    promoted_at: str | None = None
    fetched_at: str | None = None
    sha256: str | None = None
    copy_of: str | None = None
    unkept: str | None = None
    problem: str | None = None

    @property
    def shown(self) -> str:
        """The name as messages have it: that of a branch may be anything."""
        return cut(inert(self.name), _LONGEST_NAME)

    def describe(self, now: str | None) -> str:
        """Return the origin in words, with ages at a time in UTC."""
        what = "anchor promoted" if "/" in self.name else "promoted"  # of a branch: nobody promoted its newest run
        promoted = f"{what} by {self.promoted_by} {_say_age(self.promoted_at, now)}" if self.promoted_by else None
        digest = None if self.sha256 is None else f"sha256 {self.sha256[:12]}"
        fetched = f"fetched {_say_age(self.fetched_at, now)}" if self.copy_of and self.fetched_at else None
        known = (f"run {self.run}" if self.run else None, promoted, fetched, digest)
        said = ", ".join(filter(None, known))
        return f"baseline {self.shown}: " + "; ".join(filter(None, (self.copy_of, said, self.unkept, self.problem)))


def count_days(moment: str | None, now: str | None) -> int | None:
    """Return the number of whole days between two times in ISO 8601, below 0 for a time in the future.

    It is None if a time is unknown, and 0 if clocks that differ a little explain the future.
    """
    try:
        passed = datetime.fromisoformat(now or "") - datetime.fromisoformat(moment or "")
    except (ValueError, TypeError):
        return None
    return 0 if -FUTURE_SECONDS <= passed.total_seconds() < 0 else passed.days


def _say_age(moment: str | None, now: str | None) -> str:
    days = count_days(moment, now)
    said = "" if days is None else f", {counted(max(days, 0), 'day')} ago"  # the server's clock may be ahead
    return f"on {(moment or '')[:10]}{said}"
