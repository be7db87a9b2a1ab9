"""The public part of a set: which triples, in which form, with which annotators. And the data card about it."""

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Struct
from pydantic import Field, StrictStr

from evalspec.base.foreign_text import inert
from evalspec.curation.gold.files import to_plain
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry
from evalspec.curation.gold.revoking import list_derived
from evalspec.curation.gold.schema import Provenance, Traffic, Triple, TripleSource
from evalspec.curation.gold.states import State
from evalspec.curation.gold.values import Date, Strict, Text
from evalspec.model import AgreementMeasure

_COPIED = ("domain", "difficulty", "source", "provenance", "failure_mode", "traffic", "generated_by")
_OWN = frozenset({*_COPIED, "customer", "added_by", "added_at", "reviewed_by", "resolution"})
_DAY = len("2026-01-01")

Annotator = Annotated[StrictStr, Field(pattern=r"^annotator-\d+$")]


class PublicMetadata(Strict):
    """Metadata of a published triple. The names of the annotators are pseudonyms."""

    source: Literal["public", "synthetic"]
    domain: Text | None = None
    difficulty: Text | None = None
    provenance: Provenance | None = None
    failure_mode: Text | None = None
    traffic: Traffic | None = None
    generated_by: Text | None = None
    added_by: Annotator | None = None
    added_at: Date | None = None
    reviewed_by: list[Annotator]
    resolution: Text


class PublicTriple(Triple):
    """A question, the block or blocks that answer it, and the right answer.

    `expected_block`: one block, or a list of blocks that are all needed, with `{any: [...]}` for alternatives.
    """

    id: Text
    metadata: PublicMetadata  # type: ignore[assignment]


class PublicPart(Struct, frozen=True):
    """What of a set may be published. `entries`: the triples. `left_out`: number of other triples by cause.

    `keys_left_out`: metadata keys of these triples that are not published.
    """

    entries: Sequence[TripleEntry]
    left_out: Mapping[str, int]
    keys_left_out: Sequence[str]


def select_public(found: GoldSet) -> PublicPart:
    """Return the accepted public and synthetic triples without a customer.

    Triples that replaced a split one of a customer are that customer's, whatever their metadata says.
    """
    owned = {name for name, entry in found.entries.items() if entry.customers or entry.source is TripleSource.CUSTOMER}
    owned |= {name for name, entry in found.entries.items() if entry.triple is None}
    derived = list_derived(found, owned)
    entries: list[TripleEntry] = []
    causes: Counter[str] = Counter()
    for entry in found.entries.values():
        cause = "of a customer" if entry.id in derived else _explain_private(entry)
        if cause is None:
            entries.append(entry)
        else:
            causes[cause] += 1
    keys = {key for entry in entries for key in _list_keys(entry)}
    return PublicPart(entries, dict(sorted(causes.items())), sorted(keys))


def _explain_private(entry: TripleEntry) -> str | None:
    """Return why a triple is not published, None if it may be."""
    if entry.is_stress:
        return "stress: written by a model, confirmed by too few people"
    if entry.state is not State.ACCEPTED:
        return str(entry.state)
    return None if entry.source in (TripleSource.PUBLIC, TripleSource.SYNTHETIC) else "without a source"


def _list_keys(entry: TripleEntry) -> set[str]:
    return set() if entry.triple is None else set(to_plain(entry.triple.metadata)) - _OWN


def name_annotators(entries: Sequence[TripleEntry]) -> dict[str, str]:
    """Return a pseudonym for each person, numbered at random: the order says nothing about the names."""
    people = {name for entry in entries for name in _list_people(entry)}
    shuffled = sorted(people)
    secrets.SystemRandom().shuffle(shuffled)
    return {name: f"annotator-{number}" for number, name in enumerate(shuffled, 1)}


def _list_people(entry: TripleEntry) -> Iterator[str]:
    yield from entry.review_status.reviewed_by or _list_written(entry, "reviewed_by")
    author = _find_author(entry)
    if author is not None:
        yield author


def _find_author(entry: TripleEntry) -> str | None:
    return entry.review_status.author or (entry.triple.metadata.added_by if entry.triple else None)


def _list_written(entry: TripleEntry, key: str) -> list[str]:
    return (getattr(entry.triple.metadata, key) if entry.triple else None) or []


