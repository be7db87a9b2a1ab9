"""Token counts, under the names that services give them."""

from collections.abc import Mapping
from typing import Any

from evalspec.records import Usage

USAGE_KEYS = (
    ("prompt_tokens", "completion_tokens"),
    ("input_tokens", "output_tokens"),
    ("inputTokens", "outputTokens"),
)


def read_usage(value: Any) -> Usage | None:
    """Tokens in and out; None where the value does not tell both as counts, because unknown is not 0."""
    if not isinstance(value, Mapping):
        return None
    for input_key, output_key in USAGE_KEYS:
        counts = [_as_count(value.get(key)) for key in (input_key, output_key)]
        if counts[0] is not None and counts[1] is not None:
            return Usage(counts[0], counts[1])
    return None


def _as_count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
