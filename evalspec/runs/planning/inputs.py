"""List the files that a run reads, so that no command overwrites one of them.

The gate's baseline is one of these files. This module also checks that it is readable.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput
from evalspec.base.output_files import Input
from evalspec.base.trust import Act, explain
from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.inputs.manifest.loader import LoadedManifest, load_manifest
from evalspec.inputs.manifest.references import UnresolvedReference
from evalspec.inputs.manifest.schema import EvaluationConfig
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.inputs.user_code.modules import list_module_files
from evalspec.model import Run
from evalspec.model.fingerprints import Fingerprint
from evalspec.runs.planning.command_files import find_command_files
from evalspec.runs.planning.draft import Draft, PlannedDataset
from evalspec.runs.planning.options import SAME

if TYPE_CHECKING:
    from evalspec.model.calibrations import JudgeAnchors
    from evalspec.scoring.metrics.columns import Definitions

_FILE = "$file:"
_GATE_PLACE: Place = ("spec", "evaluation", "ciGate")


def list_inputs(
    loaded: LoadedManifest, datasets: Sequence[PlannedDataset] = (), responses: Path | None = None
) -> list[Input]:
    """Return all inputs of the runs of a manifest, for any selection of datasets.

    `datasets`: the loaded ones, which may have additional files. `responses`: recorded replies.
    """
    spec, folder = loaded.manifest.spec, loaded.path.parent
    named = [(path, "a file of the manifest") for path in _list_references(loaded.source.data, folder)]
    return [
        Input(loaded.path, "the manifest"),
        *(one for config in spec.evaluation.datasets for one in _find_files(loaded, config)),
        *(Input(file, f"a file of dataset '{dataset.name}'") for dataset in datasets for file in dataset.files),
        *_name_baseline(loaded),
        *_name_judge_files(loaded),
        *(Input(file, "a module of the manifest") for file in _find_modules(loaded)),
        *(Input(path, role) for path, role in named),
        *(Input(file, "a file of the agent") for file in find_command_files(spec.api.command or (), folder)),
        *_find_stores(spec.evaluation, folder),
        *([] if responses is None else [Input(responses, "the recorded replies")]),
    ]


def list_shared_files(loaded: LoadedManifest, datasets: Sequence[PlannedDataset]) -> dict[str, Path]:
    """Return the files that a node needs to ask and to score, by path in the manifest's folder: no dataset is one."""
    folder = loaded.path.parent.resolve()
    read = {
        one.path.resolve() for config in loaded.manifest.spec.evaluation.datasets for one in _find_files(loaded, config)
    }
    named = {loaded.path, *_find_modules(loaded), *_list_references(loaded.source.data, folder)}
    named |= {
        folder / name for dataset in datasets for metric in dataset.metrics.values() for name in metric.files.values()
    }
    if loaded.manifest.spec.evaluation.run.agent == "per-node":
        found_there = find_command_files(loaded.manifest.spec.api.command or (), folder)
        named |= {file for file in found_there if file.resolve().is_relative_to(folder)}  # programs are on each node
    found = sorted(path for path in {path.resolve() for path in named} - read if path.is_file())
    return {os.path.relpath(path, folder): path for path in found}


def list_stored_inputs(fingerprint: Fingerprint, *, baseline: bool = True) -> list[Input]:
    """Return the inputs of a stored run, from its manifest and from the run itself.

    `baseline`: whether to include the baseline that it was compared with.
    """
    found: list[Input] = []
    recorded = fingerprint.responses
    if recorded and Path(recorded.path) != SAME:
        found.append(Input(Path(recorded.path), "the recorded replies"))
    found += [Input(Path(one.file), f"dataset '{one.name}'") for one in fingerprint.datasets if one.file]
    if fingerprint.manifest is None:
        return found
    found.insert(0, Input(Path(fingerprint.manifest.path), "the manifest of the run"))
    with suppress(InvalidInput):  # a report needs no manifest; damage is reported elsewhere
        loaded = load_manifest(Path(fingerprint.manifest.path))
        found += list_inputs(loaded)
        own = {one.path for one in _name_baseline(loaded)}
        found = [one for one in found if baseline or one.path not in own]
    return found


