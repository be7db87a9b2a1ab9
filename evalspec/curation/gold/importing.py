"""Import triples from datasets in any format. All are pending, unless reviews from elsewhere are kept."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.authoring import parse_pairs
from evalspec.curation.gold.blocks import read_documents
from evalspec.curation.gold.files import show, to_plain
from evalspec.curation.gold.gold_set import TripleEntry, open_set, read_config
from evalspec.curation.gold.identity import require_person
from evalspec.curation.gold.layout import BLOCKS_KEY, DISPUTE_KEY, EVENTS, SET_FILE, find_root
from evalspec.curation.gold.pins import pin_triple
from evalspec.curation.gold.protocol import add_triple, find_added, record
from evalspec.curation.gold.samples import (
    ORIGINAL_AUTHOR,
    find_kept_blocks,
    list_authors,
    make_blocks,
    make_sample,
    refuse_other_origin,
)
from evalspec.curation.gold.schema import GoldTriple, Kind, SetFile
from evalspec.curation.gold.states import ACCEPTING, CONFIRMATIONS
from evalspec.curation.gold.values import MAX_NAME, check_name
from evalspec.inputs.datasets.base import DatasetContent, list_relevant
from evalspec.inputs.datasets.base import Source as DatasetSource
from evalspec.inputs.datasets.load import LoadedDataset, load_dataset
from evalspec.inputs.datasets.located import make_record
from evalspec.inputs.datasets.losses import GRADES, NATIVE_ONLY, Loss, list_sample_losses
from evalspec.model import CLAIMS_KEY, Document, Sample

_COMPUTED = ("reviewed_by", "resolution", DISPUTE_KEY)
"""Metadata that follows from reviews, so it cannot be taken over as content."""
_AUTHORSHIP = ("added_by", "added_at")
_UNFIT = re.compile(r"[^\w.@+-]+")
_TAGS = "tags"
_LOSSES = (
    *(loss for loss in NATIVE_ONLY if loss.what != "the tags"),
    Loss("all right answers except the first", lambda sample: len(sample.references) > 1),
    GRADES,
)


class Imported(Struct):
    """What became of the samples of a dataset.

    `added`: new triples. `known`: ids that an earlier import added with the same content. `refused`: by id of the
    sample, why it is no triple. `losses`: what triples cannot hold. `reviews`: number of reviews kept. `left_reviews`:
    by id, why reviews were not kept. `warnings`: about the dataset.
    """

    added: list[TripleEntry] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)
    reviews: int = 0
    left_reviews: dict[str, str] = field(default_factory=dict)
    warnings: Sequence[Problem] = ()


def import_dataset(
    root: Path | str,
    source: Path | str,
    by: str,
    *,
    format_name: str | None = None,
    corpus: Path | str | None = None,
    metadata: Sequence[str] = (),
    keep_reviews: bool = False,
    at: str | None = None,
) -> Imported:
    """Add a triple for each sample of a dataset in any format. An import that was interrupted continues when repeated.

    A sample without a relevant document is refused. Several relevant documents are all needed, unless the dataset says
    that they are alternatives. Blocks are pinned to the corpus, or else to the documents of the dataset if it has them.

    `format_name`: None detects it. `metadata`: `KEY=VALUE` for all triples. `keep_reviews`: reviews of triples that
    were accepted elsewhere (`reviewed_by` and `resolution`) become confirmations, which agreement statistics leave out.

    Raises:
        InvalidInput: The dataset or the corpus is invalid, or the person is unknown.
    """
    root, config = Path(root), read_config(Path(root))
    require_person(config, by)
    more = parse_pairs(metadata)
    data = _load(Path(source), format_name)
    documents = _find_documents(data, corpus)
    done = Imported(losses=list_sample_losses(data.samples, _LOSSES), warnings=data.warnings)
    for sample in data.samples:
        try:
            _import_sample(root, sample, by, config, more, documents, done, keep_reviews=keep_reviews, at=at)
        except InvalidInput as error:
            done.refused[sample.id] = "; ".join(problem.render() for problem in error.problems)
    return done


def _load(source: Path, format_name: str | None) -> LoadedDataset:
    """Return the dataset. A set without events is read with its pending triples, because it is adopted so."""
    root = source if (source / SET_FILE).is_file() else find_root(source)
    if root is not None and not (root / EVENTS).is_dir():
        return _load_without_events(root, source)
    data = load_dataset(DatasetSource(source, show(source), with_pending=True), format_name)
    if data.problems:
        raise InvalidInput(data.problems)
    return data


def _load_without_events(root: Path, source: Path) -> LoadedDataset:
    """Return the triples of a set, or of a folder or file in it."""
    inside = [one for one in open_set(root).entries.values() if one.path.resolve().is_relative_to(source.resolve())]
    triples = [(entry.id, entry.triple) for entry in inside if entry.triple is not None]
    samples = [make_sample(name, triple, to_plain(triple.metadata)) for name, triple in triples]
    return LoadedDataset(show(source), DatasetContent(samples), "", (), ())


def _find_documents(data: LoadedDataset, corpus: Path | str | None) -> Mapping[str, Document] | None:
    if corpus is not None:
        return read_documents(Path(corpus))
    documents = data.content.documents
    return {document.id: document for document in documents} if documents else None


def _import_sample(
    root: Path,
    sample: Sample,
    by: str,
    config: SetFile,
    more: Mapping[str, str],
    documents: Mapping[str, Document] | None,
    done: Imported,
    *,
    keep_reviews: bool,
    at: str | None,
) -> None:
    name = make_id(sample.id)
    original = sample.metadata.get("added_by")
    author = original if keep_reviews and isinstance(original, str) and original in config.people else by
    triple = make_triple(sample, more, None if original in (None, author) else str(original))
    if documents is not None:
        triple = pin_triple(root, triple, documents)
    entry = find_added(root, name, triple, author)
    if entry is None:
        entry = add_triple(root, name, triple, author, at, authors=list_authors(sample.metadata))
        done.added.append(entry)
    else:
        done.known.append(name)
    if keep_reviews:
        _keep_reviews(root, entry, sample, config, done, at)


def _keep_reviews(
    root: Path, entry: TripleEntry, sample: Sample, config: SetFile, done: Imported, at: str | None
) -> None:
    """Record the reviews of a triple that was accepted elsewhere. Those by people outside the set are not kept."""
    given = sample.metadata.get("reviewed_by")
    if given is None:
        return
    named = {str(one) for one in (given if isinstance(given, list) else [given])}
    reviewers = named - {sample.metadata.get("added_by")}
    if sample.metadata.get("resolution") not in ACCEPTING or len(reviewers) < CONFIRMATIONS:
        done.left_reviews[entry.id] = "it was not accepted there by two people besides the author"
        return
    unknown = sorted(one for one in reviewers if one not in config.people)
    if unknown:
        done.left_reviews[entry.id] = f"{', '.join(unknown)} is not one of the people in set.yaml"
        return
    current = entry.review_status.current
    for reviewer in sorted(reviewers - current.reviews.keys()):
        if reviewer in current.writers:
            done.left_reviews[entry.id] = f"{reviewer} is the author here, and nobody reviews their own triple"
            continue
        entry = record(root, entry, Kind.CONFIRM, reviewer, is_imported=True, at=at)
        done.reviews += 1
    done.added = [entry if one.id == entry.id else one for one in done.added]


def make_id(name: str) -> str:
    """Return an id for a sample: its own, with hyphens for characters that file names cannot have.

    Raises:
        InvalidInput: Nothing is left of it, or it is too long.
    """
    fit = _UNFIT.sub("-", name).strip(".@+-")
    try:
        return check_name(fit)
    except ValueError as error:
        message = f"the id '{name[:MAX_NAME]}' cannot be a file name"
        raise InvalidInput(Problem(message, "give the sample a short id", field="id")) from error


def make_triple(sample: Sample, more: Mapping[str, Any], original_author: str | None = None) -> GoldTriple:
    """Return the triple of a sample. `more`: metadata that outweighs the sample's, except its origin and tags.

    Raises:
        InvalidInput: The sample has no relevant document, comes from elsewhere than `more` says, or has a value that a
            triple cannot have.
    """
    refuse_other_origin(sample.metadata, more)
    blocks = find_kept_blocks(sample) or make_blocks(sample.groups, list_relevant(sample))
    if not blocks:
        message = "it has no relevant document, so there is no block"
        raise InvalidInput(Problem(message, "add the ids of its relevant documents"))
    kept = {key: value for key, value in sample.metadata.items() if key not in (*_COMPUTED, *_AUTHORSHIP)}
    claims = kept.pop(CLAIMS_KEY, None)
    kept.pop(BLOCKS_KEY, None)
    tags = _merge_tags(list(sample.tags), kept.pop(_TAGS, []), more.get(_TAGS, []))
    author = {ORIGINAL_AUTHOR: original_author} if original_author else {}
    content = {
        "question": sample.question,
        "expected_block": blocks,
        "expected_answer": sample.reference,
        "claims": claims,
        "metadata": {**kept, **author, **more, **tags},
    }
    content = {key: value for key, value in content.items() if value is not None}
    return make_record(GoldTriple, content)


def _merge_tags(*given: Any) -> dict[str, list[Any]]:
    """Return all tags as metadata, each once."""
    every = [tag for tags in given for tag in (tags if isinstance(tags, list) else [tags])]
    return {_TAGS: [tag for place, tag in enumerate(every) if tag not in every[:place]]} if every else {}
