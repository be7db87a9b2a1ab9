"""An agent that is a Python function, called with the question, in a thread unless it is async."""

import asyncio
import inspect
from collections.abc import Callable
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from evalspec.agents.replay import read_reply
from evalspec.errors import ServiceError
from evalspec.model import AgentReply, Sample

AgentFunction = Callable[[Any], Any]
"""Takes the question, or a conversation as a list of `{"role", "content"}`. Returns the answer as text, or a dict with
`response` and, if known, `retrieved_contexts`, `retrieved_context_ids`, `usage` and `finish_reason`. May be async."""


class FunctionAgent:
    """Calls the function for each sample. An exception is a failed reply, and is not retried."""

    def __init__(self, function: AgentFunction, timeout: float) -> None:
        self._function = function
        self._timeout = timeout

    async def ask(self, sample: Sample) -> AgentReply:
        """Return what the function returns, as a reply with its latency.

        Raises:
            ServiceError: the function raised, exceeded the timeout, or returned another type.
        """
        asked = sample.user_input
        question = asked if isinstance(asked, str) else [{"role": m.role, "content": m.content} for m in asked]
        started = perf_counter()
        try:
            async with asyncio.timeout(self._timeout):
                result = await call_function(self._function, question)
        except TimeoutError:
            raise ServiceError(f"the agent's function took longer than {self._timeout:g} s") from None
        except Exception as error:
            raise ServiceError(f"the agent's function raised {type(error).__name__}: {error}") from error
        took_ms = (perf_counter() - started) * 1000
        return replace(read_result(result, "the result of the agent's function"), latency_ms=took_ms)

    async def aclose(self) -> None:
        """Do nothing: no connection is open."""


async def call_function(function: AgentFunction, question: Any) -> Any:
    """Return a function's result. Synchronous functions run in a thread, so that they do not block the event loop."""
    if inspect.iscoroutinefunction(function):
        return await function(question)
    result = await asyncio.to_thread(_call_here, function, question)
    return await result if inspect.isawaitable(result) else result


def _call_here(function: AgentFunction, question: Any) -> Any:
    """Call the function. StopIteration becomes RuntimeError, because a future cannot carry it and would never end."""
    try:
        return function(question)
    except StopIteration as error:
        raise RuntimeError("StopIteration") from error


def read_result(result: Any, source: str) -> AgentReply:
    """Return a reply from text, or from a dict with the key `response`. `source`: what messages call its origin.

    Raises:
        ServiceError: It is neither, or has unknown keys or values of a wrong type.
    """
    if isinstance(result, str):
        return AgentReply(result)
    if isinstance(result, AgentReply):
        return result
    expected = "expected text, or a dict with the key `response`"
    if not isinstance(result, dict):
        raise ServiceError(f"{source} is a value of type {type(result).__name__}; {expected}")
    reply, problems = read_reply(result)
    if problems or "response" not in result:
        keys = ", ".join(map(str, result)) or "none"
        said = "; ".join(problems) if "response" in result else f"it has no key `response` (keys: {keys})"
        raise ServiceError(f"{source} is a dict that cannot be used: {said}")
    return reply
