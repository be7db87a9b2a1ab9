"""Text from datasets, agents, judges and file names, made unable to act where it is shown.

Whatever a form of output cannot hold is shown as an escape and never dropped. This module knows which characters those
are; each form of output picks the function that fits it:

- `inert`: one line, for terminals, Markdown and stderr.
- `visible`: text with its lines, for XML, CSV, HTML, SARIF and annotations.
- `steerless` and `commandless`: whole output that is laid out already, as the last step before it is printed.
- `encodable`: data that stays as it is, but for what UTF-8 cannot hold.
"""

import re

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""C0 and C1, but tab and line feed."""
_LINE_BREAKS = "\u2028\u2029"
_FORMATS = (
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064"
    "\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
"""Invisible characters, those that reorder a line among them. Not the two joiners (U+200C, U+200D), of which Persian,
Indic scripts and emoji are made: of all format characters those without tricks."""
_UNENCODABLE = "\ud800-\udfff\ufffe\uffff"
"""What no UTF-8 or XML holds."""

_UNSHOWN = re.compile(f"[{_CONTROLS}{_LINE_BREAKS}{_FORMATS}{_UNENCODABLE}]")
_UNSHOWN_OR_STYLE = re.compile(rf"\x1b\[[0-9;]*m|{_UNSHOWN.pattern}")
_LINE_COMMAND = re.compile(r"^([^\S\n]*):(?=:)", re.MULTILINE)
_INLINE_COMMAND = re.compile(r"#(?=#[\w-]*\[)")
"""GitHub's older form, which its runner obeys anywhere in a line, and that of Azure Pipelines and TeamCity."""


def inert(text: str) -> str:
    """Foreign text on one line, unable to steer a terminal: control, format and surrogate characters as escapes."""
    flat = " ".join(text.split())
    return flat if flat.isprintable() else _UNSHOWN.sub(_escape, flat)


def visible(text: str) -> str:
    """Every character that XML 1.0 cannot hold, or that steers a terminal or the order of a line, as its escape.

    CRLF becomes a line feed; a carriage return alone is shown.
    """
    return _UNSHOWN.sub(_escape, text.replace("\r\n", "\n"))


def steerless(text: str, *, styled: bool = False) -> str:
    """The same of output with lines of our own. `styled`: the colours in it are ours too, and stay."""
    if not styled:
        return _UNSHOWN.sub(_escape, text)
    return _UNSHOWN_OR_STYLE.sub(lambda found: found[0] if len(found[0]) > 1 else _escape(found), text)


def commandless(text: str) -> str:
    """Output in which no line is a command to a CI system, which obeys whoever wrote it.

    GitHub's runner takes a line that begins with `::`, after blanks too, and one with `##[` anywhere.
    """
    return _INLINE_COMMAND.sub(r"\\x23", _LINE_COMMAND.sub(r"\1\\x3a", text))


def commandless_json(text: str) -> str:
    """The same of JSON, which reads back as before: no line of it begins with a text."""
    return _INLINE_COMMAND.sub(r"\\u0023", text)


def encodable(text: str) -> str:
    """The text as it is, with halves of surrogate pairs, which UTF-8 does not have, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, the last one an ellipsis where there are more."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
