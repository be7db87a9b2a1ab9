"""List the changed samples and slices, worst first, and read answers and rank changes side by side.

If a sample has several attempts, one that changed is shown.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from evalspec.inputs.datasets.filters import TAGS
from evalspec.model import Exchange, SampleResult, Score, ScoreStatus, StoredExchange
from evalspec.model.comparisons import (
    AttemptNumber,
    CandidateComparison,
    Comparison,
    Delta,
    RankMove,
    SampleChange,
    SampleKind,
    ScoreChange,
    SideBySide,
    SliceChange,
)
from evalspec.model.tool_calls import render_call
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.pairing import DatasetPairs, ScorePairs, compute_delta, sign_of, to_paired
from evalspec.verdict.summary import MIN_SLICE, group_by_slice
from evalspec.verdict.validity.changes import SignificanceRules, estimate_difference

_SAME = 1e-9
_ABSENT = "absent"


def list_sample_changes(
    dataset: DatasetPairs, signs: Mapping[str, int]
) -> tuple[tuple[SampleChange, ...], Mapping[SampleKind, int]]:
    """Return the changed samples, and the number of samples of each kind, including unchanged ones.

    Those that are not compared come last: edited ones, and those of one run, with their scores. `signs`: the metrics to
    use, each with 1 if higher is better and -1 if lower is.
    """
    changes, pairs = [], dataset.samples
    for before, after in pairs.both:
        change, worst = _compare(before, after, signs)
        changes.append((worst, change))
    changes.sort(key=lambda entry: (entry[0], entry[1].id))
    ordered = [change for _, change in changes]
    old, new = ({sample.id: sample for sample in one.samples} for one in (dataset.before, dataset.after))
    left_out = {
        SampleKind.EDITED: [one.id for one, _ in pairs.edited],
        SampleKind.ONLY_BASELINE: pairs.only_baseline,
        SampleKind.ONLY_CANDIDATE: pairs.only_candidate,
    }
    ordered += [
        SampleChange(id, kind, {name: ScoreChange(_find(old, id, name), _find(new, id, name)) for name in signs})
        for kind, ids in left_out.items()
        for id in ids
    ]
    counts = Counter(change.kind for change in ordered)
    kept = tuple(change for change in ordered if change.kind is not SampleKind.UNCHANGED)
    return kept, {kind: counts[kind] for kind in SampleKind}


def _compare(
    before: SampleResult, after: SampleResult, signs: Mapping[str, int]
) -> tuple[SampleChange, tuple[float, float]]:
    """Return the change and its sort key: the worst score, then the sum of all. Lost scores come first."""
    scores: dict[str, ScoreChange] = {}
    gains, lost, found = [], False, False
    for metric, sign in signs.items():
        old, new = before.scores.get(metric), after.scores.get(metric)
        if old is not None and old.value is not None and new is not None and new.value is not None:
            gain = sign * (new.value - old.value)
            if abs(gain) > _SAME:
                gains.append(gain)
                scores[metric] = ScoreChange(old.value, new.value)
        elif _is_unscored(old, new):
            found, lost = True, lost or (old is not None and old.value is not None)
            scores[metric] = ScoreChange(_shown(old), _shown(new))
    kind = _kind(gains, found)
    worst = float("-inf") if lost else min(gains, default=0.0)
    return SampleChange(before.id, kind, scores), (worst, sum(gains))


def _is_unscored(old: Score | None, new: Score | None) -> bool:
    """Return whether only one side has a value."""
    return (old is not None and old.value is not None) != (new is not None and new.value is not None)


def _kind(gains: Sequence[float], unscored: bool) -> SampleKind:
    worse, better = min(gains, default=0.0) < 0, max(gains, default=0.0) > 0
    if worse and better:
        return SampleKind.MIXED
    if worse or better:
        return SampleKind.DEGRADED if worse else SampleKind.IMPROVED
    return SampleKind.UNSCORED if unscored else SampleKind.UNCHANGED


def _find(samples: Mapping[str, SampleResult], id: str, metric: str) -> float | str:
    return _shown(samples[id].scores.get(metric) if id in samples else None)


def _shown(score: Score | None) -> float | str:
    if score is None:
        return _ABSENT
    return score.value if score.status is ScoreStatus.SCORED and score.value is not None else str(score.status)


def add_texts(comparison: Comparison, runs: Sequence[NamedRun], most: int) -> Comparison:
    """Return a comparison with the texts of the samples that changed most, if both runs have them.

    `runs`: the baseline, then the candidates. `most`: the maximum number of samples per dataset.
    """
    candidates = (_add(runs[0], run, one, most) for run, one in zip(runs[1:], comparison.candidates, strict=True))
    return replace(comparison, candidates=tuple(candidates))


def _add(baseline: NamedRun, candidate: NamedRun, one: CandidateComparison, most: int) -> CandidateComparison:
    texts = _read_texts(baseline, candidate, one, most)
    datasets = []
    for dataset in one.datasets:
        samples = (replace(change, texts=texts.get((dataset.name, change.id))) for change in dataset.samples)
        datasets.append(replace(dataset, samples=tuple(samples)))
    return replace(one, datasets=tuple(datasets))


def _read_texts(
    baseline: NamedRun, candidate: NamedRun, one: CandidateComparison, most: int
) -> Mapping[tuple[str, str], SideBySide]:
    """Return the texts of samples by dataset and id."""
    if baseline.texts is None or candidate.texts is None:
        return {}
    changes = {
        (dataset.name, change.id): (change, (dataset.candidate_name, change.id))
        for dataset in one.datasets
        for change in dataset.samples[:most]
        if change.kind is not SampleKind.EDITED
    }
    if not changes:
        return {}
    before = _read_attempts(baseline, changes.keys())
    after = _read_attempts(candidate, {key for _, key in changes.values()})
    found = {}
    for key, (change, key_after) in changes.items():
        pairs = list(zip(before.get(key, ()), after.get(key_after, ()), strict=False))
        if pairs:
            place = _list_changed(change, pairs)
            shown = compare_texts(*(stored_exchange.exchange for stored_exchange in pairs[place]))
            found[key] = replace(shown, attempt=AttemptNumber(place + 1, len(pairs)) if len(pairs) > 1 else None)
    return found


def _read_attempts(run: NamedRun, wanted: Collection[tuple[str, str]]) -> dict[tuple[str, str], list[StoredExchange]]:
    """Return the exchanges of each sample, in the order of its attempts."""
    found: dict[tuple[str, str], list[StoredExchange]] = {}
    for stored_exchange in run.texts(wanted) if run.texts else ():
        key = _key(stored_exchange)
        if key in wanted:
            found.setdefault(key, []).append(stored_exchange)
    for exchanges in found.values():
        exchanges.sort(key=lambda stored_exchange: stored_exchange.attempt)
    return found


def _list_changed(change: SampleChange, pairs: Sequence[tuple[StoredExchange, StoredExchange]]) -> int:
    """Return the index of the attempt whose changed scores changed most; the first of equals."""
    return max(range(len(pairs)), key=lambda place: (_size(change, *pairs[place]), -place))


def _size(change: SampleChange, before: StoredExchange, after: StoredExchange) -> float:
    """Return how much the scores of an attempt changed, in the same direction as those of the sample.

    A score that one side lacks counts as the largest change, because metrics with different ranges cannot be mixed.
    """
    size = 0.0
    for metric, score in change.scores.items():
        old, new = before.scores.get(metric), after.scores.get(metric)
        values = [side.value if side else None for side in (old, new)]
        if values[0] is not None and values[1] is not None:
            worse = isinstance(score.before, float) and isinstance(score.after, float) and score.after < score.before
            size += (values[0] - values[1]) * (1 if worse else -1)
        elif values != [None, None]:
            size += 1
    return size


def _key(stored_exchange: StoredExchange) -> tuple[str, str]:
    return stored_exchange.dataset, stored_exchange.exchange.sample.id


def compare_texts(before: Exchange, after: Exchange) -> SideBySide:
    """Return the answers and calls of tools for a sample in two runs, and the relevant documents that moved."""
    question = before.sample if before.sample.user_input else after.sample
    qrels = after.sample.qrels or before.sample.qrels or {}
    old, new = before.ranking, after.ranking
    moves = []
    if old is not None and new is not None:
        for document in (name for name, grade in qrels.items() if grade > 0):
            ranks = [ranking.index(document) + 1 if document in ranking else None for ranking in (old, new)]
            if ranks[0] != ranks[1]:
                moves.append(RankMove(document, ranks[0], ranks[1]))
    texts = [(exchange.reply.response or None) if exchange.reply else None for exchange in (before, after)]
    calls = [
        tuple(map(render_call, (exchange.reply.tool_calls if exchange.reply else None) or ()))
        for exchange in (before, after)
    ]
    asked = question.question if question.user_input else ""
    return SideBySide(asked, texts[0], texts[1], tuple(moves), baseline_calls=calls[0], candidate_calls=calls[1])


def list_slices(pairs: DatasetPairs, rules: SignificanceRules) -> tuple[SliceChange, ...]:
    """Return the common slices, worst first by the leading metric: the first with a threshold, otherwise the first.

    A baseline file has no slices, so the candidate's are used.
    """
    before, after, both = pairs.before, pairs.after, pairs.samples.both
    shown = {part.name for part in before.slices}
    wanted = [part.name for part in after.slices if part.name in shown or not shown]
    keys = dict.fromkeys([TAGS, *(name.partition("=")[0] for name in wanted if "=" in name)])
    members = group_by_slice([sample for _, sample in both], keys) if wanted else {}
    place_of = {sample.id: place for place, (sample, _) in enumerate(both)} if wanted else {}
    found = []
    for name in wanted:
        places = [place_of[sample.id] for sample in members.get(name, ())]
        deltas = {
            metric: _slice_delta(pairs, metric, column.pick(places), rules) for metric, column in pairs.columns.items()
        }
        found.append(SliceChange(name, len(places), len(places) < MIN_SLICE, deltas))
    limited = {outcome.metric for outcome in (*after.thresholds, *before.thresholds)}
    leading = next((metric for metric in pairs.columns if metric in limited), next(iter(pairs.columns), None))
    if leading is None:
        return tuple(found)
    sign = sign_of(after.metrics[leading].direction)
    return tuple(sorted(found, key=lambda part: (part.small, _gain(part.metrics[leading].delta, sign))))


def _slice_delta(pairs: DatasetPairs, metric: str, scores: ScorePairs, rules: SignificanceRules) -> Delta:
    """Return the change in a slice with its interval. Slices are not tested because there are many."""
    statistic, interval = pairs.after.metrics[metric].statistic, None
    if metric in pairs.tested and len(scores):
        paired = to_paired(scores, metric, pairs.after, pairs.cluster)
        interval = estimate_difference(paired, rules.confidence).interval
    return compute_delta(scores, metric, statistic, interval)


def _gain(delta: float | None, sign: int) -> float:
    """Return a sort key that puts the worst first and unknown deltas last."""
    return float("inf") if delta is None else delta * sign
