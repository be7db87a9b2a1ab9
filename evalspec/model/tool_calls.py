"""Calls of tools: those that an agent made, and those that a dataset expects."""

from typing import Any

from msgspec import UNSET, UnsetType

from evalspec.model.base import Record


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
