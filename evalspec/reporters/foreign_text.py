"""Text from datasets, agents and judges in forms that cannot hold all of it: shown as escapes, never dropped.

`wording.inert` is for one line on a terminal; these keep the lines of a text.
"""

import re

_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but tab and line feed
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"  # what reorders or breaks lines unseen
    "\ud800-\udfff\ufffe\uffff]"  # what no UTF-8 or XML holds
)


def visible(text: str) -> str:
    """Every character that XML 1.0 cannot hold, or that steers a terminal or the order of a line, as its escape.

    CRLF becomes a line feed; a carriage return alone is shown.
    """
    return _UNSHOWN.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def encodable(text: str) -> str:
    """The text as it is, with halves of surrogate pairs, which UTF-8 does not have, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, the last one an ellipsis where there are more."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
