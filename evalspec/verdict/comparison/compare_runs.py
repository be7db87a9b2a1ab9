"""Compare a baseline run with one or more candidates."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import astuple, replace

from evalspec.base.errors import InvalidInput, Problem, split_fix
from evalspec.base.plural import counted
from evalspec.base.registry import near_miss
from evalspec.model import DatasetResult, PeopleScores, Summary
from evalspec.model.comparisons import (
    CandidateComparison,
    Change,
    Comparison,
    DatasetComparison,
    Delta,
    MetricChange,
    RequiredSampleSize,
    RunPair,
)
from evalspec.verdict.comparison.best_run import NumberedChange, find_best_runs
from evalspec.verdict.comparison.comparability import (
    count_left_out,
    describe_choice,
    explain_lost,
    explain_parts,
    list_column_mismatches,
    list_content_mismatches,
    list_differences,
    list_identity_gaps,
    list_mismatches_by_reason,
    list_repeat_mismatches,
)
from evalspec.verdict.comparison.drops import find_metric
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.pairing import (
    DatasetPairs,
    common_metrics,
    compute_delta,
    is_cost,
    list_unpaired,
    pair_dataset,
    pair_samples,
    sign_of,
)
from evalspec.verdict.comparison.sample_changes import list_sample_changes, list_slices
from evalspec.verdict.stats.paired import compute_effect_size
from evalspec.verdict.validity.cells import describe_sparse_cells
from evalspec.verdict.validity.changes import Evidence, SignificanceRules, weigh
from evalspec.verdict.validity.estimates import FEW

_WORTH_FINDING = 0.02
"""A relevant change, as a share of a metric's range. The comparison reports how many samples would detect it."""

_NOT_TESTED = "depends on machine and load: shown, not tested"

_MOST_RIVALS = 10
"""Up to this many candidates are compared with each other: 45 pairs. Grids of retrievers may have thousands."""

_FIX = "compare runs of the same samples and judge, or add --allow-mismatch"


class Choice(Struct, frozen=True):
    """The datasets and metrics to compare. Empty means all. `is_gate`: the comparison decides an exit code."""

    datasets: Collection[str] = ()
    metrics: Collection[str] = ()
    allow_mismatch: bool = False
    is_gate: bool = False


def compare_runs(
    baseline: NamedRun, candidates: Sequence[NamedRun], rules: SignificanceRules, choice: Choice | None = None
) -> Comparison:
    """Return the comparison of each candidate with the baseline and with the others, over their common samples.

    Raises:
        InvalidInput: nothing can be compared, or the runs are not comparable and mismatches are not allowed. It has a
            line per reason.
    """
    chosen = choice or Choice()
    _check_reach(rules)
    matches, rivals = _match_all(baseline, candidates, chosen)
    refused = [
        Problem(mismatch, file=one.candidate.name, fix=_FIX if number == 0 else "")
        for one in matches
        for number, mismatch in enumerate(one.mismatches)
    ]
    if refused and not chosen.allow_mismatch:
        raise InvalidInput(refused)
    if len(candidates) > _MOST_RIVALS:
        note = f"more than {_MOST_RIVALS} candidates are compared with the baseline only"
        baseline = replace(baseline, notes=(*baseline.notes, note))
    rules = replace(rules, ranges=len(matches) + len(rivals))
    families = [list(pairs.tested.values()) for one in (*matches, *rivals.values()) for pairs in one.datasets]
    evidence = iter(weigh(families, rules))
    compared = tuple(_compare(baseline, one, evidence, rules) for one in matches)
    between = [
        NumberedChange(pairs.name, numbers, change)
        for numbers, one in rivals.items()
        for pairs in one.datasets
        for change in _settle_all(pairs, next(evidence), sized=False).values()
    ]
    changes = [*(change for one in compared for change in one.changes), *(pair.change for pair in between)]
    named = (baseline, *candidates)
    return Comparison(
        baseline=baseline.describe(),
        alpha=rules.alpha,
        confidence=rules.confidence,
        resamples=rules.resamples,
        seed=rules.seed,
        tests=sum(change.p_value is not None for change in changes),
        candidates=compared,
        rivals=tuple(
            RunPair(one.dataset, named[one.runs[0]].name, named[one.runs[1]].name, one.change) for one in between
        ),
        best_runs=tuple(find_best_runs(named, compared, between)),
    )


def _match_all(
    baseline: NamedRun, candidates: Sequence[NamedRun], choice: Choice
) -> tuple[list["_Match"], dict[tuple[int, int], "_Match"]]:
    """Return each candidate paired with the baseline, and the candidates with each other, by their numbers from 1."""
    matches: list[_Match] = []
    rivals: dict[tuple[int, int], _Match] = {}
    for number, candidate in enumerate(candidates, 1):
        match = _match(baseline, candidate, choice)
        others = matches if len(candidates) <= _MOST_RIVALS else ()
        against = {(rank, number): _match_rivals(one, match, choice) for rank, one in enumerate(others, 1)}
        mismatches = (mismatch for one in (match, *against.values()) for mismatch in one.mismatches)
        matches.append(replace(match, mismatches=tuple(mismatches)))
        rivals |= against
    return matches, rivals


