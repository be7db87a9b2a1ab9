"""Read and write baselines: small files for git with the scores that later runs are compared with, but no sample texts.

A baseline has one line per sample, ordered by id, so a diff shows the changed samples. It holds the attempts of one or
several equal runs. Its anchor is what it was at first, before later runs took its place. Runs are compared with both,
so that many small drops cannot pass one by one.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace
from pydantic import ValidationError

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.json_text import compute_digest, render_line
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import (
    DatasetResult,
    PeopleScores,
    Run,
    VerdictStatus,
)
from evalspec.model.base import Number, Record
from evalspec.model.fingerprints import Fingerprint, PooledRun
from evalspec.model.typed_json import check_version, convert, malformed, quote_json
from evalspec.verdict.comparison.stored_scores import StoredDataset, from_stored, to_stored
from evalspec.verdict.kept_documents import find_kept, refuse_edited

KIND = "evalspec baseline"
FOLDER = Path("evals") / "baselines"

_LEFT_OUT = (
    *("manifest", "agent", "responses", "replies", "ci", "embeddings", "retrievers", "retrievers_sha256", "no_judge"),
    *("no_content", "judge_system_fingerprints", "rescored_from", "baseline_sha256", "baseline", "references"),
)
"""Fields of a fingerprint that do not decide comparability: paths, addresses except the judge's, and origins."""
_OF_LIMIT = ("metric", "min", "max", "slice", "stat", "confidence")


class _Stored(Record, frozen=True, kw_only=True):
    run_id: str
    fingerprint: Fingerprint
    verdict: VerdictStatus = VerdictStatus.NOT_GATED
    partial: bool = False
    datasets: tuple[StoredDataset, ...]
    people: tuple[PeopleScores, ...] = ()


class AcceptedLoss(Record, frozen=True):
    """How much worse a metric is than in the anchor: its means over the common samples."""

    dataset: str
    metric: str
    before: Number
    after: Number


class Acceptance(Record, frozen=True):
    """A loss that a person accepted: when and why, since which run, and how much each metric had lost."""

    at: str
    reason: str
    since: str
    losses: tuple[AcceptedLoss, ...] = ()


class _Baseline(_Stored, frozen=True, kw_only=True):
    anchor: _Stored | None = None
    accepted: Acceptance | None = None
    sha256: str


class Baseline(Struct, frozen=True):
    """A baseline. `run`: its scores, perhaps from the attempts of several runs. `anchor`: what it was at first; None if
    nothing took its place. `accepted`: the loss that a person accepted with it. `people`: what people say about the
    scores of its run; empty if it holds several runs.
    """

    run: Run
    anchor: Run | None = None
    accepted: Acceptance | None = None
    people: tuple[PeopleScores, ...] = ()


def baseline_path(manifest_folder: Path, name: str) -> Path:
    """Return the path of a baseline: `evals/baselines/<name>.json` beside the manifest."""
    return find_kept(manifest_folder, FOLDER, name)


def render_baseline(baseline: Baseline) -> str:
    """Return the baseline's file. The same baseline always gives the same text.

    Raises:
        InvalidInput: the run has no samples to compare with.
    """
    run = baseline.run
    if not any(dataset.samples for dataset in run.datasets):
        raise InvalidInput(f"run {run.id} has no scores per sample", "promote a run of `evalspec evaluate`")
    parts = ['"schemaVersion": 1', f'"kind": {render_line(KIND)}', *_render_run(run)]
    if baseline.people:
        said = ",\n".join(render_line(to_builtins(one)) for one in baseline.people)
        parts.append(f'"people": [\n{said}\n]')
    if baseline.anchor is not None:
        parts.append('"anchor": {\n' + ",\n".join(_render_run(baseline.anchor)) + "\n}")
    if baseline.accepted is not None:
        parts.append(f'"accepted": {render_line(to_builtins(baseline.accepted))}')
    body = ",\n".join(parts)
    digest = compute_digest(json.loads(f"{{{body}}}"))
    return f'{{\n{body},\n"sha256": "{digest}"\n}}\n'


