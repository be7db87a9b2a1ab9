"""The one JSON object in a model's answer, whatever it wrote around it."""

import json
import re
from collections.abc import Iterator
from typing import Any

from evalspec.judge.excerpts import quote

_MARK = re.compile(
    r"""
    \{
    | <\|channel\|> \s* (?P<channel>\w*)
    | (?: < | \[(?=/?think\]) ) \s* (?P<end>/?) \s* (?:\w+:)?
      (?P<tag> think | thinking | thought | reasoning | reflection | scratchpad | analysis )
      (?:\s[^<>]*?)? (?P<empty>/?) [>\]]
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""What may begin an object, and what begins or ends reasoning."""
_QUOTED = 80
_OBJECT_BEGINS = re.compile(r'\{\s*["}]')
_BRACES_OF_PROSE = re.compile(r"""\{(?!\s*["'])[^{}]*\}""")
_MOST_MALFORMED = 1000
_LONGEST = 500_000
"""Characters, with the reasoning: more than a judge can write, and few enough to compare statements in a second."""
"""Objects in one answer. Each may cost a pass over all of it."""


class UnusableVerdict(Exception):
    """An answer of the judge that must not become a score; the message says why, to the user and to the judge."""


def extract_object(text: str) -> dict[str, Any]:
    """The JSON object that the text is, or the only one within it (in a code fence, between words).

    Reasoning in tags, as `<think>…</think>`, is no part of the answer.

    Raises:
        UnusableVerdict: there is none, or more than one, or a malformed one, or the reasoning has no end.
    """
    if not text.strip():
        raise UnusableVerdict("it is empty")
    if len(text) > _LONGEST:
        raise UnusableVerdict(f"it has {len(text):,} characters, and {_LONGEST:,} are read at most")
    found = _drop_reasoning(text)
    unusable = next((item for item in found if isinstance(item, UnusableVerdict)), None)
    if unusable is not None:
        raise unusable
    objects = [item for item in found if isinstance(item, dict)]
    if len(objects) != 1:
        raise UnusableVerdict("it is not a JSON object" if not objects else f"it has {len(objects)} JSON objects")
    return objects[0]


def _drop_reasoning(text: str) -> list[dict[str, Any] | UnusableVerdict]:
    """What _scan finds outside reasoning, without the tags."""
    kept: list[dict[str, Any] | UnusableVerdict] = []
    open_tags: list[str] = []
    for found in _scan(text):
        if not isinstance(found, str):
            kept += [] if open_tags else [found]
        elif not found.startswith("/"):
            open_tags.append(found)
        elif found[1:] in open_tags:
            while open_tags.pop() != found[1:]:
                pass
        elif not open_tags:
            kept.clear()  # all of it was reasoning, which began without a tag
    if open_tags:
        raise UnusableVerdict(f"its reasoning has no end: <{open_tags[0]}> is never closed")
    return kept


def _scan(text: str) -> Iterator[dict[str, Any] | UnusableVerdict | str]:
    """The JSON objects and the tags of reasoning, in order; a tag is its name, after / where it closes.

    What looks like a tag inside an object is text of that object. In place of a malformed object comes the reason why
    the answer is unusable, unless a tag shows later that it was reasoning.
    """
    position = malformed = 0
    while (found := _MARK.search(text, position)) is not None:
        position = found.end()
        if found[0] == "{":
            try:
                value, position = _parse_object(text, found.start())
                yield value
            except _RepeatedKey as repeated:
                yield UnusableVerdict(str(repeated))
            except (ValueError, RecursionError):
                if _BRACES_OF_PROSE.match(text, found.start()):
                    continue
                malformed += 1
                if malformed > _MOST_MALFORMED:
                    raise UnusableVerdict(f"more than {_MOST_MALFORMED:,} JSON objects are malformed") from None
                yield UnusableVerdict("it is not a JSON object: one is malformed or broken off")
        elif found["channel"] is not None:
            final = found["channel"].lower() == "final"
            yield (
                "/channel" if final else UnusableVerdict("it has reasoning in <|channel|> and no final answer after it")
            )
        elif not found["empty"]:  # <think/> holds nothing
            yield found["end"] + found["tag"].lower()


def _parse_object(text: str, begin: int) -> tuple[dict[str, Any], int]:
    """The object that begins there, and where it ends.

    Raises:
        ValueError: it is malformed.
        RecursionError: it is nested too deeply.
    """
    if not _OBJECT_BEGINS.match(text, begin):
        raise ValueError("a key or the end is expected")
    value: dict[str, Any]
    value, end = _DECODER.raw_decode(text, begin)
    return value, end


class _RepeatedKey(ValueError):
    """A JSON object that has a key twice, so that its value is ambiguous."""


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        repeated = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
        raise _RepeatedKey(f"its JSON has the key {quote(repeated, _QUOTED)} twice")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_repeated_keys)
