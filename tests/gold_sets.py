"""Gold sets for tests: made on disk by the library's own functions."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evalspec.curation.gold.authoring import create_set
from evalspec.curation.gold.protocol import add_triple, review
from evalspec.curation.gold.schema import GoldTriple, Person

PEOPLE = ("ada", "ben", "cleo", "dan")


def make_set(root: Path, people: Iterable[str] = PEOPLE, **options: Any) -> Path:
    """Create a set, with four people by default."""
    create_set(root, "help", {name: Person(email=f"{name}@example.com") for name in people}, **options)
    return root


def make_triple(
    question: str = "How long does a refund take?", block: str = "refunds", answer: str = "14 days", **metadata: Any
) -> GoldTriple:
    """Return a triple with one pinned block."""
    metadata = {"source": "public", "domain": "billing", "difficulty": "standard"} | metadata
    blocks = {"block_id": block, "version": "v1"}
    content = {"question": question, "expected_block": blocks, "expected_answer": answer, "metadata": metadata}
    return GoldTriple.model_validate(content)


def accept(
    root: Path, name: str, triple: GoldTriple | None = None, reviewers: Iterable[str] = ("ben", "cleo"), by: str = "ada"
) -> None:
    """Add a triple and have two people confirm it."""
    add_triple(root, name, triple or make_triple(), by)
    for reviewer in reviewers:
        review(root, name, reviewer)