def _render_run(run: Run) -> list[str]:
    head = {
        "runId": run.id,
        "verdict": run.verdict,
        "partial": run.partial,
        "fingerprint": to_builtins(_keep_comparable(run)),
    }
    lines = [f"{render_line(key)}: {render_line(value)}" for key, value in head.items()]
    datasets = ",\n".join(_render_dataset(dataset) for dataset in run.datasets)
    return [*lines, f'"datasets": [\n{datasets}\n]']


def _describe_run(run: Run) -> PooledRun:
    return PooledRun(run.id, run.fingerprint.attempts, run.fingerprint.started_at)


def _check_gate(fingerprint: Fingerprint, shown_as: str, place: str) -> None:
    """Check the gate that a baseline kept.

    Raises:
        InvalidInput: it has a key or a type of another version.
    """
    try:
        CiGate.model_validate(fingerprint.ci_gate or {})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, (place, "ciGate", *first["loc"])))
        raise malformed(first["msg"], shown_as, field) from error


def list_pooled(run: Run) -> Sequence[PooledRun]:
    """Return the runs whose attempts a baseline holds."""
    return run.fingerprint.runs or (_describe_run(run),)


def count_attempts(run: Run) -> int:
    """Return the number of attempts per sample."""
    return sum(one.attempts for one in list_pooled(run))


def build_baseline(document: Mapping[str, Any], shown_as: str) -> Baseline:
    """Return a parsed baseline file. Its thresholds have no outcome.

    Raises:
        InvalidInput: this version does not understand the baseline, or it was edited.
    """
    check_version(document, shown_as)
    if document.get("kind") != KIND:
        raise malformed(f"{quote_json(document.get('kind'))} is not {quote_json(KIND)}", shown_as, "kind")
    baseline = convert(document, _Baseline, shown_as)
    refuse_edited(document, "baseline", "restore it from git, or promote its run again", shown_as)
    for one, place in ((baseline, "fingerprint"), (baseline.anchor, "anchor.fingerprint")):
        if one is not None:
            _check_gate(one.fingerprint, shown_as, place)
    anchor = None if baseline.anchor is None else _build_run(baseline.anchor, shown_as, "anchor.datasets")
    return Baseline(_build_run(baseline, shown_as, "datasets"), anchor, baseline.accepted, baseline.people)


def _build_run(stored: _Stored, shown_as: str, place: str) -> Run:
    datasets: list[DatasetResult] = []
    for number, dataset in enumerate(stored.datasets):
        if dataset.name in (one.name for one in datasets):
            raise malformed(f"dataset {dataset.name} is duplicated", shown_as, f"{place}[{number}].name")
        try:
            datasets.append(from_stored(dataset))
        except ValueError as error:
            raise malformed(str(error), shown_as, f"{place}[{number}].samples") from error
    return Run(
        id=stored.run_id,
        verdict=stored.verdict,
        partial=stored.partial,
        datasets=tuple(datasets),
        fingerprint=stored.fingerprint,
        has_texts=False,
    )


def common_datasets(baseline: Run, candidate: Run) -> list[tuple[DatasetResult, DatasetResult]]:
    """Return the datasets that both runs have, by name."""
    known = {dataset.name: dataset for dataset in baseline.datasets}
    return [(known[dataset.name], dataset) for dataset in candidate.datasets if dataset.name in known]


def refuse_missing(path: Path) -> InvalidInput:
    """Return the error for a missing baseline."""
    fix = f"create it with `evalspec runs promote RUN --as {path.stem}`"
    return InvalidInput(Problem("there is no such baseline", fix, str(path)))


def _keep_comparable(run: Run) -> Fingerprint:
    """Return the parts of a fingerprint that decide comparability."""
    datasets = tuple(
        replace(one, file=None, samples_sha256=None, metrics=(), part=None) for one in run.fingerprint.datasets
    )
    unset = {name: getattr(Fingerprint(), name) for name in _LEFT_OUT}
    return replace(run.fingerprint, **unset, datasets=datasets, runs=tuple(list_pooled(run)))


def _render_dataset(dataset: DatasetResult) -> str:
    described = to_builtins(to_stored(dataset))
    described["thresholds"] = [{key: limit[key] for key in _OF_LIMIT} for limit in described["thresholds"]]
    samples = ",\n".join(render_line(sample) for sample in described.pop("samples"))
    head = ",\n".join(f"{render_line(key)}: {render_line(value)}" for key, value in described.items())
    return f'{{{head},\n"samples": [\n{samples}\n]}}'
