"""Alerts: what changed for a branch is queued in the database, and sent to the webhook of its namespace until accepted.

A branch of a manifest has a state: the verdict of its newest finished run, and whether the judge has drifted. A change
is stored together with its alerts, in one transaction, so it is queued once, whichever server sees it first.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from logging import WARNING
from threading import Event
from typing import Any
from urllib.parse import quote

import msgspec
from sqlalchemy import Connection, Engine, Row, Select, and_, delete, exists, func, select, update

from evalspec.base.errors import StoreError
from evalspec.base.foreign_text import cut, inert
from evalspec.base.json_text import compute_digest
from evalspec.model import VerdictStatus
from evalspec.model.corrections import Drift
from evalspec.model.listed_runs import RunEntry, RunStatus
from evalspec.model.verdicts import FUTURE_SECONDS
from evalspec.runs.store.stored_run import open_run
from evalspec.service.database import DAY_SECONDS, read_clock, reading, writing
from evalspec.service.jobs import create_id, lock_namespace
from evalspec.service.logs import log_event, log_exception
from evalspec.service.origins import describe_address
from evalspec.service.problems import ApiProblem
from evalspec.service.run_index import RunFilter, RunIndex
from evalspec.service.settings import ServiceSettings
from evalspec.service.tables import ALERTS, PROJECTS
from evalspec.service.timestamps import render_time
from evalspec.service.webhooks import Webhook, send_signed
from evalspec.verdict.summary import RUN_STOPPED

POLL_SECONDS = 5.0
FIRST_RETRY_SECONDS = 5.0
_LONGEST_PAUSE = 3600.0
_LEASE_SECONDS = 120.0
"""How long an alert that is being sent waits for its sender. Longer than looking up a name and sending take."""
_STEP_SECONDS = 1e-5
"""How much later each alert of a transaction is than the one before."""
_RUNS_LOOKED_AT, _MOST_RUNS = 500, 5000
"""How many of the newest runs are looked at: a run that took long is pushed when many others have begun since."""
_MOST_BRANCHES = 1000
"""How many states are kept. Of a branch that rests longer than so many others, the next run is like its first."""
_METRICS_SENT, _BROKEN_SHOWN = 50, 5
_LONGEST_NAME = 200


class AlertEvent(StrEnum):
    """What an alert is about."""

    VERDICT_CHANGED = "verdict_changed"
    JUDGE_DRIFTED = "judge_drifted"
    BUDGET_SPENT = "budget_spent"
    TEST = "test"


class AlertStatus(StrEnum):
    """Whether an alert was accepted. FAILED: it was not within a day."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


def keep_alerting(engine: Engine, settings: ServiceSettings, index: RunIndex, namespace: str, stop: Event) -> None:
    """Queue and send the alerts of a namespace until `stop` is set."""
    failure = ""
    while not stop.is_set():
        try:
            queue_alerts(engine, settings, index, namespace)
            while not stop.is_set() and (alert := _claim(engine, namespace)):
                _deliver(engine, settings.alerts[namespace], alert)
            failure = ""
        except StoreError as error:
            if failure != str(error):  # once, until it works again
                log_event("alerts wait", level=WARNING, namespace=namespace, error=str(error))
            failure = str(error)
        except Exception:  # a fault must not end the alerts for good
            log_exception("alerts failed", namespace=namespace)
        stop.wait(POLL_SECONDS)


def queue_alerts(engine: Engine, settings: ServiceSettings, index: RunIndex, namespace: str) -> None:
    """Store the state of each branch, and alerts about changes. Runs from before alerts were switched on have none.

    Raises:
        StoreError: The database or the runs cannot be read.
    """
    with reading(engine) as connection:
        known = connection.execute(_select_known(namespace)).scalar_one()
        until = read_clock(connection) + FUTURE_SECONDS
    wanted = RunFilter(status=RunStatus.FINISHED, until=until)
    new: list[RunEntry] = []
    for most in (_RUNS_LOOKED_AT, _MOST_RUNS) if known else (_MOST_RUNS,):
        new = [run for run in index.list(wanted, most)[::-1] if _is_news(known, run)]
        if len(new) < most:
            break
    if known and not new:
        return
    found = {run.id: set(_list_findings(index, run)) for run in new if known}
    with writing(engine) as connection:
        lock_namespace(connection, namespace)
        now = read_clock(connection)
        known = connection.execute(_select_known(namespace)).scalar_one() or {"since": now, "branches": {}}
        for run in filter(lambda one: _is_news(known, one), new):
            before = known["branches"].pop(_find_key(run), None)
            events = found.get(run.id, set())
            state = {"moment": run.moment, "run": run.id, "verdict": run.verdict}
            known["branches"][_find_key(run)] = {**state, "drifted": AlertEvent.JUDGE_DRIFTED in events}
            if before is not None and before["drifted"]:
                events -= {AlertEvent.JUDGE_DRIFTED}
            if before is not None and before["verdict"] != run.verdict:
                events |= {AlertEvent.VERDICT_CHANGED}
            for event in sorted(events) if run.moment >= known["since"] else ():
                said = _describe_run(settings, namespace, run, before and before["verdict"])
                body = {"id": create_id("alert"), "event": event, "at": render_time(now), **said}
                _queue(connection, body, now, branch=_find_key(run))
        known["branches"] = dict([*known["branches"].items()][-_MOST_BRANCHES:])
        connection.execute(update(PROJECTS).where(PROJECTS.c.namespace == namespace).values(alerts=known))


