"""Close objects of the user's agent that evalspec created. Whatever closing does, it never fails a run."""

import asyncio
from collections.abc import Callable
from typing import Any

from evalspec.agents.call_thread import CallThread, RaisedInThread
from evalspec.user_code.calls import describe_exception, ends_the_run

CLOSE_SECONDS = 10.0
"""How long closing one object may take. Ctrl-C waits for it too."""

_NAMES = ("aclose", "close")


def can_be_closed(own: Any) -> bool:
    """Return whether an object has a method to close it."""
    return _find_close(own) is not None


async def close_object(own: Any, thread: CallThread) -> str | None:
    """Call `aclose` or `close` of an object, the first one that exists, and return why that failed, or None.

    `thread`: where sync code runs.
    """
    close = _find_close(own)
    if close is None:
        return None
    closing = asyncio.create_task(_call(close, thread))
    await asyncio.wait({closing}, timeout=CLOSE_SECONDS)
    if closing.done():
        failure = closing.result()
        return failure and f"the agent cannot be closed: {failure}"
    closing.cancel()
    return f"the agent cannot be closed: it took longer than {CLOSE_SECONDS:g} s"


def _find_close(own: Any) -> Callable[[], Any] | None:
    """Return the method to call, if there is one."""
    try:
        found = [getattr(own, name, None) for name in _NAMES]
    except Exception:  # the object's own attribute access may raise anything; then there is nothing to call
        return None
    return next((close for close in found if callable(close)), None)


async def _call(close: Callable[[], Any], thread: CallThread) -> str | None:
    try:
        await thread.call(close)
    except RaisedInThread as raised:
        return describe_exception(raised.error)
    except BaseException as error:  # user code may raise anything, also SystemExit
        if ends_the_run(error):
            raise
        return describe_exception(error)
    return None
