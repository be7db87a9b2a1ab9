"""The two patches of docs/explanation/architecture.md: a field of every threshold, and a column of every report."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (
    (ROOT / "docs" / "explanation" / "architecture.md")
    .read_text()
    .partition("## Two patches\n")[2]
    .partition("\n## ")[0]
)
FIELD, COLUMN = re.findall(r"```diff\n(.*?)```", PAGE, re.S)
SAMPLES = [{"id": "a", "input": "Capital?", "expected": "Paris"}, {"id": "b", "input": "River?", "expected": "Seine"}]


@pytest.fixture
def patched(tmp_path):
    """Runs commands of a copy of the package to which a patch was applied, beside a manifest with one threshold."""
    shutil.copytree(ROOT / "evalspec", tmp_path / "evalspec", ignore=shutil.ignore_patterns("__pycache__"))
    replies = [{"id": sample["id"], "response": sample["expected"]} for sample in SAMPLES]
    for name, lines in (("qa.jsonl", SAMPLES), ("replies.jsonl", replies)):
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    def run(*arguments):
        command = [sys.executable, "-m", "evalspec", *arguments]
        environ = os.environ | {"PYTHONPATH": str(tmp_path)}
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(patch, threshold):
        subprocess.run(["git", "apply", "-"], input=patch, cwd=tmp_path, text=True, check=True)
        evaluation = {
            "datasets": [{"name": "qa", "path": "qa.jsonl", "metrics": ["string_match"]}],
            "thresholds": {"string_match": threshold},
            "ciGate": {"minSamples": 1},
        }
        head = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "m"}}
        (tmp_path / "agent.yaml").write_text(json.dumps(head | {"spec": {"evaluation": evaluation}}))
        forms = ("-o", "r.json", "-o", "r.html", "-o", "r.md")
        printed = run("evaluate", "agent.yaml", "--responses", "replies.jsonl", *forms)
        shown = {"terminal": printed, **{form: (tmp_path / f"r.{form}").read_text() for form in ("html", "md")}}
        (dataset,) = json.loads((tmp_path / "r.json").read_text())["datasets"]
        return shown, dataset, json.loads(run("schema", "report"))["$defs"]

    return apply


def list_files(patch: str) -> list[str]:
    return re.findall(r"^\+\+\+ b/(.*)$", patch, re.M)


def test_a_field_of_every_threshold(patched):
    assert len(list_files(FIELD)) <= 3
    shown, dataset, schema = patched(FIELD, {"min": 0.5, "owner": "payments-team"})
    assert dataset["thresholds"][0]["owner"] == "payments-team"
    assert schema["Threshold"]["properties"]["owner"]["description"] == "Who to ask about the limit."
    assert [form for form, text in shown.items() if "ask payments-team" not in re.sub(r"<[^>]+>|`|\\", "", text)] == []


def test_a_column_of_every_report(patched):
    assert len(list_files(COLUMN)) <= 2
    shown, dataset, schema = patched(COLUMN, 0.5)
    assert dataset["metrics"]["string_match"]["coverage"] == 1
    assert "coverage" in schema["Summary"]["properties"]
    assert [form for form, text in shown.items() if "coverage" not in text or "100%" not in text] == []
