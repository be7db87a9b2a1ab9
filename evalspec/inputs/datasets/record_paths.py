"""Find the value of a column in a record: by name, by a dotted path, or by a JSONPath query."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from evalspec.base.errors import ServiceError
from evalspec.base.json_path import explain_bad_query, select_values
from evalspec.inputs.datasets.key_paths import ABSENT, find_path, find_value
from evalspec.inputs.datasets.record_values import BadValue

_HEAD = re.compile(r"""\$(?:\.([A-Za-z_]\w*)|\[["']([^"']+)["']\])""")
_SINGULAR = re.compile(r"""\$(?:\.[A-Za-z_]\w*|\[["'][^"']+["']\]|\[-?\d+\])*""")
_ONLY = ".*"


class ColumnPath(Struct, frozen=True):
    """Where a column is. `head`: the outermost column, empty if unknown. `problem`: why the text is no path."""

    text: str
    head: str
    is_query: bool = False
    problem: str | None = None

    def find(self, record: Mapping[str, Any]) -> Any:
        """Return the value in a record, ABSENT if there is none. A query with several matches gives a list.

        Raises:
            BadValue: the query fails on this record.
        """
        if self.is_query:
            return self._select(record)
        if self.text.endswith(_ONLY):
            inner = record.get(self.text.removesuffix(_ONLY))
            return next(iter(inner.values())) if isinstance(inner, dict) and len(inner) == 1 else ABSENT
        return find_value(record, self.text)

    def _select(self, record: Mapping[str, Any]) -> Any:
        try:
            found = select_values(self.text, record)
        except ServiceError as error:
            raise BadValue(str(error)) from error
        if _SINGULAR.fullmatch(self.text):
            return found[0] if found else ABSENT
        return found if found or self.head in record else ABSENT

    def locate(self, record: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the keys that lead to the value of a record. A query uses the whole outermost column."""
        if self.is_query:
            return (self.head,)
        if self.text.endswith(_ONLY):
            return (self.head,)
        return find_path(record, self.text) or (self.head,)


@lru_cache(maxsize=256)
def compile_path(text: str) -> ColumnPath:
    """Return the path that a text spells. An invalid query has a `problem`."""
    if not text.startswith("$"):
        return ColumnPath(text, text.partition(".")[0])
    head = _HEAD.match(text)
    return ColumnPath(text, (head[1] or head[2]) if head else "", True, explain_bad_query(text))
