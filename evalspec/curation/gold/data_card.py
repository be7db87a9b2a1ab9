"""The data card of a published set: what it contains, where it comes from, and what its numbers do not say."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalspec.base.foreign_text import inert
from evalspec.curation.gold.gold_set import GoldSet
from evalspec.curation.gold.publishing import PublicPart
from evalspec.model import AgreementMeasure


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
            value = "unknown" if one.value is None else f"{one.value:.2f}"
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
