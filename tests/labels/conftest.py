"""Stored runs to label. Replies are recorded, so runs are quick and always the same."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from conftest import Project
from evalspec import labels
from evalspec.curation.labels.files import labels_folder
from evalspec.model.labels import Label

STORE = Path(".evalspec")


@dataclass
class Labelled:
    """A project with runs. `replies`: the answer by sample."""

    project: Project
    replies: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str) -> str:
        """Evaluate the recorded replies, and return the id of the run."""
        lines = [
            {"id": name, "response": text, "retrieved_contexts": ["A passage."]} for name, text in self.replies.items()
        ]
        path = self.project.folder / "replies.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        outcome = self.project.evaluate("--responses", path.name, "--json", *arguments)
        assert outcome.code in (0, 1), outcome.err
        return str(outcome.document["runId"])

    def rescore(self, run: str = "latest") -> str:
        self.project.write()
        outcome = self.project("rescore", run, "agent.yaml", "--json")
        assert outcome.code in (0, 1), outcome.err
        return str(outcome.document["runId"])

    def say(self, sample: str, run: str = "latest", metric: str | None = None, **verdicts: str) -> list[Label]:
        """Record the verdict of each person."""
        return [labels.label(run, sample, verdict, by=by, metric=metric) for by, verdict in verdicts.items()]

    def files(self, run: str) -> list[Path]:
        return sorted(labels_folder(STORE, run).iterdir())


@pytest.fixture
def labelled(project: Project) -> Labelled:
    """A project with a run of four samples. The replies to s0 and s1 match the expected answer."""
    made = Labelled(project, {f"s{n}": "Paris" if n < 2 else "Rome" for n in range(4)})
    project.samples(4, metrics=("string_match",))
    project.evaluation |= {"thresholds": {"string_match": 0.5}, "ciGate": True}
    made.run()
    return made
