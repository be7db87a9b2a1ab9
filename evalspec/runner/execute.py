"""One run, from a plan to a Run: asked, scored, aggregated, gated, and on disk all along."""

import asyncio
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import groupby
from typing import NamedTuple

from evalspec.errors import EvalspecError
from evalspec.model import Attempt, Exchange, JudgeUsage, Run, Sample, SampleStatus, Score, SearchTrace
from evalspec.outline import RunOutline
from evalspec.planning.build import Plan
from evalspec.planning.draft import PlannedDataset, needs_of
from evalspec.runner.agent_process import agent_process
from evalspec.runner.conclude import RunMetadata, conclude
from evalspec.runner.known_attempts import KnownAttempt, KnownAttempts
from evalspec.runner.lag import LagMeter
from evalspec.runner.results import Results
from evalspec.runner.scoring import score_exchange
from evalspec.runner.session import Session, keep_reuse
from evalspec.runner.targets import Jobs, JobTarget, ProgressListener, open_agent, open_dataset
from evalspec.store.log_index import AttemptKey
from evalspec.store.log_records import reply_record, scores_record
from evalspec.store.run_log import RunLog

_AGENT = -1
"""The party of datasets without a retriever: before the datasets, which have their numbers."""

_PRELOAD_GRACE_SECONDS = 0.3
"""How long the first request may take before the judge's libraries are loaded beside it: an agent that is down is
known by then, and nothing is loaded for it."""


class AttemptIndex(NamedTuple):
    """One asking: numbers of the dataset and of the sample in it, and the attempt, from 1."""

    dataset: int
    position: int
    attempt: int


@dataclass(slots=True)
class _Counts:
    asked: int = 0
    scored: int = 0
    failed: int = 0


_Scorable = tuple[AttemptIndex, Exchange, dict[str, Score]]
"""An exchange that is to be scored, with the scores that it has already."""


