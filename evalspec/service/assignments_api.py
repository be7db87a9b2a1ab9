"""Routes of assignments: who is asked to label which replies of a run, and to review which triples of a gold set.

An assignment locks nothing: everybody may label all, and the share of a person who leaves goes to the others.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from sqlalchemy import String, delete, exists, select

from evalspec.base.errors import EvalspecError, InvalidInput
from evalspec.base.plural import counted
from evalspec.curation.labels.session import LabelSession
from evalspec.model.labels import Target
from evalspec.service.access import Access, Reading, Running
from evalspec.service.database import read_clock, reading, writing
from evalspec.service.documents import body_config, show_example
from evalspec.service.examples import MOMENT, RUN_ID
from evalspec.service.gold_people import assign_reviews, find_project_set
from evalspec.service.indexed_run import IndexedRun, open_indexed_run
from evalspec.service.jobs import create_id
from evalspec.service.json_bodies import JsonRoute
from evalspec.service.labelling import start_session
from evalspec.service.people import list_reviewers
from evalspec.service.problems import ApiProblem, not_found
from evalspec.service.tables import ASSIGNMENTS, RUNS
from evalspec.service.timestamps import render_time

ROUTER = APIRouter(prefix="/v1/assignments", tags=["labels"], route_class=JsonRoute)
GOLD = APIRouter(prefix="/v1/gold/{name}/assignments", tags=["gold"], route_class=JsonRoute)

_MOST_LISTED = 200
_MOST_COUNTED, _MOST_LOOKED_AT = 20, 10_000
"""The replies of so many assignments of the caller are counted, if their runs have so many samples and labels."""
_RANDOM = "random"
_QUEUE: dict[str, Any] = {"metric": "faithfulness", "draw": _RANDOM, "size": 50}
_ASKED: dict[str, Any] = {"people": ["ana@example.com", "ben@example.com", "cleo@example.com"], "people_per_reply": 2}
_REQUEST: dict[str, Any] = {"run_id": RUN_ID, "queue": _QUEUE, **_ASKED}
_ANSWER: dict[str, Any] = {"id": "assignment_0123456789ab", **_REQUEST, "left": ["cleo@example.com"]}
_ANSWER |= {"assigned_by": "dora@example.com", "assigned_at": MOMENT, "labelled": 12, "waiting": 38}

Draw = Literal["random", "strata", "decide", "new"]
Text = Annotated[str | None, Field(min_length=1, max_length=10_000)]
Number = Annotated[int | None, Field(ge=0, le=999_999_999)]


class LabelQueue(BaseModel):
    """Replies or scores of a run, as the page that labels them filters them."""

    model_config = body_config()
    metric: Text = Field(None, description="The scores of this metric; null: the replies.")
    dataset: Text = None
    tag: Text = None
    state: Literal["beyond"] | None = Field(None, description="Only what is beyond a threshold.")
    draw: Draw | None = Field(None, description="Hide the judge's score, and draw the replies so.")
    size: Number = Field(None, description="Random samples of each dataset; null: all.")
    seed: Number = None


class AssignmentRequest(BaseModel):
    """Who is asked to label what. `people_per_reply`: how many of them label each reply; null: all."""

    model_config = body_config(_REQUEST)
    run_id: str = Field(max_length=100)
    queue: LabelQueue = LabelQueue()
    people: list[Annotated[str, Field(max_length=300)]] = Field(min_length=1, max_length=50)
    people_per_reply: int | None = Field(None, ge=1, le=50, description="With a random draw, or without one.")


class AssignmentAnswer(AssignmentRequest):
    """An assignment. `labelled`, `waiting`: replies of the caller's share; null: it is not counted.

    `left`: people without the role by now, whose share the others have.
    """

    model_config = show_example(_ANSWER)
    id: str
    left: list[str]
    assigned_by: str
    assigned_at: str
    labelled: int | None
    waiting: int | None


class AssignmentList(BaseModel):
    """Assignments of the namespace: the caller's first, each newest first."""

    model_config = show_example({"assignments": [_ANSWER]})
    assignments: list[AssignmentAnswer]


class ReviewAssignment(BaseModel):
    """Whom to ask for reviews. `triples`: their ids. `count`: in place of them, so many that need a review most."""

    model_config = body_config({"reviewer": "ben", "count": 20})
    reviewer: str = Field(max_length=300, description="One of the people of the set.")
    triples: list[Annotated[str, Field(max_length=2000)]] = Field([], max_length=1000)
    count: int = Field(0, ge=0, le=1000)


