"""What is known of each asking of a plan while it runs, and what becomes of each sample."""

from collections.abc import Sequence

from evalspec.attempts import combine_attempts, reply_limits
from evalspec.datasets.selection import add_digest
from evalspec.model import Attempt, Sample, SampleResult
from evalspec.outline import DatasetOutline, RunOutline
from evalspec.planning.build import Plan
from evalspec.summary import add_slices, limited_slices


class Results:
    """The attempts of every sample, by the places of dataset and sample in the plan."""

    def __init__(self, plan: Plan, outline: RunOutline) -> None:
        self._samples = [dataset.samples for dataset in plan.datasets]
        self._outline = outline
        self._attempts: list[list[list[Attempt | None]]] = [
            [[None] * outline.repeats for _ in samples] for samples in self._samples
        ]

    def add(self, dataset: int, position: int, attempt: int, found: Attempt) -> None:
        """One asking is done; `attempt` counts from 1."""
        self._attempts[dataset][position][attempt - 1] = found

    def combine(self) -> list[list[SampleResult]]:
        """The results of all samples, by dataset.

        The samples of a resumed run get their digests here, after its first question, and not before.

        Raises:
            ValueError: an asking is not done.
        """
        for dataset, samples in zip(self._outline.datasets, self._samples, strict=True):
            limited = limited_slices(dataset.thresholds)
            for sample in samples:
                if sample.digest is None:
                    add_slices(add_digest(sample), limited)
        parts = zip(self._outline.datasets, self._samples, self._attempts, strict=True)
        return [combine_samples(dataset, samples, attempts) for dataset, samples, attempts in parts]


def combine_samples(
    dataset: DatasetOutline, samples: Sequence[Sample], attempts: Sequence[Sequence[Attempt | None]]
) -> list[SampleResult]:
    """The results of the samples of one dataset.

    Raises:
        ValueError: an attempt is missing.
    """
    limits = reply_limits(dataset.thresholds, {metric.name: metric.statistic for metric in dataset.metrics})
    results = []
    for sample, found in zip(samples, attempts, strict=True):
        known = [attempt for attempt in found if attempt is not None]
        if len(known) < len(found):
            raise ValueError(f"sample {sample.id} of {dataset.name} is not done")
        results.append(combine_attempts(sample, known, limits))
    return results