def queue_test(engine: Engine, namespace: str) -> None:
    """Store an alert that only says that it is a test."""
    with writing(engine) as connection:
        lock_namespace(connection, namespace)
        now = read_clock(connection)
        body = {"id": create_id("alert"), "event": AlertEvent.TEST, "at": render_time(now), "project": namespace}
        _queue(connection, body, now, f"a test of the alerts of project {_quote(namespace)}")


def _queue(
    connection: Connection, body: Mapping[str, Any], now: float, said: str | None = None, branch: str | None = None
) -> None:
    """Add an alert after all others of its namespace, which is locked. `branch`: the key of its state."""
    row = {"id": body["id"], "namespace": body["project"], "branch": branch, "next_at": now, "attempts": 0}
    is_sane = ALERTS.c.created_at < now + FUTURE_SECONDS  # others are by a wrong clock
    queued = select(func.max(ALERTS.c.created_at)).where(ALERTS.c.namespace == body["project"], is_sane)
    newest = connection.execute(queued).scalar_one()
    row["created_at"] = now if newest is None else max(now, newest + _STEP_SECONDS)
    text = msgspec.json.encode({"text": said or _render_text(body), **body}).decode()
    connection.execute(ALERTS.insert().values(**row, body=text, status=AlertStatus.PENDING))


def _select_known(namespace: str) -> Select[Any]:
    return select(PROJECTS.c.alerts).where(PROJECTS.c.namespace == namespace)


def _find_key(run: RunEntry) -> str:
    """Return the state's key. A fork's branch may be named like one here, so pull requests have states of their own."""
    return compute_digest([run.manifest, run.origin.branch, *filter(None, [_find_pull_request(run)])])[:32]


def _find_pull_request(run: RunEntry) -> str | None:
    return None if run.origin.ci is None else run.origin.ci.pull_request


def _is_news(known: Mapping[str, Any] | None, run: RunEntry) -> bool:
    """Return whether a run is newer than the state of its branch, or has another verdict since it was resumed."""
    state = known and known["branches"].get(_find_key(run))
    if run.verdict == VerdictStatus.SHARD:
        return False
    if not state or run.id == state["run"]:
        return not state or bool(run.verdict != state["verdict"])
    return bool((run.moment, run.id) > (state["moment"], state["run"]))


def _list_findings(index: RunIndex, run: RunEntry) -> Iterator[AlertEvent]:
    """Yield what the files of a run say beside its verdict. Nothing of a run that is gone or damaged."""
    with suppress(StoreError, ApiProblem):
        recorded, head = open_run(index.find_folder(run.id)).fingerprint, index.find_head(run.id)
        if any(one.state is Drift.DRIFTED for drifts in recorded.judge_drifts.values() for one in drifts.values()):
            yield AlertEvent.JUDGE_DRIFTED
        summaries = [summary for one in head.datasets for summary in one.metrics.values()] if head else []
        is_stopped = recorded.limits and any(one.no_interval == RUN_STOPPED for one in summaries)
        if is_stopped and run.verdict == VerdictStatus.INCOMPLETE:
            yield AlertEvent.BUDGET_SPENT


def _describe_run(settings: ServiceSettings, namespace: str, run: RunEntry, previous: str | None) -> dict[str, Any]:
    """Return what an alert says of a run: names and numbers, and no text of a sample."""
    query = f"?namespace={quote(namespace)}" if len(settings.projects) > 1 else ""
    metrics = [
        {"dataset": _name(one.name), "metric": _name(name), "value": value.value, "passed": value.passed}
        for one in run.datasets
        for name, value in one.metrics.items()
    ]
    return {
        "project": namespace,
        "manifest": _name(run.manifest),
        "branch": _name(run.origin.branch),
        "pull_request": _name(_find_pull_request(run)),
        "run_id": run.id,
        "run_url": f"{settings.public_url or describe_address(settings)}/runs/{quote(run.id)}{query}",
        "verdict": run.verdict,
        "previous_verdict": previous,
        "partial": run.partial,
        "metrics": sorted(metrics, key=lambda one: one["passed"] is None)[:_METRICS_SENT],
    }


