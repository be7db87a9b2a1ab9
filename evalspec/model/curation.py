"""What is known about a gold set besides its content: how well its reviewers agree, and what the set lacks."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from evalspec.model.base import Interval, Number, Record

Count = Annotated[int, Meta(ge=0)]


class Agreement(Record, frozen=True, kw_only=True):
    """One measure of the agreement of people who judged the same things without seeing each other's judgement."""

    measure: str
    raters: Annotated[tuple[str, ...], Meta(description="The two people of kappa; empty: all people.")] = ()
    value: Annotated[Number | None, Meta(description="1: complete agreement; null: unknown.")] = None
    interval: Annotated[Interval | None, Meta(description="95 % interval of the value; null: unknown.")] = None
    interval_method: Annotated[
        str | None,
        Meta(description="exact: Clopper and Pearson's; bounded: Gaffke's; bootstrap: units are resampled."),
    ] = None
    units: Annotated[Count, Meta(description="Independent units with at least two blind ratings.")] = 0
    unknown: Annotated[str | None, Meta(description="Why the value or the interval is unknown.")] = None


class AgreementMeasure(Record, frozen=True, kw_only=True):
    """One measure of the agreement of reviewers who did not see each other's reviews."""

    measure: str
    reviewers: Annotated[tuple[str, ...], Meta(description="The two reviewers of kappa; empty: all reviewers.")] = ()
    value: Annotated[Number | None, Meta(description="1: complete agreement; null: unknown.")] = None
    interval: Annotated[Interval | None, Meta(description="95 % interval of the value; null: unknown.")] = None
    interval_method: Annotated[
        str | None,
        Meta(description="exact: Clopper and Pearson's; bounded: Gaffke's; bootstrap: triples are resampled."),
    ] = None
    triples: Annotated[Count, Meta(description="Triples with at least two blind reviews.")] = 0
    unknown: Annotated[str | None, Meta(description="Why the value or the interval is unknown.")] = None


class FlagPeriod(Record, frozen=True):
    """The flags of a month. The month is that of the clocks, so it is only for display."""

    month: Annotated[str, Meta(description="As 2026-01; unknown: the date of the review is invalid.")]
    reviewed: Count
    flagged: Count


class FlagAlarm(Record, frozen=True):
    """A flag rate that is too high to be chance. It ends with a calibration."""

    against: Annotated[Literal["team", "own"], Meta(description="The baseline that the rate exceeds.")]
    rate: Number
    baseline: Number
    p_value: Annotated[Number, Meta(description="Of Fisher's exact test, one-sided.")]
    threshold: Annotated[Number, Meta(description="The p-value below which this look raises an alarm.")]
    after: Annotated[Count, Meta(description="Number of the person's reviews or triples at that time.")]


class FlagRate(Record, frozen=True, kw_only=True):
    """How often a person's triples are flagged (author), or how often a person flags (reviewer)."""

    person: str
    role: Literal["author", "reviewer"]
    reviewed: Annotated[
        Count, Meta(description="Revisions of an author with two blind reviews; blind reviews by a reviewer.")
    ]
    flagged: Count
    rate: Number | None = None
    interval: Annotated[Interval | None, Meta(description="95 % interval of Clopper and Pearson.")] = None
    recent: Annotated[
        Number | None, Meta(description="Rate of the latest 50 after the newcomer's time and the last calibration.")
    ] = None
    own: Annotated[Number | None, Meta(description="Rate before the latest 50: the person's own baseline.")] = None
    team: Annotated[Number | None, Meta(description="Rate of the other people after their newcomer's time.")] = None
    newcomer_left: Annotated[Count, Meta(description="Reviews or triples until alarms are possible.")] = 0
    calibrations: Count = 0
    periods: tuple[FlagPeriod, ...] = ()
    alarms: tuple[FlagAlarm, ...] = ()


