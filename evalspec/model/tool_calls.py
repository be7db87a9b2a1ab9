"""Calls of tools: those that an agent made, and those that a dataset expects."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from evalspec.base.foreign_text import cut
from evalspec.model.base import Record

UNKNOWN_ARGUMENTS = "the trace does not record the arguments"
"""The problem of a call whose arguments may have been any."""
_LONGEST = 100
_LONGEST_VALUE = 60


class ToolCall(Record, frozen=True, omit_defaults=True):
    """A call that an agent made.

    `arguments`: a JSON object; if `problem` says that they are none, the text as the agent wrote it. `result`: what the
    tool returned; UNSET if the reply does not show it. `error`: why the tool failed. `step`: calls with the same number
    were made at the same time; it counts from 0.
    """

    name: str
    arguments: Any = {}
    call_id: str | None = None
    result: Any | UnsetType = UNSET
    error: str | None = None
    problem: str | None = None
    step: int = 0

    @property
    def is_answered(self) -> bool:
        """Whether the reply shows what came of the call."""
        return self.result is not UNSET or self.error is not None


class ExpectedCall(Record, frozen=True, omit_defaults=True):
    """A call that a sample expects. `arguments`: may have matchers (`base.json_matching`); UNSET: any arguments."""

    name: str
    arguments: Any | UnsetType = UNSET


def render_call(call: ToolCall) -> str:
    """Return a call on one short line, and that it failed: `book(city: "Paris") failed`."""
    return f"{cut(call.name, _LONGEST)}({render_arguments(call.arguments)})" + (" failed" if call.error else "")


def render_arguments(arguments: Any) -> str:
    """Return the arguments of a call on one short line: `city: "Paris", nights: 2`. UNSET: any."""
    if arguments is UNSET:
        return "…"
    if not isinstance(arguments, Mapping):
        return cut(arguments, _LONGEST) if isinstance(arguments, str) else _render(arguments, _LONGEST)
    return cut(", ".join(f"{key}: {_render(value, _LONGEST_VALUE)}" for key, value in arguments.items()), _LONGEST)


def _render(value: Any, longest: int) -> str:
    try:
        return cut(json.dumps(value, ensure_ascii=False), longest)
    except RecursionError:
        return "…"
