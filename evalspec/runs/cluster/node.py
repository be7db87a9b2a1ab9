"""One node: a process that asks and scores attempts for a driver, which may be on another machine.

It gets a parcel and builds agent, metrics and judge itself, with the secrets of its own machine. What it hands over is
redacted.
"""

import asyncio
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, nullcontext, suppress
from pathlib import Path
from urllib.parse import urlsplit

from filelock import FileLock, Timeout
from msgspec.structs import replace

from evalspec.base.errors import AgentDown, EvalspecError, InvalidInput, Problem
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.model import Exchange, Sample, Score
from evalspec.model.log import InputRecord, ReplyRecord, ScoresRecord, StoredRecord, TurnRecord
from evalspec.runs.cluster.lending import LentBudget, LentCache
from evalspec.runs.cluster.messages import (
    Ask,
    Done,
    Farewell,
    FoundRecord,
    Message,
    NodeRefused,
    Parcel,
    Task,
    Told,
    Welcome,
    decode,
    encode,
    hide,
    reveal,
)
from evalspec.runs.planning.build import Plan, build_part
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.outlining import identify_metric
from evalspec.runs.runner.execute import agent_process, close_agent
from evalspec.runs.runner.fingerprint import list_versions
from evalspec.runs.runner.results import AttemptIndex
from evalspec.runs.runner.scoring import preload
from evalspec.runs.runner.turn_log import StoredTurns, TurnLogs
from evalspec.runs.runner.worker import LocalWorker, Scorable, work_here
from evalspec.runs.store.locks import LOCK_NAME
from evalspec.runs.store.log_index import AttemptKey
from evalspec.scoring.judge.usage import JudgeListener

_FOLDER = "evalspec-node-"
_COLLECT_SECONDS = 0.05
"""How long a node collects before it hands over. A kill costs no more than this, beside what is in flight."""
_STEPS = 4
"""How often a collection may end early, because something in it is urgent or the node is soon without work."""
_SECONDS_ALONE = 0.5
"""A node that hears nothing for so long begins no attempt, because nobody may be left to keep the reply."""


class Outbox:
    """What a node has found and not handed over yet. It gets the results of a worker, and has its attempts."""

    most = 1 << 62
    """See JobSource: nobody knows how many attempts will come."""

    def __init__(self, plan: Plan, seconds: float, node: int) -> None:
        self._plan, self._redaction = plan, plan.loaded.references.redaction
        self.budget = LentBudget(plan, seconds, node, self.add)
        self._datasets = {dataset.name: dataset for dataset in plan.datasets}
        self._jobs: dict[AttemptIndex, tuple[PlannedDataset, Sample, Sequence[str]]] = {}
        self._by_key: dict[AttemptKey, AttemptIndex] = {}
        self._turns = TurnLogs(self.keep_turn, None)
        self._to_ask: asyncio.Queue[AttemptIndex | None] = asyncio.Queue()
        self._found: list[Message] = []
        self.heard = time.monotonic()
        """When the driver was heard last."""
        self._news = asyncio.Event()

    def take_on(self, task: Task) -> Scorable | None:
        """Take on an attempt to ask, or return the one to score."""
        record = reveal(task.sample, self._redaction, InputRecord)
        dataset, sample = self._datasets[record.dataset], record.sample
        self._jobs[task.job] = dataset, sample, task.metrics
        self._by_key[AttemptKey(dataset.name, sample.id, task.job.attempt)] = task.job
        if task.reply is None:
            self._to_ask.put_nowait(task.job)
            return None
        scores = {} if task.scores is None else reveal(task.scores, self._redaction, ScoresRecord).scores
        exchange = reveal(task.reply, self._redaction, ReplyRecord).to_exchange(sample)
        return Scorable(task.job, exchange, scores, task.metrics)

    def add(self, message: Message) -> None:
        """Add something to hand over."""
        self._found.append(message)
        self._news.set()

    async def collect(self) -> list[Message]:
        """Return what was found since the last call: soon after there is something, or nothing after a while."""
        if not self._found:
            self._news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), _COLLECT_SECONDS)
        for _ in range(_STEPS if self._found else 0):
            is_urgent = any(isinstance(one, Ask) for one in self._found)
            await asyncio.sleep(_COLLECT_SECONDS / (25 if is_urgent else 5))
            if is_urgent or len(self._found) > len(self._jobs):  # it waits for an answer, or is soon without work
                break
        self.budget.give_back(is_idle=not self._jobs)
        found, self._found = self._found, []
        return found

    def end(self) -> None:
        """Nothing more is to be asked."""
        self._to_ask.put_nowait(None)

    async def take(self) -> tuple[AttemptIndex, Sample] | None:
        """See JobSource."""
        job = await self._to_ask.get()
        while time.monotonic() - self.heard > _SECONDS_ALONE:
            await asyncio.sleep(_COLLECT_SECONDS)
        if job is None:
            self.end()  # the other workers end too
            return None
        return job, self._jobs[job][1]

    def find(self, job: AttemptIndex) -> tuple[PlannedDataset, Sample]:
        """See Receiver."""
        dataset, sample, _ = self._jobs[job]
        return dataset, sample

    def choose_metrics(self, job: AttemptIndex) -> Sequence[str]:
        """See Receiver."""
        return self._jobs[job][2]

    def together(self) -> AbstractContextManager[None]:
        """See Receiver. What is found is handed over together in any case."""
        return nullcontext()

    def open_turns(self, job: AttemptIndex) -> StoredTurns:
        """See Receiver."""
        dataset, sample, _ = self._jobs[job]
        return self._turns.open(AttemptKey(dataset.name, sample.id, job.attempt))

    def keep_turn(self, record: TurnRecord) -> None:
        """See Receiver."""
        self._add_record(self._by_key[AttemptKey(record.dataset, record.id, record.attempt)], record)

    def keep_reply(self, job: AttemptIndex, exchange: Exchange) -> None:
        """See Receiver."""
        self._add_record(job, ReplyRecord.of(self._jobs[job][0].name, job.attempt, exchange))

    def keep_scores(self, job: AttemptIndex, sample: Sample, scores: Mapping[str, Score]) -> None:
        """See Receiver."""
        if scores:
            used = self._plan.services.usage.take_new()
            self._add_record(job, ScoresRecord(self._jobs[job][0].name, sample.id, job.attempt, scores, used))

    def finish(self, one: Scorable, scores: Mapping[str, Score]) -> None:  # noqa: ARG002 - the protocol's
        """See Receiver."""
        dataset, sample, _ = self._jobs.pop(one.job)
        del self._by_key[AttemptKey(dataset.name, sample.id, one.job.attempt)]
        self.add(Done(one.job))

    def _add_record(self, job: AttemptIndex, record: StoredRecord) -> None:
        self.add(FoundRecord(job, hide(record, self._redaction)))

    def __call__(self, *, asked: int, scored: int, failed: int) -> None:
        """See ProgressListener: the driver counts."""

    def ingested(self, done: int, total: int) -> None:
        """See ProgressListener: a node ingests nothing."""

    def judge_waits(self, seconds: float) -> None:
        """See ProgressListener."""
        self.add(Told(waits=seconds))

    def say(self, line: str) -> None:
        """See ProgressListener."""
        self.add(Told(says=self._redaction.mask(line)))


