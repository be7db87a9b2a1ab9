"""The driver's side of a run on many machines: it hands out attempts, and gets what the nodes find.

Ray runs in a process of its own, the bridge. So it decides nothing here: neither signals nor the exit code, and it
writes to no stream. If it ends, the run can be resumed.
"""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem, Unmeasurable
from evalspec.base.text import one_line
from evalspec.model import NOT_ASKED, Cause, Exchange, Sample, Score
from evalspec.model.log import LOG_RECORD, InputRecord, ReplyRecord, ScoresRecord, TurnRecord
from evalspec.runs.cluster.lending import Lender
from evalspec.runs.cluster.messages import (
    Admitted,
    Done,
    Farewell,
    Finish,
    FoundRecord,
    Halt,
    LostAttempt,
    Message,
    NodeEnded,
    NodeRefused,
    Parcel,
    Placement,
    Task,
    Told,
    Welcome,
    hide,
    read,
    reveal,
    write,
)
from evalspec.runs.cluster.node import identify_all
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.inputs import list_shared_files
from evalspec.runs.planning.sharding import HERE, has_own_agents
from evalspec.runs.runner.fingerprint import list_versions
from evalspec.runs.runner.results import AttemptIndex
from evalspec.runs.runner.targets import ProgressListener
from evalspec.runs.runner.worker import Receiver, Scorable, score_here
from evalspec.scoring.metrics.base import Metric
from evalspec.targets.agents.replay import replay
from evalspec.targets.http.failures import shown_url
from evalspec.targets.http.pacing import Breaker
from evalspec.targets.http.routes import is_loopback
from evalspec.targets.process import NEW_GROUP, kill_group

if TYPE_CHECKING:
    from evalspec.runs.runner.tracing import Tracing

_SECONDS_TO_END, _SECONDS_TO_REACH = 10.0, 10.0
_NAME_A_HOST = "name a host that all nodes reach, or for an agent with a command set run.agent: per-node"
_LEAST_HELD = 16
_HELD_PER_SLOT = 8
"""Attempts that are handed out at the same time, per concurrent request: enough for nodes that are never idle."""
_HELD_TO_SCORE = 1024  # the same if neither agent nor judge is asked, so that nothing is paid for twice
_TRAVELLING = (
    "url", "timeout", "no_judge", "judge_repeat", "concurrency", "no_content", "allow_actions",
    "max_cost", "max_judge_calls", "max_tokens", "max_time",
)  # fmt: skip
"""The options that nodes need."""


class _Held(Struct):
    """An attempt that a node has. `exchange`: its reply, once there is one. `scores`: those that it has."""

    metrics: Collection[str]
    sample: Sample
    exchange: Exchange | None
    scores: dict[str, Score]
    known: Mapping[str, Score] = {}