def to_public(entry: TripleEntry, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a triple as it is published, in the form of PublicTriple."""
    if entry.triple is None:
        raise ValueError(f"{entry.id} is revoked")
    plain = to_plain(entry.triple)
    metadata = {key: plain["metadata"][key] for key in _COPIED if key in plain["metadata"]}
    author = _find_author(entry)
    if author is not None:
        metadata["added_by"] = names[author]
    if entry.triple.metadata.added_at is not None:
        metadata["added_at"] = entry.triple.metadata.added_at[:_DAY]
    reviewers = entry.review_status.reviewed_by or _list_written(entry, "reviewed_by")
    metadata["reviewed_by"] = sorted((names[one] for one in reviewers), key=lambda name: int(name.rpartition("-")[2]))
    metadata["resolution"] = entry.review_status.resolution
    public = {"id": entry.id, **{key: value for key, value in plain.items() if key != "id"}, "metadata": metadata}
    return to_plain(PublicTriple.model_validate(public)) | {"metadata": metadata}


def describe_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a published triple."""
    schema = PublicTriple.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def render_card(
    found: GoldSet,
    part: PublicPart,
    triples: Sequence[Mapping[str, Any]],
    *,
    agreement: Sequence[AgreementMeasure],
    allowed: int = 0,
    has_corpus: bool = False,
) -> str:
    """Return the data card as Markdown.

    `agreement`: of the annotators, in the whole set. `allowed`: number of hits of the scrubber that a person decided to
    publish. `has_corpus`: whether the texts of the blocks are published too.
    """
    lines = [
        f"# {_show(found.config.name)}",
        "",
        *([_show(found.config.description), ""] if found.config.description else []),
        f"{len(triples)} triples: a question, the block that answers it, and the right answer.",
        "",
        "**Directional, not a benchmark.** Scores on this set describe one system on these documents. They say whether"
        " a change of that system helps, and do not rank systems.",
        "",
        *(_warn_of_demonstration() if found.config.demonstration else ()),
        *_describe_files(has_corpus),
        *_describe_counts(triples),
        "## Agreement",
        "",
        *_describe_agreement(agreement),
        *_describe_resolutions(triples),
        *_describe_provenance(triples),
        *_describe_left_out(part, allowed),
    ]
    return "\n".join(lines) + "\n"


def _show(text: str) -> str:
    """Return untrusted text as one line that Markdown does not interpret."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>#|!&~" else char for char in inert(text))


def _warn_of_demonstration() -> Iterator[str]:
    yield "**A demonstration, not reviewed by people.** The annotators are invented."
    yield ""


def _describe_files(has_corpus: bool) -> Iterator[str]:
    yield "## Use"
    yield ""
    yield "| file | content |"
    yield "|---|---|"
    yield "| `triples.yaml` | the triples |"
    yield "| `schema.json` | JSON Schema of a triple |"
    if has_corpus:
        yield "| `corpus.jsonl` | the texts of the blocks, with their ids |"
    yield "| `agent.yaml` | runs your retriever against the triples |"
    yield ""
    yield "Your retriever answers `POST /search` with the ids of blocks, best first. To change that, edit `agent.yaml`."
    if not has_corpus:
        yield "Index the documents under the ids of `expected_block` first: their texts are not published here."
    yield ""
    yield "```sh"
    yield "pip install evalspec-runner"
    yield "evalspec evaluate agent.yaml --retriever yours --url http://localhost:8000"
    yield "```"
    yield ""


def _describe_counts(triples: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "## Composition"
    yield ""
    for key in ("source", "domain", "difficulty", "failure_mode"):
        counts = Counter(str(triple["metadata"].get(key, "not stated")) for triple in triples)
        yield f"| {key} | triples |"
        yield "|---|--:|"
        yield from (f"| {_show(value)} | {count} |" for value, count in sorted(counts.items()))
        yield ""


def _describe_agreement(measures: Sequence[AgreementMeasure]) -> Iterator[str]:
    """Yield the measures over all annotators. Those of pairs would tell the annotators apart."""
    yield "Of first reviews by annotators who did not see each other's, in the whole set before triples were left out:"
    yield ""
    for one in measures:
        if not one.reviewers:
            value = "unknown" if one.value is None else f"{one.value:z.2f}"
            bounds = f"95 % interval {one.interval[0]:.2f} – {one.interval[1]:.2f}" if one.interval else ""
            parts = (value, bounds, f"{one.triples} triples", one.unknown)
            yield f"- {_show(one.measure)}: {_show(', '.join(part for part in parts if part))}"
    yield ""


def _describe_resolutions(triples: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    counts = Counter(triple["metadata"]["resolution"] for triple in triples)
    yield "| resolution | triples |"
    yield "|---|--:|"
    yield from (f"| {_show(value)} | {count} |" for value, count in sorted(counts.items()))
    yield ""


def _describe_provenance(triples: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    found = Counter(
        (triple["metadata"].get("provenance", {}).get("licence"), triple["metadata"].get("provenance", {}).get("url"))
        for triple in triples
    )
    yield "## Provenance"
    yield ""
    yield "| licence | url | triples |"
    yield "|---|---|--:|"
    for (licence, url), count in sorted(found.items(), key=lambda item: str(item[0])):
        yield f"| {_show(licence or 'not stated')} | {_show(url or 'not stated')} | {count} |"
    yield ""


def _describe_left_out(part: PublicPart, allowed: int) -> Iterator[str]:
    yield "## Not published"
    yield ""
    yield from (f"- {count} triples: {_show(cause)}" for cause, count in part.left_out.items())
    if part.keys_left_out:
        yield f"- metadata: {', '.join(map(_show, part.keys_left_out))}"
    yield "- names of annotators: pseudonyms, numbered at random for this export"
    yield f"- personal data and keys: searched for, {allowed} hits published by a person's decision"
