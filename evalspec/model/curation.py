"""What is known about a gold set besides its content: how well its reviewers agree, and what the set lacks."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from evalspec.model.base import Interval, Number, Record

Count = Annotated[int, Meta(ge=0)]

_Value = Annotated[Number | None, Meta(description="1: complete agreement; null: see `unknown`.")]
_Interval = Annotated[Interval | None, Meta(description="95 % confidence interval of the value; null: see `unknown`.")]
_Unknown = Annotated[str | None, Meta(description="Why the value or the interval is unknown; null: both are known.")]


class Agreement(Record, frozen=True, kw_only=True):
    """One measure of the agreement of people who judged the same things without seeing each other's judgement."""

    measure: str
    raters: Annotated[tuple[str, ...], Meta(description="The two people of kappa; empty: all people.")] = ()
    value: _Value = None
    interval: _Interval = None
    interval_method: Annotated[
        str | None,
        Meta(
            description="`exact`: Clopper and Pearson's; `bounded`: Gaffke's; `bootstrap`: units are resampled; null: "
            "none."
        ),
    ] = None
    units: Annotated[Count, Meta(description="Number of independent units with at least two blind ratings.")] = 0
    unknown: _Unknown = None


class AgreementMeasure(Record, frozen=True, kw_only=True):
    """One measure of the agreement of reviewers who did not see each other's reviews."""

    measure: Annotated[
        str, Meta(description="`raw agreement`, `Cohen's kappa`, `Krippendorff's alpha` or `Gwet's AC1`.")
    ]
    reviewers: Annotated[tuple[str, ...], Meta(description="The two reviewers of kappa; empty: all reviewers.")] = ()
    value: _Value = None
    interval: _Interval = None
    interval_method: Annotated[
        str | None,
        Meta(
            description="`exact`: Clopper and Pearson's; `bounded`: Gaffke's; `bootstrap`: triples are resampled; "
            "null: none."
        ),
    ] = None
    triples: Annotated[Count, Meta(description="Number of triples with at least two blind reviews.")] = 0
    unknown: _Unknown = None


class FlagPeriod(Record, frozen=True):
    """The flags of a month. The month is that of the clocks, so it is only for display."""

    month: Annotated[str, Meta(description="As `2026-01`; `unknown`: a date is invalid.")]
    reviewed: Annotated[Count, Meta(description="Number of reviews or revisions in that month.")]
    flagged: Annotated[Count, Meta(description="Number of flagged ones.")]


class FlagBaseline(StrEnum):
    """What a flag rate is compared with: that of the team, or the person's own of before."""

    TEAM = "team"
    OWN = "own"


class FlagRole(StrEnum):
    """Whether a person's triples are flagged, or the person flags."""

    AUTHOR = "author"
    REVIEWER = "reviewer"


class FlagAlarm(Record, frozen=True):
    """A flag rate that is too high to be chance. It ends with a calibration."""

    against: Annotated[
        FlagBaseline,
        Meta(description="What the rate exceeds: that of the `team`, or the person's `own` of before."),
    ]
    rate: Annotated[Number, Meta(description="The flag rate that raised the alarm, 0 to 1.")]
    baseline: Annotated[Number, Meta(description="The flag rate it is compared with, 0 to 1.")]
    p_value: Annotated[Number, Meta(description="One-sided p-value of Fisher's exact test.")]
    threshold: Annotated[Number, Meta(description="The largest p-value that raises an alarm at this look.")]
    after: Annotated[Count, Meta(description="Number of the person's reviews or revisions at that time.")]


