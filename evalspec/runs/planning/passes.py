"""Plan the metrics over the attempts at a sample, `pass^K` and `pass@K`, which only thresholds declare."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from evalspec.base.errors import Problem
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.metric_spec import PassSpec
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.model import Direction, Need, Threshold
from evalspec.scoring.metrics.base import Metric, MetricDefinition
from evalspec.verdict.outline import PassRule
from evalspec.verdict.summary import reply_limits

if TYPE_CHECKING:
    from evalspec.runs.planning.draft import PlannedDataset


class PlannedPasses(Struct, frozen=True):
    """A metric over the attempts at a sample. `place`: of its first threshold in the manifest."""

    spec: PassSpec
    place: Place

    @property
    def metric(self) -> Metric:
        """The metric as thresholds see it. Nothing computes it of a reply."""
        name = str(self.spec)
        return Metric(name, MetricDefinition(name, "", "evalspec"), None, frozenset(), (0.0, 1.0))


def list_passes(dataset: "PlannedDataset") -> list[PlannedPasses]:
    """Return the metrics over attempts that an enforced threshold of a dataset limits."""
    limited = {limit.metric for limit in dataset.thresholds}
    return [passes for name, passes in dataset.passes.items() if name in limited]


def find_rule(dataset: "PlannedDataset", passes: PlannedPasses) -> PassRule | None:
    """Return when an attempt succeeds; None if that is not declared for every sample."""
    spec, implied = passes.spec, None
    roots = find_roots(dataset, passes)
    if None not in {limit.slice for limit in list_limits(dataset, spec)}:
        root = dataset.metrics[spec.of] if spec.of is not None else None
        if root is None or not root.definition.is_binary:
            return None
        is_higher = root.definition.direction is Direction.HIGHER
        implied = Threshold(root.name, min=1.0) if is_higher else Threshold(root.name, max=0.0)
    judged = any(Need.JUDGE in root.needs for root in roots)
    return PassRule(spec.k, spec.is_every, spec.of, implied, judged)


def find_roots(dataset: "PlannedDataset", passes: PlannedPasses) -> list[Metric]:
    """Return the metrics that decide whether an attempt succeeds."""
    spec = passes.spec
    names = [limit.metric for limit in list_limits(dataset, spec)] if spec.of is None else [spec.of]
    return [dataset.metrics[name] for name in dict.fromkeys(names)]


def list_limits(dataset: "PlannedDataset", spec: PassSpec) -> list[Threshold]:
    """Return the limits that a successful attempt meets, except an implied one."""
    statistics = {name: metric.definition.statistic for name, metric in dataset.metrics.items()}
    return [limit for limit in reply_limits(dataset.thresholds, statistics) if spec.of in (None, limit.metric)]


def check_rules(loaded: LoadedManifest, dataset: "PlannedDataset") -> Iterator[Problem]:
    """Yield a problem for each metric over attempts whose success is not declared for every sample."""
    for passes in list_passes(dataset):
        if find_rule(dataset, passes) is None:
            of = passes.spec.of
            what = "no threshold" if of is None else f"no threshold on {of}"
            message = f"{what} of dataset '{dataset.name}' says for every sample whether an attempt succeeds"
            example = (
                f"{of}: 0.8" if of else "add of: METRIC, or a threshold without a slice, such as string_match: 0.8"
            )
            fix = f"add one on its mean, min or max without a slice, such as {example}" if of else example
            yield loaded.problem(passes.place, message, fix)


def check_attempts(loaded: LoadedManifest, datasets: Sequence["PlannedDataset"], repeat: int) -> list[Problem]:
    """Return a problem for each metric over more attempts than a run has at a sample."""
    found = [passes for dataset in datasets for passes in list_passes(dataset) if passes.spec.k > repeat]
    problems = (
        loaded.problem(
            one.place,
            f"{one.spec} needs {one.spec.k} attempts at each sample, and --repeat is {repeat}",
            f"pass --repeat {one.spec.k} or more",
        )
        for one in found
    )
    return list(dict.fromkeys(problems))
