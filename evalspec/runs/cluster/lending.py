"""What a run has once, however many nodes work on it: slots, pace, budget, and the judge's cache. The driver lends it.

A slot stays with a node while it is busy, so most requests ask nobody. It goes back when it is idle, and soon enough
for nodes that wait. Amounts of a budget and turns of a pace are asked for with each request, if the run limits them.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from evalspec.inputs.manifest.judge_schema import JudgePace
from evalspec.model import JudgeUsage
from evalspec.runs.cluster.messages import (
    Ask,
    Halt,
    Lent,
    Message,
    Overload,
    PaceTurn,
    Recall,
    ReleasedUsage,
    Remember,
    Reserve,
    Returned,
    Slot,
    Wanted,
)
from evalspec.runs.planning.build import Plan
from evalspec.scoring.judge.budget import Budget, BudgetSpent
from evalspec.scoring.judge.cache import JudgeCache
from evalspec.scoring.judge.cache_file import CacheEntry, CacheFile
from evalspec.scoring.judge.limits import SpendingLimits
from evalspec.scoring.judge.services import JudgeServices
from evalspec.targets.http.pace import Pace, Spending
from evalspec.targets.http.pacing import AdaptiveLimit, Breaker

_KEPT_SECONDS = 0.5
"""How long a node that has work keeps a slot. Others may wait for it."""
_Borrowed = tuple[int, int]
"""A node, and its number for what it borrowed."""


class Lender:
    """The driver's side. `send`: gets messages for nodes. `group`: for its tasks."""

    def __init__(self, services: JudgeServices, send: Callable[[Message], None], group: asyncio.TaskGroup) -> None:
        self._services, self._send, self._group = services, send, group
        self._limits: dict[str, AdaptiveLimit] = {}
        self._answering: defaultdict[int, set[asyncio.Task[None]]] = defaultdict(set)
        self._lent: dict[_Borrowed, Callable[[int], None]] = {}
        self._reserved: defaultdict[int, list[tuple[str, JudgeUsage]]] = defaultdict(list)
        self.nodes: set[int] = set()

    def receive(self, message: Message) -> None:
        """Take note of what a node wants, or gives back."""
        match message:
            case Ask(node, _, _):
                task = self._group.create_task(self._answer(message))
                self._answering[node].add(task)
                task.add_done_callback(self._answering[node].discard)
            case Returned(node, number, amount):
                self._lent.pop((node, number))(amount)
            case Overload(_, name, seconds):
                self._limits[name].throttled(seconds)
                self.broadcast(partial(Overload, name=name, seconds=seconds))
            case ReleasedUsage(node, metric, reserved, used):
                if reserved != JudgeUsage():
                    self._reserved[node].remove((metric, reserved))
                self._services.budget.release(metric, reserved, used)
            case Remember(key, entry) if self._services.cache is not None:
                self._services.cache.write(key, entry)

    def broadcast(self, make: Callable[[int], Message]) -> None:
        """Send a message to every node."""
        for node in self.nodes:
            self._send(make(node))

    def forget(self, node: int) -> None:
        """Take back what a node had that has ended. Requests that it may have sent count as they were reserved."""
        self.nodes.discard(node)
        for task in self._answering.pop(node, ()):
            task.cancel()
        for metric, reserved in self._reserved.pop(node, ()):
            self._services.budget.release(metric, reserved, reserved)

    async def _answer(self, ask: Ask) -> None:
        answer, borrowed = Lent(ask.node, ask.number), (ask.node, ask.number)
        match ask.wanted:
            case Slot(name, most):
                limit = self._limits.setdefault(name, AdaptiveLimit(most))
                async with limit.slot():
                    returned: asyncio.Future[int] = asyncio.get_running_loop().create_future()
                    self._lent[borrowed] = returned.set_result
                    self._send(answer)
                    for _ in range(await returned):
                        limit.succeeded()
                return
            case PaceTurn(name, requests, per_minute, tokens):
                limits = JudgePace.model_construct(requests_per_minute=requests, tokens_per_minute=per_minute)
                pace = self._services.budget.open_pace(name, limits, self._services.listener.waits)
                self._lent[borrowed] = partial(pace.correct, await pace.take(tokens))
            case Reserve(metric, most):
                try:
                    await self._services.budget.reserve(metric, most)
                except BudgetSpent as spent:
                    answer = replace(answer, refused=(self._services.budget.limit, str(spent)))
                else:
                    self._reserved[ask.node].append((metric, most))
            case Recall(key, metric) if self._services.cache is not None:
                entry = await self._services.cache.fetch(key, metric)
                if entry is not None:
                    self._services.cache.note_use(key, metric, entry)
                answer = replace(answer, entry=entry)
        self._send(answer)