class FlagRate(Record, frozen=True, kw_only=True):
    """How often a person's triples are flagged (author), or how often a person flags (reviewer)."""

    person: Annotated[str, Meta(description="Name of the person.")]
    role: Annotated[
        FlagRole,
        Meta(description="Whether the person is flagged (`author`) or flags (`reviewer`)."),
    ]
    reviewed: Annotated[
        Count,
        Meta(description="Number of an author's revisions with two blind reviews, or of a reviewer's blind reviews."),
    ]
    flagged: Annotated[Count, Meta(description="Number of flagged ones.")]
    rate: Annotated[
        Number | None, Meta(description="Flagged share of the reviewed, 0 to 1; null: nothing was reviewed.")
    ] = None
    interval: Annotated[
        Interval | None,
        Meta(description="95 % confidence interval of the rate (Clopper and Pearson); null: nothing was reviewed."),
    ] = None
    recent: Annotated[
        Number | None,
        Meta(description="Rate of the latest 50 after the newcomer's time and the last calibration; null: none yet."),
    ] = None
    own: Annotated[
        Number | None, Meta(description="Rate before the latest 50, the person's own baseline; null: none yet.")
    ] = None
    team: Annotated[
        Number | None, Meta(description="Rate of the other people after their newcomer's time; null: none yet.")
    ] = None
    newcomer_left: Annotated[
        Count,
        Meta(description="Number of reviews or revisions that the newcomer's time, which has no alarms, still lasts."),
    ] = 0
    calibrations: Annotated[Count, Meta(description="Number of calibrations of the person in this role.")] = 0
    periods: Annotated[tuple[FlagPeriod, ...], Meta(description="The flags by month, oldest first.")] = ()
    alarms: Annotated[tuple[FlagAlarm, ...], Meta(description="Alarms since the last calibration; empty: none.")] = ()


class DisputeSummary(Record, frozen=True, kw_only=True):
    """The disputes of one category. A dispute is a revision with a flag."""

    category: Annotated[
        str | None, Meta(description="`numeric`, `synonym`, `compound` or `other`; null: nobody named a category.")
    ]
    disputes: Annotated[Count, Meta(description="Number of disputes.")]
    outcomes: Annotated[Mapping[str, int], Meta(description="Number of disputes by how they ended, or `open`.")] = {}


class ResolutionTime(Record, frozen=True, kw_only=True):
    """Time from the first flag to the end of the dispute, in hours."""

    known: Annotated[Count, Meta(description="Number of ended disputes with a known time.")] = 0
    unknown: Annotated[
        Count, Meta(description="Number of ended disputes whose times are invalid, or whose end is before the flag.")
    ] = 0
    still_open: Annotated[Count, Meta(description="Number of disputes without an end.")] = 0
    median: Annotated[Number | None, Meta(description="Median time in hours; null: no time is known.")] = None
    longest: Annotated[Number | None, Meta(description="The longest time in hours; null: no time is known.")] = None


class Objection(Record, frozen=True):
    """A flag of one person."""

    by: Annotated[str, Meta(description="Name of the person.")]
    verdict: Annotated[str, Meta(description="What is wrong with the triple.")]
    category: Annotated[
        str | None, Meta(description="`numeric`, `synonym`, `compound` or `other`; null: not named.")
    ] = None
    note: Annotated[str | None, Meta(description="The person's words; null: none.")] = None


class DroppedTriple(Record, frozen=True):
    """A triple in the quality tracker: dropped, because two people flagged it."""

    id: Annotated[str, Meta(description="Id of the triple.")]
    revision: Annotated[int, Meta(description="Number of the flagged revision, from 1.")]
    author: Annotated[str | None, Meta(description="Who wrote the revision; null: unknown.")]
    flags: Annotated[tuple[Objection, ...], Meta(description="The flags that led to it.")]


class SourceBalance(StrEnum):
    """Whether the share of a source is near its target. UNKNOWN: it is not, but maybe by chance."""

    BALANCED = "balanced"
    UNBALANCED = "unbalanced"
    UNKNOWN = "unknown"


