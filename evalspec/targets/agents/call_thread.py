"""Calls of the user's code: sync functions in a thread of their own, async functions in the event loop.

Whatever closing an object of the user's agent does, it never fails a run.
"""

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

from evalspec.inputs.user_code.calls import describe_exception


class RaisedInThread(Exception):
    """A function raised `error` in a thread. SystemExit or KeyboardInterrupt itself would end the event loop."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class CallThread:
    """A thread for the calls of one worker, so that no call waits for a thread. It cannot keep the process from ending.

    If a call is cancelled, its thread ends with the call, and the next call gets a new thread. `is_busy`: the last call
    was cancelled, and may still be running.
    """

    def __init__(self) -> None:
        self._idle: _Calls | None = None
        self.is_busy = False

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a function's result. Async functions are awaited here, all others are called in the thread.

        Raises:
            RaisedInThread: the function raised an exception in the thread.
        """
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        calls = self._idle or _start_thread()
        self._idle, self.is_busy = None, False
        returned: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        calls.put((partial(copy_context().run, function, *arguments), returned))
        try:
            result, error = await returned
        except BaseException:  # cancelled: the thread is still busy with this call, so it cannot take the next one
            calls.put(None)
            self.is_busy = True
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


CLOSE_SECONDS = 10.0
"""How long closing one object may take. Ctrl-C waits for it too."""

_NAMES = ("aclose", "close")


def find_owner(agent: Any) -> Any:
    """Return the object to close for an agent: of a method, that is its object. None: there is nothing to close."""
    owner = agent.__self__ if inspect.ismethod(agent) else agent
    return None if inspect.isclass(owner) or _find_close(owner) is None else owner


async def close_object(own: Any, thread: CallThread) -> str | None:
    """Call `aclose` or `close` of an object, the first one that exists, and return why that failed, or None.

    `thread`: where sync code runs.
    """
    close = _find_close(own)
    if close is None:
        return None
    failure = await _call(close, thread)
    return failure and f"the agent cannot be closed: {failure}"


def _find_close(own: Any) -> Callable[[], Any] | None:
    """Return the method to call, if there is one."""
    try:
        found = [getattr(own, name, None) for name in _NAMES]
    except Exception:  # the object's own attribute access may raise anything; then there is nothing to call
        return None
    return next((close for close in found if callable(close)), None)


async def _call(close: Callable[[], Any], thread: CallThread) -> str | None:
    """Return why a call failed. Async code runs in this task, because it may have to leave what it entered there."""
    task = asyncio.current_task()
    cancels = task.cancelling() if task else 0  # the run may be ending
    failure = None
    try:
        async with asyncio.timeout(CLOSE_SECONDS) as timeout:
            await thread.call(close)
    except RaisedInThread as raised:
        failure = describe_exception(raised.error)
    except BaseException as error:  # user code may raise anything, also SystemExit
        if isinstance(error, KeyboardInterrupt) or (task and task.cancelling() > cancels):
            raise
        failure = describe_exception(error)
    return f"it took longer than {CLOSE_SECONDS:g} s" if timeout.expired() else failure
