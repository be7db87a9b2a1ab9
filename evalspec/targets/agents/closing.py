"""Close objects of the user's agent that evalspec created. Whatever closing does, it never fails a run."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from evalspec.inputs.user_code.calls import describe_exception
from evalspec.targets.agents.call_thread import CallThread, RaisedInThread

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