def _name_machine() -> str:
    """Return Ray's id of this machine."""
    import ray

    found: str = ray.get_runtime_context().get_node_id()
    return found


class Node:
    """The actor. Its methods take and return messages as bytes."""

    def __init__(self) -> None:
        self._opened = AsyncExitStack()
        self._to_score: asyncio.Queue[Scorable] = asyncio.Queue()

    async def start(self, data: bytes, node: int) -> bytes:
        """Build what is needed. Returns a Welcome, or a NodeRefused without having asked anything.

        `data`: a Parcel. `node`: the number of this node.
        """
        threading.excepthook = _end_with_loop
        for stream in (1, 2):  # Ray keeps what is printed, and evalspec redacts only what it stores
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        (parcel,) = decode(data)
        if not isinstance(parcel, Parcel):
            raise TypeError("a node starts with a parcel")
        try:
            self._plan = self._unpack(parcel)
            if parcel.starts_agent:
                self._plan = _give_port(self._plan)
                await self._opened.enter_async_context(agent_process(self._plan, None, needed=True))
        except InvalidInput as error:
            return encode([NodeRefused([one.render() for one in error.problems])])
        except EvalspecError as error:
            return encode([NodeRefused([str(error)], isinstance(error, AgentDown))])
        outbox = self._outbox = Outbox(self._plan, parcel.seconds, node)
        services, redaction = self._plan.services, self._plan.loaded.references.redaction
        services.listener = JudgeListener(
            lambda learned: outbox.add(Told(learned=learned)), outbox.judge_waits, outbox.say
        )
        services.budget = outbox.budget
        if not self._plan.options.no_cache:
            services.cache = LentCache(outbox.budget, self._plan)
            services.cache.report_to(services.usage, JudgeListener(says=outbox.say))
        await preload(self._plan)
        opened: asyncio.Future[LocalWorker] = asyncio.get_running_loop().create_future()
        self._scoring = asyncio.create_task(self._score_all(opened))
        self._worker = await opened
        has_agent = self._plan.target is not None or self._plan.agent is not None
        self._asking = asyncio.create_task(self._worker.ask_agent(outbox)) if has_agent else None
        return encode([Welcome(node, socket.gethostname(), _name_machine(), redaction.describe())])

    async def receive(self, data: bytes) -> None:
        """Take note of what the driver says."""
        self._outbox.budget.receive(decode(data))

    async def exchange(self, data: bytes) -> bytes:
        """Take on tasks, and return what was found since the last call."""
        self._outbox.heard = time.monotonic()
        for task in decode(data):
            scorable = self._outbox.take_on(task) if isinstance(task, Task) else None
            if scorable is not None:
                self._to_score.put_nowait(scorable)
        for working in (self._asking, self._scoring):
            if working is not None and working.done():
                working.result()  # it ended before its time
        return encode(await self._outbox.collect())

    async def _score_all(self, opened: "asyncio.Future[LocalWorker]") -> None:
        """Have replies scored until cancelled. What is found is handed over meanwhile, however long scoring takes."""
        async with work_here(self._plan, self._outbox, self._outbox) as worker:
            opened.set_result(worker)
            while True:
                await worker.score(await self._to_score.get())

    async def finish(self) -> bytes:
        """Close everything. Returns what was found since the last call, and a Farewell."""
        self._outbox.heard = time.monotonic()
        self._outbox.end()
        if self._asking is not None:
            await self._asking
        await self._worker.join()
        self._scoring.cancel()
        await asyncio.wait({self._scoring})
        await self._opened.aclose()
        services, notes = self._plan.services, [*self._worker.notes, *await close_agent(self._plan)]
        await services.aclose()
        if services.budget.limit is not None and services.budget.end is not None:
            self._outbox.add(Told(ended=(services.budget.limit, services.budget.end)))
        redact = self._plan.loaded.references.redact
        self._outbox.add(Farewell([redact(note) for note in notes], self._worker.lag_ms))
        return encode(await self._outbox.collect())

    def _unpack(self, parcel: Parcel) -> Plan:
        """Return the plan of a parcel.

        Raises:
            InvalidInput: A reference has no value here, or packages and metrics are others than the driver's.
        """
        for name in [name for name in os.environ if name.endswith("_NUM_THREADS")]:
            del os.environ[name]  # Ray limits threads, and the number of threads may change the last bit of a score
        os.environ.update(parcel.threads)
        _refuse_versions(parcel.versions)
        folder = open_folder(self._opened, _FOLDER)
        for name, content in parcel.files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        options = RunOptions(**parcel.options)
        entries = {
            name: [MetricEntry.model_validate(entry) for entry in found] for name, found in parcel.metrics.items()
        }
        plan = build_part(load_manifest(folder / parcel.manifest), options, entries)
        for dataset, here in identify_all(plan).items():
            there = parcel.identities[dataset]
            other = sorted(name for name in {*here, *there} if here.get(name) != there.get(name))
            if other:
                message = f"{other[0]} of dataset '{dataset}' is another metric on {socket.gethostname()}"
                raise InvalidInput(Problem(message, "use the same code, judge and variables on all nodes"))
        return plan


