"""The budget of a run: what the judge may still be asked for, and what the run has used.

What a request may use at most is reserved before it is sent. It is settled by the token count of the reply. Without a
count, the reservation counts as used. So the limits hold whatever a request turns out to use, unless an endpoint
ignores the limit on its output tokens: then those of the requests in flight are exceeded.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, NoReturn

from msgspec import Struct

from evalspec.base.errors import FailureCause, JudgeError
from evalspec.inputs.manifest.judge_schema import JudgePace
from evalspec.model import JudgePrice, JudgeUsage, Usage
from evalspec.model.exchanges import SIMULATED_USER
from evalspec.scoring.judge.limits import SpendingLimits, name_option
from evalspec.scoring.judge.usage import UsageLedger
from evalspec.targets.http.pace import Pace
from evalspec.targets.http.pacing import AdaptiveLimit, Breaker

_MILLISECONDS = 1000
_WITHOUT_TOKENS = JudgeUsage(requests=1)
"""What a request has used that was throttled, or whose key was rejected."""
_WAITING = "the judge's answers are in a batch that is not collected yet (to continue, resume the run)"


class BudgetSpent(JudgeError):
    """Nothing more is sent to the judge. `is_decided`: because no further score can change the verdict."""

    cause = FailureCause.STOPPED

    def __init__(self, message: str, *, is_decided: bool = False) -> None:
        super().__init__(message)
        self.is_decided = is_decided


class Budget:
    """The limits of a run, and what is used of them.

    `ledger`: counts what this session uses. `before`, `seconds_before`: what earlier sessions of the run used, by
    metric. `user_price`: of the model that plays the users. `names`: what sets each limit, if it is not its option.
    `limit`: that which ended the run, a field of `SpendingLimits`; None: none did.
    """

    def __init__(
        self,
        ledger: UsageLedger | None = None,
        limits: SpendingLimits | None = None,
        price: JudgePrice | None = None,
        before: Mapping[str, JudgeUsage] | None = None,
        seconds_before: float = 0.0,
        names: Mapping[str, str] | None = None,
        user_price: JudgePrice | None = None,
    ) -> None:
        self._ledger = ledger or UsageLedger()
        self._limits = limits or SpendingLimits()
        self._prices = {False: price, True: user_price}
        self._spent = _Used()
        for metric, used in (before or {}).items():
            self._spent += _Used.of(metric, used)
        self._reserved = _Used()
        self._settled = asyncio.Event()
        self._paces: dict[str, Pace] = {}
        self._seconds_before = seconds_before
        self._started = self._taken = time.monotonic()
        self._names = names or {}
        self._end: str | None = None
        self.limit: str | None = None
        self._is_decided = False
        self.is_waiting = False
        """Whether answers are missing because a batch has them."""

    @property
    def end(self) -> str | None:
        """Why scores are missing: a limit ended the run, or a batch has not; None if none are."""
        limit = None if self._is_decided else self._end
        return limit or (_WAITING if self.is_waiting else None)

    def wait(self) -> NoReturn:
        """End a score whose answers are in a batch.

        Raises:
            BudgetSpent: always.
        """
        self.is_waiting = True
        raise BudgetSpent(_WAITING)

    def set_aside(self, body: Mapping[str, Any], answers: int) -> JudgeUsage:
        """Count the most that a request of a batch may use as used, and return it. `answers`: most tokens of them.

        Raises:
            BudgetSpent: the budget has no room for it.
        """
        reservation = _estimate(body, answers)
        self._refuse_exceeding(_Used(reservation))
        self._spent += _Used(reservation)
        return reservation

    def count_elsewhere(self, used: Mapping[str, JudgeUsage]) -> None:
        """Count what another process has used for this run, by metric."""
        for metric, more in used.items():
            self._spent += _Used.of(metric, more)
            self._ledger.add(metric, more)

    @property
    def seconds(self) -> float:
        """How long the run was worked on."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def is_stopped(self) -> bool:
        """Whether the judge is asked no more."""
        return self._end is not None

    def take_milliseconds(self) -> int:
        """Return the wall time since the last call of this method, or since the beginning, in ms."""
        now = time.monotonic()
        passed = int(_MILLISECONDS * (now - self._taken))
        self._taken += passed / _MILLISECONDS
        return passed

    def decide(self, why: str) -> None:
        """Send nothing more to the judge, because no score can change the verdict."""
        if self._end is None:
            self._end, self._is_decided = why, True

    def go_on(self) -> None:
        """Send again although no score can change the verdict: what the judge makes of control cases can."""
        if self._is_decided:
            self._end, self._is_decided = None, False

    def check(self) -> None:
        """Check that the judge may still be asked.

        Raises:
            BudgetSpent: it may not.
        """
        self.find_time_out()
        if self._end is not None:
            raise BudgetSpent(self._end, is_decided=self._is_decided)

    def find_time_out(self) -> str | None:
        """Return why nothing is asked any more if the time of the run is over, else None."""
        limit = self._limits.max_time
        if limit is None or self.seconds < limit:
            return None
        message = f"the run stopped at its time limit of {limit:g} s ({_advise('max_time')})"
        self.stop("max_time", message)
        return message

    def stop(self, limit: str, why: str) -> None:
        """Ask the judge no more. `limit`: a field of `SpendingLimits`, used up here or by another process."""
        if self._end is None:
            self._end, self.limit = why, limit

    async def send(
        self,
        post: Callable[[Callable[[], Awaitable[None]]], Awaitable[dict[str, Any]]],
        read_usage: Callable[[Mapping[str, Any]], Usage | None],
        metric: str,
        body: Mapping[str, Any],
        answers: int,
    ) -> dict[str, Any]:
        """Return the reply to a request, as soon as the budget has room for it.

        `post`: sends the request. It awaits its argument before it sends the request again with another key.
        `read_usage`: returns the token count of a reply. `answers`: most tokens of the answers.

        Raises:
            BudgetSpent: the budget has no room, whatever the requests in flight use.
            JudgeError: as `post` raises it.
        """
        reservation = _estimate(body, answers)
        held = JudgeUsage()

        async def hold() -> None:
            nonlocal held
            await self.reserve(metric, reservation)
            held = reservation

        def release(used: JudgeUsage) -> None:
            nonlocal held
            if held == JudgeUsage():  # there was no room to send it again
                return
            self.release(metric, held, used)
            held = JudgeUsage()

        async def send_again() -> None:
            release(_WITHOUT_TOKENS)
            await hold()

        await hold()
        used = reservation
        try:
            reply = await post(send_again)
            used = settle(reservation, read_usage(reply))
        except JudgeError as error:
            used = _settle_failure(reservation, error)
            raise
        finally:
            release(used)
        return reply

    async def reserve(self, metric: str, most: JudgeUsage) -> None:
        """Reserve what a request may use at most, as soon as the budget has room for it.

        Raises:
            BudgetSpent: the budget has no room, whatever the requests in flight use.
        """
        reservation = _Used.of(metric, most)
        self._refuse_exceeding(reservation)
        while self._find_exceeded(self._spent + reservation + self._reserved) is not None:
            await self._settled.wait()
            self._refuse_exceeding(reservation)
        self._reserved += reservation

    def release(self, metric: str, reserved: JudgeUsage, used: JudgeUsage) -> None:
        """Count what a request has used in place of what was reserved for it."""
        self._reserved -= _Used.of(metric, reserved)
        self._spent += _Used.of(metric, used)
        self._ledger.count_request(metric, used)
        self._settled.set()
        self._settled = asyncio.Event()

    def open_limit(self, _name: str, most: int) -> AdaptiveLimit:
        """Return what limits the concurrent requests to a service. `name`: its section of the manifest."""
        return AdaptiveLimit(most)

    def open_breaker(self) -> Breaker:
        """Return what notices that the agent is down."""
        return Breaker()

    def open_pace(self, name: str, pace: JudgePace, waits: Callable[[float], None]) -> Pace:
        """Return the pace of a service: one for all that ask it. `name`: its section of the manifest."""
        new = Pace(pace.requests_per_minute, pace.tokens_per_minute, waits=waits)
        return self._paces.setdefault(name, new)

    def _refuse_exceeding(self, reservation: "_Used") -> None:
        """Raise BudgetSpent if the run has ended, or ends because the budget has no room for a request."""
        self.check()
        exceeded = self._find_exceeded(self._spent + reservation)
        if exceeded is not None:
            self.stop(exceeded, self._explain(exceeded, reservation))
            self.check()

    def _find_exceeded(self, usage: "_Used") -> str | None:
        """Return the name of a limit that a usage exceeds, or None."""
        return next((name for name, used, limit in self._measure(usage) if used > limit), None)

    def _measure(self, usage: "_Used") -> Iterator[tuple[str, float, float]]:
        """Yield the name of each limit, how much a usage has of its amount at most, and the limit."""
        limits = self._limits
        if limits.max_judge_calls is not None:
            yield "max_judge_calls", usage.total.requests, limits.max_judge_calls
        if limits.max_tokens is not None:
            yield "max_tokens", usage.total.most_tokens, limits.max_tokens
        if limits.max_cost is not None and any(self._prices.values()):
            parts = {False: usage.judge, True: usage.user}
            cost = sum(price.compute_most(parts[is_user]) for is_user, price in self._prices.items() if price)
            yield "max_cost", cost, limits.max_cost

    def _explain(self, name: str, reservation: "_Used") -> str:
        used, limit = next((used, limit) for one, used, limit in self._measure(self._spent) if one == name)
        more = next(used for one, used, _ in self._measure(reservation) if one == name)
        next_one = "" if name == "max_judge_calls" else f", and the next request may need {_render(more)}"
        stated = f"{self._names.get(name, name_option(name))} {_render(limit)}"
        return f"the run stopped at {stated}: {_render(used)} used{next_one} ({_advise(name)})"


