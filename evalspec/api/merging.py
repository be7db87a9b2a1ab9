"""Merge the shards of a run, for `evalspec merge`: check that they make one run, write it, and conclude it once."""

import heapq
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count, groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import fields, replace

from evalspec.api.arguments import AnyPath
from evalspec.api.evaluation import find_people, options_of
from evalspec.base.errors import InvalidInput, Problem, StoreError, Unmeasurable
from evalspec.model import Controls, Run
from evalspec.model.fingerprints import Fingerprint, ReplyCounts
from evalspec.model.log import WITHHELD, ControlsRecord, InputRecord, PeopleRecord
from evalspec.model.report_reading import read_report
from evalspec.model.shards import Shard
from evalspec.reports.json_report import iterate_json
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.runner.ci_variables import detect_ci_build
from evalspec.runs.runner.fingerprint import digest_selection, digest_whole, list_changes, list_metric_changes
from evalspec.runs.runner.reread import UNCONFIRMED, conclude_stored
from evalspec.runs.runner.session import metadata_keys
from evalspec.runs.store.damage import refuse_damage
from evalspec.runs.store.inputs import INPUTS_NAME
from evalspec.runs.store.log_index import is_end
from evalspec.runs.store.log_records import read_lines, read_log, renumber
from evalspec.runs.store.run_log import LOG_NAME, RunLog
from evalspec.runs.store.run_redaction import withhold_texts
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.runs.store.stored_run import StoredRun, open_run
from evalspec.verdict.outline import outline_to_json

_OPTIONS = {"datasets": "dataset", "tags": "tag", "exclude_tags": "exclude-tag"}
"""The options whose names on the command line are others than in RunOptions."""
_LEARNED = ("judge_refused", "judge_models", "judge_system_fingerprints", "judge_cached_models", "judge_drifts")
_OTHER = "its options are others"
_NOT_WHOLE = "the samples of the shards are not those of the run", "evaluate all shards again"


