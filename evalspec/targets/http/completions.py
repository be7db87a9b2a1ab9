"""Parts of openai-compatible replies, shared by agents and judges."""

from collections.abc import Mapping
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.base.json_path import describe_keys
from evalspec.inputs.usage import read_usage
from evalspec.targets.http.error_body import has_content


def list_choices(value: Any) -> list[dict[str, Any]]:
    """Return the choices of a chat completion or of one of its chunks."""
    choices = value.get("choices") if isinstance(value, dict) else None
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def first_choice(value: Any) -> dict[str, Any] | None:
    """Return the first choice of a chat completion or of one of its chunks; None if there is none."""
    choices = value.get("choices") if isinstance(value, dict) else None
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


class SingleChoice:
    """The one choice of a streamed chat completion. With several, the end of one would pass as the end of another."""

    def __init__(self) -> None:
        self._index: Any = None

    def check(self, choice: Mapping[str, Any] | None) -> None:
        """Note the index of a chunk's choice.

        Raises:
            ServiceError: an earlier chunk has a choice with another index.
        """
        index = choice.get("index") if choice else None
        if self._index is not None and index not in (None, self._index):
            raise ServiceError(
                "the stream has several choices, but evalspec reads one choice; request no more than one"
            )
        self._index = index if self._index is None else self._index


def read_content(content: Any) -> str | None:
    """Return the text of a message, which is a string or a list of parts. Text parts are joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str)) if texts else None


def report_usage(value: Any) -> dict[str, Any]:
    """Return the fields of an AgentReply for the usage that a reply gives: `usage`, or `unread_usage`."""
    usage = read_usage(value)
    if usage is not None:
        return {"usage": usage}
    return {"unread_usage": describe_keys(value)} if has_content(value) else {}