class ClusterWorker(Struct):
    """Works on attempts through the nodes of a bridge. See Worker."""

    plan: Plan
    receiver: Receiver
    progress: ProgressListener
    writer: asyncio.StreamWriter
    room: asyncio.Semaphore
    lender: Lender
    held: dict[AttemptIndex, _Held] = field(default_factory=dict)
    breaker: Breaker = field(default_factory=Breaker)
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    notes: list[str] = field(default_factory=list)
    lag_ms: float = 0.0

    async def ask_all(self, jobs: Sequence[AttemptIndex]) -> None:
        """See Worker. Recorded replies need nobody to ask."""
        for job in jobs:
            dataset, sample = self.receiver.find(job)
            metrics = self.receiver.choose_metrics(job)
            exchange = self._find_reply(dataset.name, sample)
            if exchange is None:
                self.receiver.open_turns(job).supersede()  # a conversation begins again on another machine
                await self._hand_out(job, _Held(metrics, sample, None, {}))
            else:
                self.receiver.keep_reply(job, exchange)
                await self.score(Scorable(job, exchange, {}, metrics))

    def _find_reply(self, dataset: str, sample: Sample) -> Exchange | None:
        """Return a reply that is known without asking: a recorded one, or why nobody is asked any more."""
        if self.plan.options.has_replies:
            return replay(self.plan.replies or {}, dataset, sample)
        end = self.breaker.down or self.plan.services.budget.find_time_out()
        return Exchange(sample, error=f"{NOT_ASKED}{end}", unreachable=True) if end else None

    async def score(self, one: Scorable) -> None:
        """See Worker. Once the judge is asked no more, nothing is left that nodes could do."""
        if self.plan.services.budget.is_stopped:
            await (score_here(self.plan, self.receiver, one) or asyncio.sleep(0))
            return
        sample = one.exchange.sample
        await self._hand_out(one.job, _Held(one.metrics, sample, one.exchange, {}, one.scores))

    async def join(self) -> None:
        """See Worker."""
        while self.held:
            self.idle.clear()
            await self.idle.wait()

    async def _hand_out(self, job: AttemptIndex, held: _Held) -> None:
        await self.room.acquire()
        self.held[job] = held
        redaction, dataset = self.plan.loaded.references.redaction, self.receiver.find(job)[0].name
        reply = scores = None
        if held.exchange is not None:
            reply = hide(ReplyRecord.of(dataset, job.attempt, held.exchange), redaction)
            scores = hide(ScoresRecord(dataset, held.sample.id, job.attempt, held.known), redaction)
        sample = hide(InputRecord(dataset, held.sample), redaction)
        write(self.writer, [Task(job, tuple(held.metrics), sample, reply, scores)])
        await self.writer.drain()

    def receive(self, message: Message) -> None:
        """Take note of what a node or the bridge says."""
        match message:
            case FoundRecord(job, line):
                self._keep(job, line)
            case Done(job):
                self._finish(job)
            case LostAttempt(job, why):
                self._fail(job, why)
            case Told():
                self._listen(message)
            case Farewell(notes, lag_ms):
                self.notes += [note for note in notes if note not in self.notes]
                self.lag_ms = max(self.lag_ms, lag_ms)
            case Welcome(node):
                write(self.writer, [Admitted(node, self._find_misfit(message))])
            case NodeEnded(node):
                self.lender.forget(node)
            case _:
                self.lender.receive(message)

    def _find_misfit(self, welcome: Welcome) -> str | None:
        """Return why a node that begins later must not work; None: it may."""
        try:
            _admit(self.plan, welcome, self.progress)
        except InvalidInput as error:
            return error.problems[0].render()
        self.lender.nodes.add(welcome.node)
        return None

    def _keep(self, job: AttemptIndex, line: bytes) -> None:
        held = self.held[job]
        record = reveal(line, self.plan.loaded.references.redaction, LOG_RECORD)
        if isinstance(record, ReplyRecord):
            held.exchange = replace(record.to_exchange(held.sample), given_digest=record.answer_digest)
            self._watch(held.exchange)
            self.receiver.keep_reply(job, held.exchange)
        elif isinstance(record, ScoresRecord):
            self.plan.services.budget.count_elsewhere(record.judge_usage)
            held.scores.update(record.scores)
            self.receiver.keep_scores(job, held.sample, record.scores)
        elif isinstance(record, TurnRecord):
            self.receiver.keep_turn(record)

    def _watch(self, exchange: Exchange) -> None:
        """Stop handing out attempts once the agent is down, and let no node ask it: none of them decides that."""
        if exchange.reply is not None:
            self.breaker.saw_reply()
        elif self.breaker.down is None and not (exchange.error or "").startswith(NOT_ASKED):
            self.breaker.saw_failure(exchange.error or "", unreachable=exchange.unreachable)
            if self.breaker.down is not None:
                self.lender.broadcast(partial(Halt, why=self.breaker.down))

    def _finish(self, job: AttemptIndex) -> None:
        held = self.held.pop(job)
        self.room.release()
        self.idle.set()
        if held.exchange is None:
            raise Unmeasurable("a node finished an attempt that has no reply")
        scores = {**held.known, **held.scores}
        scorable = Scorable(job, held.exchange, held.known, held.metrics)
        self.receiver.finish(scorable, {name: scores[name] for name in held.metrics})

    def _fail(self, job: AttemptIndex, why: str) -> None:
        """Fail an attempt that ended two nodes."""
        held = self.held[job]
        if held.exchange is None:
            held.exchange = Exchange(held.sample, error=why)
            self.receiver.keep_reply(job, held.exchange)
        there = held.scores.keys() | held.known.keys()
        missing = {name: Score.failed(why, Cause.OTHER) for name in held.metrics if name not in there}
        held.scores.update(missing)
        self.receiver.keep_scores(job, held.sample, missing)
        self._finish(job)

    def _listen(self, told: Told) -> None:
        services = self.plan.services
        if told.learned:
            services.listener.learns(told.learned)
        if told.waits is not None:
            self.progress.judge_waits(told.waits)
        if told.says is not None:
            self.progress.say(told.says)
        if told.ended is not None:
            services.budget.stop(*told.ended)


