"""The judge's requests of one run, in batches of its provider.

A request has an id that depends on nothing but what is asked: the run, the reply that is graded, the request, and how
often it was made before. So a session finds the answers of those before it, and asks for what is missing in one batch.
Each batch is announced in a log before it is submitted. After a kill, the provider's list is searched for it.
"""

import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from secrets import token_hex
from typing import Any

from msgspec import Struct

from evalspec.base.errors import JudgeError
from evalspec.base.json_text import compute_digest
from evalspec.base.plural import counted, name_some, pluralize
from evalspec.inputs.manifest.judge_schema import JudgeConfig
from evalspec.model import JudgeUsage
from evalspec.scoring.judge.batch_records import (
    BatchAnswer,
    BatchEnd,
    BatchIntent,
    BatchNote,
    BatchRecord,
    BatchRetry,
    Submission,
    sum_batched,
)
from evalspec.scoring.judge.batch_wire import BatchedRequest, BatchResult, BatchState, BatchWire
from evalspec.scoring.judge.budget import Budget, settle
from evalspec.scoring.judge.endpoint import Endpoint
from evalspec.scoring.judge.grading import find_cacheable
from evalspec.scoring.judge.wire import find_judge_wire
from evalspec.targets.http.keys import KeyPlace
from evalspec.targets.http.pacing import persist

Say = Callable[[str], None]

_PAGE = 100
_OLDER_SECONDS = 3600.0
"""A batch may seem to be created so long before it was announced, by the clock of the provider."""
_QUESTION_DIGITS = 16
_NOT_A_BATCH = (KeyError, TypeError, ValueError, AttributeError)


class BatchQuestion(Struct, frozen=True):
    """A request to answer. `messages`: those of its first request. `places`: numbers of the answers to the question.

    `most_tokens`: of the answers. `is_repeat`: whether it follows another request for the same answer.
    """

    metric: str
    messages: Sequence[Mapping[str, str]]
    body: Mapping[str, Any]
    places: Sequence[int]
    most_tokens: int
    is_repeat: bool = False