def _find_files(loaded: LoadedManifest, config: DatasetConfig) -> Iterator[Input]:
    given = ((config.path, f"dataset '{config.name}'"), (config.corpus, f"the corpus of dataset '{config.name}'"))
    for text, role in given:
        with suppress(UnresolvedReference):  # an unresolved file is not read
            if text is not None:
                yield Input(loaded.references.path(text), role)


def _name_baseline(loaded: LoadedManifest) -> list[Input]:
    path = _baseline_file(loaded)
    return [] if path is None else [Input(path, f"the baseline '{loaded.manifest.spec.evaluation.ci_gate.baseline}'")]


def _name_judge_files(loaded: LoadedManifest) -> Iterator[Input]:
    policy, folder = loaded.manifest.spec.evaluation.ci_gate.judge, loaded.path.parent
    if policy.labels is not None:
        yield Input(folder / policy.labels, "the labels of the judge")
    if (path := _anchors_file(loaded)) is not None:
        yield Input(path, f"the anchors of calibration '{policy.calibration}'")


def _find_modules(loaded: LoadedManifest) -> set[Path]:
    """Return the files of agents, scorers, retrievers and loaders, and of their imports from the manifest's folder."""
    evaluation, folder = loaded.manifest.spec.evaluation, loaded.path.parent
    sections = (evaluation, *evaluation.datasets)
    targets = [loaded.manifest.spec.api.python]
    targets += [entry.scorer for section in sections for entry in section.metrics or ()]
    targets += [config.loader for config in evaluation.datasets]
    targets += _list_own_retrievers(evaluation)
    modules = {target.partition(":")[0] for target in targets if target is not None}
    return {file for module in modules for file in list_module_files(folder, module)}


def _list_own_retrievers(evaluation: EvaluationConfig) -> list[str]:
    """Return the user's own retrievers, as module:object."""
    if not evaluation.retrievers:
        return []
    from evalspec.inputs.manifest.retriever_schema import PythonTarget

    variants = [target for found in evaluation.retrievers.values() for target in found.values()]
    return [target.python for target in variants if isinstance(target, PythonTarget)]


def _list_references(value: Any, folder: Path) -> Iterator[Path]:
    """Yield the paths of all `$file:` references in a value of the manifest."""
    if isinstance(value, str) and value.startswith(_FILE):
        yield folder / value.removeprefix(_FILE)
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _list_references(item, folder)


def _find_stores(evaluation: EvaluationConfig, folder: Path) -> Iterator[Input]:
    if not evaluation.retrievers:
        return
    from evalspec.inputs.manifest.retriever_schema import QdrantOptions

    for name, variants in evaluation.retrievers.items():
        for target in variants.values():
            if isinstance(target, QdrantOptions) and target.path is not None:
                yield Input(folder / target.path, f"the store of retriever '{name}'")


def existing_baseline(loaded: LoadedManifest) -> Path | None:
    """Return the file of the gate's baseline; None if the gate has none or the file is missing or refused."""
    path = _baseline_file(loaded)
    return path if path is not None and explain(Act.READ_FILE, str(path)) is None and path.exists() else None


def read_gate_baseline(path: Path | None) -> Run | None:
    """Return the run of the gate's baseline, None without a baseline.

    Raises:
        InvalidInput: the file cannot be read.
    """
    if path is None:
        return None
    from evalspec.verdict.comparison.run_files import read_baseline

    return read_baseline(path).run


