"""Every block of YAML in the documents: manifests and parts of them are valid, workflows run commands that exist."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalspec.curation.gold.schema import GoldTriple
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.inputs.manifest.schema import EvaluationConfig
from evalspec.inputs.manifest.yaml_source import parse_yaml
from evalspec.runs.planning.checks import validate_manifest
from evalspec.runs.planning.draft import start_draft
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.retrievers import check_retrievers
from shell_pages import DOCUMENTS, ROOT, check_commands, check_requirement, name_file, name_page, read_blocks

EVALUATION = {field.alias or name for name, field in EvaluationConfig.model_fields.items()}
EXTRA_FILES = {
    "evals/tickets.jsonl": '{"ticket": {"text": "A refund?"}, "solution": "Yes.", "docs": [{"body": "14 days."}]}\n',
    "evals/orders.jsonl": '{"input": "What does order AB-1234 cost?", "expected": "{\\"total\\": 12}"}\n',
    "prod.jsonl": '{"id": "t1", "input": "A refund?", "expected": "", "metadata": {"cluster": "t1"}}\n',
    "cranfield/qrels.txt": "q1 0 d1 1\n",
    "cranfield/queries.jsonl": '{"_id": "q1", "text": "What is lift?"}\n',
    "cranfield/corpus.jsonl": '{"_id": "d1", "text": "Lift is a force."}\n',
    "goldens.json": '[{"input": "A refund?", "expected_output": "Yes.", "retrieval_context": ["Within 14 days."]}]',
}
"""Besides the datasets of this repository, by the names that pages use."""
KEYS = (
    "AGENT_TOKEN",
    "AZURE_OPENAI_API_KEY",
    "CLIENT_ID",
    "CLIENT_SECRET",
    "KEY_PASSWORD",
    "ANTHROPIC_API_KEY",
    "DIFY_API_KEY",
    "GEMINI_API_KEY",
    "OPENAI_API_KEY",
    "USER_MODEL_KEY",
)
INCLUDED = {"include": [{"local": ".gitlab/evalspec.yml"}]}
"""What .gitlab-ci.yml needs. tests/cli/test_ci_files.py checks the file."""
BLOCKS = [
    pytest.param(page, block.code, id=f"{name_page(page)}-{block.number}")
    for page in DOCUMENTS
    for block in read_blocks(page)
    if block.language == "yaml"
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where `$file:evals/…` finds the datasets of this repository and the files of `EXTRA_FILES`."""
    (tmp_path / "evals").mkdir()
    for path in (ROOT / "evals").iterdir():
        (tmp_path / "evals" / path.name).symlink_to(path)
    lines = [json.loads(line) for line in (ROOT / "evals" / "regression.jsonl").read_text().splitlines()]
    tenants = [line | {"metadata": {**line.get("metadata", {}), "tenant": "acme"}} for line in lines]
    (tmp_path / "part.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in tenants))
    for name, text in EXTRA_FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for variable in KEYS:
        monkeypatch.setenv(variable, "set")
    return tmp_path


@pytest.mark.parametrize(("page", "code"), BLOCKS)
def test_the_block_is_right(page, code, folder):
    data = yaml.load(code, yaml.BaseLoader)
    if is_manifest(data):
        for block in read_blocks(page):
            if block.language == "python" and (name := name_file(block.code)):
                (folder / name).write_text(block.code, encoding="utf-8")
        check_manifest(complete(parse_yaml(code, page.name).data), folder / "agent.yaml")
    elif data == INCLUDED:
        pass
    elif "expected_block" in str(data):
        check_triples(data, code, folder / "triples.yaml")
    else:
        scripts, uses = list(find_all(data, ("run", "script"))), list(find_all(data, ("uses",)))
        assert scripts or uses, "neither a manifest, nor triples, nor a workflow"
        for script in scripts:
            check_script("\n".join(script) if isinstance(script, list) else script)
        check_own_action(data)


def is_manifest(data: Any) -> bool:
    return isinstance(data, dict) and bool(data.keys() & {"apiVersion", "spec", "api", "evaluation", *EVALUATION})


def complete(data: dict[str, Any]) -> dict[str, Any]:
    """A part of a manifest with what makes it whole."""
    if "apiVersion" in data:
        return data
    spec = data.get("spec") or (data if data.keys() & {"api", "evaluation"} else {"evaluation": data})
    api = {"chatEndpoint": {"response": {"answer": "$.a", "contexts": "$.c[*].text", "contextIds": "$.c[*].id"}}}
    regression = {"name": "regression", "path": "part.jsonl", "metrics": ["string_match"]}
    evaluation = {"datasets": [regression]} | spec.get("evaluation", {})
    named = {dataset["retriever"] for dataset in evaluation["datasets"] if "retriever" in dataset}
    if named and "retrievers" not in evaluation:
        evaluation["retrievers"] = {name: {"builtin": "bm25"} for name in named}
    head = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "part"}}
    return head | {"spec": {"api": api} | spec | {"evaluation": evaluation}}


def check_manifest(data: dict[str, Any], path: Path) -> None:
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    loaded = load_manifest(path)
    if loaded.manifest.spec.evaluation.datasets:
        warnings, *_ = validate_manifest(loaded, RunOptions())
        assert [warning for warning in warnings if not warning.field.endswith("ciGate.baseline")] == []
    else:
        check_retrievers(draft := start_draft(loaded, RunOptions()))
        assert draft.problems == [], "a manifest for the service, which has the datasets"


def check_triples(data: Any, code: str, path: Path) -> None:
    if isinstance(data, dict):
        GoldTriple.model_validate(yaml.safe_load(code))
        return
    path.write_text(code, encoding="utf-8")
    loaded = load_dataset(Source(path, path.name))
    assert (loaded.problems, loaded.warnings) == ((), ())
    assert len(loaded.samples) == len(data)


def find_all(data: Any, keys: tuple[str, ...]) -> Iterator[Any]:
    """The values under these keys, wherever they are."""
    if isinstance(data, dict):
        yield from (value for key, value in data.items() if key in keys)
    for inner in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from find_all(inner, keys)


def check_script(script: str) -> None:
    """A script of a workflow: bash can read it, and evalspec has the commands and options in it."""
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    for requirement in re.findall(r"pip install \"(.*?)\"", script):
        check_requirement(requirement)
    check_commands(script)


def check_own_action(data: Any) -> None:
    """A step that uses this repository's action has only inputs of it, and later steps read only outputs of it."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    for steps in find_all(data, ("steps",)):
        for step in steps:
            if "/evalspec@" in step.get("uses", ""):
                assert step.get("with", {}).keys() <= action["inputs"].keys()
                read = re.findall(rf"steps\.{step.get('id', 'none')}\.outputs\.([\w-]+)", str(data))
                assert set(read) <= action["outputs"].keys()
