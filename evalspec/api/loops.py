"""Running coroutines from sync code, with or without a running event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_coroutine(start: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Return the result of a coroutine. If this thread has a running event loop, use a new thread with its own loop."""
    __tracebackhide__ = True
    if not _has_running_loop():
        return run_here(start)
    found: list[Result | BaseException] = []

    def work() -> None:
        try:
            found.append(run_here(start))
        except BaseException as error:
            found.append(error)

    thread = Thread(target=work, name="evalspec")
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


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
        found.append(await start())

    asyncio.run(keep())
    return found[0]