@dataclass(slots=True)
class _Execution:
    """The state of one run. Replies are not kept: they go to the log, and only scores stay in memory.

    `known`: attempts of which everything is stored. `to_score`: those that are to be scored, or only copied.
    """

    plan: Plan
    outline: RunOutline
    log: RunLog
    progress: ProgressListener
    known_attempts: KnownAttempts | None
    run_metadata: RunMetadata
    results: Results
    counts: _Counts = field(default_factory=_Counts)
    to_ask: list[AttemptIndex] = field(default_factory=list)
    to_score: list[AttemptIndex] = field(default_factory=list)
    known: list[AttemptIndex] = field(default_factory=list)
    first_exchange: asyncio.Event = field(default_factory=asyncio.Event)

    def sort_out(self) -> None:
        """Find out what is known already, what is only to be scored, and what is to be asked."""
        if self.known_attempts is None:
            self.to_ask.extend(self._jobs())
            return
        for job in self._jobs():
            recalled = self._recall(job, self._find(job)[1])
            if recalled is None:
                self.to_ask.append(job)
            elif self.known_attempts.is_own and len(recalled.scores) == len(self.plan.datasets[job.dataset].metrics):
                self.known.append(job)
            else:
                self.to_score.append(job)
        self.counts.scored = len(self.known)

    def _recall(self, job: AttemptIndex, sample: Sample, *, last: bool = False) -> KnownAttempt | None:
        """What is stored of an asking. `last`: it is not looked up again."""
        if self.known_attempts is None:
            return None
        dataset = self.plan.datasets[job.dataset]
        key = AttemptKey(dataset.name, sample.id, job.attempt)
        found = self.known_attempts.find(key, [metric.name for metric in dataset.metrics])
        if last:
            self.known_attempts.index.attempts.pop(key, None)
        return found

    async def run(self) -> Run:
        plan = self.plan
        scorers = plan.judge.concurrency if plan.judged and plan.judge else 4
        queue: asyncio.Queue[_Scorable] = asyncio.Queue(maxsize=2 * scorers)
        targets = self._list_targets(queue)
        lag = LagMeter()
        if plan.gates_latency and self.to_ask:
            await self._preload()
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._score_from(queue)) for _ in range(scorers)]
            preload = group.create_task(self._preload_beside(targets))
            measuring = group.create_task(lag.measure())
            scoring = group.create_task(self._score_recalled(queue))
            for target in targets:
                await target.ask_all()
            measuring.cancel()
            await scoring
            await preload
            await queue.join()
            for worker in workers:
                worker.cancel()
        self._keep_known()
        usage = dict(plan.services.usage.by_metric)
        for metric, used in (
            self.known_attempts.index.judge_usage if self.known_attempts and self.known_attempts.is_own else {}
        ).items():
            usage[metric] = usage.get(metric, JudgeUsage()) + used
        run_metadata = dataclasses.replace(
            self.run_metadata,
            notes=tuple(note for target in targets for note in target.notes),
            own_lag_ms=lag.p95_ms,
            judge_usage=usage,
        )
        return conclude(self.outline, self.log.id, self.results.list(), run_metadata)

    def _list_targets(self, queue: "asyncio.Queue[_Scorable]") -> list[JobTarget[AttemptIndex]]:
        """Who is asked, one after the other: the agent for all its datasets, a retriever for one dataset."""

        async def receive(job: AttemptIndex, exchange: Exchange) -> None:
            self._keep_reply(job, exchange)
            await queue.put((job, exchange, {}))

        targets = []
        for number, group in groupby(sorted(self.to_ask, key=self._target_of), key=self._target_of):
            asked = Jobs(list(group), lambda job: self._find(job)[1])
            if number == _AGENT:
                targets.append(open_agent(self.plan, asked, receive))
            else:
                targets.append(open_dataset(self.plan, self.plan.datasets[number], asked, receive, self.progress))
        return targets

    def _target_of(self, job: AttemptIndex) -> int:
        """The number of the dataset that has a retriever of its own, else that of the agent."""
        return job.dataset if self.plan.datasets[job.dataset].retriever is not None else _AGENT

    def needs_agent(self) -> bool:
        """Whether anything is asked at the agent's address."""
        return any(self.plan.datasets[job.dataset].is_at_agent for job in self.to_ask)

    def _jobs(self) -> Iterator[AttemptIndex]:
        for number, dataset in enumerate(self.plan.datasets):
            for attempt in range(1, self.plan.options.repeat + 1):
                for position in range(len(dataset.samples)):
                    yield AttemptIndex(number, position, attempt)

    def _find(self, job: AttemptIndex) -> tuple[PlannedDataset, Sample]:
        dataset = self.plan.datasets[job.dataset]
        return dataset, dataset.samples[job.position]

    def _keep_reply(self, job: AttemptIndex, exchange: Exchange) -> None:
        self.log.append(reply_record(self.plan.datasets[job.dataset].name, job.attempt, exchange))
        self.counts.asked += 1
        self.counts.failed += exchange.reply is None
        self._tell()
        self.first_exchange.set()

    async def _score_recalled(self, queue: "asyncio.Queue[_Scorable]") -> None:
        """Score stored replies that are not scored whole; those of another run become part of this one."""
        for job in self.to_score:
            dataset, sample = self._find(job)
            recalled = self._recall(job, sample, last=True)
            if recalled is None:
                raise ValueError(f"the stored reply to {sample.id} of {dataset.name} is gone")
            exchange = recalled.read_exchange(sample)
            if self.known_attempts and not self.known_attempts.is_own:
                self._keep_reply(job, exchange)
                self._keep_scores(dataset, job, sample, recalled.scores)
            await queue.put((job, exchange, dict(recalled.scores)))

    def _keep_known(self) -> None:
        """Count attempts of which everything is stored. After the others: a resumed run is to ask at once."""
        for job in self.known:
            sample = self._find(job)[1]
            recalled = self._recall(job, sample, last=True)
            if recalled is not None:
                self.results.add(*job, recalled.to_attempt(), sample)

    async def _score_from(self, queue: "asyncio.Queue[_Scorable]") -> None:
        while True:
            job, exchange, known = await queue.get()
            await self._score(job, exchange, known)
            queue.task_done()

    async def _score(self, job: AttemptIndex, exchange: Exchange, known: dict[str, Score]) -> None:
        dataset, sample = self.plan.datasets[job.dataset], exchange.sample
        scores = await score_exchange(
            dataset.metrics,
            exchange,
            lambda new: self._keep_scores(dataset, job, sample, new),
            known=known,
            judge_repeats=self.plan.options.judge_repeat,
        )
        reply = exchange.reply
        status = SampleStatus.FAILED if reply is None else SampleStatus.ANSWERED
        trace = (reply and reply.trace) or SearchTrace()
        attempt = Attempt(
            status,
            reply.latency_ms if reply else None,
            exchange.error,
            exchange.unreachable,
            scores={name: score.without_evidence() for name, score in scores.items()},
            timings_ms=trace.timings_ms,
            oddities=trace.oddities,
            finish_reason=reply.finish_reason if reply else None,
        )
        self.results.add(*job, attempt, sample)
        self.counts.scored += 1
        self._tell()

    def _keep_scores(
        self, dataset: PlannedDataset, job: AttemptIndex, sample: Sample, scores: Mapping[str, Score]
    ) -> None:
        if scores:
            usage = self.plan.services.usage.take_new()
            self.log.append(scores_record(dataset.name, sample.id, job.attempt, scores, usage))

    async def _preload_beside(self, targets: Sequence[JobTarget[AttemptIndex]]) -> None:
        """Load what scoring needs while the first requests are under way, unless their latency is at stake."""
        if self.plan.gates_latency or not self.to_ask:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self.first_exchange.wait(), _PRELOAD_GRACE_SECONDS)
        if targets[0].never_reached:
            await self.first_exchange.wait()
        if not targets[0].is_down:
            await self._preload()

    async def _preload(self) -> None:
        """What the first scores would otherwise wait for, and requests in flight with them."""
        modules = {module for d in self.plan.datasets for m in d.metrics for module in m.definition.imports}
        for module in sorted(modules):
            await asyncio.to_thread(import_module, module)
        await self.plan.services.preload(needs_of(self.plan.datasets))

    def _tell(self) -> None:
        self.progress(asked=self.counts.asked, scored=self.counts.scored, failed=self.counts.failed)


async def execute(session: Session, progress: ProgressListener, baseline: Run | None = None) -> Run:
    """Run what is left of a session: start the agent where the manifest says how, ask, score, decide.

    `baseline`: what the run is held against.

    Raises:
        AgentDown: its command did not become ready.
        InvalidInput: something already answers where the command would be started, and is not to be asked.
        StoreError: the log cannot be written; what is in it stays.
        MissingPackage: an optional package turned out to be missing or broken.
    """
    plan, outline, log = session.plan, session.outline, session.log
    run_metadata = RunMetadata(session.fingerprint, baseline)
    execution = _Execution(plan, outline, log, progress, session.known_attempts, run_metadata, Results(plan, outline))
    execution.sort_out()
    try:
        async with agent_process(session, needed=execution.needs_agent()) as reused_url:
            if reused_url is not None:
                fingerprint = keep_reuse(session, reused_url)
                execution.run_metadata = dataclasses.replace(execution.run_metadata, fingerprint=fingerprint)
            return await execution.run()
    except BaseExceptionGroup as group:
        raise _first(group.subgroup(EvalspecError) or group) from None
    finally:
        await plan.services.aclose()
        for retriever in plan.opened:
            await retriever.aclose()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Tasks that fail together fail for one reason: the first is told."""
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
