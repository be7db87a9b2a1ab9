"""Compare a baseline run with one or more candidates."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from evalspec.comparison.comparability import (
    describe_choice,
    explain_parts,
    list_content_mismatches,
    list_cutoff_mismatches,
    list_differences,
    list_identity_gaps,
    list_mismatches_by_reason,
    list_repeat_mismatches,
)
from evalspec.comparison.drops import find_metric
from evalspec.comparison.pairing import (
    SamplePairs,
    ScoreColumns,
    ScorePairs,
    common_metrics,
    compute_delta,
    is_cost,
    list_unpaired,
    pair_samples,
    pair_scores,
    sign_of,
    to_paired,
)
from evalspec.comparison.result import (
    CandidateComparison,
    Change,
    Comparison,
    DatasetComparison,
    Delta,
    MetricChange,
    NamedRun,
    SliceChange,
)
from evalspec.comparison.sample_changes import list_sample_changes
from evalspec.comparison.thin_cells import describe_thin_cells
from evalspec.datasets.filters import TAGS
from evalspec.errors import InvalidInput, Problem
from evalspec.model import DatasetResult
from evalspec.plural import counted
from evalspec.registry import near_miss
from evalspec.stats.paired import compute_effect_size
from evalspec.summary import MIN_SLICE, group_by_slice
from evalspec.validity.changes import Evidence, PairedScores, Rules, estimate_difference, weigh
from evalspec.validity.estimates import FEW

_WORTH_FINDING = 0.02
"""A relevant change, as a share of a metric's range. The comparison reports how many samples would detect it."""

_NOT_TESTED = "depends on machine and load: shown, not tested"

_FIX = "compare runs of the same samples and judge, or add --allow-mismatch"


class Choice(Struct, frozen=True):
    """The datasets and metrics to compare. Empty means all."""

    datasets: Collection[str] = ()
    metrics: Collection[str] = ()
    allow_mismatch: bool = False


def compare_runs(
    baseline: NamedRun, candidates: Sequence[NamedRun], rules: Rules, choice: Choice | None = None
) -> Comparison:
    """Return the comparison of each candidate with the baseline, over their common samples.

    Raises:
        InvalidInput: nothing can be compared, or the runs are not comparable and mismatches are not allowed. It has a
            line per reason.
    """
    chosen = choice or Choice()
    _check_reach(rules)
    matches = [_match(baseline, candidate, chosen) for candidate in candidates]
    refused = [
        Problem(mismatch, file=one.candidate.name, fix=_FIX if number == 0 else "")
        for one in matches
        for number, mismatch in enumerate(one.mismatches)
    ]
    if refused and not chosen.allow_mismatch:
        raise InvalidInput(refused)
    evidence = iter(weigh([list(pairs.tested.values()) for one in matches for pairs in one.datasets], rules))
    compared = tuple(_compare(baseline, one, evidence, rules) for one in matches)
    tests = sum(change.p_value is not None for one in compared for change in one.changes)
    return Comparison(baseline, compared, rules.alpha, rules.resamples, rules.seed, tests)


def _compare(
    baseline: NamedRun, match: "_Match", evidence: Iterator[Sequence[Evidence]], rules: Rules
) -> CandidateComparison:
    datasets = tuple(_conclude(pairs, next(evidence), rules) for pairs in match.datasets)
    thin = [
        describe_thin_cells(pairs.after if pairs.after.gold else pairs.before, pairs.samples.both, one.metrics)
        for pairs, one in zip(match.datasets, datasets, strict=True)
    ]
    return CandidateComparison(
        match.candidate,
        datasets,
        match.mismatches,
        tuple(list_differences(baseline.run, match.candidate.run)),
        (*match.notes, *filter(None, thin)),
    )


def _check_reach(rules: Rules) -> None:
    if rules.alpha * (rules.resamples + 1) <= 1:
        message = f"{rules.resamples:,} resamples cannot give a p-value below alpha {rules.alpha:g}"
        raise InvalidInput(message, f"raise --resamples above {1 / rules.alpha:,.0f}")


class _Pairs(Struct, frozen=True):
    """A dataset of both runs before testing: its pairs, the scores of each metric, and the metrics to test."""

    before: DatasetResult
    after: DatasetResult
    samples: SamplePairs
    columns: Mapping[str, ScoreColumns]
    cluster: str | None
    tested: Mapping[str, PairedScores]


class _Match(Struct, frozen=True):
    """A candidate with its paired datasets and the mismatches."""

    candidate: NamedRun
    datasets: tuple[_Pairs, ...]
    mismatches: tuple[str, ...]
    notes: tuple[str, ...]


