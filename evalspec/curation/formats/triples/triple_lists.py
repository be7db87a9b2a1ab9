"""Read triples: a gold set, a folder of YAML files, or one file. Write them as one YAML list."""

from collections.abc import Iterator, Mapping, Sized
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, field_validator

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.plural import counted
from evalspec.curation.gold.block_checks import STALE, BlockStatus, check_blocks
from evalspec.curation.gold.disputes import find_categories
from evalspec.curation.gold.files import YamlFile, list_files, read_documents, render_yaml, show, to_plain
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry, read_set
from evalspec.curation.gold.layout import BLOCKS_KEY, CALIBRATIONS, DISPUTE_KEY, SET_FILE, find_root
from evalspec.curation.gold.reviewers import wants_reviews
from evalspec.curation.gold.samples import find_kept_blocks, make_blocks, make_sample
from evalspec.curation.gold.schema import Triple
from evalspec.curation.gold.states import State
from evalspec.inputs.datasets.base import DatasetContent, ReadingNotes, Source, Written, list_relevant
from evalspec.inputs.datasets.corpus import check_judged, read_corpus
from evalspec.inputs.datasets.located import (
    Accepted,
    SeenIds,
    content_id,
    parse_record,
    refuse_empty,
    render_ids,
)
from evalspec.inputs.datasets.losses import (
    GRADES,
    NATIVE_ONLY,
    Loss,
    list_default_losses,
    list_document_losses,
    list_sample_losses,
)
from evalspec.inputs.datasets.spooling import spool
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.model import CLAIMS_KEY, AgentReply, Curation, Document, Sample

NOT_REVIEWED = frozenset({"pending", "pending-review", "dropped"})
PENDING = NOT_REVIEWED - {"dropped"}
_ENDED = frozenset({State.DROPPED, State.RETIRED})
_STATE_KEYS = ("state", "status", "resolution")


class PlainTriple(Triple):
    """A triple outside a gold set. Its metadata has no schema."""

    @field_validator("metadata")
    @classmethod
    def _leaves_room(cls, metadata: dict[str, Any]) -> dict[str, Any]:
        if BLOCKS_KEY in metadata:
            raise ValueError(f"the key {BLOCKS_KEY} is reserved; rename it")
        return metadata

    @property
    def name(self) -> str:
        """The id in the file, or else a hash of the content without the metadata."""
        return self.id or content_id(self.model_dump(include={"question", "expected_block", "expected_answer"}))

    @property
    def state(self) -> str | None:
        """The state that excludes the triple from evaluations, None if there is none."""
        said = (str(self.metadata.get(key)).replace("_", "-").lower() for key in _STATE_KEYS)
        return next((state for state in said if state in NOT_REVIEWED), None)