def _end_with_loop(ended: threading.ExceptHookArgs) -> None:
    """End the process after a KeyboardInterrupt of user code has ended the thread of its event loop.

    Nobody would notice otherwise. Other exceptions end only threads of the user.
    """
    if ended.exc_type is KeyboardInterrupt:
        os._exit(1)


def open_folder(opened: AsyncExitStack | ExitStack, prefix: str) -> Path:
    """Return a new folder. Those of processes that were killed are removed: nobody holds their locks."""
    for lock in Path(tempfile.gettempdir()).glob(f"{prefix}*/{LOCK_NAME}"):
        with suppress(Timeout, OSError), FileLock(lock, timeout=0):
            shutil.rmtree(lock.parent)
    new = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    folder = Path(opened.enter_context(new))
    try:
        opened.enter_context(FileLock(folder / LOCK_NAME))
    except FileNotFoundError:  # another process that starts now took it for the folder of one that was killed
        return open_folder(opened, prefix)
    return folder


def _give_port(plan: Plan) -> Plan:
    """Return the plan with the agent at a free port of this machine."""
    if plan.url is None or plan.target is None:
        raise ValueError("the plan has no agent")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        url = f"http://127.0.0.1:{probe.getsockname()[1]}{urlsplit(plan.url).path}"
    return replace(plan, url=url, target=replace(plan.target, url=url + plan.target.url.removeprefix(plan.url)))


def identify_all(plan: Plan) -> dict[str, dict[str, dict[str, str]]]:
    """Return the identities of the metrics of a plan, by dataset and name."""
    return {
        dataset.name: {name: identify_metric(plan, metric) for name, metric in dataset.metrics.items()}
        for dataset in plan.datasets
    }


def _refuse_versions(expected: Mapping[str, str]) -> None:
    found = list_versions()
    other = sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))
    if other:
        name = other[0]
        here, there = found.get(name, "not installed"), expected.get(name, "not installed")
        message = f"{name} is {here} on {socket.gethostname()}, and {there} where the run began"
        raise InvalidInput(Problem(message, "install the same versions on all nodes"))
