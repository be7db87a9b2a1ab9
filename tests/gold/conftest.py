"""Gold sets on disk."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import Outcome, Project
from evalspec import gold
from evalspec.curation.gold.authoring import create_set
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry, read_set
from evalspec.curation.gold.protocol import add_triple, review
from evalspec.curation.gold.schema import GoldTriple, Person

PEOPLE = ("ada", "ben", "cleo", "dan")


@dataclass
class Curated:
    """A gold set. Its triples are added and reviewed at given times, or now."""

    root: Path

    def add(self, name: str, by: str = "ada", at: str | None = None, **metadata: Any) -> TripleEntry:
        """Add a triple."""
        content = {
            "question": f"What does {name} cost?",
            "expected_block": {"block_id": f"b-{name}", "version": "v1"},
            "expected_answer": "14 days",
            "metadata": {"source": "public", **metadata},
        }
        return add_triple(self.root, name, GoldTriple.model_validate(content), by, at)

    def say(self, name: str, at: str | None = None, **verdicts: str) -> None:
        """Record the review of each person: confirm, or a flag, perhaps with a category as `overstated/numeric`."""
        for who, said in verdicts.items():
            verdict, _, category = said.partition("/")
            flag = None if verdict == "confirm" else verdict
            review(self.root, name, who, flag, category=category or None, at=at)


@pytest.fixture
def curated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Curated:
    """An empty gold set in the working directory."""
    monkeypatch.chdir(tmp_path)
    root = Path("gold/help")
    create_set(root, "help", {who: Person() for who in PEOPLE})
    return Curated(root)


@pytest.fixture
def write_set(project: Project) -> Callable[..., Path]:
    """Write a set of accepted triples below the project, and add it to the manifest as the dataset `rfp`."""

    def write(metadata: Mapping[str, Any], folder: str = "gold/rfp", **config: Any) -> Path:
        root = project.folder / folder
        (root / "triples").mkdir(parents=True)
        people: dict[str, Any] = {name: {} for name in ("ada", "ben", "cleo")}
        (root / "set.yaml").write_text(yaml.safe_dump({"name": root.name, "people": people, **config}))
        reviewed = {"added_by": "ada", "reviewed_by": ["ben", "cleo"], "resolution": "consensus"}
        for name, own in metadata.items():
            triple = {"question": f"What is {name}?", "expected_block": {"block_id": f"b-{name}"}}
            content = triple | {"expected_answer": name, "metadata": {**reviewed, **own}}
            (root / "triples" / f"{name}.yaml").write_text(yaml.safe_dump(content))
        entry = {"name": root.name, "path": f"$file:{folder}", "metrics": ["string_match"]}
        project.evaluation.setdefault("datasets", []).append(entry)
        project.write()
        return root

    return write


@dataclass
class SetOnDisk:
    """A set in a project. `call` runs `evalspec gold …` there."""

    project: Project
    root: Path

    def call(self, *arguments: str) -> Outcome:
        """Run a subcommand of `evalspec gold`."""
        return self.project("gold", *arguments)

    def corpus(self, name: str = "corpus.jsonl", **texts: str | dict[str, Any]) -> Path:
        """Write a corpus of texts by id, or of whole records."""
        records = [{"_id": one, **(text if isinstance(text, dict) else {"text": text})} for one, text in texts.items()]
        path = self.project.folder / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return path

    def add(self, name: str, answer: str = "14 days", block: Any = "refunds", by: str = "ada", **more: Any) -> Any:
        """Add a triple. `block`: an id, or expected_block."""
        blocks = {"block_id": block} if isinstance(block, str) else block
        content = {"question": f"What about {name}?", "expected_block": blocks, "expected_answer": answer, **more}
        return gold.add_triple(self.root, name, GoldTriple.model_validate(content), by)

    def accept(self, name: str, *people: str) -> Any:
        """Have two people confirm a triple."""
        return [gold.review(self.root, name, one) for one in people or ("ben", "cleo")][-1]

    def state(self, name: str) -> str:
        """The state of a triple."""
        return str(gold.read_entry(self.root, name).state)

    def block(self, name: str) -> Any:
        """The blocks of a triple as they are written."""
        return self._triple(name).model_dump(mode="json", exclude_none=True)["expected_block"]

    def _triple(self, name: str) -> GoldTriple:
        triple = gold.read_entry(self.root, name).triple
        assert triple is not None
        return triple

    def files(self) -> dict[str, bytes]:
        """Every file of the set."""
        return {str(path): path.read_bytes() for path in sorted(self.root.rglob("*")) if path.is_file()}


@pytest.fixture
def gold_set(project: Project) -> SetOnDisk:
    """An empty set of ada, ben, cleo and dan under evals/gold/help."""
    root = project.folder / "evals" / "gold" / "help"
    gold.create_set(root, "help", {name: Person() for name in PEOPLE})
    return SetOnDisk(project, Path("evals/gold/help"))


@dataclass
class TeamSet:
    """A set of ada, ben and cleo."""

    root: Path

    def add(self, name: str, **content: Any) -> TripleEntry:
        """Add a pending triple of ada. Unknown keys are metadata."""
        own = {
            key: content.pop(key)
            for key in ("question", "expected_answer", "claims", "expected_block")
            if key in content
        }
        filled = {"question": f"What is {name}?", "expected_block": {"block_id": f"block-{name}"}} | own
        return add_triple(self.root, name, GoldTriple.model_validate(filled | {"metadata": content}), "ada")

    def accept(self, name: str, **content: Any) -> TripleEntry:
        """Add a triple that ben and cleo confirm."""
        self.add(name, **content)
        review(self.root, name, "ben")
        return review(self.root, name, "cleo")

    def read(self, today: date | None = None) -> GoldSet:
        """The set, on a day."""
        return read_set(self.root, today)


@pytest.fixture
def team(project: Project) -> TeamSet:
    """A set in gold/help of the project."""
    root = project.folder / "gold" / "help"
    create_set(root, "help", {name: Person() for name in ("ada", "ben", "cleo")})
    return TeamSet(Path("gold/help"))