class TriplesFile(BaseModel):
    """A document with the entries under the key `triples`."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    triples: list[Any] = Field(min_length=1)


class _Excluded(Struct):
    """Triples that do not become samples, by the reason. `unpinned`, `unknown`: evaluated, but may have changed."""

    by_state: dict[str, list[str]] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    unpinned: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, state: str, name: str) -> None:
        self.by_state.setdefault(state, []).append(name)

    def list_warnings(self, shown_as: str) -> Iterator[Problem]:
        for state, names in self.by_state.items():
            message = f"{_counted(names)} {state}, so not evaluated: {render_ids(names)}"
            yield Problem(message, file=shown_as)
        if self.changed:
            changes = render_ids(f"{name} ({why})" for name, why in self.changed.items())
            message = f"{_counted(self.changed)} stale, so not evaluated: {changes}"
            yield Problem(message, "review them again: evalspec gold check", shown_as)
        if self.unpinned:
            message = f"{_counted(self.unpinned)} unpinned, so a changed block is not noticed"
            fix = "pin the version: evalspec gold pin --corpus FILE"
            yield Problem(f"{message}: {render_ids(self.unpinned)}", fix, shown_as)
        if self.unknown:
            message = f"{_counted(self.unknown)} pinned to a label, and the corpus has no versions"
            yield Problem(f"{message}: {render_ids(self.unknown)}", "add metadata.version to the corpus", shown_as)


def _counted(names: Sized) -> str:
    return counted(len(names), "triple is", "triples are")


def read_triples(source: Source, notes: ReadingNotes) -> Iterator[Sample]:
    """Yield one sample per triple. Problems go to the notes with their lines.

    A source is a gold set, a folder of YAML files, or a file of one or several documents, each with a triple or a list.
    Only accepted triples of a gold set become samples. Elsewhere, triples with the state pending or dropped do not.
    If there is a corpus, triples whose block it has in another version, or no longer has, do not either.
    """
    is_set = (source.path / SET_FILE).is_file()
    root = None if is_set else find_root(source.path)
    if root is not None:
        message = f"this is part of the gold set {show(root)}, whose states and permissions would not count"
        notes.problems.append(Problem(message, f"name the whole set: {show(root)}", source.shown_as))
        return
    excluded = _Excluded()
    corpus = read_corpus(source, notes)
    judged: dict[str, None] = {}
    for sample, triple in (_read_set if is_set else _read_plain)(source, notes, excluded):
        judged.update(dict.fromkeys(sample.qrels or ()))
        if _is_current(sample.id, triple, corpus, excluded, is_set=is_set):
            yield sample
    if corpus is not None:
        check_judged(judged, corpus, source.corpus_shown_as, notes)
    notes.warnings.extend(excluded.list_warnings(source.shown_as))


def _is_current(
    name: str, triple: Triple, corpus: Mapping[str, Document] | None, excluded: _Excluded, *, is_set: bool
) -> bool:
    """Return whether the blocks of a triple are those of the corpus, as far as is known. What is not goes to a list.

    A block that is missing from the corpus makes a triple stale if it is pinned or in a gold set.
    """
    if is_set and any(block.version is None for block in triple.blocks):
        excluded.unpinned.append(name)
    if corpus is None:
        return True
    checks = check_blocks(triple, corpus)
    stale = [one for one in checks if one.status in STALE and (is_set or one.block.version is not None)]
    if stale:
        excluded.changed[name] = ", ".join(one.render() for one in stale)
    elif any(one.status is BlockStatus.UNKNOWN for one in checks):
        excluded.unknown.append(name)
    return not stale


def _read_set(source: Source, notes: ReadingNotes, excluded: _Excluded) -> Iterator[tuple[Sample, Triple]]:
    try:
        found = read_set(source.path)
    except InvalidInput as error:
        notes.problems.extend(error.problems)
        return
    notes.problems.extend(found.problems)
    notes.curation = partial(_compute_curation, found)
    if (source.path / CALIBRATIONS).exists():
        from evalspec.curation.gold.calibration import read_calibrations

        read_calibrations(found.root, found.config, notes.problems)
    disputes = find_categories(found)
    for entry in found.entries.values():
        if not entry.is_accepted or entry.triple is None:
            if entry.state not in _ENDED:  # what people dropped or retired needs nobody's attention; reports count it
                excluded.add(_explain(entry), entry.id)
            continue
        dispute = {DISPUTE_KEY: disputes[entry.id]} if entry.id in disputes else {}
        metadata = to_plain(entry.triple.metadata) | dispute
        metadata.pop("added_at", None)  # a moment is no slice
        yield make_sample(entry.id, entry.triple, metadata), entry.triple


def _explain(entry: TripleEntry) -> str:
    """Return the state of a triple that is not accepted, with the cause if its customer does not permit its use.

    Whoever reads it may still have to review the triple, so one with too few reviews is not called disputed.
    """
    if wants_reviews(entry):
        return State.PENDING
    cause = entry.review_status.resolution if entry.state is State.REVOKED else None
    return f"{entry.state} ({cause})" if cause not in (None, entry.state) else entry.state


def _compute_curation(found: GoldSet) -> Curation:
    from evalspec.curation.gold.curation import compute_curation
    from evalspec.curation.gold.viewer import PUBLIC

    return compute_curation(found, PUBLIC)


def _read_plain(source: Source, notes: ReadingNotes, excluded: _Excluded) -> Iterator[tuple[Sample, Triple]]:
    folder = source.path.is_dir()
    files = list_files(source.path, source.shown_as, notes.problems) if folder else [source.path]
    seen = SeenIds("id", notes.problems)
    for path in files:
        shown_as = f"{source.shown_as}/{path.name}" if folder else source.shown_as
        for document in read_documents(path, shown_as, notes.problems):
            for place, value in _find_entries(document, notes.problems):
                triple = parse_record(PlainTriple, value, document, place, notes.problems)
                if triple is None:
                    continue
                nameless = "" if triple.id else "this triple (same question, block and answer)"
                if not seen.add(triple.name, document, place, nameless):
                    continue
                if triple.state is not None and not (source.with_pending and triple.state in PENDING):
                    excluded.add(triple.state, triple.name)
                    continue
                yield make_sample(triple.name, triple, triple.metadata, document.line(place)), triple


def _find_entries(document: YamlFile, problems: list[Problem]) -> Iterator[tuple[Place, Any]]:
    """Yield each candidate for a triple of a document with its place."""
    if isinstance(document.data, list):
        file = parse_record(TriplesFile, {"triples": document.data}, document, (), problems)
        yield from (((index,), value) for index, value in enumerate(file.triples if file else ()))
    elif isinstance(document.data, dict) and "triples" in document.data:
        file = parse_record(TriplesFile, document.data, document, (), problems)
        yield from ((("triples", index), value) for index, value in enumerate(file.triples if file else ()))
    else:
        yield (), document.data


def list_losses(content: DatasetContent) -> list[str]:
    """Return what this format cannot represent."""
    return _build(content)[1]


def write_triples(content: DatasetContent, path: Path) -> Written:
    """Write the triples as one YAML list.

    Raises:
        InvalidInput: No sample can be written.
    """
    entries, _ = _build(content)
    refuse_empty(len(entries), path)
    path.write_bytes(render_yaml(entries).encode())
    return Written(len(entries))


def _build(content: DatasetContent) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the entries that the format can represent, and a description of what it cannot."""
    losses = list_document_losses(content) + list_default_losses(content)
    samples = content.samples
    if content.replies:
        samples = spool(_propose(sample, content.replies.get(sample.id)) for sample in samples)
    losses += list_sample_losses(samples, _SAMPLE_LOSSES)
    fitting = filter(_has_blocks, samples)
    accepted = Accepted(PlainTriple, lambda: map(_to_entry, fitting), "samples")
    return list(accepted), losses + accepted.losses