class IncompleteShards(Unmeasurable):
    """Shards are missing or not finished, so the run that they make is INCOMPLETE. `problems`: each with a command."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.render() for problem in problems))


class MergedShard(Struct, frozen=True):
    """A shard with what its log does not say by itself. `notes`: of its session. `controls`: those that it tested."""

    run: StoredRun
    notes: tuple[str, ...] = ()
    controls: tuple[Controls, ...] = ()


def merge(*runs: AnyPath, store: AnyPath = STORE) -> Run:
    """Join the shards of a run into a new stored run, check its gate, and return it.

    Args:
        *runs: Ids, prefixes of ids or labels of all shards, or the paths of their folders.
        store: Folder of the runs.

    Raises:
        InvalidInput: A run is no shard, is given twice, or belongs to another run.
        Unmeasurable: A shard is missing, not finished or damaged.
    """
    return merge_shards(runs, RunStore(Path(store)))[1]


def merge_shards(names: Sequence[AnyPath], store: RunStore) -> tuple[StoredRun, Run]:
    """Join shards into a new stored run, and return it with its result. `names`: of runs, or paths of their folders.

    The report of a run whose drops are not confirmed yet is written when the run is resumed.

    Raises:
        InvalidInput: A run is no shard, is given twice, or belongs to another run.
        IncompleteShards: A shard is missing or not finished.
        StoreError: A shard is damaged, or the run cannot be written.
    """
    runs = [open_run(store.find(str(name))) for name in names]
    if not runs:
        raise InvalidInput("there is nothing to merge", "name the shards of a run")
    shards = _order_shards(runs)
    for one in shards.values():
        refuse_damage(one)
    checked = [_check(one, store) for one in shards.values()]
    problems = [*_list_missing(shards), *(one for one in checked if isinstance(one, Problem))]
    if problems:
        raise IncompleteShards(problems)
    with _write_merged(store, [one for one in checked if isinstance(one, MergedShard)], datetime.now(UTC)) as log:
        stored = open_run(log.place)
        metrics = [metric for one in stored.outline.datasets for metric in one.metrics if not metric.skip_reason]
        is_judged = any(metric.judged for metric in metrics)
        collect = find_people(store, stored.outline.policy, stored.manifest_path, is_judged=is_judged)
        if collect is not None:
            log.conclude_with(PeopleRecord(collect(stored.id)))
        notes = dict.fromkeys(note for one in checked if isinstance(one, MergedShard) for note in one.notes)
        run = conclude_stored(stored, tuple(notes))
        if not stored.outline.has_texts:
            run = withhold_texts(run, metadata_keys(stored.outline))
        if not is_unconfirmed(run):
            log.write_report(iterate_json(run))
    return open_run(log.folder), run


def is_unconfirmed(run: Run) -> bool:
    """Return whether second attempts have to confirm a drop before the run has a verdict."""
    return any(UNCONFIRMED in (one.reason or "") for one in run.regressions)


def _check(stored: StoredRun, store: RunStore) -> MergedShard | Problem:
    """Return a shard with what its session says about it, or why it is not finished."""
    found = conclude_stored(stored)
    reasons = found.reasons or (() if stored.report.is_file() else ("its end is missing",))
    if reasons:
        name = stored.id if store.owns(store.runs / stored.id) else str(stored.folder)
        command = shlex.join(["evalspec", "evaluate", str(stored.manifest_path), "--resume", name])
        return Problem(f"INCOMPLETE: shard {stored.fingerprint.shard} is not finished: {reasons[0]}", f"run: {command}")
    notes = tuple(note for note in read_report(stored.report).notes if note not in found.notes and note != WITHHELD)
    return MergedShard(stored, notes, found.controls)


def _list_missing(shards: Mapping[int, StoredRun]) -> Iterator[Problem]:
    """Yield the shards that are missing, each with the command that runs it."""
    first = next(iter(shards.values()))
    of = first.fingerprint.shard.of if first.fingerprint.shard else 0
    for number in range(1, of + 1):
        if number not in shards:
            command = shlex.join(_list_arguments(first, Shard(number, of)))
            yield Problem(f"INCOMPLETE: shard {number}/{of} is missing", f"run: {command}")


def _list_arguments(stored: StoredRun, shard: Shard) -> Iterator[str]:
    """Yield the command that evaluates a shard with the options of another one of the same run."""
    yield from ("evalspec", "evaluate", str(stored.manifest_path))
    defaults = {one.name: one.default for one in fields(RunOptions)}
    for name, value in (options_of(stored) | {"shard": shard}).items():
        option = f"--{_OPTIONS.get(name, name).replace('_', '-')}"
        if value in (None, defaults[name]):
            continue
        values = value if isinstance(value, tuple) else (value,)
        yield from [option] if value is True else (part for one in values for part in (option, str(one)))


def _order_shards(runs: Sequence[StoredRun]) -> dict[int, StoredRun]:
    """Return shards of one run by their numbers. Some may be missing.

    Raises:
        InvalidInput: A run is no shard, is there twice, or is of another run than the first. Lists all problems.
    """
    others = [one.id for one in runs if one.fingerprint.shard is None]
    if others:
        raise InvalidInput(Problem(f"run {one} is no shard", "name runs of `evaluate --shard`") for one in others)
    counts = Counter(_shard_of(one).number for one in runs)
    twice = [number for number, times in counts.items() if times > 1]
    problems = [Problem(f"shard {number} is given more than once", "name one of its runs") for number in twice]
    for one in runs[1:]:
        conflicts = _list_conflicts(runs[0], one)
        problems += [Problem(f"run {one.id} is no part of the run of {runs[0].id}: {said}") for said in conflicts]
    if problems:
        raise InvalidInput(problems)
    return dict(sorted((_shard_of(one).number, one) for one in runs))


def _shard_of(run: StoredRun) -> Shard:
    return run.fingerprint.shard or Shard(1, 1)


def _list_conflicts(first: StoredRun, other: StoredRun) -> list[str]:
    """Return why two shards are not of the same run, one line per reason."""
    was, now = first.fingerprint, other.fingerprint
    before, after = _read_facts(was), _read_facts(now)
    changed = [name for name in before | after if before.get(name) != after.get(name)]
    found = [f"{name}: {before.get(name)} and {after.get(name)}" for name in changed]
    stated = [sorted(set(one.judge_models.values())) for one in (was, now)]
    if all(stated) and stated[0] != stated[1]:
        found.append(f"models that the judge states: {' and '.join(map(', '.join, stated))}")
    found += list_changes(was, replace(now, datasets=was.datasets, shard=was.shard))
    found += list_metric_changes(first.outline, other.outline)
    return found or ([] if first.outline == other.outline else [_OTHER])


def _read_facts(fingerprint: Fingerprint) -> dict[str, Any]:
    """Return what the fingerprints of all shards of a run have in common, besides what resuming a run checks."""
    manifest, shard = fingerprint.manifest, fingerprint.shard
    return {
        "number of shards": shard and shard.of,
        "SHA-256 of the manifest": manifest and manifest.sha256,
        **{f"SHA-256 of dataset {one.name}": one.sha256 for one in fingerprint.datasets},
        "SHA-256 of the selected samples of all shards": shard and shard.selection_sha256,
        "SHA-256 of the baseline": fingerprint.baseline_sha256,
        **{f"version of {name}": one for name, one in fingerprint.versions.items()},
    }


def _write_merged(store: RunStore, shards: Sequence[MergedShard], now: datetime) -> RunLog:
    """Write the run that all shards make, without its report, and return its open log.

    Raises:
        InvalidInput: The samples of the shards are not those of the run.
        StoreError: A shard cannot be read, or the run cannot be written.
    """
    runs = [one.run for one in shards]
    first = runs[0]
    selections = {one.name: digest_selection(()) for one in first.outline.datasets}
    for name, own in groupby(_merge_inputs(runs), attrgetter("dataset")):
        selections[name] = digest_selection((one.sample.id, one.sample.digest) for one in own)
    if digest_whole(selections) != _shard_of(first).selection_sha256:
        raise InvalidInput(*_NOT_WHOLE)
    log = store.create(now, redact=_as_stored, is_clean=bool)
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, log.folder, ignore_errors=True)
        undo.callback(log.close)
        log.write_inputs(_merge_inputs(runs), ())
        if first.baseline.exists():
            log.write_baseline(first.baseline.read_bytes())
        log.replace_lines(_list_lines(runs))
        controls = [found for one in shards for found in one.controls]
        log.conclude_with(ControlsRecord(tuple(sorted(controls, key=lambda one: [*selections].index(one.dataset)))))
        fingerprint = _merge_fingerprints([one.fingerprint for one in runs], selections)
        log.write_description(fingerprint, outline_to_json(first.outline, _as_stored))
        undo.pop_all()
    return log


def _as_stored(value: Any) -> Any:
    return value


def _merge_inputs(runs: Sequence[StoredRun]) -> Iterator[InputRecord]:
    """Yield the samples of all shards in the order of the run.

    Raises:
        InvalidInput: A sample is missing, or in two shards.
    """
    done: Counter[int] = Counter()
    places = {one.name: place for place, one in enumerate(runs[0].outline.datasets)}

    def read(run: StoredRun) -> Iterator[tuple[int, int, InputRecord]]:
        for line, record in read_log(run.folder / INPUTS_NAME, InputRecord):
            if record.position is None or record.dataset not in places:
                raise StoreError(f"{run.folder / INPUTS_NAME}:{line.at}: not a sample of a shard. restore the file")
            yield places[record.dataset], record.position, record

    for place, position, record in heapq.merge(*map(read, runs), key=itemgetter(0, 1)):
        if position != done[place]:
            raise InvalidInput(*_NOT_WHOLE)
        done[place] += 1
        yield replace(record, position=None)


def _list_lines(runs: Iterable[StoredRun]) -> Iterator[bytes]:
    """Yield the records of all shards, without those of their ends."""
    number = count(1)
    for run in runs:
        for line in read_lines(run.folder / LOG_NAME):
            if not is_end(line.text):
                yield renumber(line.text, next(number))


def _merge_fingerprints(found: Sequence[Fingerprint], selections: Mapping[str, Mapping[str, Any]]) -> Fingerprint:
    learned: dict[str, Any] = {name: _unite([getattr(one, name) for one in found]) for name in _LEARNED}
    since = [item for one in found for item in one.judge_cached.items()]
    unchecked = sum(one.replies.unchecked for one in found if one.replies)
    first = found[0]
    return replace(
        first,
        **learned,
        started_at=min((one.started_at for one in found if one.started_at), default=None),
        agent=next((one.agent for one in found if one.agent and one.agent.reused_url), first.agent),
        replies=first.replies and ReplyCounts(unchecked=unchecked),
        shard=None,
        datasets=tuple(replace(one, **selections[one.name]) for one in first.datasets),
        judge_cached={metric: min(said for name, said in since if name == metric) for metric, _ in since},
        references=_unite([one.references for one in found]),
        ci=detect_ci_build(os.environ),
    )


def _unite(mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the keys of all mappings. Of several values of a key, the first counts."""
    return {key: value for one in reversed(mappings) for key, value in one.items()}
