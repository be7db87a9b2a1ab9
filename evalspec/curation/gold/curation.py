"""Agreement and quality of a gold set: disputes and their ends, what was dropped, balance of sources, sparse cells."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.calibration import list_restarts, read_calibrations
from evalspec.curation.gold.flag_rates import rate_flags
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry, open_set
from evalspec.curation.gold.ratings import VERDICTS, RatedRevision, count_left_out, list_revisions, parse_time
from evalspec.curation.gold.schema import DisputeOutcome, Event, Kind, Targets
from evalspec.curation.gold.states import SETTLING, State
from evalspec.curation.gold.viewer import EVERYTHING, Viewer
from evalspec.model import (
    AgreementMeasure,
    Coverage,
    Curation,
    DisputeSummary,
    DroppedTriple,
    Objection,
    ResolutionTime,
    SourceShare,
)
from evalspec.model.curation import SourceBalance
from evalspec.verdict.stats.agreement import RatedCase, measure_agreement
from evalspec.verdict.stats.bounded import compute_share_interval
from evalspec.verdict.validity.cells import CELL_KEYS, compute_coverage


def stats(root: Path | str) -> Curation:
    """Return agreement and quality of a gold set. `root`: its folder.

    Raises:
        InvalidInput: A file of the set is invalid.
    """
    return compute_curation(open_set(root))


def compute_curation(found: GoldSet, viewer: Viewer = EVERYTHING) -> Curation:
    """Return agreement and quality of a set that was read. Reviews that `viewer` may not see are not counted.

    Raises:
        InvalidInput: A calibration is invalid.
    """
    problems: list[Problem] = []
    calibrations = read_calibrations(found.root, found.config, problems)
    if problems:
        raise InvalidInput(problems)
    states, found = viewer.count_states(found), viewer.hide_reviews(found)
    revisions, entries = list_revisions(found), list(found.entries.values())
    disputes = list_disputes(revisions)
    config = found.config
    return Curation(
        name=config.name,
        demonstration=config.demonstration,
        triples=len(entries),
        states=states,
        agreement=tuple(_measure(revisions, config.rules.common)),
        left_out=count_left_out(revisions),
        flag_rates=tuple(rate_flags(revisions, list(config.people), config.rules, list_restarts(calibrations))),
        false_alarms=config.rules.false_alarms,
        disputes=tuple(summarise_disputes(disputes)),
        resolution_time=summarise_resolution_time(disputes),
        dropped=tuple(list_dropped(entries)),
        sources=tuple(compare_sources(entries, config.targets)),
        without_source=sum(entry.is_accepted and entry.source is None for entry in entries),
        coverage=cover(entries, config.targets.cell),
    )


def _measure(revisions: Sequence[RatedRevision], common: int) -> list[AgreementMeasure]:
    cases = [RatedCase(one.triple, one.verdicts) for one in revisions]
    return [
        AgreementMeasure(
            measure=one.measure,
            reviewers=one.raters,
            value=one.value,
            interval=one.interval,
            interval_method=one.interval_method,
            triples=one.units,
            unknown=one.unknown,
        )
        for one in measure_agreement(cases, VERDICTS, common)
    ]


OPEN = "open"
_CONFIDENCE = 0.95
_ROUNDING = 1e-9
_HOUR = 3600


class Dispute(Struct, frozen=True):
    """A revision with a flag. `outcome`: how it ended, or open. `hours`: from flag to end; None if unknown or open."""

    triple: str
    revision: int
    category: str | None
    outcome: str
    hours: float | None


def list_disputes(revisions: Sequence[RatedRevision]) -> list[Dispute]:
    """Return the disputes about all revisions. `revisions`: by triple and number."""
    following = {(one.triple, one.number): after for one, after in pairwise(revisions) if one.triple == after.triple}
    return [_describe(one, following.get((one.triple, one.number))) for one in revisions if one.content.flaggers]


def _describe(one: RatedRevision, after: RatedRevision | None) -> Dispute:
    outcome, ended = _find_end(one, after)
    flags = [review for review in one.content.reviews.values() if review.kind is Kind.FLAG]
    settling = [event for event in one.content.events if event.kind in SETTLING]
    named = [event.category for event in (*settling, *flags) if event.category is not None]
    hours = _count_hours([flag.at for flag in flags], ended) if outcome != OPEN else None
    return Dispute(one.triple, one.number, named[0] if named else None, outcome, hours)


def _find_end(one: RatedRevision, after: RatedRevision | None) -> tuple[str, list[str]]:
    """Return the outcome of a dispute and the times of the events that led to it. The last event ended the dispute."""
    content = one.content
    state, how = content.decide()
    if state is State.DROPPED and how == "two flags":
        return how, [content.reviews[who].at for who in content.open_flags]
    settled = [event.at for event in content.events if event.kind in SETTLING]
    if after is not None and (state is State.DISPUTED or content.has(Kind.RESOLVE, DisputeOutcome.REVISED)):
        return "revised", [after.written_at]
    if state is State.DISPUTED:
        return OPEN, []
    if state in (State.RETIRED, State.REVOKED, State.STALE):
        kind = {State.RETIRED: Kind.RETIRE, State.REVOKED: Kind.REVOKE, State.STALE: Kind.STALE}[state]
        return str(state), [event.at for event in content.events if event.kind is kind]
    ending = "dropped" if state is State.DROPPED else "upheld"
    if how == "adjudicated":
        return f"adjudicated: {ending}", settled
    return "split" if how == "split" else ending, settled


def _count_hours(flagged: Sequence[str], ended: Sequence[str]) -> float | None:
    """Return the hours from the first flag to the last event of the end; None if a clock must be wrong."""
    begin, end = [parse_time(at) for at in flagged], [parse_time(at) for at in ended]
    known_begin = [at for at in begin if isinstance(at, datetime)]
    known_end = [at for at in end if isinstance(at, datetime)]
    if not end or len(known_begin) < len(begin) or len(known_end) < len(end):
        return None
    hours = (max(known_end) - min(known_begin)).total_seconds() / _HOUR
    return hours if hours >= 0 else None


def summarise_disputes(disputes: Sequence[Dispute]) -> list[DisputeSummary]:
    """Return the disputes by category, most frequent first."""
    categories = Counter(one.category for one in disputes)
    return [
        DisputeSummary(
            category=category,
            disputes=count,
            outcomes=dict(Counter(one.outcome for one in disputes if one.category == category).most_common()),
        )
        for category, count in categories.most_common()
    ]


def summarise_resolution_time(disputes: Sequence[Dispute]) -> ResolutionTime:
    """Return how long disputes took. An end before the flag means a wrong clock, so its time is unknown."""
    hours = [one.hours for one in disputes if one.hours is not None]
    still_open = sum(one.outcome == OPEN for one in disputes)
    return ResolutionTime(
        known=len(hours),
        unknown=len(disputes) - still_open - len(hours),
        still_open=still_open,
        median=median(hours) if hours else None,
        longest=max(hours, default=None),
    )


def list_dropped(entries: Sequence[TripleEntry]) -> list[DroppedTriple]:
    """Return the quality tracker: the triples that two people flagged, with what they said."""
    return [
        DroppedTriple(
            entry.id, entry.review_status.revision, entry.review_status.author, tuple(_list_objections(entry))
        )
        for entry in entries
        if entry.state is State.DROPPED and entry.review_status.resolution == "two flags"
    ]


def _list_objections(entry: TripleEntry) -> Iterator[Objection]:
    reviews = entry.review_status.current.reviews
    for who in sorted(entry.review_status.current.open_flags):
        flag: Event = reviews[who]
        yield Objection(who, str(flag.verdict), flag.category and str(flag.category), flag.note)


def compare_sources(entries: Sequence[TripleEntry], targets: Targets) -> list[SourceShare]:
    """Return the share of each source among accepted triples that name one, against the targets.

    A source is unbalanced if its share is further from the target than the tolerance, and its interval excludes all
    shares within the tolerance. The intervals cover all sources together (Bonferroni).
    """
    counts = Counter(str(entry.source) for entry in entries if entry.is_accepted and entry.source is not None)
    total, wanted = sum(counts.values()), {str(source): share for source, share in targets.source.items()}
    sources = dict.fromkeys([*wanted, *counts])
    confidence = 1 - (1 - _CONFIDENCE) / len(sources)
    return [_compare(one, counts[one], total, wanted.get(one, 0.0), targets.tolerance, confidence) for one in sources]


def _compare(source: str, count: int, total: int, target: float, tolerance: float, confidence: float) -> SourceShare:
    if not total:
        return SourceShare(source=source, triples=0, target=target, status=SourceBalance.UNKNOWN)
    low, high = compute_share_interval(count, total, confidence)
    share = count / total
    if abs(share - target) <= tolerance + _ROUNDING:
        status = SourceBalance.BALANCED
    else:
        is_off = low > target + tolerance or high < target - tolerance
        status = SourceBalance.UNBALANCED if is_off else SourceBalance.UNKNOWN
    return SourceShare(
        source=source,
        triples=count,
        share=share,
        interval=(low, high),
        target=target,
        status=status,
    )


def cover(entries: Sequence[TripleEntry], needed: int) -> Coverage:
    """Return the sparse cells of the accepted triples."""
    accepted = [entry.triple.metadata for entry in entries if entry.is_accepted and entry.triple is not None]
    return compute_coverage([one.model_dump(include=set(CELL_KEYS)) for one in accepted], needed)
