"""An agent that is the user's Python code, called with the question: in a thread, unless it is async."""

import asyncio
import warnings
from time import perf_counter
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.inputs.user_code.calls import describe_exception, ends_the_run
from evalspec.model import AgentReply, Sample
from evalspec.model.samples import render_input
from evalspec.targets.agents.base import add_times
from evalspec.targets.agents.call_thread import CallThread, RaisedInThread
from evalspec.targets.agents.entry import AgentFunction
from evalspec.targets.agents.own_spans import joined_to_trace
from evalspec.targets.agents.results import read_result
from evalspec.targets.agents.user_agent import AgentInstance, Streamed, UserAgent


class FunctionAgent:
    """Calls the user's agent for each sample. An exception is a failed reply, and is not retried."""

    def __init__(self, agent: UserAgent, timeout: float) -> None:
        self._agent = agent
        self._timeout = timeout
        self._thread = CallThread()
        self._instance: AgentInstance | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def ask(self, sample: Sample) -> AgentReply:
        """Return what the agent returns, as a reply with its latency. Creating and resetting it are not included.

        Raises:
            ServiceError: the agent raised, exceeded the timeout, or returned another type.
        """
        question = render_input(sample.user_input)
        async with self._agent.turns:
            if self._instance is None:
                self._instance = await self._agent.open(self._thread)
            result, started = await self._call(self._instance, self._instance.prepare(question))
        finished = perf_counter()
        first = result.first_token_at if isinstance(result, Streamed) else None
        whole = result.result if isinstance(result, Streamed) else result
        return add_times(read_result(whole, "the result of the agent's function"), started, finished, first)

    async def _call(self, instance: AgentInstance, prepared: Any) -> tuple[Any, float]:
        """Return what the agent returned, and when the call began. Code that survives its cancellation is too late."""
        try:
            async with asyncio.timeout(self._timeout) as timeout:
                await instance.reset()
                started = perf_counter()
                with joined_to_trace():
                    answered = await instance.answer(prepared)
        except ServiceError:
            raise
        except RaisedInThread as raised:
            is_ours = isinstance(raised.error, ServiceError)
            raise raised.error if is_ours else _describe_failure(raised.error) from raised.error
        except BaseException as error:  # user code may raise anything, also SystemExit
            if ends_the_run(error):
                raise
            if not timeout.expired():
                raise _describe_failure(error) from error
        if not timeout.expired():
            return answered, started
        if not instance.is_shared:
            self._instance = None
            if self._thread.is_busy:  # with this call
                self._closing.add(asyncio.create_task(self._close(instance)))
            else:
                await self._agent.close(instance.own, self._thread)
        raise ServiceError(f"the agent's function took longer than {self._timeout:g} s")

    async def aclose(self) -> None:
        """Close the worker's own instance of a class, and end the thread."""
        if self._instance is not None and not self._instance.is_shared:
            await self._agent.close(self._instance.own, self._thread)
        self._thread.close()
        if self._closing:
            await asyncio.wait(self._closing)

    async def _close(self, instance: AgentInstance) -> None:
        """Close an instance that still answers, in a thread of its own."""
        thread = CallThread()
        await self._agent.close(instance.own, thread)
        thread.close()


def _describe_failure(error: BaseException) -> ServiceError:
    return ServiceError(f"the agent's function raised {describe_exception(error)}")


async def call_function(agent: AgentFunction, question: Any) -> Any:
    """Return what the user's agent returns. Sync code runs in a thread, so that it does not block the event loop."""
    thread = CallThread()
    opened = UserAgent(agent)
    instance = None
    try:
        instance = await opened.open(thread)
        await instance.reset()
        result = await instance.answer(instance.prepare(question))
        return result.result if isinstance(result, Streamed) else result
    except RaisedInThread as raised:
        is_allowed = not isinstance(raised.error, StopIteration)  # which a coroutine cannot raise
        raise raised.error if is_allowed else RuntimeError("StopIteration") from raised.error.__cause__
    finally:
        if instance is not None and not instance.is_shared:
            await opened.close(instance.own, thread)
        thread.close()
        for notice in opened.notices:
            warnings.warn(notice, RuntimeWarning, stacklevel=2)
