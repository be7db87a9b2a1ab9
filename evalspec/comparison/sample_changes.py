"""What became of each sample, worst first."""

from collections import Counter
from collections.abc import Mapping, Sequence

from evalspec.comparison.pairing import SamplePairs
from evalspec.comparison.result import SampleChange, SampleKind, ScoreChange
from evalspec.model import SampleResult, Score, ScoreStatus

_SAME = 1e-9
_ABSENT = "absent"


def list_sample_changes(
    pairs: SamplePairs, signs: Mapping[str, int]
) -> tuple[tuple[SampleChange, ...], Mapping[SampleKind, int]]:
    """All samples but the unchanged, and how many there are of each kind, those included.

    `signs`: the metrics that count, each with 1 where more is better and -1 where less is.
    """
    changes = []
    for before, after in pairs.both:
        change, worst = _compare(before, after, signs)
        changes.append((worst, change))
    changes.sort(key=lambda entry: (entry[0], entry[1].id))
    ordered = [change for _, change in changes]
    ordered += [SampleChange(name, SampleKind.ONLY_BASELINE) for name in pairs.only_baseline]
    ordered += [SampleChange(name, SampleKind.ONLY_CANDIDATE) for name in pairs.only_candidate]
    counts = Counter(change.kind for change in ordered)
    kept = tuple(change for change in ordered if change.kind is not SampleKind.UNCHANGED)
    return kept, {kind: counts[kind] for kind in SampleKind}


def _compare(
    before: SampleResult, after: SampleResult, signs: Mapping[str, int]
) -> tuple[SampleChange, tuple[float, float]]:
    """The change, and what it is sorted by: its worst score, then all together; a lost score comes before any."""
    scores, gains, lost, found = [], [], False, False
    for metric, sign in signs.items():
        old, new = before.scores.get(metric), after.scores.get(metric)
        if old is not None and old.value is not None and new is not None and new.value is not None:
            gain = sign * (new.value - old.value)
            if abs(gain) > _SAME:
                gains.append(gain)
                scores.append(ScoreChange(metric, old.value, new.value))
        elif _is_unscored(old, new):
            found, lost = True, lost or (old is not None and old.value is not None)
            scores.append(ScoreChange(metric, _shown(old), _shown(new)))
    kind = _kind(gains, found)
    worst = float("-inf") if lost else min(gains, default=0.0)
    return SampleChange(before.id, kind, tuple(scores)), (worst, sum(gains))


def _is_unscored(old: Score | None, new: Score | None) -> bool:
    """Whether one side has a value that the other has not."""
    return (old is not None and old.value is not None) != (new is not None and new.value is not None)


def _kind(gains: Sequence[float], unscored: bool) -> SampleKind:
    worse, better = min(gains, default=0.0) < 0, max(gains, default=0.0) > 0
    if worse and better:
        return SampleKind.MIXED
    if worse or better:
        return SampleKind.DEGRADED if worse else SampleKind.IMPROVED
    return SampleKind.UNSCORED if unscored else SampleKind.UNCHANGED


def _shown(score: Score | None) -> float | str:
    if score is None:
        return _ABSENT
    return score.value if score.status is ScoreStatus.SCORED and score.value is not None else str(score.status)
