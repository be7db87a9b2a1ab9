"""Write the public part of a gold set as a folder that outsiders can run their retriever against."""

import json
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from evalspec.api.gold_export import recording
from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.output_files import Input, refuse_inputs
from evalspec.curation.gold.blocks import find_text, parse_pin
from evalspec.curation.gold.curation import compute_curation
from evalspec.curation.gold.files import render_yaml, require_records, show, write_record
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry, read_config
from evalspec.curation.gold.identity import require_person
from evalspec.curation.gold.layout import EXCEPTIONS, SET_FILE
from evalspec.curation.gold.linting import lint
from evalspec.curation.gold.permission import find_today
from evalspec.curation.gold.publishing import (
    PublicPart,
    describe_schema,
    name_annotators,
    render_card,
    select_public,
    to_public,
)
from evalspec.curation.gold.redaction import list_texts
from evalspec.curation.gold.schema import Allowed
from evalspec.curation.gold.scrubbing import CUSTOMER, FoundTerm, Scrubber
from evalspec.inputs.datasets.writing import put_written_in_place, refuse_existing
from evalspec.runs.store.run_store import OWN_INPUTS

TRIPLES_NAME = "triples.yaml"
SCHEMA_NAME = "schema.json"
CARD_NAME = "README.md"
MANIFEST_NAME = "agent.yaml"
CORPUS_NAME = "corpus.jsonl"
_FILES = frozenset({TRIPLES_NAME, SCHEMA_NAME, CARD_NAME, MANIFEST_NAME, CORPUS_NAME})
_SLICES = ("domain", "difficulty", "source", "failure_mode")

_MANIFEST = """\
# Runs your retriever against the triples beside this file:
#
#     evalspec evaluate agent.yaml --retriever yours --url http://localhost:8000
#
# evalspec sends POST /search with {{"query": …, "limit": …}}, and expects {{"hits": [{{"id": …}}, …]}}, best first. The
# ids are those of `expected_block.block_id`. If your service differs, change path, request and response below:
# {{{{query}}}} and {{{{topK}}}} are placeholders, and `ids` is a JSONPath.
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata:
  name: {name}
spec:
  api:
    url: http://localhost:8000 # --url overrides it
  evaluation:
    retrievers:
      yours:
        topK: 10
        http:
          # headers: {{Authorization: "Bearer ${{env:RETRIEVER_TOKEN}}"}}
          search:
            path: /search
            request: {{query: "{{{{query}}}}", limit: "{{{{topK}}}}"}}
            response: {{ids: "$.hits[*].id"}}
    datasets:
      - name: triples
        path: $file:{triples}
{corpus}        retriever: yours
        k: [1, 5, 10]
        metrics: [Precision, Recall, RR, nDCG]
        slices: [{slices}]
"""


class Published(Struct, frozen=True):
    """A published folder. `left_out`: number of triples that are not in it, by cause."""

    path: Path
    triples: int
    left_out: Mapping[str, int]
    keys_left_out: Sequence[str]
    allowed: int


