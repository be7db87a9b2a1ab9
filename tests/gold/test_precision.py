"""Retrieval metrics against the blocks of a gold set, through `evalspec evaluate`."""

from pathlib import Path

import pytest

from evalspec.curation.gold.authoring import create_set, read_triple
from evalspec.curation.gold.files import write_text
from evalspec.curation.gold.protocol import add_triple, review
from evalspec.curation.gold.schema import Person

RANKING = ["b", "x", "c", "y", "z", "a"]
EXPECTED = {
    # blocks of the triple: Precision@1, @3, @5, Recall@5 by the definitions in docs/reference/metrics.md
    "one": ("{block_id: b}", (1.0, 1 / 3, 1 / 5, 1.0)),
    "late": ("{block_id: a}", (0.0, 0.0, 0.0, 0.0)),
    "both": ("[{block_id: b}, {block_id: c}]", (1.0, 2 / 3, 2 / 5, 1.0)),
    "half": ("[{block_id: b}, {block_id: a}]", (1.0, 1 / 3, 1 / 5, 1 / 2)),
    "either": ("[{any: [{block_id: b}, {block_id: c}]}]", (1.0, 2 / 3, 2 / 5, 1.0)),
    "and_or": ("[{any: [{block_id: a}, {block_id: c}]}, {block_id: q}]", (0.0, 1 / 3, 1 / 5, 1 / 2)),
}
METRICS = ["Precision@1", "Precision@3", "Precision@5", "Recall@5"]


def write_gold_set(root: Path) -> None:
    create_set(root, "blocks", {name: Person() for name in ("ada", "ben", "cleo")})
    for name, (blocks, _) in EXPECTED.items():
        source = root.parent / f"{name}.yaml"
        write_text(source, f"question: Where is {name}?\nexpected_block: {blocks}\nexpected_answer: There.\n")
        add_triple(root, name, read_triple(source), "ada")
        for reviewer in ("ben", "cleo"):
            review(root, name, reviewer)


def test_precision_at_k_against_the_block_works(project, agent):
    write_gold_set(project.folder / "gold" / "blocks")
    agent.reply = lambda _body: {"response": "There.", "hits": [{"id": name} for name in RANKING]}
    project.api = {
        "url": agent.url,
        "chatEndpoint": {"response": {"answer": "$.response", "contextIds": "$.hits[*].id"}},
    }
    project.evaluation["datasets"] = [{"name": "gold", "path": "$file:gold/blocks", "metrics": METRICS}]
    outcome = project.evaluate("--json")
    assert outcome.code == 0, outcome.err
    [dataset] = outcome.document["datasets"]
    found = {one["id"]: [one["scores"][name]["value"] for name in METRICS] for one in dataset["samples"]}
    assert found == {name: pytest.approx(values) for name, (_, values) in EXPECTED.items()}