class LentBudget(Budget):
    """A node's side. `seconds`: how long the run was worked on before. `tell`: gets messages for the driver."""

    def __init__(self, plan: Plan, seconds: float, node: int, tell: Callable[[Message], None]) -> None:
        own = SpendingLimits(max_time=plan.limits.max_time)
        super().__init__(plan.services.usage, own, seconds_before=seconds)
        self.node, self.tell = node, tell
        self.breaker = Breaker(decides=False)
        self._reserves = plan.limits != own
        self._numbers = count()
        self._asked: dict[int, asyncio.Future[Lent]] = {}
        self._lent: dict[str, _LentLimit] = {}

    def ask(self, wanted: Wanted) -> asyncio.Future[Lent]:
        """Return the driver's answer, once it has one."""
        number = next(self._numbers)
        found = self._asked[number] = asyncio.get_running_loop().create_future()
        self.tell(Ask(self.node, number, wanted))
        return found

    def receive(self, messages: Sequence[Message]) -> None:
        """Take note of what the driver says."""
        for message in messages:
            match message:
                case Lent():
                    self._asked.pop(message.number).set_result(message)
                case Overload(_, name, seconds) if name in self._lent:
                    self._lent[name].pause(seconds)
                case Halt(_, why):
                    self.breaker.down = why

    def give_back(self, *, is_idle: bool) -> None:
        """Give back slots that are not used. `is_idle`: nothing is to be done."""
        for limit in self._lent.values():
            limit.give_back(is_idle=is_idle)

    async def reserve(self, metric: str, most: JudgeUsage) -> None:
        """See Budget."""
        self.check()
        if self._reserves:
            refused = (await self.ask(Reserve(metric, most))).refused
            if refused is not None:
                limit, why = refused
                self.decide(why) if limit is None else self.stop(limit, why)
                self.check()

    def release(self, metric: str, reserved: JudgeUsage, used: JudgeUsage) -> None:
        """See Budget. The driver counts."""
        self.tell(ReleasedUsage(self.node, metric, reserved if self._reserves else JudgeUsage(), used))

    def open_limit(self, name: str, most: int) -> AdaptiveLimit:
        """See Budget."""
        return self._lent.setdefault(name, _LentLimit(name, most, self))

    def open_breaker(self) -> Breaker:
        """See Budget."""
        return self.breaker

    def open_pace(self, name: str, pace: JudgePace, waits: Callable[[float], None]) -> Pace:
        """See Budget. What headers of replies say is a matter of each node: one that is refused stops all."""
        is_paced = pace.requests_per_minute or pace.tokens_per_minute
        return _LentPace(name, pace, waits, self) if is_paced else super().open_pace(name, pace, waits)


class _LentLimit(AdaptiveLimit):
    """The slots that a node has borrowed. The driver knows how many there may be, so it adapts their number."""

    def __init__(self, name: str, most: int, budget: LentBudget) -> None:
        super().__init__(most)
        self.limit = 0.0
        self._name, self._budget = name, budget
        self._held: deque[tuple[int, float]] = deque()
        self._wanted = 0
        self._untold = 0

    def succeeded(self) -> None:
        """See AdaptiveLimit."""
        self.successes += 1
        self._untold += 1

    def throttled(self, retry_after: float | None) -> None:
        """See AdaptiveLimit."""
        self._budget.tell(Overload(self._budget.node, self._name, retry_after))
        self.pause(retry_after)

    def give_back(self, *, is_idle: bool = False) -> None:
        """Give back what others may wait for. `is_idle`: all that is not in use."""
        while self._active < int(self.limit) and (is_idle or self._held[0][1] < time.monotonic()):
            number, _ = self._held.popleft()
            self.limit -= 1
            self._budget.tell(Returned(self._budget.node, number, self._untold))
            self._untold = 0

    def _has_room(self) -> bool:
        self._borrow(1)
        return super()._has_room()

    def _wake(self) -> None:
        self.give_back()
        self._borrow(0)
        super()._wake()

    def _borrow(self, more: int) -> None:
        """Ask for the slots that are missing. `more`: requests that do not wait yet."""
        needed = min(self._active + len(self._waiting) + more, self.maximum)
        while self.limit + self._wanted < needed:
            self._wanted += 1
            self._budget.ask(Slot(self._name, self.maximum)).add_done_callback(self._receive)

    def _receive(self, found: asyncio.Future[Lent]) -> None:
        self._held.append((found.result().number, time.monotonic() + _KEPT_SECONDS))
        self._wanted -= 1
        self.limit += 1
        self._wake()


class _LentSpending(Spending):
    number: int = 0


class _LentPace(Pace):
    """The pace of a service, which the driver keeps for all nodes. Each asks for every request."""

    def __init__(self, name: str, pace: JudgePace, waits: Callable[[float], None], budget: LentBudget) -> None:
        super().__init__(waits=waits)
        self._name, self._limits, self._budget = name, pace, budget

    async def take(self, tokens: int) -> Spending:
        """See Pace."""
        limits = self._limits.requests_per_minute, self._limits.tokens_per_minute
        answer = await self._budget.ask(PaceTurn(self._name, *limits, tokens))
        spending = await super().take(tokens)
        return _LentSpending(spending.sent, tokens, answer.number)

    def correct(self, spending: Spending, tokens: int) -> None:
        """See Pace."""
        if isinstance(spending, _LentSpending):
            self._budget.tell(Returned(self._budget.node, spending.number, tokens))


class LentCache(JudgeCache):
    """The judge's cache of the driver. What it gets is redacted here."""

    def __init__(self, budget: LentBudget, plan: Plan) -> None:
        redaction, options = plan.loaded.references.redaction, plan.options
        hide, restore = redaction.hide_data, redaction.restore_known
        super().__init__(CacheFile(Path()), "", hide=hide, restore=restore, has_texts=not options.no_content)
        self._budget, self._is_read = budget, not options.fresh

    async def fetch(self, key: str, metric: str) -> CacheEntry | None:
        """See JudgeCache."""
        return (await self._budget.ask(Recall(key, metric))).entry if self._is_read else None

    def write(self, key: str, entry: CacheEntry) -> None:
        """See JudgeCache."""
        self._budget.tell(Remember(key, entry))

    def note_use(self, key: str, metric: str, entry: CacheEntry) -> None:
        """See JudgeCache. The driver has."""

    def _remove(self, key: str) -> None:
        """See JudgeCache. The new entry takes its place."""
