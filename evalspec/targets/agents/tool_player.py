"""Answers the calls of a bare model: evalspec plays its tools, as `spec.evaluation.tools` says."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from evalspec.base.errors import ServiceError
from evalspec.base.patterns import CannotCheck
from evalspec.inputs.manifest.tool_schema import DeclaredTool, Tools
from evalspec.inputs.user_code.calls import UserCode
from evalspec.model import AgentReply, ToolCall
from evalspec.model.exchanges import ModelCall, join_replies

MOST_STEPS = 25
"""How often a model is asked for one answer. A model that still calls tools then has none."""


class ToolPlayer:
    """Answers calls. Errors go to the model, which may try again."""

    def __init__(self, tools: Tools, folder: Path) -> None:
        self.tools = tools
        self._code = {name: UserCode(tool.python, folder, ServiceError) for name, tool in tools.items() if tool.python}

    async def answer(self, call: ToolCall) -> ToolCall:
        """Return a call with its result, or with the error that the model reads.

        Raises:
            ServiceError: nobody can know whether the arguments are valid, so there is nothing to tell the model.
        """
        tool = self.tools.get(call.name)
        try:
            error = "there is no such tool" if tool is None else tool.explain_invalid(call)
        except CannotCheck as problem:
            raise ServiceError(f"the arguments of {call.name} cannot be checked: {problem}") from problem
        if tool is None or error is not None:
            return replace(call, error=error)
        try:
            return replace(call, result=await self._compute(tool, call.arguments))
        except ServiceError as failure:
            return replace(call, error=str(failure))

    async def _compute(self, tool: DeclaredTool, arguments: Mapping[str, Any]) -> Any:
        if tool.name not in self._code:
            return None if tool.result is UNSET else tool.result
        code = self._code[tool.name]
        return code.as_json(await code.call(partial(await code.load_aside(), **deepcopy(arguments))), code.target)


def render_result(call: ToolCall) -> str:
    """Return what the model reads about a call."""
    if call.error is not None:
        return f"Error: {call.error}"
    return call.result if isinstance(call.result, str) else json.dumps(call.result, ensure_ascii=False)


def write_arguments(call: ToolCall) -> str:
    """Return the arguments of a call as JSON, or as the model wrote them if they are none."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)


def declare_function(tool: DeclaredTool) -> dict[str, Any]:
    """Return a tool as chat completions declare it."""
    said = {"name": tool.name, "description": tool.description, "parameters": tool.parameters or {"type": "object"}}
    return {"type": "function", "function": said}


class ToolLoop:
    """Asks a model, and answers its calls, until it makes none. `add_results`: adds a reply and its answered calls."""

    def __init__(
        self, request: Any, player: ToolPlayer, add_results: Callable[[Any, AgentReply, Sequence[ToolCall]], Any]
    ) -> None:
        self._request, self._player, self._add_results = request, player, add_results
        self._replies: list[AgentReply] = []

    async def run(self, send: Callable[[Any], Awaitable[AgentReply]]) -> AgentReply:
        """Return the reply of the model, with all its calls and their results.

        Raises:
            ServiceError: a request failed. To run again repeats that request, and no call that was answered.
        """
        while True:
            reply = await send(self._request)
            reply = replace(reply, steps=1, model_calls=(ModelCall(reply.latency_ms, reply.usage),))
            if not reply.tool_calls:
                return join_replies([*self._replies, reply])
            if len(self._replies) + 1 == MOST_STEPS:  # what it says beside its calls is no answer
                return join_replies([*self._replies, replace(reply, response="")])
            calls = [await self._player.answer(call) for call in reply.tool_calls]
            self._replies.append(replace(reply, tool_calls=tuple(calls)))
            self._request = self._add_results(self._request, reply, calls)
