"""An agent that is a Python function, called with the question, in a thread unless it is async."""

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any

from msgspec import convert, to_builtins
from msgspec.structs import replace

from evalspec.agents.replay import read_reply
from evalspec.errors import ServiceError
from evalspec.model import AgentReply, Sample
from evalspec.user_code.calls import describe_exception, ends_the_run

AgentFunction = Callable[[Any], Any]
"""Takes the question, or a conversation as a list of `{"role", "content"}`. Returns the answer as text, or a dict with
`response` and, if known, `retrieved_contexts`, `retrieved_context_ids`, `usage` and `finish_reason`. May be async."""


class FunctionAgent:
    """Calls the function for each sample. An exception is a failed reply, and is not retried."""

    def __init__(self, function: AgentFunction, timeout: float) -> None:
        self._function = function
        self._timeout = timeout
        self._thread = CallThread()

    async def ask(self, sample: Sample) -> AgentReply:
        """Return what the function returns, as a reply with its latency.

        Raises:
            ServiceError: the function raised, exceeded the timeout, or returned another type.
        """
        asked = sample.user_input
        question = asked if isinstance(asked, str) else [{"role": m.role, "content": m.content} for m in asked]
        started = perf_counter()
        try:
            async with asyncio.timeout(self._timeout) as timeout:
                result = await self._thread.call(self._function, question)
        except RaisedInThread as raised:
            raise _describe_failure(raised.error) from raised.error
        except BaseException as error:  # user code may raise anything, also SystemExit
            if ends_the_run(error):
                raise
            if isinstance(error, TimeoutError) and timeout.expired():
                raise ServiceError(f"the agent's function took longer than {self._timeout:g} s") from None
            raise _describe_failure(error) from error
        took_ms = (perf_counter() - started) * 1000
        return replace(read_result(result, "the result of the agent's function"), latency_ms=took_ms)

    async def aclose(self) -> None:
        """End the thread."""
        self._thread.close()


def _describe_failure(error: BaseException) -> ServiceError:
    return ServiceError(f"the agent's function raised {describe_exception(error)}")


class RaisedInThread(Exception):
    """A function raised `error` in a thread. SystemExit or KeyboardInterrupt itself would end the event loop."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class CallThread:
    """A thread for the calls of one worker, so that no call waits for a thread. It cannot keep the process from ending.

    If a call is cancelled, its thread ends with the call, and the next call gets a new thread.
    """

    def __init__(self) -> None:
        self._idle: _Calls | None = None

    async def call(self, function: AgentFunction, question: Any) -> Any:
        """Return a function's result. Async functions are awaited here, all others are called in the thread.

        Raises:
            RaisedInThread: the function raised an exception in the thread.
        """
        if inspect.iscoroutinefunction(function):
            return await function(question)
        calls = self._idle or _start_thread()
        self._idle = None
        returned: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        calls.put((partial(copy_context().run, function, question), returned))
        try:
            result, error = await returned
        except BaseException:  # cancelled: the thread is still busy with this call, so it cannot take the next one
            calls.put(None)
            raise
        self._idle = calls
        if error is not None:
            raise RaisedInThread(error)
        return await result if inspect.isawaitable(result) else result

    def close(self) -> None:
        """End the thread if it is idle."""
        if self._idle is not None:
            self._idle.put(None)
            self._idle = None


_Outcome = tuple[Any, BaseException | None]
_Calls = SimpleQueue[tuple[Callable[[], Any], asyncio.Future[_Outcome]] | None]


def _start_thread() -> _Calls:
    calls: _Calls = SimpleQueue()
    Thread(target=_work, args=(calls,), name="evalspec agent", daemon=True).start()
    return calls


def _work(calls: _Calls) -> None:
    """Make the calls of a queue, up to None."""
    while (job := calls.get()) is not None:
        call, returned = job
        try:
            outcome: _Outcome = (call(), None)
        except BaseException as error:  # delivered to the waiting call; here nobody would see it
            outcome = (None, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            returned.get_loop().call_soon_threadsafe(_deliver, returned, outcome)
        del job, call, returned, outcome


def _deliver(returned: "asyncio.Future[_Outcome]", outcome: _Outcome) -> None:
    if not returned.done():
        returned.set_result(outcome)


async def call_function(function: AgentFunction, question: Any) -> Any:
    """Return a function's result. Synchronous functions run in a thread, so that they do not block the event loop."""
    thread = CallThread()
    try:
        return await thread.call(function, question)
    except RaisedInThread as raised:
        is_allowed = not isinstance(raised.error, StopIteration)  # which a coroutine cannot raise
        raise raised.error if is_allowed else RuntimeError("StopIteration") from raised.error.__cause__
    finally:
        thread.close()


def read_result(result: Any, source: str) -> AgentReply:
    """Return a reply from text, or from a dict with the key `response`. `source`: what messages call its origin.

    Raises:
        ServiceError: It is neither, or has unknown keys or values of a wrong type.
    """
    if isinstance(result, str):
        return AgentReply(result)
    try:
        return _read_record(result, source)
    except ServiceError:
        raise
    except Exception as error:
        raise ServiceError(f"{source} cannot be used: {describe_exception(error)}") from error


def _read_record(result: Any, source: str) -> AgentReply:
    if isinstance(result, AgentReply):
        return convert(to_builtins(result), AgentReply)
    expected = "expected text, or a dict with the key `response`"
    if not isinstance(result, dict):
        raise ServiceError(f"{source} is a value of type {type(result).__name__}; {expected}")
    reply, problems = read_reply(result)
    if problems or "response" not in result:
        keys = ", ".join(map(str, result)) or "none"
        said = "; ".join(problems) if "response" in result else f"it has no key `response` (keys: {keys})"
        raise ServiceError(f"{source} is a dict that cannot be used: {said}")
    return reply
