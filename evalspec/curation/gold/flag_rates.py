"""How often people flag and are flagged, and alarms for rates that chance does not explain.

A person's stream is a sequence of outcomes, flagged or not: one for each blind review (reviewer), or for each revision
with two blind reviews (author). It starts with the newcomer's time, which raises no alarm and is in no baseline. After
it, a look follows every 25 outcomes. Each look makes two one-sided tests (Fisher's exact test, which is valid for any
number of outcomes):

    team: the person's outcomes since the last calibration, against those of the others up to then.
    own: the person's latest 50 outcomes, against their earlier ones since the last calibration.

Look k may use alpha / (k (k + 1)) of the false-alarm rate of a stream. The sum over all looks is alpha, however many
there are, and Bonferroni's inequality divides the rule's `false_alarms` among people, roles and tests. So the
probability that anybody ever gets a false alarm is at most `false_alarms`, however often someone looks. The order
within a stream follows the clocks of the reviews. Under the null hypothesis all orders are equally likely, so a wrong
clock can delay an alarm, but does not cause false ones.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import NamedTuple

from msgspec import Struct

from evalspec.curation.gold.ratings import FLAGGED, RatedRevision, parse_time
from evalspec.curation.gold.schema import Rules
from evalspec.model import FlagAlarm, FlagPeriod, FlagRate
from evalspec.model.curation import FlagBaseline, FlagRole
from evalspec.verdict.stats.bounded import compute_share_interval

LOOK = 25
"""Outcomes from one look to the next."""
RECENT = 50
"""Outcomes that are compared with the person's earlier ones."""

_TESTS = 2
_ROLES = 2
_PAIR = 2
"""Blind reviews that decide whether a revision was flagged. With one, flagged revisions would be counted sooner."""
_UNDATED = datetime.min.replace(tzinfo=UTC)
_UNKNOWN = "unknown"


class CountedReview(NamedTuple):
    """One review by a person, or of their revision. `at`: when it was complete. `key`: makes the order unique."""

    at: datetime
    key: str
    flagged: bool


class Watch(Struct, frozen=True):
    """The rules for alarms. `newcomer`: outcomes without alarms. `alpha`: false-alarm rate of a test of a stream."""

    newcomer: int
    alpha: float


def rate_flags(
    revisions: Sequence[RatedRevision],
    people: Sequence[str],
    rules: Rules,
    calibrated: Mapping[tuple[str, FlagRole], Sequence[int]],
) -> list[FlagRate]:
    """Return the flag rate of each person with outcomes, as author and as reviewer.

    `calibrated`: by person and role, the number of outcomes at each calibration.
    """
    watch = Watch(rules.newcomer, rules.false_alarms / (max(1, len(people)) * _ROLES * _TESTS))
    found = []
    for role, streams in list_streams(revisions).items():
        for person, stream in sorted(streams.items()):
            others = [one for who, other in streams.items() if who != person for one in other[rules.newcomer :]]
            found.append(rate_person(person, role, stream, sorted(others), watch, calibrated.get((person, role), ())))
    return found


def list_streams(revisions: Sequence[RatedRevision]) -> dict[FlagRole, dict[str, list[CountedReview]]]:
    """Return the outcomes by role and person, in the order of their clocks."""
    authors: dict[str, list[CountedReview]] = {}
    reviewers: dict[str, list[CountedReview]] = {}
    for one in revisions:
        key = f"{one.triple}@{one.number}"
        times = {who: parse_time(review.at) or _UNDATED for who, review in one.blind.items()}
        for who, verdict in one.verdicts.items():
            reviewers.setdefault(who, []).append(CountedReview(times[who], key, verdict == FLAGGED))
        if len(times) >= _PAIR:
            flagged = FLAGGED in one.verdicts.values()
            authors.setdefault(one.by, []).append(CountedReview(max(times.values()), key, flagged))
    return {
        FlagRole.AUTHOR: {who: sorted(stream) for who, stream in authors.items()},
        FlagRole.REVIEWER: {who: sorted(stream) for who, stream in reviewers.items()},
    }