def _propose(sample: Sample, reply: AgentReply | None) -> Sample:
    """Return a sample of a recorded reply as a pending one: any document that was retrieved may be the right block."""
    ids = None if reply is None else reply.retrieved_context_ids
    pending = {**sample.metadata, "resolution": State.PENDING.value}
    return replace(sample, metadata=pending, groups=(ids,) if ids else None, qrels=dict.fromkeys(ids or (), 1))


def _has_blocks(sample: Sample) -> bool:
    return bool(sample.groups) or len(list_relevant(sample)) == 1


def _to_entry(sample: Sample) -> dict[str, Any]:
    entry = {
        "id": sample.id,
        "question": sample.question,
        "expected_block": find_kept_blocks(sample) or make_blocks(sample.groups, list_relevant(sample)),
        "expected_answer": sample.reference,
        "claims": sample.metadata.get(CLAIMS_KEY) or None,
        "metadata": {key: value for key, value in sample.metadata.items() if key not in (BLOCKS_KEY, CLAIMS_KEY)},
    }
    return {key: value for key, value in entry.items() if value not in (None, {})}


def _are_blocks_kept(sample: Sample) -> bool:
    """Return whether the blocks in the metadata are written: as they are, or because they follow from the ids."""
    plain = make_blocks(sample.groups, list_relevant(sample)) if _has_blocks(sample) else None
    return find_kept_blocks(sample) is not None or sample.metadata[BLOCKS_KEY] == plain


_SAMPLE_LOSSES = (
    Loss("the whole sample, because not exactly one document is relevant", lambda sample: not _has_blocks(sample)),
    Loss("all right answers except the first", lambda sample: len(sample.references) > 1),
    *NATIVE_ONLY,
    GRADES,
    Loss(f"metadata.{CLAIMS_KEY} that is empty", lambda sample: not sample.metadata.get(CLAIMS_KEY, True)),
    Loss(
        f"metadata.{BLOCKS_KEY} that is not the relevant block's",
        lambda sample: BLOCKS_KEY in sample.metadata and not _are_blocks_kept(sample),
    ),
)