def _match(baseline: NamedRun, candidate: NamedRun, choice: Choice) -> _Match:
    parts = explain_parts(baseline.run, candidate.run)
    if parts is not None:
        raise InvalidInput(Problem(parts, "compare runs of the same slice, or of the full set", candidate.name))
    matched, notes = _match_datasets(baseline, candidate, choice)
    _check_metrics(matched, choice.metrics, candidate)
    datasets: list[_Pairs] = []
    mismatches: list[str] = []
    compared: list[str] = []
    for before, after in matched:
        common = common_metrics(before, after)
        names = _choose(common, choice.metrics)
        mismatches += list_content_mismatches(baseline.run, candidate.run, before.name, after.name)
        mismatches += list_cutoff_mismatches(before.name, before.metrics, after.metrics)
        mismatches += list_mismatches_by_reason(baseline.run, candidate.run, before.name, names, after.name)
        notes += list_identity_gaps(baseline.run, candidate.run, before.name, names, after.name)
        compared += names
        datasets.append(_pair(before, after, names))
    mismatches += list_repeat_mismatches(baseline.run, candidate.run)
    if not compared and not mismatches:
        message = "has no metric in common with the baseline"
        raise InvalidInput(Problem(message, "choose runs with a common metric", candidate.name))
    choice_note = describe_choice(baseline.run)
    notes += [choice_note] if choice_note else []
    return _Match(candidate, tuple(datasets), tuple(mismatches), (*notes, *candidate.notes))


def _match_datasets(
    baseline: NamedRun, candidate: NamedRun, choice: Choice
) -> tuple[list[tuple[DatasetResult, DatasetResult]], list[str]]:
    """Return the common datasets by name. If each side has a single dataset, they are compared, with a note."""
    before = {dataset.name: dataset for dataset in baseline.run.datasets}
    after = {dataset.name: dataset for dataset in candidate.run.datasets}
    if len(before) == len(after) == 1 and before.keys() != after.keys():
        (old,), (new,) = before.values(), after.values()
        wanted = not choice.datasets or {old.name, new.name} & set(choice.datasets)
        note = f"dataset {old.name} of the baseline is compared with {new.name} of {candidate.name}"
        if wanted:
            return [(old, new)], [note]
    names = [name for name in before if name in after]
    for name in choice.datasets:
        if name not in names:
            raise InvalidInput(Problem(f"not in both runs: '{name}'", near_miss(name, names), field="--dataset"))
    if not names:
        said = f"{candidate.name} has {', '.join(after) or 'none'}, the baseline {', '.join(before) or 'none'}"
        raise InvalidInput(f"the runs have no dataset in common: {said}", "choose runs of the same datasets")
    alone = [f"dataset {name} is only in the baseline" for name in before if name not in after]
    alone += [f"dataset {name} is only in {candidate.name}" for name in after if name not in before]
    chosen = [name for name in names if not choice.datasets or name in choice.datasets]
    return [(before[name], after[name]) for name in chosen], [] if choice.datasets else alone


def _choose(common: Mapping[str, str], wanted: Collection[str]) -> list[str]:
    named = {find_metric(name, common) for name in wanted}
    return [metric for metric in common if not wanted or metric in named]


def _check_metrics(
    matched: Sequence[tuple[DatasetResult, DatasetResult]], wanted: Collection[str], candidate: NamedRun
) -> None:
    common = dict.fromkeys(metric for pair in matched for metric in common_metrics(*pair))
    for name in wanted:
        if common and find_metric(name, common) is None:
            message = f"{candidate.name} and the baseline have no metric '{name}' in common"
            raise InvalidInput(Problem(message, near_miss(name, common), field="--metric"))


def _pair(before: DatasetResult, after: DatasetResult, names: Sequence[str]) -> _Pairs:
    """Return the common samples and the testable metrics: means over samples of both runs."""
    samples = pair_samples(before, after)
    columns = {metric: pair_scores(samples.both, metric) for metric in names}
    cluster = after.cluster or before.cluster
    tested = {
        metric: to_paired(column.pick(), metric, after, cluster)
        for metric, column in columns.items()
        if after.metrics[metric].statistic == "mean" and samples.both
    }
    return _Pairs(before, after, samples, columns, cluster, tested)


