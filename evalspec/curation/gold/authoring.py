"""Make sets and triples from what people type or write in a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.files import read_record, show, to_plain, write_record
from evalspec.curation.gold.gold_set import TripleEntry, read_entry
from evalspec.curation.gold.layout import EVENTS, SET_FILE, TRIPLES
from evalspec.curation.gold.protocol import revise_triple
from evalspec.curation.gold.samples import refuse_other_origin
from evalspec.curation.gold.schema import GoldTriple, Person, SetFile
from evalspec.inputs.datasets.located import make_record


def create_set(root: Path, name: str, people: Mapping[str, Person], *, demonstration: bool = False) -> SetFile:
    """Create the folder of a set with its set.yaml.

    Raises:
        InvalidInput: There is one already, or a name is invalid.
    """
    if (root / SET_FILE).exists():
        raise InvalidInput(Problem("already exists", "edit it to add people", show(root / SET_FILE)))
    config = make_record(SetFile, {"name": name, "people": dict(people), "demonstration": demonstration})
    write_record(root / SET_FILE, to_plain(config) | {"people": {one: to_plain(who) for one, who in people.items()}})
    for folder in (TRIPLES, EVENTS):
        (root / folder).mkdir(exist_ok=True)
    return config


def read_triple(
    file: Path | None = None,
    *,
    base: Mapping[str, Any] | None = None,
    question: str | None = None,
    blocks: Sequence[str] = (),
    document: str | None = None,
    answer: str | None = None,
    claims: Sequence[str] = (),
    source: str | None = None,
    metadata: Sequence[str] = (),
) -> GoldTriple:
    """Return the triple of a file, with what is given besides in its place.

    `base`: a triple from elsewhere, without a file. `blocks`: `ID` or `ID@VERSION`; all of them are needed.
    `metadata`: `KEY=VALUE`.

    Raises:
        InvalidInput: The file is invalid, something required is missing, or `base` comes from elsewhere than is given.
    """
    read = dict(base or {}) if file is None else _read_file(file)
    given = {
        "question": question,
        "expected_block": _parse_blocks(blocks, document),
        "expected_answer": answer,
        "claims": list(claims) or None,
    }
    more = parse_pairs([*metadata, *([f"source={source}"] if source else [])])
    refuse_other_origin((base or {}).get("metadata", {}), more)
    content = read | {key: value for key, value in given.items() if value is not None}
    content["metadata"] = read.get("metadata", {}) | more
    where, usage = show(file) if file else "", "see: evalspec gold add --help"
    return make_record(GoldTriple, content, lambda why, fix: Problem(why, f"{fix}; {usage}" if fix else usage, where))


def _read_file(file: Path) -> dict[str, Any]:
    problems: list[Problem] = []
    triple = read_record(GoldTriple, file, problems)
    if triple is None:
        raise InvalidInput(problems)
    return to_plain(triple)


def _parse_blocks(blocks: Sequence[str], document: str | None) -> Any:
    parsed = []
    for block in blocks:
        name, _, version = block.rpartition("@") if "@" in block else (block, "", "")
        fields = {"block_id": name, "document_id": document, "version": version or None}
        parsed.append({key: value for key, value in fields.items() if value is not None})
    return None if not parsed else parsed[0] if len(parsed) == 1 else parsed


def parse_pairs(pairs: Sequence[str]) -> dict[str, str]:
    """Return metadata of `KEY=VALUE`.

    Raises:
        InvalidInput: One is not of that form, or a key is duplicated.
    """
    parsed: dict[str, str] = {}
    for key, value in map(_parse_pair, pairs):
        if parsed.setdefault(key, value) != value:
            raise InvalidInput(Problem(f"metadata.{key} is both {parsed[key]} and {value}", "keep one", field="--meta"))
    return parsed


def _parse_pair(pair: str) -> tuple[str, str]:
    key, equals, value = pair.partition("=")
    if not key or not equals:
        raise InvalidInput(Problem(f"'{pair}' is not KEY=VALUE", "write --meta domain=billing", field="--meta"))
    return key, value


def revise_edited(root: Path, name: str, by: str, *, note: str | None = None) -> TripleEntry:
    """Record the content of a triple that was edited in the set by hand as its next revision.

    Raises:
        InvalidInput: The content is that of the current revision.
    """
    return revise_triple(root, name, find_edited(read_entry(root, name)), by, note=note)


def revise_words(
    root: Path, name: str, by: str, words: Mapping[str, Any], *, replaces: str | None = None, note: str | None = None
) -> TripleEntry:
    """Replace words of a triple by a new revision. Its blocks and metadata stay.

    `words`: the new question, expected_answer or claims by key; None removes one. `replaces`: as of `revise_triple`.

    Raises:
        InvalidInput: The words are invalid, or `revise_triple` refuses them.
    """
    entry = read_entry(root, name)
    content = {**to_plain(find_edited(entry)), **words}
    kept = {key: value for key, value in content.items() if value is not None}
    triple = make_record(GoldTriple, kept, lambda why, fix: Problem(why, fix, show(entry.path)))
    return revise_triple(root, name, triple, by, replaces=replaces, note=note)


def find_edited(entry: TripleEntry) -> GoldTriple:
    """Return the content of a triple as it is in its file.

    Raises:
        InvalidInput: The triple is revoked.
    """
    if entry.triple is None:
        raise InvalidInput(Problem("the triple is revoked", "add another one", show(entry.path)))
    return entry.triple


def list_removed(entry: TripleEntry, triple: GoldTriple) -> list[str]:
    """Return the keys of a triple that its next content has not, also of its metadata and blocks."""
    before = {} if entry.triple is None else to_plain(entry.triple)
    after = to_plain(triple)
    removed = [key for key in before if key not in after]
    own, kept = before.get("metadata", {}), after.get("metadata", {})
    removed += [f"metadata.{key}" for key in own if key not in kept and key not in ("added_by", "added_at")]
    pinned = {block.block_id for block in triple.blocks if block.version}
    blocks = entry.triple.blocks if entry.triple else ()
    same = {block.block_id for block in triple.blocks}
    return removed + [
        f"the version of block {block.block_id}"
        for block in blocks
        if block.version and block.block_id in same - pinned
    ]
