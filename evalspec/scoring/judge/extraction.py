"""Extract the one JSON object from a model's answer, whatever text surrounds it."""

import json
import re
from collections.abc import Iterator
from typing import Any

from evalspec.base.text import excerpt

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
"""Maximum malformed objects in one answer. Each may cost a pass over the whole text."""
_LONGEST = 500_000
"""Maximum characters, including reasoning: more than judges write, and statements are compared within a second."""


class UnusableVerdict(Exception):
    """An answer of the judge that must not become a score. The message gives the reason to both user and judge."""


def extract_object(text: str) -> dict[str, Any]:
    """Return the JSON object that the text is, or the only one in it (in a code fence, between words).

    Reasoning in tags such as `<think>…</think>` is not part of the answer.

    Raises:
        UnusableVerdict: there is no object, more than one or a malformed one, or the reasoning is not closed.
    """
    if not text.strip():
        raise UnusableVerdict("it is empty")
    if len(text) > _LONGEST:
        raise UnusableVerdict(f"it has {len(text):,} characters; the limit is {_LONGEST:,}")
    found = _drop_reasoning(text)
    unusable = next((item for item in found if isinstance(item, UnusableVerdict)), None)
    if unusable is not None:
        raise unusable
    objects = [item for item in found if isinstance(item, dict)]
    if len(objects) != 1:
        raise UnusableVerdict("it is not a JSON object" if not objects else f"it has {len(objects)} JSON objects")
    return objects[0]


def _drop_reasoning(text: str) -> list[dict[str, Any] | UnusableVerdict]:
    """Return what `_scan` yields outside reasoning, without the tags."""
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
            kept.clear()  # everything before was reasoning without an opening tag
    if open_tags:
        raise UnusableVerdict(f"its reasoning is not closed: </{open_tags[0]}> is missing")
    return kept


def _scan(text: str) -> Iterator[dict[str, Any] | UnusableVerdict | str]:
    """Yield the JSON objects and the reasoning tags, in order. A tag is its name, with a leading / if it closes.

    Tags inside an object are part of the object. For a malformed object, the reason why the answer is unusable is
    yielded. A later tag may still show that it was part of the reasoning.
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
        elif not found["empty"]:  # <think/> has no content
            yield found["end"] + found["tag"].lower()


def _parse_object(text: str, begin: int) -> tuple[dict[str, Any], int]:
    """Return the object that begins at `begin`, and its end.

    Raises:
        ValueError: the object is malformed.
        RecursionError: the object is nested too deeply.
    """
    if not _OBJECT_BEGINS.match(text, begin):
        raise ValueError("a key or the end is expected")
    value: dict[str, Any]
    value, end = _DECODER.raw_decode(text, begin)
    return value, end


class _RepeatedKey(ValueError):
    """A JSON object with a duplicate key, so that the value is ambiguous."""


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        repeated = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
        raise _RepeatedKey(f"its JSON has the duplicate key {excerpt(repeated, _QUOTED)}")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_repeated_keys)
