"""Coroutines run to their end from sync code, wherever that is called."""

import asyncio
from collections.abc import Callable, Coroutine
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_coroutine(start: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """The result of a coroutine; where an event loop runs in this thread, from a thread and a loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
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


def run_here(start: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """The result of a coroutine, kept from asyncio.run: to see to Ctrl-C it asks for the repr of what its task
    returned, which for a large run takes a second."""
    found: list[Result] = []

    async def keep() -> None:
        found.append(await start())

    asyncio.run(keep())
    return found[0]