def _compare(
    baseline: NamedRun, match: "_Match", evidence: Iterator[Sequence[Evidence]], rules: SignificanceRules
) -> CandidateComparison:
    said = baseline.people, match.candidate.people
    datasets = tuple(_add_people(_conclude(pairs, next(evidence), rules), pairs, said) for pairs in match.datasets)
    sparse = [
        describe_sparse_cells(pairs.with_gold, pairs.samples.both, one.metrics.values())
        for pairs, one in zip(match.datasets, datasets, strict=True)
    ]
    candidate = match.candidate
    return CandidateComparison(
        candidate.name,
        candidate.run.id,
        candidate.kind,
        (*match.notes, *filter(None, sparse)),
        mismatches=match.mismatches,
        differences=tuple(list_differences(baseline.run, candidate.run)),
        datasets=datasets,
    )


def _add_people(
    found: DatasetComparison, pairs: DatasetPairs, said: tuple[Sequence[PeopleScores], Sequence[PeopleScores]]
) -> DatasetComparison:
    """Return a comparison with the differences as people see them, of metrics that both runs have labels of."""
    if not all(said):
        return found
    from evalspec.verdict.correction.people import describe_difference

    old, new = ({(one.dataset, one.metric): one for one in side if one.scores} for side in said)
    metrics = dict(found.metrics)
    for metric, change in found.metrics.items():
        before, after = old.get((pairs.before.name, metric)), new.get((pairs.after.name, metric))
        bounds = pairs.after.metrics[metric].bounds
        if before and after and bounds and change.statistic == "mean":
            both, confidence = (before, after), change.confidence
            seen = describe_difference(pairs.samples.both, metric, bounds, both, pairs.cluster, confidence)
            metrics[metric] = replace(change, people=seen)
    return replace(found, metrics=metrics)


def _check_reach(rules: SignificanceRules) -> None:
    if rules.alpha * (rules.resamples + 1) <= 1:
        message = f"{rules.resamples:,} resamples cannot give a p-value below alpha {rules.alpha:g}"
        raise InvalidInput(message, f"raise --resamples above {1 / rules.alpha:,.0f}")


class _Match(Struct, frozen=True):
    """A candidate with its paired datasets and the mismatches."""

    candidate: NamedRun
    datasets: tuple[DatasetPairs, ...]
    mismatches: tuple[str, ...]
    notes: tuple[str, ...]


def _match(baseline: NamedRun, candidate: NamedRun, choice: Choice) -> _Match:
    parts = explain_parts(baseline.run, candidate.run)
    if parts is not None:
        raise InvalidInput(Problem(parts, "compare runs of the same slice, or of the full set", candidate.name))
    matched, notes = _match_datasets(baseline, candidate, choice)
    _check_metrics(matched, choice.metrics, candidate)
    datasets, mismatches = _pair_all(baseline, candidate, {pair[0].name: pair for pair in matched}, choice)
    for pairs in datasets:
        runs = baseline.run, candidate.run
        notes += list_identity_gaps(*runs, pairs.before.name, pairs.columns, pairs.after.name)
    if not any(pairs.columns for pairs in datasets) and not mismatches:
        message = "has no metric in common with the baseline"
        raise InvalidInput(Problem(message, "choose runs with a common metric", candidate.name))
    choice_note = describe_choice(baseline.run)
    notes += [choice_note] if choice_note else []
    if candidate.run.id == baseline.run.id:
        notes.append(f"{baseline.name} and {candidate.name} are the same run, so nothing can differ")
    return _Match(candidate, datasets, mismatches, (*notes, *candidate.notes))


def _match_rivals(one: _Match, other: _Match, choice: Choice) -> _Match:
    """Return the second candidate paired with the first. Mismatches are listed if neither has one already."""
    theirs = {pairs.name: pairs.after for pairs in other.datasets}
    shared = {pairs.name: (pairs.after, theirs[pairs.name]) for pairs in one.datasets if pairs.name in theirs}
    datasets, found = _pair_all(one.candidate, other.candidate, shared, choice)
    known = one.mismatches or other.mismatches
    place = f"with {one.candidate.name} as the baseline"
    return _Match(other.candidate, datasets, () if known else tuple(f"{place}: {mismatch}" for mismatch in found), ())


