"""Promoted baselines of a project: what a run becomes, where they are, and how samples are taken out.

Anchors of calibrations are beside them, and lose samples in the same way.
"""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, StoreError
from evalspec.base.output_files import write_file
from evalspec.model import Direction, PeopleScores, Run
from evalspec.model.calibrations import StoredAnchor
from evalspec.model.fingerprints import Fingerprint
from evalspec.model.shards import refuse_shard
from evalspec.model.typed_json import parse_document, read_bytes
from evalspec.runs.store.damage import refuse_damage
from evalspec.runs.store.erasing import Key
from evalspec.runs.store.run_rows import read_values
from evalspec.runs.store.run_store import RunStore
from evalspec.runs.store.stored_run import StoredRun, open_run
from evalspec.verdict.comparison.baseline import KIND, Baseline, build_baseline, list_pooled, render_baseline
from evalspec.verdict.correction.calibration_file import read_anchors, write_anchors

_HEAD_BYTES = 4096

FindKeys = Callable[[str], set[Key]]
"""Returns the samples to take out of a run, by its id."""


def find_baselines(folder: Path, kind: str = KIND) -> Iterator[Path]:
    """Yield the promoted baselines below a folder, without hidden folders and those of installed packages.

    `kind`: of the files, if not baselines.
    """
    mark = f'"kind": "{kind}"'.encode()
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in ("node_modules", "venv")]
        for name in names:
            path = Path(parent, name)
            if name.endswith(".json") and path.is_file() and not path.is_symlink():
                with path.open("rb") as stream:
                    if mark in stream.read(_HEAD_BYTES):
                        yield path


def shorten_baseline(path: Path, shown: str, find_keys: FindKeys, *, is_dry_run: bool) -> int:
    """Take samples out of a baseline and its anchor, and return their number. Without other samples it is deleted.

    `find_keys`: returns the samples to take out by the id of a run that the baseline holds.

    Raises:
        EvalspecError, OSError: It cannot be read, written or deleted.
    """
    baseline = build_baseline(parse_document(read_bytes(path), shown), shown)
    kept, removed = _drop_samples(baseline.run, find_keys)
    anchor, of_anchor = (None, 0) if baseline.anchor is None else _drop_samples(baseline.anchor, find_keys)
    if removed + of_anchor and not is_dry_run:
        if kept.datasets:
            left = anchor if anchor is not None and anchor.datasets else None
            people = tuple(_drop_people(one, find_keys(kept.id)) for one in baseline.people)
            write_file(path, [render_baseline(replace(baseline, run=kept, anchor=left, people=people)).encode()])
        else:
            path.unlink()
    return removed + of_anchor


def shorten_anchors(
    quotes: Callable[[bytes], bool], path: Path, _shown: str, find_keys: FindKeys, *, is_dry_run: bool
) -> int:
    """Take samples out of anchors, and return their number. Other arguments and errors: as of `shorten_baseline`.

    `quotes`: whether a text is to be erased. Anchors have texts, also if the run that they are of was removed.
    """
    anchors = read_anchors(path)
    keys = find_keys(anchors.run)

    def keep(dataset: str, one: StoredAnchor) -> bool:
        texts = (one.response, *(one.retrieved_contexts or ()))
        return (dataset, one.sample) not in keys and not any(quotes(text.encode(errors="replace")) for text in texts)

    kept = tuple(
        replace(own, anchors=tuple(one for one in own.anchors if keep(own.dataset, one))) for own in anchors.metrics
    )
    removed = sum(len(own.anchors) for own in anchors.metrics) - sum(len(own.anchors) for own in kept)
    if removed and not is_dry_run:
        write_anchors(path, replace(anchors, metrics=kept))
    return removed


def _drop_people(said: PeopleScores, keys: set[Key]) -> PeopleScores:
    """Return what people say without what they say about some samples."""

    def keep(id: str) -> bool:
        return (said.dataset, id) not in keys

    return replace(
        said,
        scores=tuple(one for one in said.scores if keep(one.id)),
        unchanged=tuple(one for one in said.unchanged if keep(one[0])),
        unanswered=tuple(one for one in said.unanswered if keep(one[0])),
    )


