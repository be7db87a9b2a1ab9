"""Split a compound triple into triples with one claim each."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.blocks import read_documents as read_corpus_documents
from evalspec.curation.gold.files import read_documents, show, to_plain
from evalspec.curation.gold.gold_set import TripleEntry, read_config, read_entry
from evalspec.curation.gold.pins import pin_triple
from evalspec.curation.gold.protocol import add_triple, find_added, record, refuse_dead_end, refuse_taken
from evalspec.curation.gold.reviewers import is_blind
from evalspec.curation.gold.samples import ORIGIN
from evalspec.curation.gold.schema import Category, DisputeOutcome, GoldTriple, Kind
from evalspec.curation.gold.states import State
from evalspec.inputs.datasets.located import make_record, parse_record

_INHERITED = (*ORIGIN, "provenance")
"""Metadata that every part has from the whole: a part comes from where the whole does."""
_DEFAULTS = ("domain", "difficulty", "failure_mode", "traffic")
"""Metadata that a part has from the whole unless it has its own."""
_SENTENCES = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z\"'(\[\d])|\n+|;\s+")
_CONJUNCTIONS = re.compile(r",?\s+(?:and also|and|as well as|but)\s+|,\s+(?=while |plus )")
_BRACKETED = re.compile(r"\([^)]*\)|\"[^\"]*\"|`[^`]*`")
_LEAST_WORDS = 2
_RANGE = re.compile(r"\bbetween\s+\S+\s*$|\d\s*$", re.IGNORECASE)


def propose_claims(triple: GoldTriple) -> list[str]:
    """Return a proposal of atomic claims: those of the triple, else its answer cut into sentences and clauses.

    People decide about it. A clause after `and` may lack its subject.
    """
    if triple.claims:
        return list(triple.claims)
    answer = (triple.expected_answer or "").strip()
    sentences = (part.strip() for part in _SENTENCES.split(answer))
    return [clause for sentence in sentences if sentence for clause in _cut_sentence(sentence)]


def _cut_sentence(sentence: str) -> Iterator[str]:
    """Yield the coordinated clauses of a sentence. Brackets, quotes and ranges of numbers stay whole."""
    closed = [found.span() for found in _BRACKETED.finditer(sentence)]
    start = 0
    for found in _CONJUNCTIONS.finditer(sentence):
        before, after = sentence[start : found.start()], sentence[found.end() :]
        is_inside = any(first < found.start() < last for first, last in closed)
        if is_inside or min(len(before.split()), len(after.split())) < _LEAST_WORDS or _RANGE.search(before):
            continue
        yield before.strip(" ,")
        start = found.end()
    yield sentence[start:].strip()


def propose_children(entry: TripleEntry) -> list[dict[str, Any]]:
    """Return the proposed parts of a triple as they can be edited and given to `split`.

    Raises:
        InvalidInput: The triple is revoked.
    """
    if entry.triple is None:
        raise InvalidInput(Problem("the triple is revoked", "there is nothing to split", show(entry.path)))
    plain = to_plain(entry.triple)
    return [
        {"question": plain["question"], "expected_block": plain["expected_block"], "expected_answer": claim}
        for claim in propose_claims(entry.triple)
    ]


def read_children(file: Path) -> list[dict[str, Any]]:
    """Return the parts in a YAML file: a list of triples. What they lack comes from the whole.

    Raises:
        InvalidInput: The file is not a list of mappings.
    """
    problems: list[Problem] = []
    documents = read_documents(file, show(file), problems)
    data = documents[0].data if len(documents) == 1 else None
    if problems or not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
        message = Problem("this is not a list of triples", "write a YAML list: - expected_answer: …", show(file))
        raise InvalidInput(problems or message)
    for place, value in enumerate(data):
        partial = {"question": "?", "expected_block": {"block_id": "?"}} | value
        parse_record(GoldTriple, partial, documents[0], (place,), problems)
    if problems:
        raise InvalidInput(problems)
    return data


def split(
    root: Path | str,
    name: str,
    by: str,
    parts: Sequence[str | Mapping[str, Any]],
    *,
    category: Category | str | None = None,
    note: str | None = None,
    at: str | None = None,
    corpus: Path | None = None,
) -> list[TripleEntry]:
    """Replace a disputed triple by parts: it is dropped, and the parts are pending as `<id>-1`, `<id>-2` and so on.

    A part has source, customer, provenance and `generated_by` of the whole, also question, blocks, domain, difficulty
    and failure mode unless it has its own. Author or flagger of the whole may split it. A split that was interrupted
    continues when it is repeated. Whoever wrote the whole is an author of the parts.

    `parts`: claims, or triples as mappings. `category`: of the dispute, by default that of the flag, else compound.
    `corpus`: documents to whose texts unpinned blocks of the parts are pinned.

    Raises:
        InvalidInput: The triple is not disputed, the person may not settle it, a part is invalid or its id is
            taken, the corpus lacks a block, or too few people could review the parts.
    """
    root = Path(root)
    entry = read_entry(root, name)
    if is_blind(entry, by):  # who should review it learns nothing of what others said
        fix = f"review it: evalspec gold review {name}"
        raise InvalidInput(Problem("only the author and the flagger split a triple", fix, show(entry.path)))
    if entry.triple is None or entry.state is not State.DISPUTED:
        message = f"cannot split a triple that is {entry.state}; it has to be disputed"
        fix = f"if it makes several claims: evalspec gold review {name} not_entailed --category compound"
        raise InvalidInput(Problem(message, fix, show(entry.path)))
    if len(parts) < 2:
        raise InvalidInput(Problem("a split needs at least two parts", "repeat --claim", field="--claim"))
    current = entry.review_status.current
    if by not in current.writers | current.flaggers:
        who = " or ".join(sorted(current.writers | current.flaggers))
        raise InvalidInput(Problem("only the author and the flagger split a triple", f"{who} can", show(entry.path)))
    refuse_dead_end(entry, by, read_config(root).people, "split")
    children = [
        (f"{name}-{place}", _make_child(entry, to_plain(entry.triple), part, place))
        for place, part in enumerate(parts, 1)
    ]
    if corpus is not None:
        documents = read_corpus_documents(corpus)
        children = [(child, pin_triple(root, triple, documents)) for child, triple in children]
    flagged = (current.reviews[one].category for one in sorted(current.flaggers))
    decided = category or next((one for one in flagged if one is not None), Category.COMPOUND)
    known = {child: find_added(root, child, triple, by) for child, triple in children}
    for child, triple in children:
        if known[child] is None:
            refuse_taken(root, child, triple, by)
    authors = sorted(current.writers, key=lambda one: (one != entry.review_status.author, one))
    added = [known[child] or add_triple(root, child, triple, by, at, authors=authors) for child, triple in children]
    ids = [child for child, _ in children]
    record(
        root, entry, Kind.RESOLVE, by, verdict=DisputeOutcome.SPLIT, category=decided, children=ids, note=note, at=at
    )
    return added


def _make_child(entry: TripleEntry, whole: Mapping[str, Any], part: str | Mapping[str, Any], place: int) -> GoldTriple:
    own: dict[str, Any] = {"expected_answer": part} if isinstance(part, str) else dict(part)
    metadata, of_whole = dict(own.get("metadata") or {}), whole.get("metadata", {})
    kept = {key: of_whole[key] for key in _DEFAULTS if key in of_whole} | metadata
    forced = {key: of_whole[key] for key in _INHERITED if key in of_whole}
    content = {"question": whole["question"], "expected_block": whole["expected_block"], **own}
    content["metadata"] = kept | forced
    expected = f"{entry.id}-{place}"
    if content.pop("id", expected) != expected:
        raise InvalidInput(Problem(f"the id of part {place} is {expected}", "remove `id`", show(entry.path)))
    where = show(entry.path)
    return make_record(GoldTriple, content, lambda why, fix: Problem(f"part {place}: {why}", fix, where))