def rate_person(
    person: str,
    role: FlagRole,
    stream: Sequence[CountedReview],
    others: Sequence[CountedReview],
    watch: Watch,
    restarts: Sequence[int],
) -> FlagRate:
    """Return the flag rate of a stream with its baselines and alarms. `others`: outcomes of the team, in order.

    `restarts`: numbers of outcomes at calibrations, after which the baseline restarts and alarms end.
    """
    flagged = sum(one.flagged for one in stream)
    start = max(watch.newcomer, *restarts, 0)
    current = [one.flagged for one in stream[start:]]
    return FlagRate(
        person=person,
        role=role,
        reviewed=len(stream),
        flagged=flagged,
        rate=_share(flagged, len(stream)),
        interval=compute_share_interval(flagged, len(stream)) if stream else None,
        recent=_mean(current[-RECENT:]),
        own=_mean(current[:-RECENT]),
        team=_mean([one.flagged for one in others]),
        newcomer_left=max(0, watch.newcomer - len(stream)),
        calibrations=len(restarts),
        periods=tuple(_list_periods(stream)),
        alarms=tuple(find_alarms(stream, others, watch, restarts)),
    )


def find_alarms(
    stream: Sequence[CountedReview], others: Sequence[CountedReview], watch: Watch, restarts: Sequence[int]
) -> Iterator[FlagAlarm]:
    """Yield the first alarm against each baseline since the last calibration."""
    counts = [0, *accumulate(one.flagged for one in stream)]
    team_counts = [0, *accumulate(one.flagged for one in others)]
    start = max(watch.newcomer, *restarts, 0)
    raised: set[FlagBaseline] = set()
    looks = range(watch.newcomer + LOOK, len(stream) + 1, LOOK)
    for number, end in enumerate(looks, 1):
        if end <= start:
            continue
        threshold = watch.alpha / (number * (number + 1))
        known = bisect_right(others, stream[end - 1].at, key=lambda one: one.at)
        split = max(start, end - RECENT)
        sides = {
            FlagBaseline.TEAM: (counts[end] - counts[start], end - start, team_counts[known], known),
            FlagBaseline.OWN: (counts[end] - counts[split], end - split, counts[split] - counts[start], split - start),
        }
        for against, (flagged, size, baseline_flagged, baseline) in sides.items():
            if against in raised or baseline < LOOK:
                continue
            p_value = compute_fisher(flagged, size, baseline_flagged, baseline)
            if p_value <= threshold:
                raised.add(against)
                share = baseline_flagged / baseline
                yield FlagAlarm(against, flagged / size, share, p_value, threshold, end)


def compute_fisher(flagged: int, size: int, baseline_flagged: int, baseline: int) -> float:
    """Return the one-sided p-value of Fisher's exact test (1935) that the first rate is higher.

    It is the probability of at least as many flags on the first side, given all flags and both sizes.
    """
    total = flagged + baseline_flagged
    most = min(size, total)
    if flagged * baseline <= baseline_flagged * size:
        return 1.0  # not above the baseline: the exact tail would be at least a half
    terms = [
        _log_choose(size, one) + _log_choose(baseline, total - one) - _log_choose(size + baseline, total)
        for one in range(flagged, most + 1)
    ]
    return min(1.0, math.fsum(map(math.exp, terms)))


def _log_choose(size: int, chosen: int) -> float:
    return math.lgamma(size + 1) - math.lgamma(chosen + 1) - math.lgamma(size - chosen + 1)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _mean(flags: Sequence[bool]) -> float | None:
    return _share(sum(flags), len(flags))


def _list_periods(stream: Sequence[CountedReview]) -> Iterator[FlagPeriod]:
    months: dict[str, list[bool]] = {}
    for one in stream:
        month = _UNKNOWN if one.at == _UNDATED else one.at.strftime("%Y-%m")
        months.setdefault(month, []).append(one.flagged)
    for month, flags in sorted(months.items()):
        yield FlagPeriod(month, len(flags), sum(flags))