def list_removed(datasets: Sequence[PlannedDataset], baseline: Run | None) -> Sequence[PlannedDataset]:
    """Return whole datasets with the samples of the baseline that are gone from their files."""
    if baseline is None:
        return datasets
    before = {dataset.name: dataset.samples for dataset in baseline.datasets}
    found = []
    for dataset in datasets:
        known = {sample.id for sample in dataset.samples} if dataset.name in before else set()
        gone = tuple(sample.id for sample in before.get(dataset.name, ()) if sample.id not in known)
        found.append(replace(dataset, removed=gone))
    return found


def list_columns(datasets: Sequence[PlannedDataset]) -> "Definitions":
    """Return the definition of each metric that a dataset computes, by column."""
    return {name: metric.definition for dataset in datasets for name, metric in dataset.metrics.items()}


def find_policy(loaded: LoadedManifest, datasets: Sequence[PlannedDataset]) -> CiGate:
    """Return the gate's settings. Names in `maxDrop` have no defaults of parameters."""
    policy = loaded.manifest.spec.evaluation.ci_gate
    if policy.baseline is None:
        return policy
    from evalspec.verdict.comparison.drops import name_columns

    return name_columns(policy, list_columns(datasets))


def check_baseline(draft: Draft, metrics: "Definitions") -> None:
    """Check that the baseline is readable and that `maxDrop` contains only computed metrics, given by column.

    A missing file is a warning: before the first run, there is nothing to promote.
    """
    path, policy = _baseline_file(draft.loaded), draft.loaded.manifest.spec.evaluation.ci_gate
    if policy.baseline is None:
        return
    from evalspec.verdict.comparison.drops import check_max_drop
    from evalspec.verdict.comparison.run_files import read_baseline

    for message in check_max_drop(policy, metrics):
        draft.add((*_GATE_PLACE, "maxDrop"), message)
    if path is None:
        if draft.loaded.fetched is not None:
            said = draft.loaded.fetched[1].problem or ""
            draft.warn((*_GATE_PLACE, "baseline"), f"{said}: the verdict will be INCOMPLETE")
        return
    refused = explain(Act.READ_FILE, str(path))
    if refused is not None:
        draft.add((*_GATE_PLACE, "baseline"), *refused)
        return
    if not path.exists():
        fix = f"create it with `evalspec runs promote RUN --as {policy.baseline}`"
        draft.warn(
            (*_GATE_PLACE, "baseline"), f"there is no baseline at {path} yet: the verdict will be INCOMPLETE", fix
        )
        return
    try:
        read_baseline(path)
    except InvalidInput as error:
        draft.problems.extend(error.problems)


def check_anchors(draft: Draft) -> None:
    """Check that the calibration of the judge has readable anchors."""
    path = _anchors_file(draft.loaded)
    refused = None if path is None else explain(Act.READ_FILE, str(path))
    try:
        if refused is not None:
            draft.add((*_GATE_PLACE, "judge", "calibration"), *refused)
        else:
            read_judge_anchors(draft.loaded)
    except InvalidInput as error:
        draft.problems.extend(error.problems)


def read_judge_anchors(loaded: LoadedManifest) -> "JudgeAnchors | None":
    """Return the replies on which a run tests its judge; None if the manifest names no calibration.

    Raises:
        InvalidInput: the file is missing or cannot be read.
    """
    path = _anchors_file(loaded)
    if path is None:
        return None
    from evalspec.verdict.correction.calibration_file import read_anchors

    return read_anchors(path)


def _anchors_file(loaded: LoadedManifest) -> Path | None:
    name = loaded.manifest.spec.evaluation.ci_gate.judge.calibration
    if name is None:
        return None
    from evalspec.verdict.correction.calibration_file import anchors_path, calibration_path

    return anchors_path(calibration_path(loaded.path.parent, name))


def _baseline_file(loaded: LoadedManifest) -> Path | None:
    policy = loaded.manifest.spec.evaluation.ci_gate
    if policy.server_baseline is not None:
        return None if loaded.fetched is None else loaded.fetched[0]
    name = policy.baseline
    if name is None:
        return None
    from evalspec.verdict.comparison.baseline import baseline_path

    return baseline_path(loaded.path.parent, name)