def publish(
    root: Path,
    destination: Path,
    by: str,
    *,
    allow: Collection[tuple[str, str]] = (),
    with_blocks: bool = False,
    force: bool = False,
) -> Published:
    """Write the accepted public and synthetic triples with schema, data card and manifest to a folder.

    Args:
        root: Folder of the set.
        destination: The new folder.
        by: The acting person.
        allow: Hits of the scrubber (id, kind) that this person decides to publish. The set keeps a record of them.
        with_blocks: Publish the pinned texts of the blocks too.
        force: Replace an earlier export.

    Raises:
        InvalidInput: The set does not follow its rules, nothing is public, the scrubber finds something, or the folder
            exists.
        MissingPackage: The extra `publish` is not installed.
    """
    require_person(read_config(root), by)
    _refuse_other_folder(destination, force=force)
    refuse_inputs([destination], [*OWN_INPUTS, Input(root, "the gold set")])
    checked = lint(root)
    if checked.problems:
        raise InvalidInput(checked.problems)
    found, part = checked.found, select_public(checked.found)
    if not part.entries:
        said = ", ".join(f"{count} {cause}" for cause, count in part.left_out.items())
        raise InvalidInput(Problem("no triple is public", said, show(root)))
    names = name_annotators(part.entries)
    triples = [to_public(entry, names) for entry in part.entries]
    corpus = _read_corpus(found, part) if with_blocks else []
    allowed = _scrub(found, part, triples, corpus, allow, by)
    agreement = compute_curation(found).agreement
    card = render_card(found, part, triples, agreement=agreement, allowed=allowed, has_corpus=bool(corpus))
    files = {
        TRIPLES_NAME: render_yaml(triples),
        SCHEMA_NAME: json.dumps(describe_schema(), indent=2, ensure_ascii=False) + "\n",
        CARD_NAME: card,
        MANIFEST_NAME: _render_manifest(found, triples, has_corpus=bool(corpus)),
    }
    if corpus:
        files[CORPUS_NAME] = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in corpus)
    names_published = [entry.reference for entry in part.entries]
    with recording(root, destination, "folder", by, names_published, is_public=True):
        _write_folder(destination, files)
    return Published(destination, len(triples), part.left_out, part.keys_left_out, allowed)


def _render_manifest(found: GoldSet, triples: Sequence[Mapping[str, Any]], *, has_corpus: bool) -> str:
    name = json.dumps(found.config.name, ensure_ascii=False)
    corpus = f"        # corpus: $file:{CORPUS_NAME} # to ingest the texts first; add `ingest` and `delete` above\n"
    slices = [key for key in _SLICES if any(key in triple["metadata"] for triple in triples)]
    return _MANIFEST.format(
        name=name, triples=TRIPLES_NAME, corpus=corpus if has_corpus else "", slices=", ".join(slices)
    )


def _read_corpus(found: GoldSet, part: PublicPart) -> list[dict[str, str]]:
    """Return the pinned texts of the blocks, once each.

    Raises:
        InvalidInput: A block has no pinned text, or two triples pin different texts under one id.
    """
    texts: dict[str, str] = {}
    problems = []
    for entry in part.entries:
        for block in entry.triple.blocks if entry.triple else ():
            text = find_text(found.root, block)
            if text is None:
                message = f"the text of block '{block.block_id}' is not pinned"
                problems.append(Problem(message, "pin it, or export without blocks", show(entry.path)))
            elif texts.setdefault(block.block_id, text) != text:
                message = f"another triple pins another version of block '{block.block_id}'"
                problems.append(Problem(message, "re-review one of them", show(entry.path)))
    if problems:
        raise InvalidInput(problems)
    return [{"id": name, "text": text} for name, text in sorted(texts.items())]


def _scrub(
    found: GoldSet,
    part: PublicPart,
    triples: Sequence[Mapping[str, Any]],
    corpus: Sequence[Mapping[str, str]],
    allow: Collection[tuple[str, str]],
    by: str,
) -> int:
    """Record what a person allows, refuse all other hits, and return the number of allowed ones."""
    terms = [term for grant in found.grants.values() for term in grant.terms]
    customers = {*found.grants, *(name for entry in found.entries.values() for name in entry.customers)}
    scrubber = Scrubber(found.config.private, terms, sorted(customers), _list_people(found))
    entries = {entry.id: entry for entry in part.entries}
    hits = [
        (name, place, hit)
        for name, place, text in _list_published(found, part, triples, corpus)
        for hit in scrubber.find(text)
    ]
    _refuse_pointless(allow, {(name, hit.kind) for name, _, hit in hits})
    for name, kind in sorted(set(allow)):
        _record_exception(found.root, entries[name], kind, by)
    allowed = _read_exceptions(found.root, entries)
    open_hits = [(name, place, hit) for name, place, hit in hits if (name, hit.kind) not in allowed]
    if open_hits:
        raise InvalidInput([_describe_hit(entries.get(name), name, place, hit) for name, place, hit in open_hits])
    return len({(name, hit.kind) for name, _, hit in hits})


