"""Routes of baselines: promote a run under a name, list who promoted what, and send the document that gates use."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from itertools import chain
from pathlib import PurePath
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Engine, select, update
from sqlalchemy.exc import IntegrityError

from evalspec.api.baseline_files import find_baselines
from evalspec.base.errors import InvalidInput, StoreError
from evalspec.model import VerdictStatus
from evalspec.model.base import Record
from evalspec.model.fingerprints import PooledRun
from evalspec.model.listed_runs import RunEntry, RunStatus
from evalspec.model.typed_json import convert, parse_document, read_bytes
from evalspec.model.verdicts import FUTURE_SECONDS
from evalspec.runs.store.pushed_runs import read_push_mark
from evalspec.runs.store.run_log import DESCRIPTION_NAME, MARK_NAME, REPORT_NAME
from evalspec.runs.store.run_store import BASELINES as FOLDER
from evalspec.runs.store.run_store import keep_baseline
from evalspec.runs.store.stored_run import open_run
from evalspec.service.access import Access, Reading, Reviewing, permits
from evalspec.service.cursors import Limit
from evalspec.service.database import DatabaseDown, read_clock, reading, writing
from evalspec.service.documents import body_config, show_example
from evalspec.service.examples import MOMENT, RUN_ID
from evalspec.service.jobs import lock_namespace
from evalspec.service.json_bodies import JsonRoute
from evalspec.service.problems import ApiProblem, conflict, not_found
from evalspec.service.run_index import NO_BRANCH, RunFilter
from evalspec.service.settings import Project
from evalspec.service.tables import BASELINES
from evalspec.service.timestamps import ShownTime
from evalspec.service.tokens import Scope
from evalspec.verdict.comparison.baseline import Baseline, build_baseline, render_baseline

ROUTER = APIRouter(prefix="/v1/baselines", tags=["baselines"], route_class=JsonRoute)

_RUNS_AT_ONCE = 200
_PROMOTE = "promote a run with a reason (--anchor REASON)"
_REPAIR = "restore it from a backup, or delete it: DELETE /v1/runs/ID with the scope run"
_WHOLE = (VerdictStatus.PASS, VerdictStatus.FAIL, VerdictStatus.NOT_GATED)
_ONE = threading.Lock()
"""One baseline is computed at a time, because that of a large run needs much memory."""
_PROMOTED: dict[str, Any] = {
    "name": "main",
    "number": 3,
    "run_id": RUN_ID,
    "promoted_by": "ana@example.com",
    "promoted_at": MOMENT,
    "reason": None,
}

Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
Gating = Annotated[Access, Depends(permits(Scope.READ, Scope.PUSH))]
"""The token of a CI job, which pushes, gates too: a baseline has no texts of samples."""


class PromotionRequest(BaseModel):
    """The run to promote."""

    model_config = body_config({"run_id": RUN_ID})
    run_id: str = Field(max_length=100)
    add: bool = Field(False, description="Add its attempts to the baseline, which must measure the same.")
    reason: str | None = Field(
        None,
        max_length=1000,
        pattern=r"^[^\x00]*[^\s\x00][^\x00]*$",  # PostgreSQL stores no NUL
        description="Why its losses are accepted: it is the anchor too.",
    )


class Promotion(BaseModel):
    """Who promoted a run when. `number`: counts those of a name. `reason`: why its losses were accepted."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [_PROMOTED]})
    name: str
    number: int
    run_id: str
    promoted_by: str = Field(validation_alias="user")
    promoted_at: ShownTime = Field(validation_alias="at")
    reason: str | None


class PromotionList(BaseModel):
    """Promotions, newest first."""

    model_config = show_example({"promotions": [_PROMOTED]})
    promotions: list[Promotion]


class BaselineAnswer(Promotion):
    """A baseline. `run_id`: of the promoted run, or of the newest one of the branch, whose anchor was promoted."""

    model_config = show_example(_PROMOTED | {"sha256": "0" * 64, "document": "{}"})
    sha256: str
    document: str = Field(description="The baseline's file, as `evalspec runs promote` writes it.")