class AssignedReviews(BaseModel):
    """The triples that a person was asked to review."""

    model_config = show_example({"triples": ["refund"]})
    triples: list[str]


@ROUTER.get("", summary="List assignments")
def get_assignments(access: Reading) -> AssignmentList:
    """Return who is asked to label what, without what anybody said. The caller's come first."""
    return AssignmentList(assignments=list_assignments(access))


@ROUTER.post("", status_code=HTTPStatus.CREATED, summary="Assign labels")
def add_assignment(asked: AssignmentRequest, access: Running) -> AssignmentAnswer:
    """Ask people to label replies or scores of a run. Each needs the role `reviewer`, `editor` or `admin`.

    A reply goes to the same people if it is assigned again. Everybody may still label everything.
    """
    queue = {name: str(value) for name, value in asked.queue.model_dump(exclude_none=True).items()}
    id = assign_labels(access, asked.run_id, queue, asked.people, asked.people_per_reply)
    row, able = _find_row(access, id), list_reviewers(access.engine, access.namespace)
    open_run = partial(open_indexed_run, access)
    return _describe(row, able, _open_share(access.caller.user, row, able, _MOST_LOOKED_AT, open_run)[0])


@ROUTER.delete("/{assignment_id}", status_code=HTTPStatus.NO_CONTENT, summary="End an assignment")
def end_assignment(assignment_id: str, access: Running) -> None:
    """End an assignment. Labels stay."""
    with writing(access.engine) as connection:
        found = connection.execute(delete(ASSIGNMENTS).where(*_find(access, assignment_id))).rowcount
    if not found:
        raise not_found("there is no such assignment", "GET /v1/assignments lists all")
    access.record("labels assign end", assignment_id)


@GOLD.post("", status_code=HTTPStatus.CREATED, summary="Assign reviews")
def assign_triples(name: str, asked: ReviewAssignment, access: Running) -> AssignedReviews:
    """Ask a person of the set to review triples, or to adjudicate disputed ones: they come first in their queue.

    The person needs the role `reviewer`, `editor` or `admin`. Others can still review the triples.
    """
    root = find_project_set(access.project, name)
    entries = assign_reviews(access, root, asked.reviewer, asked.triples, asked.count)
    return AssignedReviews(triples=[entry.id for entry in entries])


def assign_labels(
    access: Access, run_id: str, queue: Mapping[str, str], people: Sequence[str], each: int | None
) -> str:
    """Store an assignment, and return its id. `queue`: the filters of the page. `each`: people for each reply.

    Raises:
        ApiProblem: The run does not exist, is damaged, or is being prepared.
        InvalidInput: Somebody may not label, nothing matches, or the draw cannot be shared.
    """
    run, names = open_indexed_run(access, run_id), sorted({*people})
    unable = sorted({*names} - {*list_reviewers(access.engine, access.namespace)})
    if unable or not names:
        said = f"{', '.join(unable)} may not label here" if unable else "nobody is chosen"
        raise InvalidInput(said, "choose people with the role reviewer, editor or admin; /people gives roles")
    if each is not None and each > len(names):
        said = f"{counted(len(names), 'person', 'people')} cannot give {each} labels for each reply"
        raise InvalidInput(said, "choose more people, or fewer for each reply")
    if each is not None and queue.get("draw", _RANDOM) != _RANDOM:
        raise InvalidInput("this draw depends on a person's own labels", "let each person label all, or draw random")
    if not start_session(run, access.caller.user, queue).total:
        raise InvalidInput("no reply or score of the run matches", "choose others")
    id, asked = create_id("assignment"), {"run_id": run_id, "queue": dict(queue), "people": names, "each": each}
    with writing(access.engine) as connection:
        given = {"namespace": access.namespace, "user": access.caller.user, "created_at": read_clock(connection)}
        connection.execute(ASSIGNMENTS.insert().values(id=id, **asked, **given))
    access.record("labels assign", f"{id} {run_id} {' '.join(names)}")
    return id


