"""Escaping of untrusted text: datasets, agents, judges, file names.

Characters that are unsafe in an output format are escaped, never dropped. Each output format uses one of these
functions:

- `inert`: one line, for terminals, Markdown and stderr.
- `visible`: multi-line text, for XML, CSV, HTML, SARIF and annotations.
- `without_control_codes` and `commandless`: complete output, as the last step before printing.
- `encodable`: data that is otherwise unchanged; escapes only what UTF-8 cannot encode.

`normalize` is `unicodedata.normalize` for text that nobody has checked.
"""

import re
from itertools import groupby
from typing import Literal

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""C0 and C1 except tab and line feed."""
_LINE_BREAKS = "\u2028\u2029"
_FORMATS = (
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064"
    "\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
"""Invisible characters, including those that reorder a line. The two joiners (U+200C, U+200D) are missing on purpose:
Persian, Indic scripts and emoji need them, and they are harmless."""
_UNENCODABLE = "\ud800-\udfff\ufffe\uffff"
"""Surrogates and noncharacters, which UTF-8 or XML cannot represent."""

_MANY_MARKS = r"[^\w\s\x00-\x7f\u2010-\u20cf\u2100-\u2bff\U0001f000-\U0001faff]{30,}"
"""Long runs of combining marks, and of few other characters: letters, most punctuation and emoji are left out."""

_UNSHOWN = f"[{_CONTROLS}{_LINE_BREAKS}{_FORMATS}{_UNENCODABLE}]"
"""A pattern that few commands need is a text, because compiling it takes a millisecond of each start."""
_UNSHOWN_OR_STYLE = rf"\x1b\[[0-9;]*m|{_UNSHOWN}"
_LINE_COMMAND = r"(?m)^([^\S\n]*):(?=:)"
_INLINE_COMMAND = r"#(?=#[\w-]*\[)"
"""`##[…]`, GitHub's older form, which its runner obeys anywhere in a line; `##vso[…]` of Azure Pipelines and
`##teamcity[…]` of TeamCity."""


def inert(text: str) -> str:
    """Return untrusted text as one line that cannot control a terminal.

    Control, format and surrogate characters become escapes.
    """
    flat = " ".join(text.split())
    return flat if flat.isprintable() else re.sub(_UNSHOWN, _escape, flat)


def visible(text: str) -> str:
    """Return text in which every unsafe character is an escape.

    Unsafe are characters that XML 1.0 cannot represent, that control a terminal, or that reorder a line. CRLF becomes
    a line feed. A lone carriage return is escaped.
    """
    return re.sub(_UNSHOWN, _escape, text.replace("\r\n", "\n"))


def without_control_codes(text: str, *, styled: bool = False) -> str:
    """Return complete output in which every unsafe character is an escape.

    `styled`: keep colour sequences, which are evalspec's own.
    """
    if text.replace("\n", "").replace("\t", "").isprintable():  # much faster than the search
        return text
    if not styled:
        return re.sub(_UNSHOWN, _escape, text)
    return re.sub(_UNSHOWN_OR_STYLE, lambda found: found[0] if len(found[0]) > 1 else _escape(found), text)


def commandless(text: str) -> str:
    """Return output in which no line is a command to a CI system.

    GitHub's runner obeys lines that begin with `::`, even after blanks, and lines that contain `##[`.
    """
    return re.sub(_INLINE_COMMAND, r"\\x23", re.sub(_LINE_COMMAND, r"\1\\x3a", text))


def commandless_json(text: str) -> str:
    """Return JSON with CI commands escaped. It parses to the same value.

    Only `##[` needs an escape, because no line of JSON begins with the content of a string.
    """
    return re.sub(_INLINE_COMMAND, r"\\u0023", text) if "##" in text else text


def encodable(text: str) -> str:
    """Return the text with lone surrogates escaped, since UTF-8 cannot encode them."""
    return text.encode("utf-8", "backslashreplace").decode()


def cut(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text. The last one is an ellipsis if the text is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def normalize(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """Return the Unicode normalisation form of a text, as `unicodedata.normalize` does.

    That function sorts the combining marks of a letter in quadratic time, which for 200 KB of them takes a minute.
    """
    if text.isascii():
        return text
    from unicodedata import normalize as normalize_all

    return normalize_all(form, re.sub(_MANY_MARKS, _sort_marks, text))


def _sort_marks(found: re.Match[str]) -> str:
    """Return marks in the order that every normalisation form has."""
    import unicodedata

    decomposed = "".join(unicodedata.normalize("NFD", char) for char in found[0])
    runs = groupby(decomposed, key=lambda char: unicodedata.combining(char) > 0)
    return "".join("".join(sorted(run, key=unicodedata.combining) if is_marks else run) for is_marks, run in runs)
