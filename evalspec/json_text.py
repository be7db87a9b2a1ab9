"""JSON as evalspec writes it, for people, `diff` and terminals too: no text in it can steer what shows it."""

import json
from typing import Any

from evalspec.foreign_text import commandless_json

_NEVER = 1_000


def render_line(value: Any) -> str:
    """A JSON value on one line: text as it is, or plain ASCII with escapes where any of it could steer a terminal,
    breaks a line for some reader, or has no UTF-8 form.

    Raises:
        ValueError: it holds a number that JSON does not have.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return commandless_json(text if text.isprintable() else json.dumps(value, allow_nan=False))


def render_lines(
    value: Any, depth: int = 0, one_line_from: int = _NEVER, deeper_below: frozenset[str] = frozenset()
) -> str:
    """A JSON value indented, but on one line from a depth on.

    `deeper_below`: keys below which that depth is one more.
    """
    if depth >= one_line_from or not value or not isinstance(value, dict | list | tuple):
        return render_line(value)
    margin = "  " * (depth + 1)
    if isinstance(value, dict):
        keys = [render_line(str(key)) for key in value]
        limits = [one_line_from + (key in deeper_below) for key in value]
        texts = [
            render_lines(item, depth + 1, limit, deeper_below)
            for item, limit in zip(value.values(), limits, strict=True)
        ]
        items = [f"{key}: {text}" for key, text in zip(keys, texts, strict=True)]
        opening, closing = "{", "}"
    else:
        items = [render_lines(item, depth + 1, one_line_from, deeper_below) for item in value]
        opening, closing = "[", "]"
    lines = f",\n{margin}".join(items)
    return f"{opening}\n{margin}{lines}\n{'  ' * depth}{closing}"
