"""The index of the runs of each namespace: rows of the database that follow from the files.

The files are the truth. A list compares sizes and times of the files with the rows, at most once a second, so runs of
the command line in the same project are listed too. Finished runs are compared in turn if there are more than 300.
"""

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, Engine, Row, Select, and_, delete, exists, func, select

from evalspec.base.foreign_text import inert
from evalspec.model.base import built
from evalspec.model.listed_runs import DatasetRow, ListedValue, RunEntry, RunKind, RunOrigin, RunStatus
from evalspec.model.verdicts import FUTURE_SECONDS
from evalspec.runs.store.derived import remove_derived
from evalspec.runs.store.run_store import is_run_name
from evalspec.service.database import list_newest_first, read_clock, reading, update_statistics, writing
from evalspec.service.jobs import lock_namespace
from evalspec.service.kept_json import decode_kept, encode_kept
from evalspec.service.places import hide_folder
from evalspec.service.problems import not_found
from evalspec.service.run_heads import read_entry, sign_files
from evalspec.service.run_records import RunHead, TrendPoint
from evalspec.service.sample_builds import SMALL, SampleBuilds
from evalspec.service.settings import Project
from evalspec.service.stores import list_run_names
from evalspec.service.tables import ASSIGNMENTS, RUN_DATASETS, RUNS
from evalspec.service.timestamps import render_time

NO_BRANCH = ""

_FRESH_SECONDS = 1.0
_ROWS_AT_ONCE = 50
_FINISHED_AT_ONCE = 300
"""Finished runs whose files are looked at in each refresh, in turn. They rarely change, and 10,000 would take 0.2 s."""
_BRANCHES = 50
_BRANCH = func.coalesce(":" + RUNS.c.origin["ci", "pullRequest"].as_string(), RUNS.c.branch).label("line")
"""The project's branch that was built, or `:7` for pull request 7: a fork has branches of any name."""


class RunFilter(Struct, frozen=True):
    """Which runs to list. None: any. `branch`: `:7` for builds of pull request 7, NO_BRANCH for runs
    of neither. `since`, `until`: seconds since 1970.

    `before`: only runs older than this one.
    """

    verdict: str | None = None
    status: str | None = None
    manifest: str | None = None
    dataset: str | None = None
    since: float | None = None
    until: float | None = None
    before: tuple[float, str] | None = None
    branch: str | None = None
    kind: str | None = None


class _Known(NamedTuple):
    """A row of the index."""

    signature: str
    status: str