class _Used(Struct, frozen=True):
    """What the judge has used, and what the model has that plays the user, whose price is another."""

    judge: JudgeUsage = JudgeUsage()
    user: JudgeUsage = JudgeUsage()

    @classmethod
    def of(cls, metric: str, used: JudgeUsage) -> "_Used":
        return cls(user=used) if metric == SIMULATED_USER else cls(used)

    @property
    def total(self) -> JudgeUsage:
        return self.judge + self.user

    def __add__(self, other: "_Used") -> "_Used":
        return _Used(self.judge + other.judge, self.user + other.user)

    def __sub__(self, other: "_Used") -> "_Used":
        return _Used(self.judge - other.judge, self.user - other.user)


def _estimate(body: Mapping[str, Any], answers: int) -> JudgeUsage:
    """Return the most that a request may use: a token has at least one byte."""
    prompt = len(json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return JudgeUsage(requests=1, reserved_input_tokens=prompt, reserved_output_tokens=answers)


def settle(reservation: JudgeUsage, usage: Usage | None) -> JudgeUsage:
    """Return what a request has used. Without a token count, all that was reserved."""
    if usage is None:
        return reservation + JudgeUsage(calls=1, uncounted=1)
    read = min(usage.cached_input_tokens, usage.input_tokens)
    return JudgeUsage(
        calls=1,
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_input_tokens=read,
        cache_write_input_tokens=min(usage.cache_write_input_tokens, usage.input_tokens - read),
    )


def _settle_failure(reservation: JudgeUsage, error: JudgeError) -> JudgeUsage:
    """Return what a failed request has used: nothing if it was not sent, and no tokens if it was refused entry."""
    is_unsent = error.unreachable or isinstance(error, BudgetSpent) or (error.fatal and error.status is None)
    if is_unsent:
        return JudgeUsage()
    return _WITHOUT_TOKENS if error.throttled or error.status == HTTPStatus.UNAUTHORIZED else reservation


def _advise(name: str) -> str:
    return f"to continue, resume it with a higher {name_option(name)}"


def _render(amount: float) -> str:
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.4g}"
