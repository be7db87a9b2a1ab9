"""What is gathered while a manifest is checked, and what a checked dataset is."""

from collections.abc import Sequence
from dataclasses import dataclass

from evalspec.errors import InvalidInput, Problem
from evalspec.judge.services import JudgeServices
from evalspec.manifest.loader import LoadedManifest
from evalspec.manifest.yaml_source import Place
from evalspec.metrics.base import Metric
from evalspec.plan.options import RunOptions
from evalspec.plan.services import find_judge
from evalspec.records import Need, Sample, Threshold


@dataclass(frozen=True, slots=True)
class PlannedDataset:
    """One dataset of a run. `available`: how many samples its file has, of which `samples` are selected.

    `slices`: metadata keys (or `tags`) by whose values the results are shown as well, None for all that have few
    values. `cluster`: the metadata key of samples that are not independent of each other.
    """

    name: str
    file: str
    sha256: str
    available: int
    samples: tuple[Sample, ...]
    metrics: tuple[Metric, ...]
    thresholds: tuple[Threshold, ...]
    slices: tuple[str, ...] | None = None
    cluster: str | None = None


@dataclass(slots=True)
class Draft:
    """What is gathered while a manifest is checked."""

    loaded: LoadedManifest
    options: RunOptions
    services: JudgeServices
    problems: list[Problem]
    warnings: list[Problem]

    def add(self, place: Place, message: str, fix: str = "") -> None:
        """Note a problem at a field of the manifest."""
        self.problems.append(self.loaded.problem(place, message, fix))

    def warn(self, place: Place, message: str, fix: str = "") -> None:
        """Note something that is accepted but should be known."""
        self.warnings.append(self.loaded.problem(place, message, fix))

    def wants(self, dataset: str) -> bool:
        """Whether the run is about this dataset."""
        return not self.options.datasets or dataset in self.options.datasets

    def raise_problems(self) -> None:
        """Stop here with everything found so far.

        Raises:
            InvalidInput: if there is any problem.
        """
        if self.problems:
            raise InvalidInput(self.problems)


def start_draft(loaded: LoadedManifest, options: RunOptions) -> Draft:
    """A draft with nothing found yet; its judge and embeddings are as declared, not resolved."""
    evaluation = loaded.manifest.spec.evaluation
    return Draft(loaded, options, JudgeServices(find_judge(evaluation.judge), evaluation.embeddings), [], [])


def needs_of(datasets: Sequence[PlannedDataset]) -> set[Need]:
    """All that the metrics of these datasets need in this run."""
    return {need for dataset in datasets for m in dataset.metrics if not m.skip_reason for need in m.needs}
