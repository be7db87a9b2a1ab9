"""Quote foreign text in the judge's prompts, so that no text can pass for a part of the prompt."""

import json
from typing import Any

_ESCAPED = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<\x7f\x85\u2028\u2029"})
"""Line ends that JSON leaves as they are, and `<`, which begins tags and many models' marks of a turn."""


def quote_foreign(value: Any) -> str:
    """Return texts as JSON on one line and without `<`. `json.loads` gives exactly the same texts."""
    return escape_json(json.dumps(value, ensure_ascii=False))


def escape_json(text: str) -> str:
    """Return JSON with the characters of its strings escaped that models may take for a mark or a line end."""
    return text.translate(_ESCAPED)