@asynccontextmanager
async def work_on_ray(
    plan: Plan, receiver: Receiver, progress: ProgressListener, _tracing: "Tracing | None" = None
) -> AsyncIterator[ClusterWorker]:
    """Open a worker on the nodes of Ray for the duration of the block.

    Raises:
        InvalidInput: Ray is not installed, or a node cannot do what the driver does. Nothing was asked.
        Unmeasurable: Ray has ended. What the nodes found is stored.
    """
    parcel, placement = pack(plan), find_placement(plan)
    if placement.address is not None:
        await _reach(placement.address)
    with ExitStack() as opened:
        said = opened.enter_context(tempfile.TemporaryFile())
        ours, theirs = socket.socketpair()
        bridge = _start_bridge(theirs, said)
        opened.callback(_end, bridge)
        reader, writer = await asyncio.open_connection(sock=ours)
        opened.callback(writer.close)
        opened.callback(ours.shutdown, socket.SHUT_RDWR)  # at once: the bridge ends when nobody listens
        write(writer, [placement, parcel])
        welcomes = await _read(reader, said)
        for welcome in welcomes:
            _admit(plan, welcome, progress)
        is_free = plan.options.has_replies and not plan.judged
        held = _HELD_TO_SCORE if is_free else _HELD_PER_SLOT * plan.options.concurrency
        room = asyncio.Semaphore(_LEAST_HELD if plan.options.fail_fast else max(_LEAST_HELD, held))
        async with asyncio.TaskGroup() as group:
            lender = Lender(plan.services, lambda message: write(writer, [message]), group)
            lender.nodes |= {one.node for one in welcomes if isinstance(one, Welcome)}
            worker = ClusterWorker(plan, receiver, progress, writer, room, lender)
            listening = group.create_task(_listen(reader, worker, said))
            yield worker
            write(writer, [Finish()])
            await listening


async def _reach(address: str) -> None:
    """Check that something listens at an address, because Ray would try for minutes.

    Raises:
        Unmeasurable: Nothing does.
    """
    host, _, port = address.replace("[", "").replace("]", "").rpartition(":")
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), _SECONDS_TO_REACH)
    except (OSError, TimeoutError) as error:
        raise Unmeasurable(f"no Ray can be reached at {address}: {error or 'no answer'}") from error
    writer.close()