def _name(text: str | None) -> str | None:
    """Return a name that somebody else has chosen as one line without control characters."""
    return text and cut(inert(text), _LONGEST_NAME)


_SAID = {
    AlertEvent.VERDICT_CHANGED: "{previous_verdict} → {verdict}",
    AlertEvent.JUDGE_DRIFTED: "the judge has changed since its calibration",
    AlertEvent.BUDGET_SPENT: "a limit of the run, such as --max-cost, ended it: {verdict}",
}


def _render_text(body: Mapping[str, Any]) -> str:
    """Return the alert in words for chats. In the markup of Slack, names are code, so nothing in them is obeyed."""
    named = {one: body[one] for one in ("project", "branch", "pull_request", "manifest") if body[one]}
    places = ", ".join(f"{one.replace('_', ' ')} {_quote(name)}" for one, name in named.items())
    broken = [one for one in body["metrics"] if one["passed"] is False and one["value"] is not None][:_BROKEN_SHOWN]
    lines = [f"{_quote(one['dataset'])}: {_quote(one['metric'])} is {one['value']:.4g} ✗" for one in broken]
    return "\n".join([f"*{_SAID[body['event']].format(**body)}*: {places}", *lines, body["run_url"]])


def _quote(name: str) -> str:
    escaped = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
    return f"`{escaped}`"


def _claim(engine: Engine, namespace: str) -> Row[Any] | None:
    """Return an alert that is due, and keep other senders from it for a while. None: none is due.

    An alert waits for older ones of its branch: the last message of a branch would be an old one otherwise.
    """
    older = ALERTS.alias()
    with writing(engine) as connection:
        now = read_clock(connection)
        waits = exists().where(
            older.c.namespace == namespace,
            older.c.branch == ALERTS.c.branch,
            older.c.status == AlertStatus.PENDING,
            older.c.created_at < ALERTS.c.created_at,
            older.c.next_at <= now + _LONGEST_PAUSE,  # others are by a wrong clock
        )
        is_due = and_(ALERTS.c.namespace == namespace, ALERTS.c.status == AlertStatus.PENDING, ALERTS.c.next_at <= now)
        due = select(ALERTS.c.id).where(is_due, ~waits).order_by(ALERTS.c.next_at, ALERTS.c.created_at).limit(1)
        id = connection.execute(due.with_for_update(skip_locked=True)).scalar_one_or_none()
        changed = update(ALERTS).where(ALERTS.c.id == id).returning(ALERTS)
        values = {"attempts": ALERTS.c.attempts + 1, "next_at": now + _LEASE_SECONDS}
        return connection.execute(changed.values(values)).one_or_none()


def _deliver(engine: Engine, hook: Webhook, alert: Row[Any]) -> None:
    """Send an alert that was just claimed, and store the outcome unless another sender has taken it over."""
    error = send_signed(hook, alert.id, alert.body.encode(), int(alert.next_at - _LEASE_SECONDS))
    with writing(engine) as connection:
        now = read_clock(connection)
        is_late = abs(now - alert.created_at) > DAY_SECONDS  # or its clock was wrong by days
        failed = AlertStatus.FAILED if is_late else AlertStatus.PENDING
        pause = min(FIRST_RETRY_SECONDS * 2 ** (alert.attempts - 1), _LONGEST_PAUSE)
        values = {"status": failed if error else AlertStatus.DELIVERED, "error": error, "next_at": now + pause}
        own = and_(ALERTS.c.id == alert.id, ALERTS.c.attempts == alert.attempts)
        connection.execute(update(ALERTS).where(own).values(values))
    if error is not None:
        known = {"namespace": alert.namespace, "alert": alert.id, "attempts": alert.attempts}
        log_event("an alert was not accepted", level=WARNING, **known, error=error)


def list_alerts(engine: Engine, namespace: str, limit: int) -> list[Row[Any]]:
    """Return alerts of a namespace, newest first: rows of the table."""
    own = select(ALERTS).where(ALERTS.c.namespace == namespace)
    with reading(engine) as connection:
        return list(connection.execute(own.order_by(ALERTS.c.created_at.desc()).limit(limit)))


def purge_alerts(engine: Engine, days: int) -> None:
    """Delete alerts that are older than so many days."""
    with writing(engine) as connection:
        connection.execute(delete(ALERTS).where(ALERTS.c.created_at < read_clock(connection) - days * DAY_SECONDS))
