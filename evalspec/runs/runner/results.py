"""Collect the results of all samples during a run."""

from collections.abc import Sequence
from typing import NamedTuple

from evalspec.model import Attempt, Sample, SampleResult, Threshold
from evalspec.runs.planning.build import Plan
from evalspec.verdict.attempts import combine_attempts
from evalspec.verdict.outline import DatasetOutline, RunOutline
from evalspec.verdict.summary import add_slices, limited_slices, reply_limits


class AttemptIndex(NamedTuple):
    """One attempt: indices of the dataset and of the sample in it, from 0, and the attempt number, from 1."""

    dataset: int
    position: int
    attempt: int


class Results:
    """The results of all samples, by indices of dataset and sample in the plan.

    A sample's attempts are combined as soon as the last one is scored. The sample itself is not kept in memory.
    """

    def __init__(self, plan: Plan, outline: RunOutline) -> None:
        self._outline = outline
        self._rules = [
            (limited_slices(dataset.thresholds), find_reply_limits(dataset), dataset.of_attempts)
            for dataset in outline.datasets
        ]
        self._results: list[list[SampleResult | None]] = [[None] * len(dataset.samples) for dataset in plan.datasets]
        self._attempts: dict[tuple[int, int], dict[int, Attempt]] = {}

    def add(self, dataset: int, position: int, attempt: int, found: Attempt, sample: Sample) -> None:
        """Add a scored attempt of a sample, with its number."""
        attempts = self._attempts.setdefault((dataset, position), {})
        attempts[attempt] = found
        if len(attempts) < self._outline.repeats:
            return
        del self._attempts[dataset, position]
        done = [attempts[number] for number in sorted(attempts)]
        limited, limits, over = self._rules[dataset]
        self._results[dataset][position] = combine_attempts(add_slices(sample, limited), done, limits, over)

    def list(self) -> list[list[SampleResult]]:
        """Return the results of all samples, by dataset.

        Raises:
            ValueError: An attempt is missing.
        """
        found = [[result for result in results if result is not None] for results in self._results]
        for outline, known, results in zip(self._outline.datasets, found, self._results, strict=True):
            if len(known) < len(results):
                raise ValueError(f"{len(results) - len(known)} samples of {outline.name} are not done")
        return found


def find_reply_limits(dataset: DatasetOutline) -> Sequence[Threshold]:
    """Return the thresholds of a dataset that apply to each reply."""
    return reply_limits(dataset.thresholds, {metric.name: metric.statistic for metric in dataset.metrics})