def list_promotions(engine: Engine, namespace: str, limit: int = 50, **wanted: str | None) -> list[Promotion]:
    """Return who promoted what, newest first. `wanted`: `name` or `run_id`; None: any."""
    return [Promotion.model_validate(row) for row in _read_rows(engine, namespace, limit, **wanted)]


def _read_rows(engine: Engine, namespace: str, limit: int, **wanted: str | None) -> list[Any]:
    equal = [BASELINES.c[name] == value for name, value in wanted.items() if value is not None]
    found = select(BASELINES).where(BASELINES.c.namespace == namespace, *equal)
    order = (BASELINES.c.number,) if wanted.get("name") else (BASELINES.c.at, BASELINES.c.number)
    with reading(engine) as connection:  # of one name, the last promotion counts, also if the clock was set back
        return list(connection.execute(found.order_by(*(column.desc() for column in order)).limit(limit)))


@ROUTER.get("", summary="List promotions")
def get_promotions(
    access: Reading, name: Annotated[str | None, Query(max_length=100)] = None, limit: Limit = 50
) -> PromotionList:
    """Return who promoted which run to which baseline, newest first. Of each name, the largest number counts."""
    return PromotionList(promotions=list_promotions(access.engine, access.namespace, limit, name=name))


@ROUTER.get("/{name}", summary="Show a baseline")
def get_baseline(
    name: Name,
    access: Gating,
    branch: Annotated[
        str | None,
        Query(max_length=1000, description="Its newest run instead, with the promoted one as anchor."),
    ] = None,
    green: Annotated[bool, Query(description="The newest run of the branch that passed.")] = False,
) -> BaselineAnswer:
    """Return the baseline that `ciGate: {baseline: server:NAME}` uses, as a file without texts of samples."""
    row, promoted = _read_promoted(access, name)
    if row is None or promoted is None:
        raise not_found(
            f"there is no baseline '{name}'", f"promote a pushed run: evalspec runs promote RUN --as server:{name}"
        )
    newest = None if branch is None else _find_newest(access, branch, row, is_green=green)
    return _answer(row, promoted if newest is None else _compute(access, newest.id, promoted, is_chosen=False))


@ROUTER.post("/{name}", status_code=HTTPStatus.CREATED, summary="Promote a run")
def promote_run(name: Name, asked: PromotionRequest, access: Reviewing) -> BaselineAnswer:
    """Promote a finished run of the namespace. The first run of a baseline stays its anchor, unless there is a reason.

    A run with a part of the samples is refused.
    """
    entry = access.runs.find(asked.run_id)
    if entry.status is not RunStatus.FINISHED or entry.partial or entry.verdict == VerdictStatus.SHARD:
        detail = f"run {entry.id} is not finished or has a part of the samples; promote a finished run of everything"
        raise conflict(detail)
    row, over = _read_promoted(access, name, is_anchor=asked.reason is not None)
    if asked.add and (over is None or asked.reason is not None):
        raise InvalidInput("add needs a baseline to add to, and takes no reason", "promote the run without add")
    baseline = _compute(access, entry.id, over, asked.reason, add=asked.add)
    text = render_baseline(baseline)
    path = keep_baseline(access.project.root, name, _digest(text), text.encode())
    values = {
        "namespace": access.namespace,
        "name": name,
        "number": 1 if row is None else row.number + 1,
        "user": access.caller.user,
        "run_id": entry.id,
        "file": path.name,
        "reason": asked.reason,
    }
    try:
        with writing(access.engine) as connection:
            lock_namespace(connection, access.namespace)  # retention looks for promotions before it deletes a run
            if not (access.project.store.runs / entry.id / DESCRIPTION_NAME).is_file():
                raise conflict(f"run {entry.id} was deleted meanwhile; promote another run")
            added = BASELINES.insert().values(values | {"at": read_clock(connection)}).returning(BASELINES)
            row = connection.execute(added).one()
    except IntegrityError:
        detail = f"somebody else promoted a run to baseline {name} meanwhile; look at /baselines, and try again"
        raise conflict(detail) from None
    return _answer(row, baseline)


