"""Name the run that is the best by a metric, corrected for choosing it after seeing the scores.

All pairs of runs are tested, and their errors are controlled together (all pairwise comparisons, Hsu 1996, chapter 5).
A run that is significantly worse than another is not the best. The others include the true best run in at least
1 - alpha of the comparisons, however many runs there are and whichever of them looks best.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from evalspec.model import DatasetResult
from evalspec.verdict.comparison.pairing import sign_of
from evalspec.verdict.comparison.result import BestRun, CandidateComparison, Change, MetricChange, NamedRun, RunPair
from evalspec.verdict.stats import compute_statistic


def find_best_runs(
    baseline: NamedRun, candidates: Sequence[CandidateComparison], rivals: Sequence[RunPair]
) -> Iterator[BestRun]:
    """Yield the best runs by each mean of each dataset, unless no sample is scored in all runs.

    `rivals`: the candidates compared with each other.
    """
    names = [baseline.name, *(one.candidate.name for one in candidates)]
    results = {(dataset.name, 0): dataset for dataset in baseline.run.datasets}
    pairs: list[RunPair] = []
    for number, one in enumerate(candidates, 1):
        own = {dataset.name: dataset for dataset in one.candidate.run.datasets}
        results |= {(part.name, number): own[part.candidate_name] for part in one.datasets}
        pairs += [RunPair(part.name, 0, number, change) for part in one.datasets for change in part.metrics]
    found: dict[tuple[str, str], dict[tuple[int, int], MetricChange]] = {}
    for pair in (*pairs, *rivals):
        if pair.change.statistic == "mean":
            found.setdefault((pair.dataset, pair.change.metric), {})[pair.first, pair.second] = pair.change
    for (dataset, metric), changes in found.items():
        scores = {run: _list_scores(results[dataset, run], metric) for runs in changes for run in runs}
        shared = reduce(set.intersection, map(set, scores.values()))
        if shared:
            means = {run: compute_statistic([one[id] for id in shared], "mean") for run, one in scores.items()}
            order, possible = _choose(changes, means)
            yield BestRun(
                dataset,
                metric,
                len(shared),
                {names[run]: means[run] for run in order},
                tuple(names[run] for run in possible),
            )


def _list_scores(dataset: DatasetResult, metric: str) -> dict[str, float]:
    scores = ((sample.id, sample.scores.get(metric)) for sample in dataset.samples)
    return {id: score.value for id, score in scores if score is not None and score.value is not None}


def _choose(changes: Mapping[tuple[int, int], MetricChange], means: Mapping[int, float]) -> tuple[list[int], list[int]]:
    """Return all runs, and those that may be the best, both in the order of their means."""
    worse = {Change.DEGRADED: 1, Change.IMPROVED: 0}
    excluded = {runs[worse[change.change]] for runs, change in changes.items() if change.change in worse}
    sign = sign_of(next(iter(changes.values())).direction)
    order = sorted(means, key=lambda run: -sign * means[run])
    return order, [run for run in order if run not in excluded] or order