class RunIndex:
    """The index of one namespace. Safe to use from several threads and processes.

    `builds`: writes the index of the samples of each large run, as soon as the run is finished.
    """

    def __init__(self, engine: Engine, project: Project, builds: SampleBuilds | None = None) -> None:
        self._builds = builds
        self._engine = engine
        self._project = project
        self._guard = threading.Lock()
        self._checked_at: float | None = None
        self._known: dict[str, _Known] | None = None
        self._next_finished = 0
        self._branches: dict[str | None, Sequence[tuple[str, int]]] = {}

    def list(self, wanted: RunFilter, limit: int) -> list[RunEntry]:
        """Return runs, newest first, without their details.

        Raises:
            StoreError: The database or the runs cannot be read.
        """
        self.refresh()
        columns = [column for column in RUNS.c if column.name != "details"]
        found = _narrow(select(*columns), wanted).where(RUNS.c.namespace == self._project.namespace)
        with reading(self._engine) as connection:
            rows = connection.execute(_order(found, wanted, limit)).all()
            datasets = _read_datasets(connection, self._project.namespace, [row.id for row in rows])
        return [_to_entry(row, datasets.get(row.id, ())) for row in rows]

    def find(self, run_id: str) -> RunEntry:
        """Return a run as it is now.

        Raises:
            ApiProblem: 404: There is no such run.
            StoreError: The database or the run cannot be read.
        """
        folder = self.find_folder(run_id)
        own = and_(RUNS.c.namespace == self._project.namespace, RUNS.c.id == run_id)
        with reading(self._engine) as connection:
            row = connection.execute(select(RUNS).where(own)).first()
            known = _read_datasets(connection, self._project.namespace, [run_id])
        signature = sign_files(str(folder), None if row is None else row.status)
        if row is not None and row.signature == signature:
            return _to_entry(row, known.get(run_id, ()))
        entry, head = self._read(folder)
        self._store([(entry, head, signature)])
        return entry

    def find_head(self, run_id: str) -> Any:
        """Return the RunHead of a finished run as it is now, None of another.

        Raises:
            ApiProblem: 404: There is no such run.
            StoreError: The database or the run cannot be read.
        """
        self.find(run_id)
        own = and_(RUNS.c.namespace == self._project.namespace, RUNS.c.id == run_id)
        with reading(self._engine) as connection:
            details = connection.execute(select(RUNS.c.details).where(own)).scalar_one_or_none()
        return None if details is None else decode_kept(details.encode(), RunHead)

    def find_folder(self, run_id: str) -> Path:
        """Return the folder of a run.

        Raises:
            ApiProblem: 404: There is no such run.
        """
        folder = self._project.store.runs / run_id
        if not is_run_name(run_id) or not self._project.store.owns(folder):
            raise not_found(f"there is no run '{run_id[:100]}'", "the list of runs has every id")
        return folder

    def read_trend(self, dataset: str, wanted: RunFilter, limit: int) -> Sequence[TrendPoint]:
        """Return the newest finished runs of a dataset with the values of its metrics, newest last.

        Runs of the future are left out: each would be the last point until then.
        """
        self.refresh()
        named = ("id", "started_at", "verdict", "partial", "manifest", "branch", "origin")
        shown = [RUNS.c[name] for name in named]
        joined = and_(RUN_DATASETS.c.namespace == RUNS.c.namespace, RUN_DATASETS.c.run_id == RUNS.c.id)
        found = (
            _narrow(select(*shown, RUN_DATASETS.c.selected, RUN_DATASETS.c.metrics), wanted)
            .join(RUN_DATASETS, joined)
            .where(RUNS.c.namespace == self._project.namespace, RUNS.c.status == RunStatus.FINISHED)
            .where(RUN_DATASETS.c.name == dataset)
        )
        with reading(self._engine) as connection:
            past = found.where(RUNS.c.started_at < read_clock(connection) + FUTURE_SECONDS)
            return [_to_point(row) for row in connection.execute(_order(past, wanted, limit))][::-1]

    def list_branches(self, dataset: str | None = None) -> Sequence[tuple[str, int]]:
        """Return branches as RunFilter has them with the number of their finished runs, the most frequent first.

        `dataset`: only runs with this dataset.
        """
        self.refresh()
        kept = self._branches  # of the rows as they are now: a change begins another
        found = kept.get(dataset)
        if found is None:
            found = self._count_branches(dataset)
            if len(kept) < _BRANCHES:
                kept[dataset] = found
        return found

    def _count_branches(self, dataset: str | None) -> Sequence[tuple[str, int]]:
        count = func.count()
        found = _narrow(select(_BRANCH, count), RunFilter(status=RunStatus.FINISHED, dataset=dataset))
        found = found.where(RUNS.c.namespace == self._project.namespace).group_by("line")
        ordered = found.order_by(count.desc(), func.max(RUNS.c.started_at).desc()).limit(_BRANCHES)
        with reading(self._engine) as connection:
            return [(branch or NO_BRANCH, runs) for branch, runs in connection.execute(ordered)]

    def refresh(self) -> None:
        """Bring the rows up to date with the files, unless that was done less than a second ago.

        Only one request does so at a time. Others use the rows of the second before.
        """
        is_first = self._checked_at is None
        if not self._guard.acquire(blocking=is_first):
            return  # another request looks at the files right now
        try:
            if self._checked_at is None or time.monotonic() - self._checked_at >= _FRESH_SECONDS:
                self._update()
                self._checked_at = time.monotonic()
        finally:
            self._guard.release()

    def rebuild(self) -> None:
        """Read all runs again. Rows are replaced in place, because other servers answer from them meanwhile."""
        with self._guard:
            for name in sorted(self._read_known().keys() - list_run_names(self._project)):
                self.forget(name)
            self._known = {}  # as if all runs were new
            self._update()
            self._checked_at = time.monotonic()

    def drop(self, run_id: str) -> None:
        """Remove the row of a run that was deleted for good, and who was asked to label it."""
        here = (ASSIGNMENTS.c.namespace == self._project.namespace) & (ASSIGNMENTS.c.run_id == run_id)
        with writing(self._engine) as connection:
            connection.execute(delete(ASSIGNMENTS).where(here))
        self.forget(run_id)

    def forget(self, run_id: str) -> None:
        """Remove the row of a run that is gone, perhaps for a while, and what was derived from the run."""
        with writing(self._engine) as connection:
            _delete(connection, self._project.namespace, [run_id])
        self._branches = {}
        remove_derived(self._project.store.runs / run_id)
        if self._known is not None:
            self._known.pop(run_id, None)

    def _update(self) -> None:
        known = self._read_known() if self._known is None else dict(self._known)
        existing = list_run_names(self._project)
        for name in sorted(known.keys() - existing):
            self.forget(name)
        found = dict(_sign_runs(self._project, known, self._choose(existing, known)))
        changed = [name for name, sign in found.items() if name not in known or known[name].signature != sign]
        for at in range(0, len(changed), _ROWS_AT_ONCE):
            names = changed[at : at + _ROWS_AT_ONCE]
            entries = [(*self._read(self._project.store.runs / name), found[name]) for name in names]
            self._store(entries)
            for entry, _, _ in entries:
                if self._builds is not None and entry.status is RunStatus.FINISHED and entry.samples > SMALL:
                    self._builds.request(self._project.store.runs / entry.id)
        if len(changed) > _ROWS_AT_ONCE:
            update_statistics(self._engine, (RUNS, RUN_DATASETS))

    def _choose(self, names: Set[str], known: Mapping[str, _Known]) -> Iterator[str]:
        """Yield the runs to look at: all that are new or not finished, and the next ones of the others."""
        finished = sorted(name for name in names & known.keys() if known[name].status == RunStatus.FINISHED)
        yield from names - set(finished)
        first = self._next_finished if self._next_finished < len(finished) else 0
        self._next_finished = first + _FINISHED_AT_ONCE
        yield from finished[first : self._next_finished]

    def _read_known(self) -> dict[str, _Known]:
        """Return what the database has. It is read once; from then on only this process changes it."""
        shown = (RUNS.c.id, RUNS.c.signature, RUNS.c.status)
        with reading(self._engine) as connection:
            rows = connection.execute(select(*shown).where(RUNS.c.namespace == self._project.namespace))
            self._known = {row.id: _Known(row.signature, row.status) for row in rows}
        return self._known

    def _read(self, folder: Path) -> tuple[RunEntry, Any]:
        entry, head = read_entry(self._project, folder)
        return entry if entry.error is None else _hide_place(entry, self._project), head

    def _store(self, entries: Sequence[tuple[RunEntry, Any, str]]) -> None:
        namespace = self._project.namespace
        rows = [_to_row(namespace, *entry) for entry in entries]
        datasets = [row for entry, _, _ in entries for row in _to_dataset_rows(namespace, entry)]
        with writing(self._engine) as connection:
            lock_namespace(connection, namespace)
            _delete(connection, namespace, [entry.id for entry, _, _ in entries])
            connection.execute(RUNS.insert(), rows)
            if datasets:
                connection.execute(RUN_DATASETS.insert(), datasets)
        self._branches = {}
        if self._known is not None:
            self._known.update({entry.id: _Known(signature, str(entry.status)) for entry, _, signature in entries})