def _list_people(found: GoldSet) -> list[str]:
    emails = (person.email for person in found.config.people.values())
    return [*found.config.people, *filter(None, emails)]


def _list_published(
    found: GoldSet,
    part: PublicPart,
    triples: Sequence[Mapping[str, Any]],
    corpus: Sequence[Mapping[str, str]],
) -> Iterator[tuple[str, str, str]]:
    """Yield (id or name, place, text) of every text of the folder that comes from the set."""
    for triple in triples:
        yield from ((triple["id"], place, text) for place, text in list_texts(triple) if not _is_pin(place, text))
    for one in corpus:
        yield f"block {one['id']}", "", one["text"]
    yield SET_FILE, "name", found.config.name
    yield SET_FILE, "description", found.config.description
    for key in part.keys_left_out:
        yield "triples", "metadata", key


def _is_pin(place: str, text: str) -> bool:
    return place.startswith("expected_block") and place.endswith(".version") and parse_pin(text) is not None


def _refuse_pointless(allow: Collection[tuple[str, str]], hits: Collection[tuple[str, str]]) -> None:
    for name, kind in allow:
        if kind == CUSTOMER:
            fix = "redact it, or take the triple out of the set"
            raise InvalidInput(Problem("nobody can allow a customer's term", fix, field="--allow"))
        if (name, kind) not in hits:
            message = f"the scrubber finds no {kind} in '{name}'"
            raise InvalidInput(Problem(message, "remove it", field="--allow"))


def _describe_hit(entry: TripleEntry | None, name: str, place: str, hit: FoundTerm) -> Problem:
    fix = f"edit it, or if it may be published: --allow {name}:{hit.kind}"
    if hit.kind == CUSTOMER:
        fix = "redact it, or take the triple out of the set"
    message = f"{hit.kind} found: {hit.shown}"
    if entry is not None:
        return Problem(message, fix, show(entry.path), field=place)
    if place:
        return Problem(message, "edit it", name, field=place)
    return Problem(message, "re-review it without that text, or export without blocks", name)


def _record_exception(root: Path, entry: TripleEntry, kind: str, by: str) -> None:
    values = {"triple": entry.id, "kind": kind, "content_hash": entry.content_hash, "by": by}
    made = Allowed.model_validate({**values, "at": find_today().isoformat()})
    write_record(root / EXCEPTIONS / f"{entry.id}-{kind}.yaml", made)


def _read_exceptions(root: Path, entries: Mapping[str, TripleEntry]) -> set[tuple[str, str]]:
    """Return the hits (id, kind) that somebody allowed in the current content of the triple."""
    return {
        (one.triple, one.kind)
        for _, one in require_records(Allowed, root / EXCEPTIONS)
        if one.triple in entries and entries[one.triple].content_hash == one.content_hash
    }


def _refuse_other_folder(destination: Path, *, force: bool) -> None:
    refuse_existing(destination, force=force)
    if destination.is_symlink() or (destination.exists() and not destination.is_dir()):
        raise InvalidInput(Problem("not a folder", "choose another name", str(destination)))
    others = sorted({path.name for path in destination.iterdir()} - _FILES) if destination.is_dir() else []
    if others:
        message = f"--force would delete {', '.join(others[:5])}"
        raise InvalidInput(Problem(message, "choose another folder", str(destination)))


def _write_folder(destination: Path, files: Mapping[str, str]) -> None:
    """Write a folder beside its place, and move it there when it is complete."""
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".evalspec-") as folder:
            written = Path(folder) / "new"
            written.mkdir()
            for name, text in files.items():
                (written / name).write_text(text, encoding="utf-8")
            put_written_in_place(written, destination, aside=Path(folder) / "old")
            shutil.rmtree(Path(folder) / "old", ignore_errors=True)
    except OSError as error:
        raise InvalidInput(
            Problem(f"cannot be written: {error.strerror}", "check the path", str(destination))
        ) from error
