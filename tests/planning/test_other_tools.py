"""What people bring from other tools, as the pages of these tools show it."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.model.conventions import FlatIds
from evalspec.runs.planning.datasets import make_source

LINES = (
    {"input": "What is RAG?", "expected": "Retrieval", "context": ["RAG combines"], "tags": ["basics"]},
    {"input": "How?", "expected": "By distance", "context": ["Vectors"], "reference_contexts": ["Embeddings"]},
)
BLOCK = """spec:
  evaluation:
    framework: ragas
    datasets:
      - name: rag-quality
        path: $file:rag.jsonl
        metrics: [{metrics}]
    thresholds: {{{limits}}}
    ciGate: true
"""


@pytest.fixture
def block(project):
    def write(metrics, limits):
        (project.folder / "rag.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
        (project.folder / "block.yaml").write_text(BLOCK.format(metrics=metrics, limits=limits))
        return project

    return write


def test_a_block_without_its_manifest_is_evaluated(block, agent):
    agent.reply = lambda body: {"response": "Retrieval by distance" if "RAG" in body["message"] else "By distance"}
    project = block("string_match", "string_match: 0.4")
    done = project("evaluate", "block.yaml", "--url", agent.url)
    assert (done.code, done.out.startswith("PASS  block")) == (0, True), done.err
    missing = project("evaluate", "block.yaml")
    assert missing.code == 2
    said = "block.yaml:1: spec.api: the agent has no URL. set spec.api.url, pass --url or export EVALSPEC_URL"
    assert missing.err.splitlines() == [f"evalspec: {said}"]


def test_lines_that_lack_what_a_metric_needs_are_told_what_that_is(block):
    done = block("faithfulness, context_recall", "faithfulness: 0.8")(
        "validate", "block.yaml", "--url", "http://x.test"
    )
    assert done.code == 2
    said = (
        "rag.jsonl:1: reference_contexts: missing or empty, needed by context_recall; context_recall needs context and"
    )
    assert f"{said} reference_contexts. add it" in done.out + done.err


def test_a_flat_list_of_ground_truth_means_what_its_system_documents(project, agent):
    rows = {"qid": ["q"], "query": ["Who?"], "retrieval_gt": [["a", "b"]], "generation_gt": [["x"]]}
    pyarrow.parquet.write_table(pyarrow.table(rows), project.folder / "qa.parquet")
    project.api = {"url": agent.url, "chatEndpoint": {"response": {"answer": "$.response", "contextIds": "$.ids"}}}
    agent.reply = lambda body: {"response": "x", "ids": ["a", "z"]}
    config = {"name": "qa", "path": "qa.parquet", "format": "autorag", "metrics": ["Recall@10"]}
    for more, code, recall in (({}, 2, None), ({"compat": "autorag"}, 0, 0.5)):
        project.evaluation["datasets"] = [config | more]
        done = project.evaluate("--json")
        assert done.code == code, done.err
        if recall is not None:
            assert done.document["datasets"][0]["metrics"]["Recall@10"]["value"] == recall
    chosen = DatasetConfig.model_validate(config | {"compat": "autorag", "retrievalGt1d": "or"})
    assert make_source(chosen, project.folder / "qa.parquet", None).retrieval_gt_1d is FlatIds.ANY
