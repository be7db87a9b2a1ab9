"""What an earlier version has stored can be read by this one, and says the same."""

import json
import shutil
from pathlib import Path

import pytest

LAYOUTS = sorted(Path(__file__).parent.glob("layout_*"))


@pytest.fixture(params=LAYOUTS, ids=lambda path: path.name)
def earlier(request, project, monkeypatch):
    """A project as it was left; its agent and judge are gone."""
    shutil.copytree(request.param, project.folder, symlinks=True, dirs_exist_ok=True)
    (project.folder / "store").rename(project.folder / ".evalspec")
    monkeypatch.setenv("TENANT", "billing-7")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-key-000")
    return project


def run_ids(project):
    """The first and the second run."""
    return sorted(path.name for path in (project.folder / ".evalspec" / "runs").glob("2*"))


def stored_report(project, run):
    return json.loads((project.folder / ".evalspec" / "runs" / run / "report.json").read_text())


TEXTS = {"noInterval", "notes", "reason", "reasons"}
"""Keys whose words may change from release to release."""


def assert_says(told, stored, where="report"):
    """`told` says all that is stored. It may have more keys and other words."""
    if isinstance(stored, dict):
        assert not set(stored) - set(told), where
        for key, value in stored.items():
            if key in TEXTS:
                assert bool(told[key]) is bool(value), f"{where}.{key}"
            else:
                assert_says(told[key], value, f"{where}.{key}")
    elif isinstance(stored, list):
        assert len(told) == len(stored), where
        for number, value in enumerate(stored):
            assert_says(told[number], value, f"{where}[{number}]")
    else:
        assert told == stored, where


def test_its_runs_are_whole_and_make_the_same_reports(earlier):
    assert len(run_ids(earlier)) == 2
    assert earlier("runs", "verify", "--all").code == 0
    for run in run_ids(earlier):
        again = earlier("report", run, "--json")
        assert again.code == 1
        assert_says(again.document, stored_report(earlier, run))


def test_its_scores_are_reused_by_resume_and_rescore(earlier):
    second = run_ids(earlier)[1]
    stored = stored_report(earlier, second)
    for command in (["evaluate", "agent.yaml", "--resume", second, "--json"], ["rescore", second, "--json"]):
        again = earlier(*command)
        assert again.code == 1, again.err
        for told, dataset in zip(again.document["datasets"], stored["datasets"], strict=True):
            assert_says(told["metrics"], dataset["metrics"])
            assert_says(told["samples"], dataset["samples"])


def test_it_is_compared_as_before(earlier):
    first, second = run_ids(earlier)
    reports = [f".evalspec/runs/{run}/report.json" for run in (first, second)]
    for pair, stored in (
        ((first, second), "compared.json"),
        (reports, "compared.json"),
        (("evals/baselines/main.json", second), "compared_with_baseline.json"),
    ):
        told = earlier("compare", *pair, "--json").document
        before = json.loads((earlier.folder / stored).read_text())
        for part, was in zip(told["candidates"][0]["datasets"], before["candidates"][0]["datasets"], strict=True):
            for key in ("metrics", "slices", "sampleCounts"):
                assert_says(part[key], was[key], key)