def _read_promoted(access: Access, name: str, *, is_anchor: bool = False) -> tuple[Any, Baseline | None]:
    """Return the newest promotion of a name, and its baseline; None without one.

    The code of a namespace can write its files, so the document has to be the one whose digest the database has.
    `is_anchor`: a run is promoted for a reason, so it needs no document.

    Raises:
        ApiProblem: 409: The document is another one, or gone.
    """
    row = next(iter(_read_rows(access.engine, access.namespace, 1, name=name)), None)
    if row is None:
        return None, None
    path, cause = access.project.root / FOLDER / name / row.file, "is gone"
    if path.is_file():
        try:
            document = parse_document(read_bytes(path), path.name)
            baseline = build_baseline(document, path.name)
            if _name_file(document) == row.file:
                return row, baseline
            cause = "is not the one that was promoted"
        except InvalidInput as error:
            cause = f"cannot be used: {error}"
    if is_anchor:
        return row, None
    fix = f"restore it from a backup, or {_PROMOTE}"
    raise conflict(f"the document of baseline '{name}' ({path.name[:12]}…) {cause}. {fix}")


def _name_file(document: Mapping[str, Any]) -> str:
    return f"{document['sha256']}.json"


def list_whole(access: Access) -> list[Any]:
    """Return the newest promotion of each name, if the document is the one that was promoted."""
    with reading(access.engine) as connection:
        here = select(BASELINES.c.name).where(BASELINES.c.namespace == access.namespace).distinct()
        names = connection.execute(here).scalars().all()
    found = []
    for name in names:
        with suppress(ApiProblem):
            found.append(_read_promoted(access, name)[0])
    return found


class _Pool(Record, frozen=True):
    runs: tuple[PooledRun, ...] = ()


class _Scores(Record, frozen=True):
    """What a baseline says about its runs."""

    run_id: str
    fingerprint: _Pool = _Pool()
    anchor: "_Scores | None" = None


def list_promoted(project: Project) -> Iterator[str]:
    """Yield the runs whose scores a baseline of the project or of this server has, also in its anchor.

    Raises:
        InvalidInput: A baseline cannot be read, so nobody knows which runs it needs.
    """
    for path in chain(find_baselines(project.folder), find_baselines(project.root / FOLDER)):
        scores: _Scores | None = convert(parse_document(read_bytes(path), str(path)), _Scores, str(path))
        while scores is not None:
            yield from (scores.run_id, *(one.id for one in scores.fingerprint.runs))
            scores = scores.anchor


def keep_shortened(access: Access, promotions: Sequence[Any]) -> None:
    """Take the digests of documents from which samples were erased. `promotions`: which were whole before that."""
    for row in promotions:
        path = access.project.root / FOLDER / row.name / row.file
        content = read_bytes(path) if path.is_file() else b""
        document = parse_document(content, path.name) if content else {"sha256": path.stem}
        if _name_file(document) != row.file:
            kept = keep_baseline(access.project.root, row.name, document["sha256"], content)
            own = (BASELINES.c.name == row.name) & (BASELINES.c.number == row.number)
            with writing(access.engine) as connection:
                here = update(BASELINES).where(BASELINES.c.namespace == access.namespace, own)
                connection.execute(here.values(file=kept.name))
            path.unlink()


def _find_newest(access: Access, branch: str, promotion: Any, *, is_green: bool) -> RunEntry | None:
    """Return the newest whole run of a branch that measured the same as the promoted one. None: there is none.

    Left out are runs of other manifests, and of the future, which would be the newest until then.

    Raises:
        ApiProblem: 409: The promoted run is gone, or one that may be the newest is damaged.
    """
    anchor = _find_finished(access, promotion.run_id)
    if anchor is None:
        gone = f"the promoted run {promotion.run_id} is gone or damaged, so evalspec cannot find comparable runs"
        raise conflict(f"{gone}; promote another: evalspec runs promote RUN --as server:{promotion.name}")
    with reading(access.engine) as connection:
        wanted = RunFilter(branch=branch, until=read_clock(connection) + FUTURE_SECONDS)
    verdicts = {VerdictStatus.PASS} if is_green else _WHOLE
    newest, damaged = None, []
    for entry in _list_all(access, wanted):
        if _is_damaged(access, entry):
            damaged.append(entry)
        elif entry.verdict in verdicts and _measures_the_same(entry, anchor):
            newest = entry
            break
    since = (newest or anchor).moment
    unread = replace(wanted, status=RunStatus.DAMAGED, branch=NO_BRANCH, since=since)
    damaged += [entry for entry in _list_all(access, unread) if _may_be_of(access, entry, branch)]
    for entry in damaged:
        if entry.moment >= since and (entry.manifest is None or _may_be_one(entry.manifest, anchor.manifest)):
            raise conflict(f"run {entry.id} is damaged, and may be the newest of {branch}. {_REPAIR}")
    return newest


