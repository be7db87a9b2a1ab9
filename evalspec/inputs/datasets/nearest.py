"""Name the format that is nearest to a record of an unknown form."""

import difflib
from collections.abc import Collection

from evalspec.base.errors import Problem
from evalspec.base.foreign_text import inert
from evalspec.inputs.datasets.base import DATASETS, DatasetFormat
from evalspec.inputs.datasets.record_names import NAME_COLUMNS

_SHOWN = 8
_ALIKE = 0.8


def explain_unknown_form(columns: Collection[str], shown_as: str, line: int) -> Problem:
    """Return the problem of a file whose records no format has."""
    named = ", ".join(map(inert, list(columns)[:_SHOWN])) + (", …" if len(columns) > _SHOWN else "")
    message = f"no format has records with the keys {named}" if columns else "the record has no keys"
    nearest = find_nearest(columns)
    hint = f"the nearest is {nearest.name} ({nearest.summary}); " if nearest is not None else ""
    fix = f"{hint}{NAME_COLUMNS}, or write input and expected"
    return Problem(message, fix, shown_as, line)


def find_nearest(columns: Collection[str]) -> DatasetFormat | None:
    """Return the format that shares the most names with a record, or has similar ones; None if none does."""
    known = [one for one in DATASETS if one.columns and not one.is_generic]
    best = max(known, key=lambda one: (_compute_likeness(columns, one.columns), -len(one.columns)), default=None)
    return best if best is not None and _compute_likeness(columns, best.columns) > 0 else None


def _compute_likeness(columns: Collection[str], names: Collection[str]) -> float:
    """Return how many columns have a name of the format. Similar ones count half."""
    shared = sum(column in names for column in columns)
    similar = sum(
        bool(difflib.get_close_matches(column.casefold(), names, n=1, cutoff=_ALIKE))
        for column in columns
        if column not in names
    )
    return shared + similar / 2
