"""Find copies: samples that are equal in everything that is sent and scored. They are one observation, not several."""

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec import MsgspecError, Struct, field, to_builtins
from msgspec.json import Encoder
from msgspec.structs import force_setattr

from evalspec.base.foreign_text import normalize
from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.inputs.manifest.schema import EvaluationConfig
from evalspec.model import Sample

_METADATA = re.compile(r"\{\{\s*metadata\.([^}\s]+)\s*\}\}")
_COMPARED = (
    "user_input",
    "turns",
    "user",
    "references",
    "retrieved_contexts",
    "reference_contexts",
    "qrels",
    "groups",
    "answerable",
    "expected_tools",
    "forbidden_tools",
    "max_steps",
    "expected_state",
    "checks",
)
_read = attrgetter(*_COMPARED)
_encode = Encoder(enc_hook=str, order="sorted").encode
_UNEVEN = re.compile(rb"""  |" | "|\\[^"\\/]""")
"""White space of encoded texts that normalisation would change: runs, ends, and what JSON escapes."""


class CopyFinder(Struct):
    """Finds copies among samples that are added one by one. It keeps hashes and ids only.

    `cluster`: the metadata key of declared clusters. `keys`: metadata that is sent or scored; None for all. `first`:
    the first sample with a content, by Python's hash of it, as SeenIds has them. `copies`: all samples of a content
    that has several.
    """

    cluster: str | None = None
    keys: Collection[str] | None = ()
    first: dict[int, str] = field(default_factory=dict)
    copies: dict[int, list[str]] = field(default_factory=dict)
    declared: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, sample: Sample) -> None:
        """Add a sample."""
        content = hash(_normal_form(sample, self.keys))
        first = self.first.setdefault(content, sample.id)
        if first is not sample.id:
            self.copies.setdefault(content, [first]).append(sample.id)
        if self.cluster is not None and self.cluster in sample.metadata:
            self.declared[str(sample.metadata[self.cluster])].append(sample.id)

    def find_units(self) -> dict[str, str]:
        """Return the unit of each sample that has copies, or that a cluster connects with copies, by id.

        Copies are equal after normalisation of Unicode (NFKC, no invisible characters) and white space.
        """
        copies = list(self.copies.values())
        parent = _connect([*copies, *(self.declared.values() if copies else ())])
        roots = {_find_root(parent, ids[0]) for ids in copies}
        return {name: root for name in parent if (root := _find_root(parent, name)) in roots}


def open_copy_finder(evaluation: EvaluationConfig, config: DatasetConfig, template: Any) -> CopyFinder:
    """Return the finder for a dataset. A retriever or a scorer of the user's own may read all metadata.

    `template`: of the requests to the agent.
    """
    entries = config.metrics or evaluation.metrics or ()
    reads_all = config.retriever is not None or any(entry.scorer for entry in entries)
    sent = _METADATA.findall(json.dumps(template, ensure_ascii=False, default=str))
    return CopyFinder(config.cluster, None if reads_all else frozenset(sent))


def _connect(groups: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return a forest in which the members of a group have the same root (union-find with path halving)."""
    parent: dict[str, str] = {}
    for first, *others in groups:
        root = _find_root(parent, parent.setdefault(first, first))
        for other in others:
            parent[_find_root(parent, parent.setdefault(other, other))] = root
    return parent


def _find_root(parent: dict[str, str], name: str) -> str:
    while parent[name] != name:
        parent[name] = parent[parent[name]]
        name = parent[name]
    return name


def set_unit(sample: Sample, units: Mapping[str, str]) -> Sample:
    """Set the unit of a sample, in place, and return the sample."""
    force_setattr(sample, "unit", units.get(sample.id))
    return sample


def _normal_form(sample: Sample, keys: Collection[str] | None) -> bytes | str:
    """Return the same for copies. Most samples are encoded only, because their texts are normal already."""
    metadata = {} if keys is not None and not keys else sample.metadata
    if metadata and keys is not None:
        metadata = {key: value for key, value in metadata.items() if key in keys}
    content = (*_read(sample), metadata)
    try:
        encoded = _encode(content)
        if encoded.isascii() and not _UNEVEN.search(encoded):
            return encoded
        return _encode(_normalise(to_builtins(content, enc_hook=str)))
    except (MsgspecError, UnicodeEncodeError, OverflowError, RecursionError):
        return json.dumps(_normalise(to_builtins(content, enc_hook=str)), sort_keys=True, default=str)


def _normalise(value: Any) -> Any:
    if isinstance(value, str):
        visible = value if value.isascii() else "".join(one for one in value if unicodedata.category(one) != "Cf")
        return " ".join(normalize("NFKC", visible).split())
    if isinstance(value, dict):
        return {_normalise(key): _normalise(item) for key, item in value.items()}
    return [_normalise(item) if item else item for item in value] if isinstance(value, list | tuple) else value