class SourceShare(Record, frozen=True, kw_only=True):
    """The share of one source of questions among the accepted triples."""

    source: Annotated[str, Meta(description="Name of the source.")]
    triples: Annotated[Count, Meta(description="Number of accepted triples from it.")]
    share: Annotated[
        Number | None,
        Meta(description="Its share of the accepted triples that name a source, 0 to 1; null: none does."),
    ] = None
    interval: Annotated[
        Interval | None,
        Meta(
            description="Interval of the share (Clopper and Pearson), 95 % for all sources together (Bonferroni); "
            "null: no share."
        ),
    ] = None
    target: Annotated[Number, Meta(description="The share that the set aims at, 0 to 1.")]
    status: Annotated[
        SourceBalance,
        Meta(
            description="`balanced`: within the tolerance; `unbalanced`: outside; `unknown`: outside, but maybe by "
            "chance."
        ),
    ]


class SparseCell(Record, frozen=True):
    """A combination of domain, difficulty and failure mode with too few triples or samples."""

    values: Annotated[Mapping[str, str], Meta(description="The value of each metadata key.")]
    count: Annotated[Count, Meta(description="Number of triples or samples in it.")]

    @property
    def name(self) -> str:
        """The values, as reports name the cell."""
        return " × ".join(self.values.values())


class Coverage(Record, frozen=True, kw_only=True):
    """The cells of domain × difficulty × failure mode: all combinations of the values that occur.

    Of more than 100,000 combinations, only those that occur are cells.
    """

    keys: Annotated[
        tuple[str, ...], Meta(description="Which of the keys `domain`, `difficulty` and `failure_mode` occur.")
    ] = ()
    cells: Annotated[Count, Meta(description="Number of cells.")] = 0
    needed: Annotated[Count, Meta(description="Number of triples below which a cell is sparse.")] = 0
    sparse: Annotated[
        tuple[SparseCell, ...] | None,
        Meta(description="The sparse cells, smallest first; null: --no-content withheld them."),
    ] = ()
    unplaced: Annotated[
        Mapping[str, int], Meta(description="Number of triples that lack a key, by key. They are in no cell.")
    ] = {}


class Curation(Record, frozen=True, kw_only=True):
    """Agreement and quality of a gold set."""

    name: Annotated[str, Meta(description="Name of the gold set.")]
    demonstration: Annotated[
        bool, Meta(description="Whether the set only shows how gold sets work, and no people reviewed it.")
    ] = False
    triples: Annotated[Count, Meta(description="Number of triples.")] = 0
    states: Annotated[Mapping[str, int], Meta(description="Number of triples by state, such as `accepted`.")] = {}
    agreement: Annotated[
        tuple[AgreementMeasure, ...], Meta(description="How well reviewers agree, by several measures.")
    ] = ()
    left_out: Annotated[
        Mapping[str, int],
        Meta(
            description="Number of reviews that are not blind, by reason. Agreement and flag rates do not count them."
        ),
    ] = {}
    flag_rates: Annotated[
        tuple[FlagRate, ...], Meta(description="How often each author is flagged, and each reviewer flags.")
    ] = ()
    false_alarms: Annotated[
        Number, Meta(description="Upper bound of the probability that anybody ever gets a false alarm, 0 to 1.")
    ] = 0.0
    disputes: Annotated[tuple[DisputeSummary, ...], Meta(description="Disputes by category, most frequent first.")] = ()
    resolution_time: Annotated[ResolutionTime, Meta(description="How long disputes took.")] = ResolutionTime()
    dropped: Annotated[
        tuple[DroppedTriple, ...], Meta(description="The quality tracker: triples that two people flagged.")
    ] = ()
    sources: Annotated[
        tuple[SourceShare, ...],
        Meta(description="Where the accepted triples come from, and where they should."),
    ] = ()
    without_source: Annotated[Count, Meta(description="Number of accepted triples that do not name their source.")] = 0
    coverage: Annotated[Coverage, Meta(description="Which combinations of metadata have too few accepted triples.")] = (
        Coverage()
    )

    @property
    def alarms(self) -> int:
        """Number of people and roles whose flag rate raises an alarm."""
        return sum(bool(rate.alarms) for rate in self.flag_rates)
