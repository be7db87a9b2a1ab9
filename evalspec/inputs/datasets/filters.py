"""Filter samples by id, tags and metadata: `--where key=value`, `key!=value` and `key in a,b,c`. Keys may have dots."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.foreign_text import normalize
from evalspec.base.registry import near_miss
from evalspec.model import Sample

ID = "id"
TAGS = "tags"
WHERE = "--where"
_CONDITION = re.compile(r"\s*(.+?)\s*(!=|=|\s+in\s+)(.*)", re.DOTALL)


class Condition(Struct, frozen=True):
    """A condition on a sample. `key`: `id`, `tags`, or a key of the metadata, with dots for nested ones.

    `values`: the sample needs one of them; with `is_negated`, it must have none of them.
    """

    key: str
    values: frozenset[str]
    is_negated: bool = False

    def matches(self, sample: Sample) -> bool:
        """Return whether a sample meets the condition. A sample without the key meets only `!=`."""
        found = any(not self.values.isdisjoint(list_spellings(value)) for value in list_values(sample, self.key))
        return found is not self.is_negated


def parse_condition(text: str) -> Condition:
    """Return the condition of `key=value`, `key!=value` or `key in a,b,c`.

    Raises:
        InvalidInput: The text is none of these.
    """
    parsed = _CONDITION.fullmatch(normalize("NFC", text))
    if parsed is None:
        fix = "write key=value, key!=value, or 'key in a,b,c'"
        raise InvalidInput(Problem(f"'{text}' is not a condition", fix, field=WHERE))
    key, operator, value = parsed.groups()
    if operator.strip() != "in":
        return Condition(key, frozenset({value.strip()}), is_negated=operator == "!=")
    values = frozenset(filter(None, map(str.strip, value.split(","))))
    if not values:
        raise InvalidInput(Problem(f"'{text}' lists no values", f"write '{key} in a,b,c'", field=WHERE))
    return Condition(key, values)


def list_values(sample: Sample, key: str) -> Sequence[Any]:
    """Return the values of a key: several if it is `tags` or a list, none if the sample lacks it."""
    if key == ID:
        return (sample.id,)
    value: Any = sample.tags if key == TAGS else find_value(sample.metadata, key)
    if value is ABSENT:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def require_keys(keys: Iterable[str], samples: Iterable[Sample], option: str) -> None:
    """Check that at least one sample has each key. `option`: the one that names the keys.

    Raises:
        InvalidInput: No sample has a key. It is probably misspelled.
    """
    wanted = [key for key in dict.fromkeys(keys) if key not in (ID, TAGS)]
    if not wanted:
        return
    known: dict[str, None] = {}
    missing = set(wanted)
    for sample in samples:
        missing -= {key for key in missing if find_value(sample.metadata, key) is not ABSENT}
        if not missing:
            return
        known |= dict.fromkeys(_list_keys(sample.metadata))
    unknown = [key for key in wanted if key in missing]
    raise InvalidInput(
        Problem(f"no sample has the key '{key}'", near_miss(key, {*known, ID, TAGS}), field=option) for key in unknown
    )


def _list_keys(metadata: Any, before: str = "") -> Iterator[str]:
    for key, value in metadata.items() if isinstance(metadata, dict) else ():
        yield f"{before}{key}"
        yield from _list_keys(value, f"{before}{key}.")


def filter_samples(samples: Iterable[Sample], conditions: Collection[Condition]) -> Iterator[Sample]:
    """Yield the samples that meet all conditions."""
    return (sample for sample in samples if all(condition.matches(sample) for condition in conditions))


def find_stratum(sample: Sample, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the stratum of a sample: the text of its value of each key, sorted if there are several."""
    return tuple(
        json.dumps(sorted(list_spellings(value)[0] for value in list_values(sample, key)), ensure_ascii=False)
        for key in keys
    )


def list_spellings(value: Any) -> Sequence[str]:
    """Return the spellings of a metadata value in conditions and slice names, first the one of reports."""
    if value is None or isinstance(value, bool):
        text = json.dumps(value)
        return text, str(value), text.title(), text.upper()
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value)), str(value), f"{int(value)}.0"
    return (normalize("NFC", str(value)),)


ABSENT = object()
"""What `find_value` returns if there is no value."""


def find_path(value: Any, key: str) -> tuple[str, ...] | None:
    """Return the keys that lead to the value of a key, None if there is none.

    A key that contains dots itself comes before nested mappings.
    """
    if not isinstance(value, Mapping):
        return None
    if key in value:
        return (key,)
    head, dot, rest = key.partition(".")
    below = find_path(value[head], rest) if dot and head in value else None
    return None if below is None else (head, *below)


def find_value(value: Any, key: str) -> Any:
    """Return the value of a key, ABSENT if there is none. None is a value."""
    path = find_path(value, key)
    if path is None:
        return ABSENT
    for step in path:
        value = value[step]
    return value