class Batches:
    """The batches of one run. `records`: its log so far. `keep`: writes records to the log, durably.

    Raises:
        JudgeError: the base url is not usable, or the wire has no batches.
    """

    def __init__(
        self,
        run: str,
        records: Iterable[BatchRecord],
        keep: Callable[[Sequence[BatchRecord]], None],
        config: JudgeConfig,
        keys: KeyPlace | None,
    ) -> None:
        self._run = run
        self._write = keep
        self._retries = config.max_retries
        self._wire = find_judge_wire(config.wire)
        if self._wire.batch is None:
            raise JudgeError(f"wire {config.wire} cannot batch", fatal=True)
        self._batch: BatchWire = self._wire.batch
        self._endpoint = Endpoint("the judge", "spec.evaluation.judge", self._wire, config, config.concurrency, keys)
        self._notes: dict[str, BatchNote] = {}
        self._answers: dict[str, BatchAnswer] = {}
        self._open: dict[str, BatchIntent] = {}
        self._submitted: dict[str, str] = {}
        self._questions: set[str] = set()
        self._waiting: set[str] = set()
        self._ever: set[str] = set()
        self._retries_of_errors = 0
        self._made: Counter[str] = Counter()
        self._round: dict[str, tuple[BatchedRequest, BatchNote]] = {}
        self._recall(records)

    def answer(self, asked: BatchQuestion, budget: Budget) -> dict[str, Any]:
        """Return the endpoint's answer to a request. If there is none yet, the request is part of the next batch.

        Raises:
            BudgetSpent: the answer is not there yet, or the budget has no room for the request.
            JudgeError: as if the request had been posted alone.
        """
        request = compute_digest([self._run, self._retries_of_errors, _name_reply(), asked.places, asked.body])
        self._made[request] += 1
        name = compute_digest([request, self._made[request]])
        known = self._answers.get(name)
        if known is None or known.reply is None:
            if name not in self._round and name not in self._waiting:
                reserved = budget.set_aside(asked.body, asked.most_tokens)
                note = BatchNote(name, asked.metric, _name_places(asked), asked.is_repeat, reserved)
                self._round[name] = BatchedRequest(name, asked.body), note
            budget.wait()
        if known.status == HTTPStatus.OK:
            return known.reply
        raise self._endpoint.explain_status(known.status, json.dumps(known.reply))

    def has_asked(self, messages: Sequence[Mapping[str, str]], place: int) -> bool:
        """Return whether the run has submitted a question before, so that its answer is here and not in the cache."""
        return _name_question(messages, place) in self._questions

    def retry_errors(self) -> None:
        """Ask again for all that is asked from now on, unless a batch is open.

        Raises:
            StoreError: the log cannot be written.
        """
        if not self._open:
            self._keep([BatchRetry()])

    @property
    def usage(self) -> dict[str, JudgeUsage]:
        """What the judge used for the answers, by metric."""
        return sum_batched(self._answers.values())

    @property
    def reserved(self) -> JudgeUsage:
        """What requests without an answer may use."""
        return sum((self._notes[name].reserved for name in self._waiting), JudgeUsage())

    @property
    def waiting(self) -> str | None:
        """How many requests are in which batches; None if there are none."""
        count, names = len(self._waiting), [*self._submitted.values()]
        if not count:
            return None
        place = f"in {pluralize(len(names), 'batch', 'batches')} {name_some(names)}" if names else "not confirmed yet"
        return f"{counted(count, 'request')} to the judge {pluralize(count, 'is', 'are')} {place}"

    async def collect(self, say: Say) -> None:
        """Write the answers of batches that have ended, after finding those whose submission was not confirmed.

        Raises:
            JudgeError: the provider cannot be asked.
            StoreError: the log cannot be written.
        """
        for intent in [*self._open.values()]:
            state = await self._find(intent, say)
            if state is None:
                continue
            if state.is_ended:
                await self._finish(intent, state, say)
            else:
                size = counted(len(intent.requests), "request")
                say(f"batch {state.id} has not ended yet: {size}, {state.status}")

    async def submit(self, say: Say) -> None:
        """Submit what was asked and has no answer. What the provider does not confirm is searched for by `collect`.

        Raises:
            StoreError: the log cannot be written, so nothing more was submitted.
        """
        try:
            for part in self._split():
                intent = BatchIntent(token_hex(16), time.time(), tuple(note for _, note in part))
                self._keep([intent])
                requests = [request for request, _ in part]
                described = await self._batch.submit(self._post, requests, intent.intent)
                self._keep([Submission(intent.intent, self._read_state(described).id)])
        except JudgeError as error:
            say(f"a batch was not confirmed: {error}; resuming the run looks for it, and else submits it again")
        self._round.clear()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()

    async def _find(self, intent: BatchIntent, say: Say) -> BatchState | None:
        """Return the batch of an intent. None: there is none, which is then written, or it cannot be known yet."""
        name = self._submitted.get(intent.intent)
        if name is not None:
            return self._read_state(await self._get(f"{self._batch.path}/{name}"))
        doubtful = None
        names = {note.id for note in intent.requests}
        async for state in self._list():
            results, unreadable = await self._look_into(state, intent)
            if state.intent == intent.intent or not names.isdisjoint(one.id for one in results):
                self._keep([Submission(intent.intent, state.id)])
                return state
            doubtful = state.id if unreadable else doubtful
        if doubtful is None:
            self._keep([BatchEnd(intent.intent, "the provider does not list it")])
            size = counted(len(intent.requests), "request")
            say(f"a batch of {size} never reached the provider, so it is submitted again")
        else:
            known = "which shows when it has ended; nothing is sent again until then"
            say(f"batch {doubtful} may be one of this run, {known}")
        return None

    async def _look_into(self, state: BatchState, intent: BatchIntent) -> tuple[list[BatchResult], int]:
        """Return the results of an unmarked batch that may be that of an intent, and how many cannot be read yet.

        While a batch is validated, its size may be unknown.
        """
        is_known = state.intent is not None or state.id in self._ever
        is_recent = not state.created or state.created >= intent.time - _OLDER_SECONDS
        if is_known or not is_recent or (state.size and state.size != len(intent.requests)):
            return [], 0
        return await self._read_results(state) if state.is_ended else ([], len(intent.requests))

    async def _list(self) -> AsyncIterator[BatchState]:
        path = f"{self._batch.path}?limit={_PAGE}"
        last = ""
        while True:
            page = await self._get(f"{path}&{self._batch.cursor}={last}" if last else path)
            listed = page.get("data")
            if not isinstance(listed, list):
                raise JudgeError(f"{self._endpoint} lists no batches", retryable=True)
            states = [self._read_state(one) for one in listed]
            for state in states:
                yield state
            if not states or not page.get("has_more"):
                return
            last = states[-1].id

    async def _finish(self, intent: BatchIntent, state: BatchState, say: Say) -> None:
        """Write the answers of a batch, and that it has ended. What it lacks is asked again."""
        results, unreadable = await self._read_results(state)
        if unreadable and not results:
            message = f"the results of batch {state.id} cannot be read; nothing is sent again until they can"
            raise JudgeError(message, retryable=True)
        asked = {note.id: note for note in intent.requests}
        found = {one.id: one for one in results if one.id in asked and one.status is not None}
        answers = [self._settle(one, asked[one.id]) for one in found.values()]
        self._keep([*answers, BatchEnd(intent.intent, state.status)])
        lost = len(asked) - len(found)
        if lost:
            broken = f"{counted(unreadable, 'line')} of its results cannot be read" if unreadable else ""
            why = "; ".join(
                filter(None, (state.status, state.error and self._endpoint.service.excerpt(state.error), broken))
            )
            say(f"batch {state.id} has no answer to {counted(lost, 'request')}, submitted again if needed: {why}")

    def _settle(self, result: BatchResult, note: BatchNote) -> BatchAnswer:
        status, used = result.status or 0, JudgeUsage(requests=1)
        if status == HTTPStatus.OK:
            used = settle(note.reserved, self._wire.read(result.reply).usage)
        used += JudgeUsage(retries=note.is_repeat)
        return BatchAnswer(result.id, note.metric, status, used, dict(result.reply))

    async def _read_results(self, state: BatchState) -> tuple[list[BatchResult], int]:
        """Return the results of a batch that can be read, and the number of lines that cannot."""
        results, unreadable = [], 0
        for path in state.results:
            content = await self._fetch(path)
            for line in filter(bytes.strip, content.split(b"\n")):
                try:
                    one = self._batch.read_result(json.loads(line))
                    results.append(BatchResult(str(one.id), one.status and int(one.status), dict(one.reply)))
                except _NOT_A_BATCH:
                    unreadable += 1
        return results, unreadable

    def _read_state(self, described: Any) -> BatchState:
        try:
            state = self._batch.read_state(described)
        except _NOT_A_BATCH:
            state = None
        if state is None or not isinstance(state.id, str):
            said = self._endpoint.service.excerpt(json.dumps(described))
            raise JudgeError(f"{self._endpoint} answered without a batch: {said}") from None
        return state

    async def _post(self, path: str, content: bytes, content_type: str = "application/json", /) -> dict[str, Any]:
        return self._endpoint.parse(await self._endpoint.fetch(path, content, content_type))

    async def _get(self, path: str) -> dict[str, Any]:
        return self._endpoint.parse(await self._fetch(path))

    async def _fetch(self, path: str) -> bytes:
        return await persist(lambda: self._endpoint.fetch(path), self._retries)

    def _split(self) -> Iterator[list[tuple[BatchedRequest, BatchNote]]]:
        """Yield the requests of this session in parts that a batch has room for."""
        part: list[tuple[BatchedRequest, BatchNote]] = []
        size = 0
        for one in self._round.values():
            more = len(json.dumps(one[0].body))
            if part and (len(part) == self._batch.most_requests or size + more > self._batch.most_bytes):
                yield part
                part, size = [], 0
            part.append(one)
            size += more
        if part:
            yield part

    def _keep(self, records: Sequence[BatchRecord]) -> None:
        self._write(records)
        self._recall(records)

    def _recall(self, records: Iterable[BatchRecord]) -> None:
        for record in records:
            if isinstance(record, BatchIntent):
                self._open[record.intent] = record
                self._notes |= {note.id: note for note in record.requests}
                self._questions |= {name for note in record.requests for name in note.questions}
            elif isinstance(record, Submission):
                self._submitted[record.intent] = record.batch
                self._ever.add(record.batch)
            elif isinstance(record, BatchAnswer):
                self._answers[record.id] = record
            elif isinstance(record, BatchEnd):
                self._open.pop(record.intent, None)
                self._submitted.pop(record.intent, None)
            else:
                self._retries_of_errors += 1
                self._questions.clear()
        asked = {note.id for intent in self._open.values() for note in intent.requests}
        self._waiting = asked - self._answers.keys()


def _name_reply() -> Any:
    grading = find_cacheable()
    return None if grading is None else grading.reply


def _name_places(asked: BatchQuestion) -> tuple[str, ...]:
    return tuple(_name_question(asked.messages, place) for place in asked.places)


def _name_question(messages: Sequence[Mapping[str, str]], place: int) -> str:
    return compute_digest([_name_reply(), messages, place])[:_QUESTION_DIGITS]
