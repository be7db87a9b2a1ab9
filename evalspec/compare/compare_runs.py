"""A baseline run against one or more candidates."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from evalspec.compare.comparability import (
    find_content_mismatches,
    find_cutoff_mismatches,
    find_differences,
    find_judge_mismatches,
    find_repeat_mismatches,
)
from evalspec.compare.comparison import (
    CandidateComparison,
    Change,
    Comparison,
    DatasetComparison,
    Delta,
    MetricChange,
    NamedRun,
    SliceChange,
)
from evalspec.compare.drops import find_metric
from evalspec.compare.pairing import (
    SamplePairs,
    ScoreColumns,
    common_metrics,
    is_cost,
    pair_samples,
    pair_scores,
    sign_of,
)
from evalspec.compare.sample_changes import find_sample_changes
from evalspec.compare.testing import Rules, compute_change, compute_delta, settle
from evalspec.errors import InvalidInput, Problem
from evalspec.records import DatasetResult
from evalspec.registry import near_miss
from evalspec.stats.holm import compute_holm
from evalspec.summary import MIN_SLICE, TAGS, find_slices

_SLICE_RESAMPLES = 1000
"""Slices are many and are not tested: the ends of their intervals may be 2 % of the width off."""

_FIX = "compare runs of the same samples and judge, or add --allow-mismatch"


@dataclass(frozen=True, slots=True)
class Choice:
    """What of the runs is compared; all of it where nothing is chosen."""

    datasets: Collection[str] = ()
    metrics: Collection[str] = ()
    allow_mismatch: bool = False


def compare_runs(
    baseline: NamedRun, candidates: Sequence[NamedRun], rules: Rules, choice: Choice | None = None
) -> Comparison:
    """Each candidate against the baseline, over the samples that both have.

    Raises:
        InvalidInput: nothing can be compared, or runs are not comparable and that is not allowed: a line for each
            reason.
    """
    chosen = choice or Choice()
    _check_reach(rules)
    compared = [_compare(baseline, candidate, rules, chosen) for candidate in candidates]
    refused = [
        Problem(mismatch, file=one.candidate.name, fix=_FIX if number == 0 else "")
        for one in compared
        for number, mismatch in enumerate(one.mismatches)
    ]
    if refused and not chosen.allow_mismatch:
        raise InvalidInput(refused)
    p_values = [change.p_value for one in compared for change in one.changes if change.p_value is not None]
    adjusted = iter(compute_holm(p_values))
    settled = [_settle(one, adjusted, len(p_values), rules) for one in compared]
    return Comparison(baseline, tuple(settled), rules.alpha, rules.resamples, rules.seed, len(p_values))


def _check_reach(rules: Rules) -> None:
    if rules.alpha * (rules.resamples + 1) <= 1:
        message = f"{rules.resamples:,} resamples cannot give a p-value below alpha {rules.alpha:g}"
        raise InvalidInput(message, f"raise --resamples above {1 / rules.alpha:,.0f}")


def _compare(baseline: NamedRun, candidate: NamedRun, rules: Rules, choice: Choice) -> CandidateComparison:
    matched, notes = _match_datasets(baseline, candidate, choice)
    _check_metrics(matched, choice.metrics, candidate)
    datasets: list[DatasetComparison] = []
    mismatches: list[str] = []
    judged_by: list[str] = []
    for before, after in matched:
        common = common_metrics(before, after)
        names = _choose(common, choice.metrics)
        mismatches += find_content_mismatches(baseline.run, candidate.run, before.name, after.name)
        mismatches += find_cutoff_mismatches(before.name, before.summaries, after.summaries)
        judged_by += names
        cluster = baseline.clusters.get(before.name)
        same_clusters = cluster == candidate.clusters.get(after.name)
        datasets.append(_dataset(before, after, names, cluster if same_clusters else None, rules))
    mismatches += find_judge_mismatches(baseline.run, candidate.run, judged_by)
    mismatches += find_repeat_mismatches(baseline.run, candidate.run)
    if not judged_by and not mismatches:
        message = "has no metric in common with the baseline"
        raise InvalidInput(Problem(message, "name runs that measure the same", candidate.name))
    return CandidateComparison(
        candidate,
        tuple(datasets),
        tuple(mismatches),
        tuple(find_differences(baseline.run, candidate.run)),
        (*notes, *candidate.notes),
    )


def _match_datasets(
    baseline: NamedRun, candidate: NamedRun, choice: Choice
) -> tuple[list[tuple[DatasetResult, DatasetResult]], list[str]]:
    """The datasets of both by name; one alone on each side are taken for the same, and a note says so."""
    before = {dataset.name: dataset for dataset in baseline.run.datasets}
    after = {dataset.name: dataset for dataset in candidate.run.datasets}
    if len(before) == len(after) == 1 and before.keys() != after.keys():
        (old,), (new,) = before.values(), after.values()
        wanted = not choice.datasets or {old.name, new.name} & set(choice.datasets)
        note = f"dataset {old.name} of the baseline is taken for {new.name} of {candidate.name}"
        if wanted:
            return [(old, new)], [note]
    names = [name for name in before if name in after]
    for name in choice.datasets:
        if name not in names:
            raise InvalidInput(Problem(f"not in both runs: '{name}'", near_miss(name, names), field="--dataset"))
    if not names:
        said = f"{candidate.name} has {', '.join(after) or 'none'}, the baseline {', '.join(before) or 'none'}"
        raise InvalidInput(f"the runs have no dataset in common: {said}", "name runs of the same datasets")
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


def _dataset(
    before: DatasetResult, after: DatasetResult, names: Sequence[str], cluster: str | None, rules: Rules
) -> DatasetComparison:
    pairs = pair_samples(before, after)
    statistics = {metric: after.summaries[metric].statistic for metric in names}
    scores = {metric: pair_scores(pairs.both, metric) for metric in names}
    changes = tuple(
        _without_samples(before, after, metric)
        if not before.samples or not after.samples
        else compute_change(scores[metric].pick(), metric, statistics[metric], after.direction[metric], cluster, rules)
        for metric in names
    )
    signs = {metric: sign_of(after.direction[metric]) for metric in names if not is_cost(metric, statistics[metric])}
    samples, counts = find_sample_changes(pairs, signs)
    return DatasetComparison(
        name=before.name,
        candidate_name=after.name,
        pairs=len(pairs.both),
        metrics=changes,
        metrics_only_baseline=tuple(metric for metric in before.summaries if metric not in after.summaries),
        metrics_only_candidate=tuple(metric for metric in after.summaries if metric not in before.summaries),
        slices=_slices(before, after, pairs, scores, cluster, rules),
        samples=samples,
        counts=counts,
    )


def _without_samples(before: DatasetResult, after: DatasetResult, metric: str) -> MetricChange:
    """A report without samples has values, and nothing to tell a change from chance by."""
    old, new = before.summaries[metric].value, after.summaries[metric].value
    delta = None if old is None or new is None else new - old
    summary = after.summaries[metric]
    return MetricChange(
        metric, summary.statistic, after.direction[metric], Delta(old, new, delta, None, 0), Change.TOO_FEW
    )


def _slices(
    before: DatasetResult,
    after: DatasetResult,
    pairs: SamplePairs,
    scores: Mapping[str, ScoreColumns],
    cluster: str | None,
    rules: Rules,
) -> tuple[SliceChange, ...]:
    """The slices that both show, worst first by the leading metric: the first that is limited, else the first.

    A baseline file has no slices: those of the candidate are taken.
    """
    shown = {part.name for part in before.slices}
    wanted = [part.name for part in after.slices if part.name in shown or not shown]
    keys = dict.fromkeys([TAGS, *(name.partition("=")[0] for name in wanted if "=" in name)])
    members = find_slices([sample for _, sample in pairs.both], keys) if wanted else {}
    place_of = {sample.id: place for place, (sample, _) in enumerate(pairs.both)} if wanted else {}
    lean = replace(rules, resamples=min(rules.resamples, _SLICE_RESAMPLES))
    found = []
    for name in wanted:
        places = [place_of[sample.id] for sample in members.get(name, ())]
        deltas = {
            metric: compute_delta(column.pick(places), metric, after.summaries[metric].statistic, cluster, lean)
            for metric, column in scores.items()
        }
        found.append(SliceChange(name, len(places), len(places) < MIN_SLICE, deltas))
    limited = {outcome.threshold.metric for outcome in (*after.outcomes, *before.outcomes)}
    leading = next((metric for metric in scores if metric in limited), next(iter(scores), None))
    if leading is None:
        return tuple(found)
    sign = sign_of(after.direction[leading])
    return tuple(sorted(found, key=lambda part: (part.small, _gain(part.metrics[leading].delta, sign))))


def _gain(delta: float | None, sign: int) -> float:
    """Sorts the worst first, and what is not known last."""
    return float("inf") if delta is None else delta * sign


def _settle(one: CandidateComparison, adjusted: Iterator[float], tests: int, rules: Rules) -> CandidateComparison:
    datasets = tuple(
        replace(
            dataset,
            metrics=tuple(
                settle(change, next(adjusted) if change.p_value is not None else None, tests, rules)
                for change in dataset.metrics
            ),
        )
        for dataset in one.datasets
    )
    return replace(one, datasets=datasets)
