"""The manifest and its datasets checked whole: every problem at once, nothing called, no secret resolved."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evalspec.datasets.base import DatasetContent, Source
from evalspec.datasets.load import LoadedDataset, load_dataset
from evalspec.errors import InvalidInput, Problem
from evalspec.judge.services import JudgeServices
from evalspec.manifest.loader import LoadedManifest
from evalspec.manifest.references import References, UnresolvedReference
from evalspec.manifest.schema import DatasetConfig, MetricEntry
from evalspec.manifest.yaml_source import Place
from evalspec.metrics.base import Metric
from evalspec.plan.agent import API_PLACE, ENDPOINT_PLACE, check_endpoint, needs_from_mapping
from evalspec.plan.metrics import MetricFinder
from evalspec.plan.needs import find_missing_fields
from evalspec.plan.options import RunOptions
from evalspec.plan.services import EMBEDDINGS_PLACE, JUDGE_PLACE, find_judge
from evalspec.plan.thresholds import Gated, ThresholdFinder
from evalspec.records import Need, Sample, Threshold
from evalspec.registry import near_miss

DATASETS_PLACE: Place = ("spec", "evaluation", "datasets")
DEFAULT_METRICS = (MetricEntry(name="string_match"),)


@dataclass(frozen=True, slots=True)
class PlannedDataset:
    """One dataset of a run. `available`: how many samples its file has, of which `samples` are selected."""

    name: str
    file: str
    sha256: str
    available: int
    samples: tuple[Sample, ...]
    metrics: tuple[Metric, ...]
    thresholds: tuple[Threshold, ...]


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


def validate_manifest(loaded: LoadedManifest, options: RunOptions) -> tuple[list[Problem], dict[str, int]]:
    """Check the manifest and every wanted dataset without resolving a secret or calling anything.

    Returns the warnings, and the number of samples of each dataset.

    Raises:
        InvalidInput: with everything that is wrong.
    """
    draft = start_draft(loaded, options)
    checked = check_manifest(draft)
    draft.raise_problems()
    wanted = [dataset for dataset in checked if draft.wants(dataset.name)]
    draft.warnings.extend(_unresolved(loaded, needs_of(wanted)))
    return draft.warnings, {dataset.name: dataset.available for dataset in wanted}


def _unresolved(loaded: LoadedManifest, needs: set[Need]) -> list[Problem]:
    """References that a run on this machine could not resolve now: told, because the run may be elsewhere."""
    spec = loaded.manifest.spec
    scratch = replace(loaded, references=References(loaded.path.parent))
    found: list[Problem] = []
    scratch.resolve(spec.api.url, (*API_PLACE, "url"), found)
    scratch.resolve(spec.api.chat_endpoint.model_dump(by_alias=True), ENDPOINT_PLACE, found)
    if Need.EMBEDDINGS in needs:
        scratch.resolve(spec.evaluation.embeddings.model_dump(by_alias=True), EMBEDDINGS_PLACE, found)
    if Need.JUDGE in needs and spec.evaluation.judge is not None:
        scratch.resolve(spec.evaluation.judge.model_dump(by_alias=True), JUDGE_PLACE, found)
    return found


def needs_of(datasets: Sequence[PlannedDataset]) -> set[Need]:
    """All that the metrics of these datasets need in this run."""
    return {need for dataset in datasets for m in dataset.metrics if not m.skip_reason for need in m.needs}


def check_manifest(draft: Draft) -> list[PlannedDataset]:
    """Check all that the manifest says; of the datasets only the wanted ones are read."""
    check_endpoint(draft.loaded, draft.problems)
    checked = _check_datasets(draft)
    _check_gate(draft)
    return checked


def _check_datasets(draft: Draft) -> list[PlannedDataset]:
    """Every selected dataset whole: metrics, samples, needs and thresholds."""
    evaluation = draft.loaded.manifest.spec.evaluation
    if evaluation.framework != "ragas":
        message = f"framework '{evaluation.framework}' is accepted, but judged metrics are computed by ragas"
        draft.warn(("spec", "evaluation", "framework"), message, "write framework: ragas")
    finder = MetricFinder(draft.loaded, draft.services, draft.options.no_judge, draft.problems)
    thresholds = ThresholdFinder(draft.loaded, finder)
    _check_names(draft)
    gated: list[Gated] = []
    files: dict[str, LoadedDataset] = {}
    decided: dict[str, set[str]] = {}
    for index, config in enumerate(evaluation.datasets):
        place = (*DATASETS_PLACE, index)
        data = files[config.name] = _load(draft, config, place) if draft.wants(config.name) else _NOT_READ
        dataset = Gated(config.name, _metrics(draft, finder, config, place), data.samples)
        decided[config.name] = thresholds.own(dataset, config.thresholds, (*place, "thresholds"))
        gated.append(dataset)
    thresholds.shared(gated, decided, evaluation.thresholds)
    for dataset in gated:
        _check_needs(draft, dataset, files[dataset.name])
    _check_judge(draft, gated)
    return [
        PlannedDataset(
            name=dataset.name,
            file=files[dataset.name].shown_as,
            sha256=files[dataset.name].sha256,
            available=len(dataset.samples),
            samples=tuple(dataset.samples),
            metrics=tuple(dataset.metrics.values()),
            thresholds=tuple(dataset.thresholds),
        )
        for dataset in gated
    ]


_NOT_READ = LoadedDataset("", DatasetContent(()), "", (), ())


def _check_names(draft: Draft) -> None:
    known = [dataset.name for dataset in draft.loaded.manifest.spec.evaluation.datasets]
    for name in draft.options.datasets:
        if name not in known:
            draft.problems.append(Problem(f"no dataset is named '{name}'", near_miss(name, known), field="--dataset"))


def _load(draft: Draft, config: DatasetConfig, place: Place) -> LoadedDataset:
    try:
        path = draft.loaded.references.path(config.path)
    except UnresolvedReference as error:
        draft.add((*place, "path"), error.message, error.fix)
        return LoadedDataset(config.path, DatasetContent(()), "", (), ())
    data = load_dataset(Source(path, _shown(path)))
    draft.problems.extend(data.problems)
    draft.warnings.extend(data.warnings)
    return data


def _shown(path: Path) -> str:
    """The path as the user would write it from where they stand."""
    absolute, here = path.resolve(), Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(path)


def _metrics(draft: Draft, finder: MetricFinder, config: DatasetConfig, place: Place) -> dict[str, Metric]:
    evaluation = draft.loaded.manifest.spec.evaluation
    if config.metrics is not None:
        return finder.find_all(config.metrics, (*place, "metrics"))
    if evaluation.metrics is not None:
        return finder.find_all(evaluation.metrics, ("spec", "evaluation", "metrics"))
    draft.warn(place, "no metrics are named; string_match is computed", "list them under metrics")
    return finder.find_all(DEFAULT_METRICS, place)


def _check_needs(draft: Draft, dataset: Gated, data: LoadedDataset) -> None:
    metrics = dataset.metrics.values()
    if draft.options.responses is not None:
        given = frozenset({Need.CONTEXT, Need.RETRIEVED_IDS})
    else:
        given = needs_from_mapping(draft.loaded.manifest.spec.api.chat_endpoint)
    draft.problems.extend(find_missing_fields(data.samples, metrics, data.shown_as, given))
    unmapped = [metric.name for metric in metrics if Need.RETRIEVED_IDS in metric.needs - given]
    if unmapped:
        place = ("spec", "api", "chatEndpoint", "response", "contextIds")
        message = f"{', '.join(unmapped)} of dataset '{dataset.name}' need the ids of what the agent retrieved"
        draft.add(place, message, "map contextIds, for example: contextIds: $.contexts[*].id")


def _check_judge(draft: Draft, datasets: Sequence[Gated]) -> None:
    if draft.options.no_judge or find_judge(draft.loaded.manifest.spec.evaluation.judge) is not None:
        return
    judged = {
        metric.name: None
        for dataset in datasets
        if draft.wants(dataset.name)
        for metric in dataset.metrics.values()
        if Need.JUDGE in metric.needs
    }
    if judged:
        fix = "set spec.evaluation.judge or export OPENAI_API_KEY; --no-judge runs without these metrics"
        draft.add(JUDGE_PLACE, f"no judge is configured, but {', '.join(judged)} need one", fix)


def _check_gate(draft: Draft) -> None:
    evaluation = draft.loaded.manifest.spec.evaluation
    limits = [evaluation.thresholds, *(dataset.thresholds for dataset in evaluation.datasets)]
    if evaluation.ci_gate.enabled and not any(limits):
        fix = "add thresholds, or set ciGate: false"
        draft.add(("spec", "evaluation", "ciGate"), "ciGate is on but there is no threshold: it could never fail", fix)
