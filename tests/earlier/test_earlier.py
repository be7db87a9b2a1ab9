"""Stored runs and baselines from before the first release are refused in one clear line. Their reports are read."""

import json
import shutil
from pathlib import Path

import pytest

MEASURED = ("baseline", "candidate", "delta", "pairs", "statistic", "direction")
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


@pytest.mark.parametrize(
    "command", [["report", "latest"], ["rescore", "latest"], ["evaluate", "agent.yaml", "--resume", "latest"]]
)
def test_its_runs_are_refused_in_one_line(earlier, command):
    refused = earlier(*command)
    assert refused.code in (2, 3)
    said = "written before the first release (layout 2). run it again, or remove the run"
    assert [said in line for line in refused.err.splitlines() if line.startswith("evalspec: ")] == [True]


def test_its_baseline_is_refused_in_one_line(earlier):
    refused = earlier("compare", "evals/baselines/main.json", f".evalspec/runs/{run_ids(earlier)[1]}/report.json")
    assert refused.code == 2
    assert refused.err.startswith("evalspec: evals/baselines/main.json: sha256: is missing.")
    assert refused.err.count("\n") == 1


def test_its_reports_are_compared_as_before(earlier):
    reports = (f".evalspec/runs/{run}/report.json" for run in run_ids(earlier))
    told = earlier("compare", *reports, "--json").document
    before = json.loads((earlier.folder / "compared.json").read_text())
    for part, was in zip(told["candidates"][0]["datasets"], before["candidates"][0]["datasets"], strict=True):
        assert part["sampleCounts"].items() >= was["sampleCounts"].items()
        for metric, row in was["metrics"].items():
            assert {key: part["metrics"][metric][key] for key in MEASURED} == {key: row[key] for key in MEASURED}
