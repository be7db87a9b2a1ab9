"""Hits from the JSON of a reply, by the JSONPath queries of the manifest."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

from evalspec.errors import AgentError
from evalspec.json_http.json_path import as_id, as_string, read_list
from evalspec.manifest.retriever_schema import HitQueries
from evalspec.retrievers.base import Hit

T = TypeVar("T")


def read_hits(value: Any, queries: HitQueries) -> tuple[Hit, ...]:
    """The hits in the order of the reply, which is the ranking whatever the scores say; duplicates and all.

    Ids may be text or whole numbers.

    Raises:
        AgentError: a place that is not there, a value of another kind, or lists of different lengths.
    """
    ids = read_list(value, queries.ids, "response.ids", as_id)
    documents = _read_beside(ids, value, queries, "documentIds", queries.document_ids, as_id, "strings")
    scores = _read_beside(ids, value, queries, "scores", queries.scores, _as_score, "finite numbers")
    texts = _read_beside(ids, value, queries, "texts", queries.texts, as_string, "strings")
    return tuple(Hit(*parts) for parts in zip(ids, documents, scores, texts, strict=True))


def _read_beside(
    ids: tuple[str, ...],
    value: Any,
    queries: HitQueries,
    name: str,
    text: str | None,
    convert: Callable[[Any], T | None],
    expected: str,
) -> tuple[T | None, ...]:
    """What stands beside each id; None everywhere where it is not mapped."""
    if text is None:
        return (None,) * len(ids)
    found = read_list(value, text, f"response.{name}", convert, expected)
    if len(found) != len(ids):
        raise AgentError(
            f"{queries.ids} gives {len(ids)} ids and {text} gives {len(found)} {name}; one for each hit was expected"
        )
    return found


def _as_score(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        score = float(value)
    except OverflowError:
        return None
    return score if math.isfinite(score) else None