def _pair_all(
    first: NamedRun, second: NamedRun, matched: Mapping[str, tuple[DatasetResult, DatasetResult]], choice: Choice
) -> tuple[tuple[DatasetPairs, ...], tuple[str, ...]]:
    """Return the pairs of datasets, and why the runs are not comparable. `matched`: by the name of the dataset."""
    datasets: list[DatasetPairs] = []
    mismatches: list[str] = []
    baseline, candidate = first.run, second.run
    share = 0.0 if choice.is_gate and second.max_removed is None else second.max_removed
    for name, (before, after) in matched.items():
        metrics = _choose(common_metrics(before, after), choice.metrics)
        samples = pair_samples(before, after)
        lost = explain_lost(before, samples, left_out=count_left_out(candidate, after.name), share=share)
        if lost and choice.allow_mismatch:
            samples = replace(samples, both=(*samples.both, *samples.edited), edited=())
        mismatches += [lost] if lost else list_content_mismatches(baseline, candidate, before.name, after.name)
        mismatches += list_column_mismatches(before.name, before.metrics, after.metrics)
        mismatches += list_mismatches_by_reason(baseline, candidate, before.name, metrics, after.name)
        datasets.append(pair_dataset(name, before, after, metrics, samples))
    mismatches += list_repeat_mismatches(baseline, candidate)
    return tuple(datasets), tuple(mismatches)


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
        try:
            found = find_metric(name, common)
        except ValueError as error:
            message, fix = split_fix(str(error))
            raise InvalidInput(Problem(message, fix, field="--metric")) from error
        if common and found is None:
            message = f"{candidate.name} and the baseline have no metric '{name}' in common"
            raise InvalidInput(Problem(message, near_miss(name, common), field="--metric"))


def _conclude(pairs: DatasetPairs, evidence: Sequence[Evidence], rules: SignificanceRules) -> DatasetComparison:
    before, after = pairs.before, pairs.after
    statistics = {metric: after.metrics[metric].statistic for metric in pairs.columns}
    signs = {
        metric: sign_of(after.metrics[metric].direction)
        for metric in statistics
        if not is_cost(metric, statistics[metric])
    }
    changed, counts = list_sample_changes(pairs, signs)
    return DatasetComparison(
        name=pairs.name,
        candidate_name=after.name,
        pairs=len(pairs.samples.both),
        metrics=_settle_all(pairs, evidence, sized=True),
        metrics_only_in_baseline=tuple(metric for metric in before.metrics if metric not in after.metrics),
        metrics_only_in_candidate=tuple(metric for metric in after.metrics if metric not in before.metrics),
        slices=list_slices(pairs, rules),
        sample_counts=counts,
        samples=changed,
    )


def _settle_all(pairs: DatasetPairs, evidence: Sequence[Evidence], *, sized: bool) -> dict[str, MetricChange]:
    weighed = dict(zip(pairs.tested, evidence, strict=True))
    return {metric: _settle(pairs, metric, weighed.get(metric), sized=sized) for metric in pairs.columns}


def _settle(pairs: DatasetPairs, metric: str, evidence: Evidence | None, *, sized: bool) -> MetricChange:
    """Return the change of a metric. `sized`: with the change that could be detected, which takes a simulation."""
    if not pairs.before.samples or not pairs.after.samples:
        return _without_samples(pairs.before, pairs.after, metric)
    summary, scores = pairs.after.metrics[metric], pairs.columns[metric].pick()
    found = compute_delta(scores, metric, summary.statistic, evidence.estimate.interval if evidence else None)
    change = replace(_state(found, metric, summary), unpaired=len(list_unpaired(scores)))
    if not found.pairs:
        return replace(change, reason="no sample is scored in both")
    if evidence is None:
        return replace(change, verdict=Change.NOT_TESTED, reason=_NOT_TESTED)
    effect = compute_effect_size(scores.differences)
    verdict, reason = _judge(evidence)
    return replace(
        change,
        verdict=verdict,
        reason=reason,
        p_value=evidence.p_value,
        p_adjusted=evidence.adjusted,
        test=evidence.test,
        detectable=evidence.compute_detectable() if sized else None,
        cohens_dz=effect.cohens_dz if effect else None,
        superiority=effect.superiority if effect else None,
        units=evidence.scores.count_units,
        required_size=_find_required_size(evidence) if sized and verdict is Change.UNDECIDED else None,
        confidence=evidence.rules.confidence,
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


def _find_required_size(evidence: Evidence) -> RequiredSampleSize | None:
    """Return a change of a fiftieth of the metric's range and the pairs that would detect it, if there are fewer."""
    if evidence.scores.bounds is None:
        return None
    low, high = evidence.scores.bounds
    change = _WORTH_FINDING * (high - low)
    needed = evidence.compute_needed(change)
    return RequiredSampleSize(change, needed) if needed is not None and needed > len(evidence.scores) else None


def _without_samples(before: DatasetResult, after: DatasetResult, metric: str) -> MetricChange:
    """Return the change of a metric in a report without samples, which has values but nothing to test."""
    old, new = before.metrics[metric].value, after.metrics[metric].value
    delta = None if old is None or new is None else new - old
    return _state(Delta(old, new, delta, None, 0), metric, after.metrics[metric])


def _state(found: Delta, metric: str, summary: Summary) -> MetricChange:
    """Return a change without a test."""
    return MetricChange(
        *astuple(found),
        metric=metric,
        statistic=summary.statistic,
        direction=summary.direction,
        verdict=Change.TOO_FEW,
    )
