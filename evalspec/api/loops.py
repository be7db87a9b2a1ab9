"""Running coroutines from sync code, with or without a running event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar, cast

_SECONDS_TO_STOP = 5.0
"""How long Ctrl-C waits for a run to stop. A thread that is still running then cannot keep the process from ending."""

Result = TypeVar("Result")


def run_coroutine(start: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Return the result of a coroutine. If this thread has a running event loop, use a new thread with its own loop.

    Ctrl-C cancels the coroutine in that thread too.
    """
    __tracebackhide__ = True
    if not _has_running_loop():
        return run_here(start)
    running: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()
    outcome: Future[Result] = Future()

    async def keep() -> Result:
        __tracebackhide__ = True
        running.set_result((asyncio.get_running_loop(), cast("asyncio.Task[Any]", asyncio.current_task())))
        return await start()

    def work() -> None:
        try:
            outcome.set_result(run_here(keep))
        except BaseException as error:  # raised again in the caller's thread
            outcome.set_exception(error)

    Thread(target=work, name="evalspec", daemon=True).start()
    try:
        return outcome.result()
    except BaseException:  # raised by the run, or Ctrl-C in this thread
        if not outcome.done():
            with suppress(RuntimeError):  # the loop is closed
                loop, task = running.result(_SECONDS_TO_STOP)
                loop.call_soon_threadsafe(task.cancel)
            wait([outcome], _SECONDS_TO_STOP)
        raise


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_here(start: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Return the result of a coroutine.

    The coroutine passed to asyncio.run returns nothing, because asyncio.run computes the repr of its task's result when
    it handles Ctrl-C. For a large run that takes a second.
    """
    __tracebackhide__ = True
    found: list[Result] = []

    async def keep() -> None:
        __tracebackhide__ = True
        asyncio.get_running_loop().set_exception_handler(_report)
        found.append(await start())

    asyncio.run(keep())
    return found[0]


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Let the loop report what nobody awaited, but not that a second Ctrl-C ended a task: the caller gets the first."""
    if not isinstance(context.get("exception"), KeyboardInterrupt):
        loop.default_exception_handler(context)
