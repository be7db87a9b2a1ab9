"""A plug-in of another package: the one of examples/plugin, as it is and broken in every way."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from evalspec.api import plugins
from evalspec.inputs.datasets.base import DATASETS, DatasetFormat, Written
from evalspec.model import AgentReply, Exchange, Need, Sample, Score
from evalspec.reports.base import REPORTERS, Reporter
from evalspec.targets.agents.wire import WIRES, Wire
from evalspec.targets.retrievers.base import Hit, Retrieval
from evalspec.targets.retrievers.opening import RETRIEVERS

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "plugin"
ANSWERED = Exchange(Sample("s", "Who pays?"), AgentReply("You do [1]."))


class Site(NamedTuple):
    """A folder with an installed plug-in, and a project that uses it."""

    path: Path

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(self.path), str(ROOT)])}
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=self.path, env=environ, capture_output=True, text=True, check=False)

    def evalspec(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "evalspec", *arguments)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The example as setuptools installs it, without pip and the network."""
    source = tmp_path_factory.mktemp("source") / "plugin"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    site = tmp_path_factory.mktemp("site")
    steps = [word for step in ("install_lib", "install_egg_info") for word in (step, "--install-dir", str(site))]
    command = [sys.executable, "-W", "ignore", "-c", "import setuptools; setuptools.setup()", "-q", *steps]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return site


@pytest.fixture
def site(built, tmp_path):
    """The plug-in in a project: frequent questions, recorded replies, documents, a metric, and a retriever."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    (tmp_path / "qa.faq").write_text("Q: Who pays?\nA: You do.\n\nQ: When?\nA: Now.\n")
    replies = [{"id": "q1", "response": "You do [1]."}, {"id": "q4", "response": "Now [1] [2]."}]
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    (tmp_path / "ranked.jsonl").write_text(
        '{"id": "r1", "input": "Who pays?", "expected": "All", "relevant": ["eval:faq:d1"]}\n'
    )
    (tmp_path / "documents.jsonl").write_text('{"id": "eval:faq:d1", "text": "Everybody pays."}\n')
    write_manifest(tmp_path)
    return Site(tmp_path)


def write_manifest(folder, *more, limits=None):
    metrics = ["cites_source", {"name": "cites_source", "at_least": 2}, *more]
    evaluation = {
        "datasets": [{"name": "qa", "path": "qa.faq", "metrics": metrics}],
        "thresholds": limits or {"cites_source()": 1, "cites_source(at_least=2)": 0.5},
        "ciGate": {"minSamples": 1},
    }
    head = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "m"}}
    (folder / "agent.yaml").write_text(json.dumps(head | {"spec": {"evaluation": evaluation}}))
    asked = {"name": "ranked", "path": "ranked.jsonl", "metrics": ["Recall@1"], "corpus": "documents.jsonl"}
    asked |= {"retriever": "mine", "scopePrefix": "eval:faq:"}
    evaluation = {"datasets": [asked], "retrievers": {"mine": {"builtin": "shared_words", "shortest": 2}}}
    (folder / "search.yaml").write_text(json.dumps(head | {"spec": {"evaluation": evaluation}}))


EVALUATE = ("evaluate", "agent.yaml", "--responses", "replies.jsonl")


def test_the_example_passes_its_own_tests(site):
    done = site.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(EXAMPLE / "tests"))
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout


def test_a_run_with_all_of_its_parts(site):
    done = site.evalspec(*EVALUATE, "-o", "run.tap", "--json")
    assert done.returncode == 0, done.stderr
    (dataset,) = json.loads(done.stdout)["datasets"]
    values = {name: summary["value"] for name, summary in dataset["metrics"].items()}
    assert values == {"cites_source": 1, "cites_source(at_least=2)": 0.5}
    assert (site.path / "run.tap").read_text() == "1..2\nok 1 - qa: cites_source\nok 2 - qa: cites_source(at_least=2)\n"
    done = site.evalspec("evaluate", "search.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["datasets"][0]["metrics"]["Recall@1"]["value"] == 1
