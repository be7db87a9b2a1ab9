"""The execution of a plan: which attempts to send, and their replies, scores and results. A worker asks and scores."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from evalspec.base.plural import counted
from evalspec.model import (
    Attempt,
    Cause,
    Exchange,
    Need,
    Run,
    Sample,
    Score,
    ScoreStatus,
    add_usage,
)
from evalspec.model.log import ReplyRecord, ScoresRecord, TurnRecord, to_attempt
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.runner.conclude import RunMetadata, conclude
from evalspec.runs.runner.conversing import TurnLog
from evalspec.runs.runner.deciding import LAST_ROUND, Decider
from evalspec.runs.runner.known_attempts import KnownAttempt, KnownAttempts
from evalspec.runs.runner.open_gate import explain_unreached
from evalspec.runs.runner.results import AttemptIndex, Results
from evalspec.runs.runner.session import keep_learned
from evalspec.runs.runner.targets import ProgressListener
from evalspec.runs.runner.turn_log import TurnLogs
from evalspec.runs.runner.worker import OpenWorker, Scorable, Worker, work_here
from evalspec.runs.store.log_index import AttemptKey
from evalspec.runs.store.run_log import RunLog
from evalspec.scoring.judge.usage import Learned
from evalspec.verdict.outline import RunOutline

if TYPE_CHECKING:
    from evalspec.runs.runner.tracing import Tracing

_MOST_FAILED = 1_000
"""Maximum replies that the judge is asked about again. They wait in memory, and a judge that fails more is down."""


class _Counts(Struct):
    asked: int = 0
    scored: int = 0
    failed: int = 0
    unreached: int = 0


_DIGESTS = ("answer_digest", "question_digest", "request_digest")
"""What says something about texts, so that it is not kept without them."""


def _to_attempt(exchange: Exchange, scores: Mapping[str, Score]) -> Attempt:
    return to_attempt(exchange, {name: score.without_evidence() for name, score in scores.items()})


def _failed_by_judge(score: Score) -> bool:
    return score.status is ScoreStatus.FAILED and score.cause is Cause.JUDGE


class Execution(Struct):
    """The state of one run. Replies are written to the log; only scores stay in memory.

    `to_ask`: attempts to send. `to_score`: attempts with a stored reply, to be scored or copied. `known`: attempts with
    a stored reply and all scores. `after`: the number of attempts at each sample that precede these. `failed`: replies
    that the judge failed to score on some metric, with all their scores; None in the second pass over them.
    `is_judged`: whether the judge has scored anything. `decider`: says when the verdict is certain; None: everything is
    scored, in one round. `tracing`: joins replies with the spans of the agent; None: they are not received.
    `environment`: what the agent's command learns of them. `round`: only metrics up to this round are scored.
    `waiting`: replies for the next round. `open_worker`: opens what asks and scores, by default in this process.
    """

    plan: Plan
    outline: RunOutline
    log: RunLog
    progress: ProgressListener
    known_attempts: KnownAttempts | None
    run_metadata: RunMetadata
    results: Results
    turns: TurnLogs
    open_worker: OpenWorker = work_here
    counts: _Counts = field(default_factory=_Counts)
    to_ask: list[AttemptIndex] = field(default_factory=list)
    to_score: list[AttemptIndex] = field(default_factory=list)
    known: list[AttemptIndex] = field(default_factory=list)
    after: int = 0
    failed: list[Scorable] | None = field(default_factory=list)
    is_judged: bool = False
    decider: Decider | None = None
    round: int = LAST_ROUND
    waiting: list[Scorable] = field(default_factory=list)
    tracing: "Tracing | None" = None
    environment: Mapping[str, str] = {}

    def sort_out(self) -> None:
        """Sort all attempts into `known`, `to_score` and `to_ask`."""
        if self.known_attempts is None:
            self.to_ask.extend(self._jobs())
            return
        for job in self._jobs():
            recalled = self._recall(job)
            if recalled is None:
                self.to_ask.append(job)
            elif self.known_attempts.is_own and len(recalled.scores) == len(self.plan.datasets[job.dataset].metrics):
                self.known.append(job)
            else:
                self.to_score.append(job)
        self.counts.scored = len(self.known)

    def stop_when_certain(self, *, may_be_corrected: bool) -> None:
        """Ask the judge only after all other scores are known, and only while a score can change the verdict."""
        self.decider, self.round = Decider(self.plan, self.outline, may_be_corrected), 0

    def _recall(self, job: AttemptIndex, *, last: bool = False) -> KnownAttempt | None:
        """Return a stored attempt, if there is one. `last`: this is its last lookup, so its memory is freed."""
        if self.known_attempts is None:
            return None
        dataset, key = self.plan.datasets[job.dataset], self._key(job)
        found = self.known_attempts.find(key, list(dataset.metrics))
        if last:
            self.known_attempts.index.attempts.pop(key, None)
        return found

    async def measure(self) -> None:
        """Ask and score all attempts. Results and notes are collected."""
        working = self.open_worker(self.plan, self, self.progress, self.tracing)
        async with working as worker, asyncio.TaskGroup() as group:
            recalling = group.create_task(self._score_recalled(worker))
            await worker.ask_all(self.to_ask)
            await recalling
            await worker.join()
            await self._score_waiting(worker)
            await self._score_failed(worker)
        self._keep_known()
        notes = (*self.run_metadata.notes, *worker.notes, *self.turns.notes)
        notes += tuple(self.tracing.notes) if self.tracing is not None else ()
        self.run_metadata = structs.replace(self.run_metadata, notes=notes, own_lag_ms=worker.lag_ms)

    def conclude(self, second: "Execution | str | None" = None) -> Run:
        """Return the run. `second`: the second attempts that confirm a drop, or why there are none."""
        services = self.plan.services
        earlier = self.known_attempts.index.judge_usage if self.known_attempts and self.known_attempts.is_own else {}
        usage = add_usage(services.usage.by_metric, earlier, services.batches.usage if services.batches else {})
        unfinished = services.budget.end or explain_unreached(self.run_metadata.fingerprint, self.counts.unreached)
        run_metadata = structs.replace(self.run_metadata, judge_usage=usage, unfinished=unfinished)
        if isinstance(second, Execution):
            notes = (*run_metadata.notes, *(f"second attempts: {note}" for note in second.run_metadata.notes))
            run_metadata = structs.replace(run_metadata, notes=notes, second=(second.outline, second.results.list()))
        elif second is not None:
            run_metadata = structs.replace(run_metadata, second=second)
        return conclude(self.outline, self.log.id, self.results.list(), run_metadata)

    def prepare_second(self, outline: RunOutline) -> "Execution":
        """Return the execution of as many further attempts at the samples of an outline, on its metrics."""
        chosen = {dataset.name: {metric.name for metric in dataset.metrics} for dataset in outline.datasets}
        datasets = tuple(
            structs.replace(one, metrics={name: one.metrics[name] for name in one.metrics if name in chosen[one.name]})
            for one in self.plan.datasets
            if one.name in chosen
        )
        plan, own = structs.replace(self.plan, datasets=datasets), (self.log, self.progress, self.known_attempts)
        run_metadata, results = structs.replace(self.run_metadata, notes=()), Results(plan, outline)
        second = Execution(plan, outline, *own, run_metadata, results, self.turns, self.open_worker)
        second.after, second.is_judged = outline.repeats, self.is_judged
        second.tracing, second.environment = self.tracing, self.environment
        second.sort_out()
        return second

    def open_turns(self, job: AttemptIndex) -> TurnLog:
        """See Receiver."""
        return self.turns.open(self._key(job))

    def _key(self, job: AttemptIndex) -> AttemptKey:
        dataset, sample = self.find(job)
        return AttemptKey(dataset.name, sample.id, job.attempt)

    def needs_agent(self) -> bool:
        """Return whether any request goes to the agent's address."""
        return any(self.plan.datasets[job.dataset].is_at_agent for job in self.to_ask)

    def _jobs(self) -> Iterator[AttemptIndex]:
        for number, dataset in enumerate(self.plan.datasets):
            for attempt in range(self.after + 1, self.after + self.plan.options.repeat + 1):
                for position in range(len(dataset.samples)):
                    yield AttemptIndex(number, position, attempt)

    def find(self, job: AttemptIndex) -> tuple[PlannedDataset, Sample]:
        """See Receiver."""
        dataset = self.plan.datasets[job.dataset]
        return dataset, dataset.samples[job.position]

    def choose_metrics(self, job: AttemptIndex) -> list[str]:
        """See Receiver. Only those of the rounds so far."""
        dataset, decider = self.plan.datasets[job.dataset], self.decider
        if decider is None:
            return list(dataset.metrics)
        return [name for name, one in dataset.metrics.items() if decider.find_round(dataset.name, one) <= self.round]

    def keep_turn(self, record: TurnRecord) -> None:
        """See Receiver."""
        self.log.append(record)

    @contextmanager
    def together(self) -> Iterator[None]:
        """See Receiver."""
        with self.log.together():
            yield
        self._tell()

    def keep_reply(self, job: AttemptIndex, exchange: Exchange) -> None:
        """See Receiver."""
        self.log.append(ReplyRecord.of(self.plan.datasets[job.dataset].name, job.attempt, exchange))
        self.counts.asked += 1
        self.counts.failed += exchange.reply is None
        self.counts.unreached += exchange.unreachable
        self._tell()

    async def _score_recalled(self, worker: Worker) -> None:
        """Score stored replies that lack scores. Replies of another run are copied to this run's log."""
        for job in self.to_score:
            dataset, sample = self.find(job)
            recalled = self._recall(job, last=True)
            if recalled is None:
                raise ValueError(f"the stored reply to {sample.id} of {dataset.name} is missing")
            exchange, scores = recalled.read_exchange(sample), recalled.scores
            if self.known_attempts and not self.known_attempts.is_own:
                self.keep_reply(job, exchange)
                if self.known_attempts.index.spans:
                    from evalspec.runs.runner.tracing import carry_traces, read_rules

                    rules = read_rules(self.plan, dataset)
                    exchange, is_new = carry_traces(self.log, recalled, self._key(job), sample, rules)
                    scores = {name: scores[name] for name in scores if not (is_new and dataset.metrics[name].traced)}
                stored = recalled.read_scores(sample)
                self.keep_scores(job, sample, {name: stored[name] for name in scores})
            await worker.score(Scorable(job, exchange, dict(scores), self.choose_metrics(job)))

    def _keep_known(self) -> None:
        """Add attempts that need no work to the results. They are last so that a resumed run sends requests at once."""
        for job in self.known:
            sample = self.find(job)[1]
            recalled = self._recall(job, last=True)
            if recalled is not None:
                self.results.add(*job, recalled.to_attempt(), sample)

    def finish(self, one: Scorable, scores: Mapping[str, Score]) -> None:
        """See Receiver. A reply that the judge failed on waits for a second try."""
        job, exchange = one.job, one.exchange
        if self.round < LAST_ROUND:
            self.waiting.append(structs.replace(one, scores={**one.scores, **scores}))
            return
        metrics = self.plan.datasets[job.dataset].metrics.values()
        self.is_judged |= any(scores[m.name].status is ScoreStatus.SCORED for m in metrics if Need.JUDGE in m.needs)
        is_failed = any(map(_failed_by_judge, scores.values()))
        if is_failed and self.failed is not None and len(self.failed) < _MOST_FAILED:
            self.failed.append(structs.replace(one, scores=scores))
        else:
            self._add(job, exchange, scores)

    async def _score_waiting(self, worker: Worker) -> None:
        """Let the judge score the replies that have all other scores, until the verdict is certain."""
        if self.decider is None:
            return
        for job in self.known:
            recalled = self._recall(job)
            if recalled is not None:
                self.decider.add(job, recalled.to_attempt())
        for one in self.waiting:
            self.decider.add(one.job, _to_attempt(one.exchange, one.scores))
        while self.round < LAST_ROUND:
            self.decider.stop_if_certain()
            self.round += 1
            waiting, self.waiting = self.waiting, []
            for one in waiting:
                await worker.score(structs.replace(one, metrics=self.choose_metrics(one.job)))
            await worker.join()

    async def _score_failed(self, worker: Worker) -> None:
        """Score again what the judge failed to score. A judge that scored nothing is down."""
        failed, self.failed = self.failed or [], None
        if not self.is_judged:
            for one in failed:
                self._add(one.job, one.exchange, one.scores)
            return
        if failed:
            replies = counted(len(failed), "reply", "replies")
            self.progress.say(f"asking the judge again about {replies} that it failed on")
        for one in failed:
            known = {name: score for name, score in one.scores.items() if not _failed_by_judge(score)}
            await worker.score(structs.replace(one, scores=known))
        await worker.join()

    def _add(self, job: AttemptIndex, exchange: Exchange, scores: Mapping[str, Score]) -> None:
        """Add a scored reply to the results."""
        attempt = _to_attempt(exchange, scores)
        if not self.outline.has_texts:
            attempt = structs.replace(attempt, **dict.fromkeys(_DIGESTS))
        self.results.add(*job, attempt, exchange.sample)
        self.counts.scored += 1
        self._tell()

    def keep_scores(self, job: AttemptIndex, sample: Sample, scores: Mapping[str, Score]) -> None:
        """See Receiver."""
        if scores:
            used = self.plan.services.usage.take_new(), self.plan.services.budget.take_milliseconds()
            self.log.append(ScoresRecord(self.plan.datasets[job.dataset].name, sample.id, job.attempt, scores, *used))
            if self.decider is not None and self.round > 0:
                self.decider.add_scores(job, scores)

    def keep_learned(self, learned: Learned) -> None:
        """Store what the judge's replies say about it: parameters that are refused, and models."""
        fingerprint = keep_learned(self.plan, self.outline, self.log, self.run_metadata.fingerprint, learned)
        self.run_metadata = structs.replace(self.run_metadata, fingerprint=fingerprint)

    def _tell(self) -> None:
        """Tell how far the run is, once what it has found is in the log."""
        if self.log.held is None:
            self.progress(asked=self.counts.asked, scored=self.counts.scored, failed=self.counts.failed)