class DisputeSummary(Record, frozen=True, kw_only=True):
    """The disputes of one category. A dispute is a revision with a flag."""

    category: Annotated[str | None, Meta(description="null: nobody named a category.")]
    disputes: Count
    outcomes: Annotated[Mapping[str, int], Meta(description="Number of disputes by their outcome, or open.")] = {}


class SettlingTime(Record, frozen=True, kw_only=True):
    """Time from the first flag to the end of the dispute, in hours."""

    known: Count = 0
    unknown: Annotated[
        Count, Meta(description="Ended disputes whose times are invalid, or whose end is before the flag.")
    ] = 0
    still_open: Annotated[Count, Meta(description="Disputes without an end.")] = 0
    median: Number | None = None
    longest: Number | None = None


class Objection(Record, frozen=True):
    """A flag of one person."""

    by: str
    verdict: str
    category: str | None = None
    note: str | None = None


class DroppedTriple(Record, frozen=True):
    """A triple in the quality tracker: dropped, because two people flagged it."""

    id: str
    revision: int
    author: str | None
    flags: tuple[Objection, ...]


class SourceShare(Record, frozen=True, kw_only=True):
    """The share of one source of questions among the accepted triples."""

    source: str
    triples: Count
    share: Number | None = None
    interval: Annotated[
        Interval | None, Meta(description="95 % interval for all sources together: Clopper and Pearson, Bonferroni.")
    ] = None
    target: Number
    status: Annotated[
        Literal["balanced", "unbalanced", "unknown"],
        Meta(description="unknown: outside the tolerance, but too few triples to exclude chance."),
    ]


class ThinCell(Record, frozen=True):
    """A combination of domain, difficulty and failure mode with too few triples or samples."""

    values: Annotated[Mapping[str, str], Meta(description="Value by metadata key.")]
    count: Count

    @property
    def name(self) -> str:
        """The values, as reports name the cell."""
        return " × ".join(self.values.values())


class Coverage(Record, frozen=True, kw_only=True):
    """The cells of domain × difficulty × failure mode: all combinations of the values that occur.

    Of more than 100,000 combinations, only those that occur are cells.
    """

    keys: Annotated[tuple[str, ...], Meta(description="The metadata keys that occur.")] = ()
    cells: Count = 0
    needed: Annotated[Count, Meta(description="Number of triples below which a cell is thin.")] = 0
    thin: Annotated[
        tuple[ThinCell, ...] | None, Meta(description="Smallest first; null: omitted by --no-content.")
    ] = ()
    unplaced: Annotated[
        Mapping[str, int], Meta(description="Triples that lack a key, by key. They are in no cell.")
    ] = {}


class Curation(Record, frozen=True, kw_only=True):
    """Agreement and quality of a gold set."""

    name: str
    demonstration: Annotated[bool, Meta(description="The set was not reviewed by people, but shows how it works.")] = (
        False
    )
    triples: Count = 0
    states: Annotated[Mapping[str, int], Meta(description="Number of triples by state.")] = {}
    agreement: tuple[AgreementMeasure, ...] = ()
    left_out: Annotated[Mapping[str, int], Meta(description="Reviews that agreement does not count, by reason.")] = {}
    flag_rates: tuple[FlagRate, ...] = ()
    false_alarms: Annotated[
        Number, Meta(description="Upper bound of the probability that anybody ever gets a false alarm.")
    ] = 0.0
    disputes: tuple[DisputeSummary, ...] = ()
    settling: SettlingTime = SettlingTime()
    dropped: Annotated[tuple[DroppedTriple, ...], Meta(description="The quality tracker.")] = ()
    sources: tuple[SourceShare, ...] = ()
    without_source: Annotated[Count, Meta(description="Accepted triples that do not name their source.")] = 0
    coverage: Coverage = Coverage()

    @property
    def alarms(self) -> int:
        """Number of people and roles whose flag rate raises an alarm."""
        return sum(bool(rate.alarms) for rate in self.flag_rates)
