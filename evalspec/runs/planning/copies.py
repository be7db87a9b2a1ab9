"""Find copies: samples that are equal in everything that is sent and scored. They are one observation, not several."""

import json
import re
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any

from msgspec import MsgspecError, Struct, field, to_builtins
from msgspec.json import Encoder
from msgspec.structs import force_setattr

from evalspec.base.foreign_text import normalize
from evalspec.base.jsonl import BACKSLASH
from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.inputs.manifest.schema import EvaluationConfig
from evalspec.model import Sample

_METADATA = re.compile(r"\{\{\s*metadata\.([^}\s]+)\s*\}\}")
_NO_METADATA: Mapping[str, Any] = {}
_PART = 20
"""How many samples are encoded at a time. Passages are long, so samples that have them are not kept waiting."""
_ENCODER = Encoder(enc_hook=str, order="sorted")
_NOT_ENCODED = (MsgspecError, UnicodeEncodeError, OverflowError, RecursionError)
_ESCAPED = re.compile(rb"""\\[^"\\/]""")
"""What JSON escapes, except quotes and slashes: control characters, which may be white space."""


class CopyFinder(Struct):
    """Finds copies among samples that are added one by one. It keeps a number for each.

    `cluster`: the metadata key of declared clusters. `keys`: metadata that is sent or scored; None for all. `contents`:
    Python's hash of the content of each sample, as SeenIds has it. `waiting`: contents of the latest samples, which are
    hashed together. `declared`: the places of the samples of a cluster.
    """

    cluster: str | None = None
    keys: Collection[str] | None = ()
    contents: "array[int]" = field(default_factory=lambda: array("q"))
    waiting: list[tuple[Any, ...]] = field(default_factory=list)
    declared: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, sample: Sample, acts: tuple[Any, ...]) -> None:
        """Add a sample. `acts`: what Sample.list_acts returns."""
        if self.cluster is not None and self.cluster in sample.metadata:
            self.declared[str(sample.metadata[self.cluster])].append(len(self.contents) + len(self.waiting))
        metadata, keys = sample.metadata, self.keys
        if keys is not None:
            metadata = {key: metadata[key] for key in keys if key in metadata} if keys else _NO_METADATA
        self.waiting.append((sample.list_truth(), metadata, acts))
        if len(self.waiting) == _PART or sample.retrieved_contexts or sample.reference_contexts:
            self._hash_waiting()

    def _hash_waiting(self) -> None:
        self.contents.extend(map(hash, _list_normal_forms(self.waiting)))
        self.waiting.clear()

    def find_units(self) -> dict[int, int]:
        """Return the unit of each sample that has copies, or that a cluster connects with copies.

        Samples and units are places in the order in which samples were added, from 0; a unit is one of its samples.
        Copies are equal after normalisation of Unicode (NFKC, no invisible characters), and without white space.
        """
        self._hash_waiting()
        copies = self._group_copies()
        parent = _connect([*copies, *(self.declared.values() if copies else ())])
        roots = {_find_root(parent, places[0]) for places in copies}
        return {place: root for place in parent if (root := _find_root(parent, place)) in roots}

    def _group_copies(self) -> list[list[int]]:
        if len(set(self.contents)) == len(self.contents):
            return []
        found: defaultdict[int, list[int]] = defaultdict(list)
        for place, content in enumerate(self.contents):
            found[content].append(place)
        return [places for places in found.values() if len(places) > 1]


def open_copy_finder(evaluation: EvaluationConfig, config: DatasetConfig, template: Any) -> CopyFinder:
    """Return the finder for a dataset. A retriever or a scorer of the user's own may read all metadata.

    `template`: of the requests to the agent.
    """
    entries = config.metrics or evaluation.metrics or ()
    reads_all = config.retriever is not None or any(entry.scorer for entry in entries)
    sent = _METADATA.findall(json.dumps(template, ensure_ascii=False, default=str))
    return CopyFinder(config.cluster, None if reads_all else frozenset(sent))


def _connect(groups: Iterable[Sequence[int]]) -> dict[int, int]:
    """Return a forest in which the members of a group have the same root (union-find with path halving)."""
    parent: dict[int, int] = {}
    for first, *others in groups:
        root = _find_root(parent, parent.setdefault(first, first))
        for other in others:
            parent[_find_root(parent, parent.setdefault(other, other))] = root
    return parent


def _find_root(parent: dict[int, int], place: int) -> int:
    while parent[place] != place:
        parent[place] = parent[parent[place]]
        place = parent[place]
    return place


def set_units(samples: Sequence[Sample], units: dict[int, int]) -> Iterator[Sample]:
    """Yield the samples, and set the units of those that have one, in place. `units`: as CopyFinder returns them."""
    roots = {*units.values()}
    names = {place: sample.id for place, sample in enumerate(samples) if place in roots}
    for place, sample in enumerate(samples):
        force_setattr(sample, "unit", names[units[place]] if place in units else None)
        yield sample


def _list_normal_forms(contents: list[tuple[Any, ...]]) -> Iterable[bytes | str]:
    """Return for each content the same as for its copies.

    Most are encoded only, because their texts are normal already. Many at once take half as long as one by one.
    """
    with suppress(*_NOT_ENCODED):
        encoded = _ENCODER.encode_lines(contents)
        if _is_normal(encoded):
            return BytesIO(encoded.translate(None, b" "))
    return map(_normal_form, contents)


def _is_normal(encoded: bytes) -> bool:
    """Return whether texts are normal except for spaces."""
    return encoded.isascii() and not (BACKSLASH in encoded and _ESCAPED.search(encoded))


def _normal_form(content: tuple[Any, ...]) -> bytes | str:
    try:
        encoded = _ENCODER.encode_lines([content])
        if _is_normal(encoded):
            return encoded.translate(None, b" ")
        return _ENCODER.encode_lines([_normalise(to_builtins(content, enc_hook=str))])
    except _NOT_ENCODED:
        return json.dumps(_normalise(to_builtins(content, enc_hook=str)), sort_keys=True, default=str)


def _normalise(value: Any) -> Any:
    if isinstance(value, str):
        visible = value if value.isascii() else "".join(one for one in value if unicodedata.category(one) != "Cf")
        return "".join(normalize("NFKC", visible).split())
    if isinstance(value, dict):
        return {_normalise(key): _normalise(item) for key, item in value.items()}
    return [_normalise(item) if item else item for item in value] if isinstance(value, list | tuple) else value
