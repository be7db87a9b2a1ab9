"""The one JSON object in a model's answer, whatever it wrote around it."""

import json
from typing import Any


class UnusableVerdict(Exception):
    """An answer of the judge that must not become a score; the message says why, to the user and to the judge."""


def extract_object(text: str) -> dict[str, Any]:
    """The JSON object that the text is, or the only one within it (in a code fence, between words).

    Raises:
        UnusableVerdict: there is none, or more than one.
    """
    if not text.strip():
        raise UnusableVerdict("it is empty")
    objects = _find_objects(text)
    if len(objects) != 1:
        raise UnusableVerdict("it is not a JSON object" if not objects else f"it has {len(objects)} JSON objects")
    return objects[0]


def _find_objects(text: str) -> list[dict[str, Any]]:
    decoder = json.JSONDecoder()
    objects, position = [], text.find("{")
    while position >= 0:
        try:
            found, end = decoder.raw_decode(text, position)
            objects.append(found)
        except (ValueError, RecursionError):
            end = position + 1
        position = text.find("{", end)
    return objects
