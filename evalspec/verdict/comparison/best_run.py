"""Name the run that is the best by a metric, corrected for choosing it after seeing the scores.

All pairs of runs are tested, and their errors are controlled together (all pairwise comparisons, Hsu 1996, chapter 5).
A run that is significantly worse than another is not the best. The others include the true best run in at least
1 - alpha of the comparisons, however many runs there are and whichever of them looks best.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from msgspec import Struct

from evalspec.model import DatasetResult
from evalspec.model.comparisons import BestRun, CandidateComparison, Change, MetricChange
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.pairing import sign_of
from evalspec.verdict.stats import compute_statistic


class NumberedChange(Struct, frozen=True):
    """A metric of a dataset in two runs, by their numbers. The baseline is 0. `dataset`: its name in the baseline."""

    dataset: str
    runs: tuple[int, int]
    change: MetricChange


def find_best_runs(
    runs: Sequence[NamedRun], candidates: Sequence[CandidateComparison], rivals: Sequence[NumberedChange]
) -> Iterator[BestRun]:
    """Yield the best runs by each mean of each dataset, unless no sample is scored in all runs.

    `runs`: the baseline, then the candidates. `rivals`: the candidates compared with each other.
    """
    names = [run.name for run in runs]
    results = {(dataset.name, 0): dataset for dataset in runs[0].run.datasets}
    pairs: list[NumberedChange] = []
    for number, one in enumerate(candidates, 1):
        own = {dataset.name: dataset for dataset in runs[number].run.datasets}
        results |= {(part.name, number): own[part.candidate_name] for part in one.datasets}
        pairs += [
            NumberedChange(part.name, (0, number), change) for part in one.datasets for change in part.metrics.values()
        ]
    found: dict[tuple[str, str], dict[tuple[int, int], MetricChange]] = {}
    for pair in (*pairs, *rivals):
        if pair.change.statistic == "mean":
            found.setdefault((pair.dataset, pair.change.metric), {})[pair.runs] = pair.change
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
    excluded = {runs[worse[change.verdict]] for runs, change in changes.items() if change.verdict in worse}
    sign = sign_of(next(iter(changes.values())).direction)
    order = sorted(means, key=lambda run: -sign * means[run])
    return order, [run for run in order if run not in excluded] or order