def _conclude(pairs: _Pairs, evidence: Sequence[Evidence], rules: Rules) -> DatasetComparison:
    before, after = pairs.before, pairs.after
    weighed = dict(zip(pairs.tested, evidence, strict=True))
    statistics = {metric: after.metrics[metric].statistic for metric in pairs.columns}
    signs = {
        metric: sign_of(after.metrics[metric].direction)
        for metric in statistics
        if not is_cost(metric, statistics[metric])
    }
    changed, counts = list_sample_changes(pairs.samples, signs)
    return DatasetComparison(
        name=before.name,
        candidate_name=after.name,
        pairs=len(pairs.samples.both),
        metrics=tuple(_settle(pairs, metric, weighed.get(metric)) for metric in pairs.columns),
        metrics_only_baseline=tuple(metric for metric in before.metrics if metric not in after.metrics),
        metrics_only_candidate=tuple(metric for metric in after.metrics if metric not in before.metrics),
        slices=_slices(pairs, rules),
        samples=changed,
        counts=counts,
    )


def _settle(pairs: _Pairs, metric: str, evidence: Evidence | None) -> MetricChange:
    if not pairs.before.samples or not pairs.after.samples:
        return _without_samples(pairs.before, pairs.after, metric)
    statistic, direction = pairs.after.metrics[metric].statistic, pairs.after.metrics[metric].direction
    scores = pairs.columns[metric].pick()
    found = compute_delta(scores, metric, statistic, evidence.estimate.interval if evidence else None)
    change = MetricChange(metric, statistic, direction, found, Change.TOO_FEW, unpaired=len(list_unpaired(scores)))
    if not found.pairs:
        return replace(change, reason="no sample is scored in both")
    if evidence is None:
        return replace(change, change=Change.NOT_TESTED, reason=_NOT_TESTED)
    effect = compute_effect_size(scores.differences)
    verdict, reason = _judge(evidence)
    return replace(
        change,
        change=verdict,
        reason=reason,
        p_value=evidence.p_value,
        adjusted=evidence.adjusted,
        test=evidence.test,
        detectable=evidence.compute_detectable(),
        cohens_dz=effect.cohens_dz if effect else None,
        superiority=effect.superiority if effect else None,
        units=evidence.scores.count_units,
        settles=_find_settling(evidence) if verdict is Change.UNDECIDED else None,
        confidence=1 - evidence.rules.alpha,
    )


def _judge(evidence: Evidence) -> tuple[Change, str | None]:
    scores, alpha = evidence.scores, evidence.rules.alpha
    if scores.lacks_pairs:
        total = len(scores) + scores.unpaired
        return Change.UNDECIDED, f"{scores.unpaired} of {total} samples are scored in one run only"
    if scores.count_units < FEW or not evidence.can_reach_alpha:
        what = counted(scores.count_units, "cluster" if scores.is_clustered else "pair")
        return Change.TOO_FEW, f"{what} cannot show a change at alpha {alpha:g}: {evidence.units_needed} are needed"
    if not evidence.is_significant:
        return Change.UNDECIDED, None
    better = math.fsum(scores.differences) * scores.sign > 0
    return (Change.IMPROVED if better else Change.DEGRADED), None


def _find_settling(evidence: Evidence) -> tuple[float, int] | None:
    """Return a change of a fiftieth of the metric's range and the pairs that would detect it, if there are fewer."""
    if evidence.scores.bounds is None:
        return None
    low, high = evidence.scores.bounds
    change = _WORTH_FINDING * (high - low)
    needed = evidence.compute_needed(change)
    return (change, needed) if needed is not None and needed > len(evidence.scores) else None


def _without_samples(before: DatasetResult, after: DatasetResult, metric: str) -> MetricChange:
    """Return the change of a metric in a report without samples, which has values but nothing to test."""
    old, new = before.metrics[metric].value, after.metrics[metric].value
    delta = None if old is None or new is None else new - old
    summary = after.metrics[metric]
    return MetricChange(
        metric, summary.statistic, after.metrics[metric].direction, Delta(old, new, delta, None, 0), Change.TOO_FEW
    )


def _slices(pairs: _Pairs, rules: Rules) -> tuple[SliceChange, ...]:
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


def _slice_delta(pairs: _Pairs, metric: str, scores: ScorePairs, rules: Rules) -> Delta:
    """Return the change in a slice with its interval. Slices are not tested because there are many."""
    statistic, interval = pairs.after.metrics[metric].statistic, None
    if metric in pairs.tested and len(scores):
        paired = to_paired(scores, metric, pairs.after, pairs.cluster)
        interval = estimate_difference(paired, 1 - rules.alpha).interval
    return compute_delta(scores, metric, statistic, interval)


def _gain(delta: float | None, sign: int) -> float:
    """Return a sort key that puts the worst first and unknown deltas last."""
    return float("inf") if delta is None else delta * sign