def list_assignments(access: Access) -> list[AssignmentAnswer]:
    """Return the assignments of the namespace, those of the caller first, newest first."""
    access.runs.refresh()
    by, able = access.caller.user, list_reviewers(access.engine, access.namespace)
    is_own = ASSIGNMENTS.c.people.cast(String).contains(json.dumps(by), autoescape=True)
    has_run = exists().where(RUNS.c.namespace == access.namespace, RUNS.c.id == ASSIGNMENTS.c.run_id)
    here = select(ASSIGNMENTS).where(ASSIGNMENTS.c.namespace == access.namespace, has_run)
    ordered = here.order_by(is_own.desc(), ASSIGNMENTS.c.created_at.desc(), ASSIGNMENTS.c.id)
    with reading(access.engine) as connection:
        rows = connection.execute(ordered.limit(_MOST_LISTED)).all()
    found, left, open_run = list[AssignmentAnswer](), _MOST_LOOKED_AT, cache(partial(open_indexed_run, access))
    for place, row in enumerate(sorted(rows, key=lambda one: by not in one.people)):
        session, size = _open_share(by, row, able, left, open_run) if place < _MOST_COUNTED else (None, 0)
        found.append(_describe(row, able, session))
        left -= size
    return found


def _open_share(
    by: str, row: Any, able: Sequence[str], most: int, open_run: Callable[[str], IndexedRun]
) -> tuple[LabelSession | None, int]:
    """Return a person's share of an assignment, and how many samples and labels its run has.

    None: there is none, the run has more than `most`, or it cannot be opened: its pages say more.
    """
    if by in row.people:
        with suppress(ApiProblem, EvalspecError):
            run = open_run(row.run_id)
            size = sum(one.selected for one in run.stored.fingerprint.datasets) + len(run.read_labels())
            if size <= most:
                session = start_session(run, by, row.queue)
                _leave_out(row, able, run, session)
                return session, size
    return None, 0


def _describe(row: Any, able: Sequence[str], session: LabelSession | None) -> AssignmentAnswer:
    queue: dict[str, Any] = {
        name: int(value) if name in ("size", "seed") else value for name, value in row.queue.items()
    }
    return AssignmentAnswer(
        id=row.id,
        run_id=row.run_id,
        queue=LabelQueue(**queue),
        people=row.people,
        people_per_reply=row.each,
        left=sorted({*row.people} - {*able}),
        assigned_by=row.user,
        assigned_at=render_time(row.created_at),
        labelled=None if session is None else session.total - session.remaining,
        waiting=None if session is None else session.remaining,
    )


def keep_share(access: Access, run: IndexedRun, session: LabelSession, id: str | None) -> None:
    """Leave out of a session what an assignment gives to others. It leaves out nothing if it has ended."""
    row = None if id is None else _find_row(access, id)
    if row is not None:
        _leave_out(row, list_reviewers(access.engine, access.namespace), run, session)


def _leave_out(row: Any, able: Collection[str], run: IndexedRun, session: LabelSession) -> None:
    """Leave out of a session what an assignment gives to others. `able`: who has the role now.

    A reply is of those who have labelled it, then of the people whose hash of it is smallest, so nobody else's share
    changes when somebody leaves. In a draw, only blind labels count, and nobody is asked who has labelled otherwise.
    """
    by, there, each = session.by, {*row.people}.intersection(able), row.each
    if each is None or row.run_id != run.id or by not in there:
        return
    known = run.read_labellers()
    begun = {one: sha256(f"({one!r}, ".encode()) for one in there}

    def hash_for(one: str, target: Target) -> bytes:
        state = begun[one].copy()
        state.update(repr(target)[1:].encode())
        return state.digest()

    def is_own(target: Target) -> bool:
        said = {one: blind for one, blind in known.get(target, {}).items() if one in row.people}
        done = [one for one, blind in said.items() if blind or "draw" not in row.queue]
        if by in said:
            return by in done[:each]
        own, free = hash_for(by, target), max(int(each) - len(done), 0)
        before = (one for one in there - said.keys() - {by} if hash_for(one, target) < own)
        return len([*islice(before, free)]) < free

    session.keep_only(is_own)


def _find_row(access: Access, id: str) -> Any:
    """Return the row of an assignment; None without one."""
    with reading(access.engine) as connection:
        return connection.execute(select(ASSIGNMENTS).where(*_find(access, id))).one_or_none()


def _find(access: Access, id: str) -> Sequence[Any]:
    return ASSIGNMENTS.c.namespace == access.namespace, ASSIGNMENTS.c.id == id
