"""Erase personal data from jobs: results of comparisons have texts of samples, and errors may quote replies."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Engine, or_, select, update

from evalspec.curation.gold.quotes import Quotes
from evalspec.service.database import reading, writing
from evalspec.service.jobs import OPEN
from evalspec.service.tables import JOBS

_ERASED = "erased, because it quoted an erased text"
_COMPARISON = "comparison"
_COMPUTED_AGAIN = frozenset({_COMPARISON, "dataset_check", "evaluation_comparison"})
"""Kinds of jobs whose results have texts of samples, and are computed again on demand."""


def erase_from_jobs(
    engine: Engine,
    namespace: str,
    texts: Collection[str],
    samples: Collection[tuple[str, str]],
    *,
    dry_run: bool,
) -> list[str]:
    """Remove texts from the results and errors of ended jobs that quote one of the texts, or compare a sample.

    Returns:
        The ids of these jobs.

    Raises:
        StoreError: The database does not answer.
    """
    quotes = Quotes(texts, shortest=1)
    shown = (JOBS.c.id, JOBS.c.kind, JOBS.c.result, JOBS.c.error)
    has_text = or_(JOBS.c.kind == _COMPARISON, JOBS.c.error.is_not(None), JOBS.c.result.is_not(None))
    ended = select(*shown).where(JOBS.c.namespace == namespace, JOBS.c.status.not_in(OPEN), has_text)
    with reading(engine) as connection:
        found = [
            row
            for row in connection.execute(ended.order_by(JOBS.c.id))
            if quotes(_encode(row.result, row.error))
            or (row.kind == _COMPARISON and _list_samples(row.result) & set(samples))
        ]
    if not dry_run:
        with writing(engine) as connection:
            for row in found:
                changed = update(JOBS).where(JOBS.c.namespace == namespace, JOBS.c.id == row.id)
                connection.execute(changed.values(result=_strip(row), error=row.error and _ERASED))
    return [row.id for row in found]


def _strip(row: Any) -> Mapping[str, Any] | None:
    """Return the result of a row of the table without texts. Scores of evaluations stay."""
    if row.result is None or row.kind in _COMPUTED_AGAIN:
        return None
    return {**row.result, "warnings": [_ERASED]} if "warnings" in row.result else row.result


def _encode(result: Any, error: str | None) -> bytes:
    return json.dumps([result, error], ensure_ascii=False).encode(errors="replace")


def _list_samples(result: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """Return the samples whose texts a comparison shows, by dataset and id."""
    return {
        (dataset["name"], sample["id"])
        for candidate in (result or {}).get("candidates", ())
        for dataset in candidate["datasets"]
        for sample in dataset["samples"]
    }