def _drop_samples(run: Run, find_keys: FindKeys) -> tuple[Run, int]:
    """Return a run of a baseline without some samples, and their number. A dataset without others is dropped."""
    keys = set().union(*(find_keys(one.id) for one in list_pooled(run)))
    datasets, removed = [], 0
    for dataset in run.datasets:
        samples = tuple(sample for sample in dataset.samples if (dataset.name, sample.id) not in keys)
        removed += len(dataset.samples) - len(samples)
        datasets += [replace(dataset, samples=samples)] if samples else []
    return replace(run, datasets=tuple(datasets)), removed


def promote_stored(
    store: RunStore,
    stored: StoredRun,
    over: Baseline | None,
    reason: str | None = None,
    *,
    add: bool = False,
    is_chosen: bool = True,
) -> tuple[Baseline, Run]:
    """Return the baseline of a finished run that takes the place of `over`, or is added to it, and the run alone.

    `reason`: why the run becomes the anchor too, so that its losses are accepted. `is_chosen`: whether somebody chose
    it, perhaps as the best of several; the newest run of a branch is chosen by nobody.

    Raises:
        InvalidInput: The run cannot become a baseline: it is not finished, a part, or stopped early.
        StoreError: The run is damaged.
    """
    from evalspec.runs.runner.reread import conclude_stored
    from evalspec.verdict.comparison.promotion import add_run, promote, refuse_stopped
    from evalspec.verdict.outline import policy_to_json

    refuse_shard(stored.id, stored.fingerprint, "promoted")
    if not stored.report.is_file():
        raise InvalidInput(f"run {stored.id} is not finished", f"resume it: evalspec evaluate … --resume {stored.id}")
    refuse_damage(stored)
    concluded = conclude_stored(stored)
    refuse_stopped(concluded)
    best_of = count_outdone(store, stored, concluded) if is_chosen else None
    fingerprint = replace(concluded.fingerprint, ci_gate=policy_to_json(stored.outline.policy), best_of=best_of)
    concluded = replace(concluded, fingerprint=fingerprint)
    if add and over is not None:
        return add_run(over, concluded), concluded
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return promote(concluded, over, reason, now, stored.read_index().people), concluded


def count_outdone(store: RunStore, stored: StoredRun, concluded: Run) -> int | None:
    """Return the number of finished runs of the same evaluation if this one is the best of them, otherwise None.

    Runs are ranked by the leading metric: the first with a threshold, otherwise the first. A run that is better than no
    other run is not the best.
    """
    dataset = concluded.datasets[0]
    limited = (outcome.metric for outcome in dataset.thresholds)
    metric = next(limited, None) or next(iter(dataset.metrics), None)
    own = None if metric is None else dataset.metrics[metric].value
    if metric is None or own is None:
        return None
    sign = 1 if dataset.metrics[metric].direction is Direction.HIGHER else -1
    read = (read_values(run.folder, run.fingerprint).get(dataset.name, {}) for run in _find_alike(store, stored))
    gains = [sign * (own - found.value) for one in read if (found := one.get(metric)) and found.value is not None]
    return len(gains) + 1 if gains and min(gains) >= 0 and max(gains) > 0 else None


def _find_alike(store: RunStore, stored: StoredRun) -> Iterator[StoredRun]:
    """Yield the other finished runs of the same agent, samples and metrics."""
    wanted = _describe_evaluation(stored.fingerprint)
    for folder in store.list():
        try:
            other = open_run(folder)
            alike = other.report.is_file() and _describe_evaluation(other.fingerprint) == wanted
        except StoreError:
            continue  # `runs list` reports the error
        is_whole = other.fingerprint.rescored_from is None and other.fingerprint.shard is None
        if alike and other.id != stored.id and is_whole:
            yield other


def _describe_evaluation(fingerprint: Fingerprint) -> Any:
    """Return what two runs must have in common to be runs of the same evaluation."""
    datasets = [(one.name, one.samples_sha256, one.metric_identities) for one in fingerprint.datasets]
    agent = fingerprint.agent and fingerprint.agent.sha256
    return datasets, agent, fingerprint.retrievers_sha256, fingerprint.repeats