def _sign_runs(project: Project, known: Mapping[str, _Known], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the names of runs with their signatures. `known`: the rows of the index."""
    runs = project.store.runs
    for name in names:
        with suppress(FileNotFoundError):  # deleted meanwhile
            yield name, sign_files(f"{runs}{os.sep}{name}", known[name].status if name in known else None)


def _hide_place(entry: RunEntry, project: Project) -> RunEntry:
    return replace(entry, error=inert(hide_folder(entry.error or "", project.folder)))


def _narrow(found: Select[Any], wanted: RunFilter) -> Select[Any]:
    equal = {RUNS.c.verdict: wanted.verdict, RUNS.c.status: wanted.status, RUNS.c.manifest: wanted.manifest}
    equal |= {RUNS.c.kind: wanted.kind}
    found = found.where(*(column == value for column, value in equal.items() if value is not None))
    if wanted.branch is not None:
        found = found.where(_BRANCH.is_not_distinct_from(wanted.branch or None))
    if wanted.since is not None:
        found = found.where(RUNS.c.started_at >= wanted.since)
    if wanted.until is not None:
        found = found.where(RUNS.c.started_at < wanted.until)
    if wanted.dataset is not None:
        own = and_(RUN_DATASETS.c.namespace == RUNS.c.namespace, RUN_DATASETS.c.run_id == RUNS.c.id)
        found = found.where(exists().where(own, RUN_DATASETS.c.name == wanted.dataset))
    return found


def _order(found: Select[Any], wanted: RunFilter, limit: int) -> Select[Any]:
    return list_newest_first(found, RUNS.c.started_at, RUNS.c.id, wanted.before, limit)


def _read_datasets(connection: Connection, namespace: str, ids: Sequence[str]) -> dict[str, tuple[DatasetRow, ...]]:
    own = and_(RUN_DATASETS.c.namespace == namespace, RUN_DATASETS.c.run_id.in_(ids))
    found: dict[str, tuple[DatasetRow, ...]] = {}
    for row in connection.execute(select(RUN_DATASETS).where(own).order_by(RUN_DATASETS.c.place)):
        found[row.run_id] = (*found.get(row.run_id, ()), DatasetRow(row.name, row.selected, _to_values(row.metrics)))
    return found


def _delete(connection: Connection, namespace: str, ids: Sequence[str]) -> None:
    for table, column in ((RUN_DATASETS, RUN_DATASETS.c.run_id), (RUNS, RUNS.c.id)):
        connection.execute(delete(table).where(table.c.namespace == namespace, column.in_(ids)))


def _to_entry(row: Row[Any], datasets: Sequence[DatasetRow]) -> RunEntry:
    return RunEntry(
        row.id,
        RunStatus(row.status),
        render_time(row.started_at),
        row.verdict,
        row.partial,
        row.manifest,
        None if row.kind is None else RunKind(row.kind),
        error=row.error,
        origin=_to_origin(row.origin),
        datasets=tuple(datasets),
    )


def _to_point(row: Row[Any]) -> TrendPoint:
    known = row._asdict()
    ci = _to_origin(known.pop("origin")).ci
    return TrendPoint(
        commit=None if ci is None else ci.commit,
        pull_request=None if ci is None else ci.pull_request,
        run_id=known.pop("id"),
        started_at=render_time(known.pop("started_at")),
        metrics=_to_values(known.pop("metrics")),
        **known,
    )


def _to_origin(stored: Any) -> RunOrigin:
    return msgspec.convert(stored or {}, built(RunOrigin))


def _to_values(stored: Any) -> dict[str, ListedValue]:
    return msgspec.convert(stored, built(dict[str, ListedValue]))


def _to_row(namespace: str, entry: RunEntry, head: Any, signature: str) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "id": entry.id,
        "signature": signature,
        "started_at": entry.moment,
        "status": str(entry.status),
        "verdict": entry.verdict,
        "partial": entry.partial,
        "manifest": entry.manifest,
        "kind": None if entry.kind is None else str(entry.kind),
        "samples": entry.samples,
        "error": entry.error,
        "branch": entry.origin.branch,
        "origin": msgspec.to_builtins(entry.origin),
        "details": None if head is None else encode_kept(head).decode(),
    }


def _to_dataset_rows(namespace: str, entry: RunEntry) -> Iterator[dict[str, Any]]:
    head = {"namespace": namespace, "run_id": entry.id}
    for place, one in enumerate(entry.datasets):
        yield {
            **head,
            "place": place,
            "name": one.name,
            "selected": one.selected,
            "metrics": msgspec.to_builtins(one.metrics),
        }