def _list_all(access: Access, wanted: RunFilter) -> Iterator[RunEntry]:
    """Yield runs, newest first."""
    while found := access.runs.list(wanted, _RUNS_AT_ONCE):
        yield from found
        wanted = replace(wanted, before=(found[-1].moment, found[-1].id))


def _is_damaged(access: Access, entry: RunEntry) -> bool:
    """Return whether a run that was finished is damaged. Others were killed at their start, or interrupted."""
    folder = access.project.store.runs / entry.id
    if entry.status is RunStatus.INTERRUPTED:
        return (folder / MARK_NAME).exists()
    return entry.status is RunStatus.DAMAGED and any((folder / name).exists() for name in (MARK_NAME, REPORT_NAME))


def _may_be_of(access: Access, entry: RunEntry, branch: str) -> bool:
    """Return whether a run of no known branch may be of this one: its description is damaged."""
    if entry.manifest is not None or not _is_damaged(access, entry):
        return False
    with suppress(StoreError):
        mark = read_push_mark(access.project.store.runs / entry.id)
        if mark is not None and mark.ci is not None:
            return branch == (mark.ci.branch if mark.ci.pull_request is None else f":{mark.ci.pull_request}")
    return True


def _find_finished(access: Access, run_id: str) -> RunEntry | None:
    """Return a run as it is now. None: it is gone, damaged or not finished."""
    with suppress(ApiProblem):
        entry = access.runs.find(run_id)
        return entry if entry.status is RunStatus.FINISHED else None
    return None


def _measures_the_same(entry: RunEntry, anchor: RunEntry) -> bool:
    is_like = not entry.partial and _may_be_one(entry.manifest, anchor.manifest)
    return is_like and _list_series(anchor).items() <= _list_series(entry).items()


def _may_be_one(first: str | None, second: str | None) -> bool:
    """Return whether two manifests may be the same. Absolute paths differ by machine, so only their names count."""
    one, other = PurePath(first or ""), PurePath(second or "")
    return one == other or (one.name == other.name and (one.is_absolute() or other.is_absolute()))


def _list_series(entry: RunEntry) -> dict[tuple[str, str], str | None]:
    """Return what each metric of a run measured. See ListedValue."""
    return {(one.name, metric): value.series for one in entry.datasets for metric, value in one.metrics.items()}


def _compute(access: Access, run_id: str, over: Baseline | None, reason: str | None = None, **how: bool) -> Baseline:
    """Return the baseline of a finished run.

    Raises:
        ApiProblem: 409: The run cannot be read. Gates do not take that for a server that is away, and use no copy.
    """
    from evalspec.api.baseline_files import promote_stored

    if _find_finished(access, run_id) is None:
        raise conflict(f"run {run_id} is damaged or not finished any more. {_REPAIR}")
    try:
        stored = open_run(access.runs.find_folder(run_id))
        with _ONE:
            baseline, _ = promote_stored(access.project.store, stored, over, reason, **how)
    except DatabaseDown:
        raise
    except StoreError as error:
        if isinstance(error.__cause__, OSError) and _find_finished(access, run_id) is not None:
            raise  # it can be read later
        raise conflict(f"run {run_id} is damaged: {error}. {_REPAIR}") from error
    return baseline


def _digest(text: str) -> str:
    return str(parse_document(text, "the baseline")["sha256"])


def _answer(row: Any, baseline: Baseline) -> BaselineAnswer:
    text = render_baseline(baseline)
    own = {"run_id": baseline.run.id, "sha256": _digest(text), "document": text}
    return BaselineAnswer.model_validate({**row._mapping, **own})