def _start_bridge(theirs: socket.socket, said: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start the process that runs Ray. Telemetry is off before Ray is imported. `said`: gets what it writes."""
    command = [sys.executable, "-m", "evalspec.runs.cluster.bridge", str(theirs.fileno())]
    with theirs:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            pass_fds=[theirs.fileno()],
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
            **NEW_GROUP,
        )


def _end(bridge: "subprocess.Popen[bytes]") -> None:
    """Wait until the bridge has ended, which it does once nobody listens, or kill it."""
    with suppress(subprocess.TimeoutExpired):
        bridge.wait(_SECONDS_TO_END)
    kill_group(bridge)
    bridge.wait()


async def _read(reader: asyncio.StreamReader, said: IO[bytes]) -> Sequence[Message]:
    """Return the next messages of the bridge.

    Raises:
        Unmeasurable: The bridge has ended.
    """
    try:
        return await read(reader)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        said.seek(0)
        lines = [line for line in said.read().decode(errors="replace").splitlines() if line.strip()]
        last = f": {one_line(lines[-1])}" if lines else ""
        raise Unmeasurable(f"Ray has ended{last}") from error


async def _listen(reader: asyncio.StreamReader, worker: ClusterWorker, said: IO[bytes]) -> None:
    while True:
        for message in await _read(reader, said):
            if isinstance(message, Finish):
                return
            worker.receive(message)


def _admit(plan: Plan, message: Message, progress: ProgressListener) -> None:
    """Take note of a node.

    Raises:
        InvalidInput: It refuses, or resolves a reference to another value than this machine does.
    """
    if isinstance(message, NodeRefused):
        if message.is_down:
            raise Unmeasurable("; ".join(message.problems))
        raise InvalidInput(Problem(line) for line in message.problems)
    if isinstance(message, Told) and message.says is not None:
        progress.say(message.says)
    if isinstance(message, Welcome):
        redaction = plan.loaded.references.redaction
        known = {name: digest for name, digest in message.references.items() if name in redaction.names}
        if changed := sorted(redaction.list_changed(known)):
            why = f"${changed[0]} has another value on {message.host} than here"
            raise InvalidInput(Problem(why, "set the same value on all nodes"))
        local = _find_local(plan) if message.host != socket.gethostname() else None
        if local is not None:
            why = f"{local} is this machine's, and {message.host} would ask its own"
            raise InvalidInput(Problem(why, _NAME_A_HOST))


def _find_local(plan: Plan) -> str | None:
    """Return an address that means another service on another machine; None without one."""
    services = plan.services
    urls = [plan.target.url] if plan.target and not has_own_agents(plan.loaded, plan.options) else []
    urls += [one.base_url for one in (*(plan.judge.members if plan.judge else ()), plan.user) if one is not None]
    urls += [services.embeddings.base_url] if services.embeddings.provider != "local" else []
    return next((shown_url(url) for url in urls if is_loopback(urlsplit(url).hostname or "")), None)


def pack(plan: Plan) -> Parcel:
    """Return what nodes get of a plan: an allow-list."""
    contents = {name: path.read_bytes() for name, path in list_shared_files(plan.loaded, plan.datasets).items()}
    given = {name: getattr(plan.options, name) for name in _TRAVELLING} | {"on": HERE}
    given |= {"stored": {}} if plan.options.has_replies else {}  # then nodes need no agent
    given |= {"no_cache": plan.services.cache is None, "fresh": plan.options.fresh or plan.policy.fresh}
    metrics = {one.name: [*one.metrics.values()] for one in plan.datasets}
    return Parcel(
        manifest=plan.loaded.path.name,
        files=contents,
        options={name: value for name, value in given.items() if value is not None},
        metrics={name: [_dump(metric) for metric in found] for name, found in metrics.items()},
        identities=identify_all(plan),
        versions=list_versions(),
        threads={name: value for name, value in os.environ.items() if name.endswith("_NUM_THREADS")},
        seconds=plan.services.budget.seconds,
        starts_agent=has_own_agents(plan.loaded, plan.options),
    )


def _dump(metric: Metric) -> Mapping[str, Any]:
    if metric.entry is None:
        raise ValueError(f"{metric.name} was not resolved from an entry")
    return metric.entry.model_dump(mode="json", exclude_unset=True)


def find_placement(plan: Plan) -> Placement:
    """Return where the nodes of a plan run."""
    declared, on = plan.loaded.manifest.spec.evaluation.run, plan.placed_on or ""
    _, _, address = on.partition(":")
    most = min(plan.options.concurrency, plan.total)
    memory = None if declared.memory_mb is None else declared.memory_mb << 20
    return Placement(address or None, most, declared.nodes, declared.cpus, memory)
