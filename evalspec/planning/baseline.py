"""The baseline that the gate names: where it is, and whether a run can be held against it."""

from collections.abc import Collection
from pathlib import Path

from evalspec.errors import InvalidInput
from evalspec.manifest.loader import LoadedManifest
from evalspec.manifest.yaml_source import Place
from evalspec.planning.draft import Draft
from evalspec.trust import Act, explain

_PLACE: Place = ("spec", "evaluation", "ciGate")


def existing_baseline(loaded: LoadedManifest) -> Path | None:
    """The file of the gate's baseline; None where the gate names none, or the file is not there yet, or refused."""
    path = _find(loaded)
    return path if path is not None and explain(Act.READ_FILE, str(path)) is None and path.exists() else None


def check_baseline(draft: Draft, metrics: Collection[str]) -> None:
    """Whether the file can be read and `maxDrop` names metrics that are computed.

    A file that is not there is told and no error: without a first run there is nothing to promote.
    """
    path, policy = _find(draft.loaded), draft.loaded.manifest.spec.evaluation.ci_gate
    if path is None:
        return
    from evalspec.comparison.drops import check_max_drop
    from evalspec.comparison.run_files import read_baseline

    for message in check_max_drop(policy, metrics):
        draft.add((*_PLACE, "maxDrop"), message)
    refused = explain(Act.READ_FILE, str(path))
    if refused is not None:
        draft.add((*_PLACE, "baseline"), *refused)
        return
    if not path.exists():
        fix = f"write it with `evalspec runs promote RUN --as {policy.baseline}`"
        draft.warn((*_PLACE, "baseline"), f"there is no baseline at {path} yet: the verdict stays INCOMPLETE", fix)
        return
    try:
        read_baseline(path)
    except InvalidInput as error:
        draft.problems.extend(error.problems)


def _find(loaded: LoadedManifest) -> Path | None:
    name = loaded.manifest.spec.evaluation.ci_gate.baseline
    if name is None:
        return None
    from evalspec.comparison.baseline import baseline_path

    return baseline_path(loaded.path.parent, name)
