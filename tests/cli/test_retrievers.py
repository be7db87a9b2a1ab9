"""A retriever instead of the agent, from the command line: ingest, stages, precedence, comparison, faults."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evalspec.model.fingerprints import Cleanup
from evalspec.targets.retrievers.ingest_plan import IngestPlan, hold_scope
from servers.faulty_agent import status
from servers.faulty_retriever import FaultyRetriever, describe_retriever

SCOPE = "eval:faq:"
TEXTS = {
    "refund": "a refund takes five days",
    "trial": "the trial takes a month",
    "seats": "seats are added any time",
    "invoice": "an invoice arrives by mail",
    "export": "an export of all data as csv",
    "login": "a login needs a password",
}
QUERIES = {
    "how-long-refund": ("how long takes a refund", ["refund"]),
    "trial-time": ("how long is the trial", ["trial"]),
    "more-seats": ("can seats be added", ["seats"]),
    "my-data": ("get all data as csv", ["export"]),
}


def write_faq(folder: Path, scope: str = SCOPE, **queries: dict):
    """The dataset in Unrag's format; `queries` adds keys to one of them, with _ for -."""
    own = {name.replace("_", "-"): keys for name, keys in queries.items()}
    data = {
        "version": "1",
        "id": "faq",
        "defaults": {"scopePrefix": scope, "topK": 2},
        "documents": [{"sourceId": scope + name, "content": text} for name, text in TEXTS.items()],
        "queries": [
            {"id": name, "query": query, "relevant": {"sourceIds": [scope + one for one in relevant]}}
            | own.get(name, {})
            for name, (query, relevant) in QUERIES.items()
        ],
    }
    (folder / "faq.json").write_text(json.dumps(data))


def http_target(url: str, **changed):
    described = describe_retriever(**changed).model_dump(by_alias=True, exclude_none=True)
    return {"http": {"url": url, **described}}


@pytest.fixture
def service():
    with FaultyRetriever() as server:
        yield server


@pytest.fixture
def faq(project, service):
    """A dataset that is asked of the service; nothing of the agent is known."""
    write_faq(project.folder)
    project.evaluation = {
        "retrievers": {"mine": http_target(service.url), "bm25": {"builtin": "bm25"}},
        "datasets": [{"name": "faq", "path": "faq.json", "retriever": "mine", "metrics": ["Recall@2", "RR@2"]}],
    }
    return project


def configure(project, **keys):
    project.evaluation["datasets"][0] |= keys


def measured(outcome):
    """{metric: value} of the one dataset of a report."""
    (dataset,) = outcome.document["datasets"]
    return {metric: summary["value"] for metric, summary in dataset["metrics"].items()}


def stored(folder):
    (run,) = folder.glob(".evalspec/runs/*-*")
    return [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]


def replies(folder):
    return {record["id"]: record["reply"] for record in stored(folder) if record["kind"] == "reply"}


def test_documents_are_deleted_ingested_asked_and_stay(faq, service):
    service.documents = {f"{SCOPE}old": {"id": f"{SCOPE}old", "text": "refund refund"}, "other": {"id": "other"}}
    outcome = faq.evaluate("--json")
    assert outcome.code == 0, outcome.err
    assert measured(outcome) == {"Recall@2": 1.0, "RR@2": 1.0}
    assert set(service.documents) == {"other", *(SCOPE + name for name in TEXTS)}
    assert [len(service.bodies(kind)) for kind in ("delete", "ingest", "search")] == [1, 1, 4]
    (dataset,) = outcome.document["datasets"]
    assert dataset["answered"] == 4


@pytest.mark.parametrize(
    ("cleanup", "mode", "left"),
    [("none", "ok", 6), ("on-success", "ok", 0), ("always", "ok", 0), ("on-success", "html", 6), ("always", "html", 0)],
)
def test_cleanup_is_done_as_told(faq, service, cleanup, mode, left):
    service.script = ["ok", "ok", *[mode] * 4]
    assert faq.evaluate("--cleanup", cleanup, "--json").code == (0 if mode == "ok" else 3)
    assert len(service.documents) == left


def test_no_ingest_asks_what_is_there(faq, service):
    service.documents = {f"{SCOPE}refund": {"id": f"{SCOPE}refund", "text": "a refund"}}
    outcome = faq.evaluate("--no-ingest", "--json", "--cleanup", "always")
    assert measured(outcome)["Recall@2"] == 0.25
    assert not service.bodies("delete") and not service.bodies("ingest")


def test_a_service_that_cannot_ingest_is_compared_with_a_baseline_in_memory(faq, service):
    service.documents = {f"{SCOPE}refund": {"id": f"{SCOPE}refund", "text": "a refund"}}
    faq.evaluation["retrievers"]["mine"] = http_target(service.url, ingest=None, delete=None)
    refused = faq.evaluate("--retriever", "all")
    assert refused.code == 2 and "does not support ingest or delete" in refused.err and "--no-ingest" in refused.err
    outcome = faq.evaluate("--retriever", "all", "--no-ingest", "--best-by", "Recall@2", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.document["best"][0]["retriever"] == "bm25"


def test_as_many_are_ranked_as_the_metrics_look_at(faq):
    configure(faq, k=[1, 5], metrics=["Recall", "RR"])
    shown = faq.evaluate("--dry-run")
    assert "topK 5 (metrics)" in shown.out and "warning" not in shown.err
    shown = faq.evaluate("--dry-run", "--top-k", "3")
    assert "Recall@5 needs 5 ranks, but mine returns 3 documents (--top-k). raise topK" in shown.err


def test_a_query_takes_no_longer_than_it_is_given(faq, service):
    service.delay = 0.5
    outcome = faq.evaluate("--no-ingest", "--timeout", "0.05", "--json", "--sample-size", "1")
    assert outcome.code == 3
    (sample,) = outcome.document["datasets"][0]["samples"]
    assert "no ranking within 0.05 s" in sample["error"]


def test_documents_beside_a_dataset_that_has_no_place_for_them(project):
    lines = [{"id": name, "title": name, "text": text} for name, text in TEXTS.items()]
    (project.folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = [{"id": name, "input": query, "relevant": relevant} for name, (query, relevant) in QUERIES.items()]
    project.dataset("qa", asked, retriever="bm25", corpus="corpus.jsonl", metrics=["Recall@2"])
    project.evaluation["retrievers"] = {"bm25": {"builtin": "bm25"}}
    outcome = project.evaluate("--json")
    assert outcome.code == 0, outcome.err
    assert measured(outcome) == {"Recall@2": 1.0}
    assert outcome.document["datasets"][0]["retriever"]["scopePrefix"] == "eval:qa:"
    project.evaluation["datasets"][0].pop("corpus")
    refused = project.evaluate()
    assert refused.code == 2 and "dataset 'qa' has no documents" in refused.err
    (project.folder / "corpus.jsonl").write_text('{"id": "elsewhere", "text": "x"}\n')
    project.evaluation["datasets"][0]["corpus"] = "corpus.jsonl"
    refused = project.evaluate()
    assert refused.code == 2 and "no judged document occurs in the corpus" in refused.err


def test_without_documents_everything_is_searched(project, service):
    service.documents = {name: {"id": name, "text": text} for name, text in TEXTS.items()}
    asked = [{"id": name, "input": query, "relevant": relevant} for name, (query, relevant) in QUERIES.items()]
    project.dataset("qa", asked, retriever="mine", metrics=["Recall@2"])
    project.evaluation["retrievers"] = {"mine": http_target(service.url)}
    assert measured(project.evaluate("--json")) == {"Recall@2": 1.0}
    assert {body["scopePrefix"] for body in service.bodies("search")} == {""}


def test_two_datasets_share_one_store_beside_the_manifest(faq, monkeypatch):
    pytest.importorskip("qdrant_client")
    faq.evaluation["retrievers"]["store"] = {"builtin": "qdrant", "path": "store"}
    configure(faq, retriever="store")
    faq.evaluation["datasets"].append(dict(faq.evaluation["datasets"][0]) | {"name": "again", "scopePrefix": "eval:b:"})
    path = faq.write()
    (faq.folder / "elsewhere").mkdir()
    monkeypatch.chdir(faq.folder / "elsewhere")
    outcome = faq("evaluate", str(path), "--json")
    assert outcome.code == 0, outcome.err
    assert [dataset["answered"] for dataset in outcome.document["datasets"]] == [4, 4]
    assert (faq.folder / "store").is_dir()
    write_faq(faq.folder, my_data={"scopePrefix": "eval:elsewhere"})
    refused = faq("evaluate", str(path))
    assert refused.code == 2
    assert "query 'my-data': scopePrefix 'eval:elsewhere' does not end in a delimiter" in refused.err


def test_a_limit_on_a_stage_for_all_holds_where_there_are_stages(faq, agent):
    faq.api = {"url": agent.url}
    faq.samples(2)
    faq.evaluation |= {"thresholds": {"retrieve.latency_p95": 60_000}, "ciGate": True}
    outcome = faq.evaluate("--json")
    assert outcome.code == 0, outcome.err
    limits = {dataset["name"]: dataset["thresholds"] for dataset in outcome.document["datasets"]}
    assert [limit["metric"] for limit in limits["faq"]] == ["retrieve.latency_p95"] and limits["qa"] == []


def test_both_stages_are_scored_by_one_rule(faq, service):
    """The service's rerank turns the candidates round; of six candidates two are kept."""
    configure(faq, mode="retrieve+rerank", thresholds={"gain.RR@2": {"min": -1, "stat": "min"}, "retrieved.RR@2": 1})
    faq.evaluation["ciGate"] = True
    outcome = faq.evaluate("--json")
    assert outcome.code == 0, outcome.err
    found = measured(outcome)
    assert (found["retrieved.RR@2"], found["RR@2"], found["gain.RR@2"]) == (1.0, 0.0, -1.0)
    assert [body["topK"] for body in service.bodies("search")][:1] == [6]
    one = replies(faq.folder)["more-seats"]
    assert one["candidateIds"][0] == f"{SCOPE}seats"
    assert len(one["retrievedContextIds"]) == len(one["candidateIds"]) == 2
    assert set(one["trace"]["timingsMs"]) == {"retrieve", "rerank"}
    (dataset,) = outcome.document["datasets"]
    assert [stage["stage"] for stage in dataset["stages"]] == ["retrieve", "rerank", "total"]
    low, high = dataset["metrics"]["gain.RR@2"]["interval"]
    assert low == -1 < high < 1


def test_a_limit_on_a_stage_breaks_the_gate(faq):
    configure(faq, mode="retrieve+rerank", thresholds={"gain.RR@2": 0})
    faq.evaluation["ciGate"] = True
    outcome = faq.evaluate()
    assert outcome.code == 1 and "gain.RR@2" in outcome.out


@pytest.mark.parametrize("source", [(), ("--responses", "run.trec")])
def test_documents_without_an_answer_are_not_an_empty_answer(faq, source):
    (faq.folder / "run.trec").write_text("".join(f"{name} Q0 {SCOPE}seats 1 0.9 mine\n" for name in QUERIES))
    configure(faq, retriever="bm25", topK=1, thresholds={"RR@1": {"min": 1, "stat": "min"}}, metrics=["RR@1"])
    faq.evaluation["ciGate"] = True
    write_faq(faq.folder, my_data={"query": "a password", "relevant": {"sourceIds": [f"{SCOPE}refund"]}})
    for done in (faq.evaluate(*source), faq("show", "my-data")):
        assert "question  a password" in done.out and "contexts" in done.out
        assert "got " not in done.out


def test_who_decides_is_said(faq):
    configure(faq, topK=3, mode="retrieve+rerank")
    shown = faq.evaluate("--dry-run").out
    assert "mode retrieve+rerank (dataset), topK 3 (dataset), scopePrefix eval:faq: (dataset file)" in shown
    assert "rerankTopK 9 (default)" in shown
    refused = faq.evaluate("--dry-run", "--scope-prefix", "eval:other:")
    assert refused.code == 2 and "that do not begin with the scope prefix 'eval:other:'" in refused.err
    other = faq.evaluate("--dry-run", "--retriever", "bm25", "--mode", "retrieve", "--scope-prefix", "eval:other:")
    assert "mode retrieve (--mode)" in other.out and "scopePrefix eval:other: (--scope-prefix)" in other.out
    shown = faq.evaluate("--dry-run", "--top-k", "4", "--rerank-top-k", "8").out
    assert "topK 4 (--top-k)" in shown and "rerankTopK 8 (--rerank-top-k)" in shown
    faq.evaluation["retrievers"]["mine"]["topK"] = 1
    assert "topK 1 (retriever)" in faq.evaluate("--dry-run").out
    assert "topK 4 (--top-k)" in faq.evaluate("--dry-run", "--top-k", "4").out


def test_a_limit_of_the_manifest_wins_over_the_files_own(faq):
    data = json.loads((faq.folder / "faq.json").read_text())
    data["defaults"]["thresholds"] = {"min": {"recallAtK": 0.9, "mrrAtK": 0.8}}
    (faq.folder / "faq.json").write_text(json.dumps(data))
    faq.evaluation["thresholds"] = {"Recall@2": 0.5}
    (dataset,) = faq.evaluate("--json").document["datasets"]
    assert {limit["metric"]: limit["min"] for limit in dataset["thresholds"]} == {"Recall@2": 0.5, "RR@2": 0.8}


def test_a_query_has_the_last_word(faq, service):
    write_faq(faq.folder, more_seats={"topK": 1}, my_data={"rerankTopK": 4, "scopePrefix": "eval:elsewhere:"})
    configure(faq, mode="retrieve+rerank")
    outcome = faq.evaluate("--top-k", "3", "--depth", "0", "--json")
    assert outcome.code == 0, outcome.err
    asked = {body["query"]: (body["topK"], body["scopePrefix"]) for body in service.bodies("search")}
    assert asked["can seats be added"] == (3, SCOPE)
    assert asked["get all data as csv"] == (4, "eval:elsewhere:")
    assert asked["how long is the trial"] == (9, SCOPE)


@pytest.mark.parametrize(
    "command", [["evaluate", "--dry-run"], ["plan"], ["validate"], ["evaluate", "--dry-run", "--json"]]
)
def test_what_calls_nothing_imports_nothing(project, command):
    """No agent, scorer, retriever or loader: each module of the project would write a file."""
    code = "open('imported', 'a').close()\ndef ask(q): pass\nclass R:\n    def search(self, q): pass\n"
    for name in ("of_agent", "of_scorer", "of_retriever", "of_loader"):
        (project.folder / f"{name}.py").write_text(code)
    project.api = {"python": "of_agent:ask"}
    project.evaluation["retrievers"] = {"mine": {"python": "of_retriever:R"}}
    project.samples(1, metrics=("string_match", {"name": "m", "scorer": "of_scorer:ask"}))
    (project.folder / "corpus.jsonl").write_text('{"id": "d1", "text": "a"}\n')
    found = {"corpus": "corpus.jsonl", "retriever": "mine", "loader": "of_loader:ask", "metrics": ["Recall@1"]}
    project.dataset("found", [{"id": "f1", "relevant": ["d1"]}], **found)
    project.write()
    outcome = project(command[0], "agent.yaml", *command[1:])
    assert outcome.code == 0, outcome.err
    assert not (project.folder / "imported").exists()
    if command == ["evaluate", "--dry-run"]:
        assert "1. send 1 sample to of_agent:ask" in outcome.out and "2. ingest 1 document" in outcome.out
        assert "of_retriever:R is not imported, so its methods are not checked" in outcome.err


def test_a_dry_run_calls_nothing(faq, service):
    outcome = faq.evaluate("--dry-run")
    assert outcome.code == 0
    steps = [f"delete everything below '{SCOPE}' in mine ({service.url})", "ingest 6 documents", "send 4 queries"]
    assert all(step in outcome.out for step in steps)
    assert service.requests == [] and not (faq.folder / ".evalspec").exists()
    assert faq.evaluate("--dry-run", "--json").document["plan"] == [outcome.out.rstrip("\n")]


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        ("docs:", "does not begin with eval:"),
        ("eval:", "covers every evaluation"),
        ("eval:faq", "does not end in : or /"),
        ("eval:f%:", "may treat as a pattern"),
    ],
)
def test_a_dangerous_prefix_is_refused_before_anything_is_deleted(faq, service, prefix, said):
    write_faq(faq.folder, scope=prefix)
    outcome = faq.evaluate()
    assert outcome.code == 2 and said in outcome.err
    assert service.requests == []


def test_another_prefix_takes_a_real_confirmation(faq, service):
    write_faq(faq.folder, scope="docs:")
    outcome = faq.evaluate("--allow-custom-prefix")
    assert outcome.code == 2 and "cannot be confirmed without a terminal" in outcome.err and not service.requests
    assert faq.evaluate("--allow-custom-prefix", "--yes").code == 0


@pytest.mark.parametrize(("typed", "code"), [("docs:", 0), ("yes", 2)])
def test_a_person_types_the_prefix(faq, service, typed, code):
    write_faq(faq.folder, scope="docs:")
    faq.write()
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "evalspec", "evaluate", "--allow-custom-prefix", "--json"]
    child = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=faq.folder)
    os.write(ours, f"{typed}\n".encode())
    _, err = child.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert child.returncode == code, err
    assert b"type the prefix to continue" in err
    assert bool(service.requests) == (code == 0)


def test_everything_is_validated_before_anything_is_deleted(faq, service):
    data = json.loads((faq.folder / "faq.json").read_text())
    data["documents"][5] = {"sourceId": f"{SCOPE}login", "loaderRef": "file:missing.txt"}
    data["documents"][4] = {"sourceId": f"{SCOPE}export", "loaderRef": "notion:1"}
    (faq.folder / "faq.json").write_text(json.dumps(data))
    outcome = faq.evaluate()
    assert outcome.code == 2 and service.requests == []
    assert "only a loader can read the loaderRef of 1 documents: eval:faq:export" in outcome.err
    (faq.folder / "missing.txt").write_text("a login needs a password")
    (faq.folder / "loading.py").write_text("async def load(ref):\n    return 'all data as csv, says ' + ref\n")
    configure(faq, loader="loading:load")
    assert faq.evaluate("--json").code == 0
    assert service.documents[f"{SCOPE}export"]["text"] == "all data as csv, says notion:1"
    assert service.documents[f"{SCOPE}login"]["text"] == "a login needs a password"


@pytest.mark.parametrize(
    ("mode", "note"),
    [
        ("duplicates", "4 hits with a duplicate id, in 4 queries"),
        ("short", "4 queries returned fewer distinct documents than the 2 requested"),
        ("unknown_ids", "4 hits of documents that are not in the dataset, in 4 queries"),
        ("unordered", "hits with a higher score than the hit before, in 4 queries"),
        ("no_hits", "4 queries returned fewer distinct documents than the 2 requested"),
    ],
)
def test_what_is_odd_is_counted_and_told(faq, service, mode, note):
    service.mode = mode
    outcome = faq.evaluate("--json", "--depth", "0")
    assert outcome.code == 0, outcome.err
    assert any(note in line for line in outcome.document["notes"])
    again = faq("report", "--json")
    assert [line for line in again.document["notes"] if note in line]


@pytest.mark.parametrize(
    ("mode", "said"), [("string_scores", "score"), ("uneven", "ids"), ("html", "JSON"), ("empty", "empty")]
)
def test_an_answer_that_cannot_be_read_is_a_failed_sample_that_says_why(faq, service, mode, said):
    service.script = ["ok", "ok", *[mode] * 4]
    outcome = faq.evaluate("--json")
    assert outcome.code == 3
    (dataset,) = outcome.document["datasets"]
    assert [sample["status"] for sample in dataset["samples"]] == ["failed"] * 4
    assert all(said in sample["error"] and "search: " in sample["error"] for sample in dataset["samples"])


def test_the_third_delete_fails(faq, service):
    service.failing_delete = 3
    assert faq.evaluate("--json", "--cleanup", "on-success").code == 0
    outcome = faq.evaluate("--json", "--cleanup", "on-success")
    assert outcome.code == 3 and f"'{SCOPE}' of mine was not deleted" in outcome.err
    assert "Nothing was ingested or queried" in outcome.err and "index is locked" in outcome.err
    assert faq.evaluate("--json", "--cleanup", "on-success").code == 0
    service.failing_delete = 7
    outcome = faq.evaluate("--cleanup", "always")
    assert outcome.code == 0, outcome.err
    assert f"Documents are left below '{SCOPE}'; the next run deletes them" in outcome.out


@pytest.mark.parametrize(("cleanup", "left"), [("on-success", 6), ("always", 0)])
def test_ctrl_c_cleans_up_as_told(faq, service, cleanup, left):
    service.script = ["ok", "ok", *["hang"] * 4]
    faq.write()
    command = [sys.executable, "-m", "evalspec", "evaluate", "--cleanup", cleanup]
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=faq.folder, text=True) as child:
        while len(service.bodies("search")) < 4:
            assert child.poll() is None
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert len(service.documents) == left
    assert ("stay below" if left else "was deleted") in err and "--resume" in err


def test_a_run_that_is_killed_while_ingesting_is_gone_on_with(faq, service):
    calls = {"ingest": {"path": "/d", "request": {"documents": "{{documents}}"}, "maxRetries": 0, "batchSize": 2}}
    faq.evaluation["retrievers"]["mine"] = http_target(service.url, **calls)
    service.script = ["ok", "ok", "hang"]
    faq.write()
    with subprocess.Popen([sys.executable, "-m", "evalspec", "evaluate"], cwd=faq.folder) as child:
        while len(service.bodies("ingest")) < 2:
            assert child.poll() is None
            time.sleep(0.01)
        child.kill()
    outcome = faq("evaluate", "agent.yaml", "--resume", "--json")
    assert outcome.code == 0, outcome.err
    assert len(service.bodies("delete")) == 2 and len(service.documents) == 6
    assert measured(outcome)["Recall@2"] == 1.0


@pytest.mark.parametrize(("cleanup", "left"), [("none", 2), ("always", 0)])
def test_an_ingest_that_dies_half_way(faq, service, cleanup, left):
    calls = {"ingest": {"path": "/d", "request": {"documents": "{{documents}}"}, "maxRetries": 0, "batchSize": 2}}
    faq.evaluation["retrievers"]["mine"] = http_target(service.url, **calls)
    service.script = ["ok", "ok", status(500)]
    outcome = faq.evaluate("--cleanup", cleanup)
    assert outcome.code == 3
    assert "ingest into mine stopped after 2 of 6 documents" in outcome.err and "No query was sent" in outcome.err
    assert ("stay below" if left else "was deleted") in outcome.err
    assert "to resume: evalspec evaluate agent.yaml --resume" in outcome.err
    assert len(service.documents) == left
    assert faq.evaluate("--resume").code == 0
    assert len(service.documents) == (6 if left else 0)


@pytest.mark.parametrize(
    ("held", "code"), [(SCOPE, 3), ("eval:faq:part:", 3), ("eval:", 3), ("eval:fa:", 0), ("eval:faq-2:", 0)]
)
def test_two_runs_on_one_prefix(faq, service, held, code):
    """Or on one within the other."""
    plan = IngestPlan("mine", service.url, held, (), 1, 0, Cleanup.NONE)
    with hold_scope(plan, faq.folder / ".evalspec" / "locks"):
        outcome = faq.evaluate()
    assert outcome.code == code, outcome.err
    assert (f"another run is using '{held}' of mine" in outcome.err) == bool(code)
    assert bool(service.requests) == (code == 0)
    assert faq.evaluate().code == 0, "a lock that is free again is in nobody's way"


def test_a_resume_ingests_again_and_asks_what_is_left(faq, service):
    service.script = ["ok", "ok", "ok", *[status(503)] * 40]
    faq.evaluate("-j", "1", "--cleanup", "always")
    service.script = []
    before = len(service.bodies("search"))
    outcome = faq("evaluate", "agent.yaml", "--resume", "--retry-errors", "--json")
    assert outcome.code == 0, outcome.err
    assert measured(outcome)["Recall@2"] == 1.0
    assert len(service.bodies("search")) - before == 3
    assert service.documents == {}, "the run was begun with --cleanup always"


def test_a_run_whose_retriever_changed_is_not_resumed(faq):
    faq.evaluate()
    configure(faq, topK=1)
    outcome = faq.evaluate("--resume")
    assert outcome.code == 2 and "retriever: the retriever of dataset faq or its settings changed" in outcome.err


def test_several_attempts_and_no_texts(faq, service):
    outcome = faq.evaluate("--repeat", "2", "--no-content", "--json", "--depth", "0")
    assert outcome.code == 0, outcome.err
    (dataset,) = outcome.document["datasets"]
    assert [stage["count"] for stage in dataset["stages"]] == [8, 8] and dataset["diagnosis"] is None
    assert len(service.bodies("search")) == 8
    assert all("retrievedContextIds" not in record for record in replies(faq.folder).values())


def test_replies_are_scored_again_without_asking(faq, service):
    faq.evaluate()
    asked = len(service.requests)
    configure(faq, metrics=["nDCG@2"])
    faq.write()
    outcome = faq("rescore", "latest", "agent.yaml", "--json")
    assert outcome.code == 0, outcome.err
    assert measured(outcome) == {"nDCG@2": 1.0}
    assert len(service.requests) == asked
    faq.evaluate("--retriever", "bm25", "--top-k", "3", "--json")
    (dataset,) = faq("rescore", "latest", "agent.yaml", "--json").document["datasets"]
    assert (dataset["retriever"]["name"], dataset["retriever"]["topK"]) == ("bm25", 3)


def test_what_is_missing_is_found_further_down(faq, service):
    """Words of other documents in the question push the right one out."""
    write_faq(faq.folder, trial_time={"query": "an invoice of all data added by mail needs a month"})
    outcome = faq.evaluate("--json")
    (dataset,) = outcome.document["datasets"]
    (query,) = dataset["diagnosis"]["queries"]
    assert query["query"] == "trial-time"
    (missing,) = query["missing"]
    assert missing["document"] == f"{SCOPE}trial" and missing["rank"] > 2
    assert {one["document"] for one in query["pushedOutBy"]} >= {f"{SCOPE}invoice", f"{SCOPE}export"}
    searches = [body["topK"] for body in service.bodies("search")]
    assert sorted(searches) == [2, 2, 2, 2, 100], "only the query that misses something is searched deeper"
    assert "pushed out by" in faq("report").out
    assert all(body["topK"] == 2 for body in service.bodies("search")[5:])


def test_the_deep_search_is_left_out(faq, service):
    write_faq(faq.folder, trial_time={"query": "an invoice of all data added by mail needs a month"})
    faq.evaluate("--depth", "0")
    assert {body["topK"] for body in service.bodies("search")} == {2}


def test_retrievers_are_compared_in_one_command(faq):
    faq.evaluation["retrievers"] |= {"dense": {"builtin": "dense"}, "hybrid": {"builtin": "hybrid", "rrfK": [10, 60]}}
    outcome = faq.evaluate("--retriever", "all", "--best-by", "mrr@2", "--json", "-o", "compared.md")
    assert outcome.code == 0, outcome.err
    document = outcome.document
    assert document["baseline"]["name"] == "mine"
    names = ["bm25", "dense", "hybrid[rrfK=10]", "hybrid[rrfK=60]"]
    assert [one["name"] for one in document["candidates"]] == names
    assert [run["name"] for run in document["runs"]] == ["mine", *names]
    (best,) = document["best"]
    assert best["metric"] == "RR@2" and best["value"] == 1.0 and best["p95Ms"] > 0
    assert document["candidates"][0]["datasets"][0]["metrics"]["RR@2"]["pValue"] is not None
    assert "hybrid[rrfK=60]" in (faq.folder / "compared.md").read_text()
    assert len(list((faq.folder / ".evalspec" / "runs").glob("*-*"))) == 5
    listed = faq("runs", "list").out
    assert "faq: 4 samples with retriever mine" in listed and "faq: 4 samples with retriever hybrid[rrfK=60]" in listed


def test_the_step_summary_has_the_comparison(faq, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(faq.folder / "summary.md"))
    assert faq.evaluate("--retriever", "all", "--best-by", "RR@2").code == 0
    summary = (faq.folder / "summary.md").read_text()
    for said in ("RR@2", "baseline: `mine`", "candidate: `bm25`", "best by RR@2: "):  # the faster of two
        assert said in summary


def test_the_best_retriever_comes_before_the_details(faq):
    lines = faq.evaluate("--retriever", "all", "--best-by", "RR@2").out.splitlines()
    assert lines[1].startswith("  faq: best by RR@2: ")
    best = lines[1].split()[4]
    start = lines.index("Retrievers on faq")
    details = next(place for place, line in enumerate(lines) if line.split()[:2] == ["metric", "baseline"])
    assert start < details
    assert lines[start + 1].split()[:2] == ["retriever", "RR@2"]
    assert lines[start + 2].startswith(f"  {best} (best)")


FLAKY = """
class Search:
    def ingest(self, documents, scope_prefix): pass
    def delete(self, scope_prefix): pass
    def search(self, request):
        if "refund" not in request.query: raise RuntimeError("no answer")
        return ["refund", "trial"]
"""


def test_a_retriever_that_is_not_measured_completely_is_never_the_best(faq):
    (faq.folder / "flaky.py").write_text(FLAKY)
    faq.evaluation["retrievers"]["flaky"] = {"python": "flaky:Search"}
    faq.evaluation |= {"thresholds": {"Recall@2": 0.1}, "ciGate": True}
    both = ("--retriever", "flaky", "--retriever", "bm25", "--best-by", "RR@2")
    outcome = faq.evaluate(*both, "--json")
    (best,) = outcome.document["best"]
    assert (best["retriever"], best["scored"], best["expected"]) == ("bm25", 4, 4)
    assert best["incomplete"] == [{"retriever": "flaky", "scored": 1, "expected": 4}]
    shown = faq.evaluate(*both)
    said = " ".join(shown.out.split())
    assert shown.code == 0 and ", not distinguishable from flaky; not measured completely: flaky 1/4 scored" in said
    assert best["notDistinguishableFrom"] == ["flaky"]
    start = shown.out.index("Retrievers on faq")
    assert [line.split()[0] for line in shown.out[start:].splitlines()[2:4]] == ["bm25", "flaky"]
    assert " 1/4 " in shown.out[start:]
    alone = faq.evaluate("--retriever", "flaky", "--retriever", "flaky2", "--best-by", "RR@2")
    assert alone.code == 2
    faq.evaluation["retrievers"]["flaky2"] = {"python": "flaky:Search"}
    alone = faq.evaluate("--retriever", "flaky", "--retriever", "flaky2", "--best-by", "RR@2")
    assert alone.code == 3 and "no retriever has RR@2; not measured completely" in alone.out


def test_the_headline_of_several_retrievers_is_their_verdict(faq):
    faq.evaluation |= {"thresholds": {"Recall@2": 1.0}, "ciGate": True}
    faq.evaluation["retrievers"]["blind"] = {"builtin": "bm25", "topK": 1}
    write_faq(
        faq.folder, more_seats={"query": "seats refund", "relevant": {"sourceIds": [f"{SCOPE}seats", f"{SCOPE}refund"]}}
    )
    both = ("--retriever", "bm25", "--retriever", "blind")
    assert faq.evaluate(*both).out.startswith("FAIL")
    quiet = faq.evaluate(*both, "-q", "--best-by", "Recall@2")
    assert quiet.out.startswith("PASS") and len(quiet.out.splitlines()) == 1 and "Recall@2: bm25" in quiet.out
    part = faq.evaluate(*both, "--json", "--sample-size", "1")
    assert [part.document["partial"], *(run["partial"] for run in part.document["runs"])] == [True] * 3
    assert part.err.count(" (PARTIAL), run 2") == 2
    assert faq.evaluate(*both, "--sample-size", "1").out.splitlines()[0].split("  ")[1] == "PARTIAL"
    faq.evaluation["datasets"].append(
        {**faq.evaluation["datasets"][0], "name": "easy", "thresholds": {"Recall@2": 0.1}}
    )
    faq.evaluation["datasets"][0]["name"] = "hard"
    shown = faq.evaluate("--retriever", "blind", "--retriever", "bm25").out
    rows = [line for line in shown.splitlines() if line.startswith("  blind ")]
    assert "FAIL" in rows[0] and "PASS" in rows[1], shown


def test_names_in_the_step_summary_are_escaped(faq, monkeypatch):
    configure(faq, name="x\n\n# PASS\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(faq.folder / "summary.md"))
    faq.evaluate("--retriever", "all", "--best-by", "RR@2")
    assert "\n# PASS" not in (faq.folder / "summary.md").read_text()


def test_a_grid_over_top_k_measures_the_same_cut_offs(faq):
    faq.evaluation["retrievers"]["bm25"]["topK"] = [1, 2]
    outcome = faq.evaluate("--retriever", "bm25", "--json")
    assert outcome.code == 0, outcome.err
    (candidate,) = outcome.document["candidates"]
    assert candidate["name"] == "bm25[topK=2]"
    assert set(candidate["datasets"][0]["metrics"]) >= {"Recall@2", "RR@2"}
    refused = faq.validate("--json")
    assert refused.code == 0
    configure(faq, retriever="bm25")
    refused = faq.validate()
    assert refused.code == 2 and "'bm25' is a grid of 2 variants" in refused.out


def test_none_within_the_latency_limit_is_a_failure(faq, service):
    arguments = ("--retriever", "mine", "--retriever", "bm25", "--best-by", "Recall@2")
    outcome = faq.evaluate(*arguments, "--max-latency", "0.000001")
    assert outcome.code == 1 and "no retriever has Recall@2 within 1e-06 ms (p95)" in outcome.out
    service.delay = 6
    outcome = faq.evaluate(*arguments, "--max-latency", "5999", "--json", "--no-ingest")
    assert outcome.code == 0
    assert outcome.document["best"][0]["retriever"] == "bm25"


def test_the_exit_code_is_the_gate_of_the_best(faq):
    faq.evaluation |= {"thresholds": {"Recall@2": 1.0}, "ciGate": True}
    faq.evaluation["retrievers"]["blind"] = {"builtin": "bm25", "topK": 1}
    write_faq(
        faq.folder, more_seats={"query": "seats refund", "relevant": {"sourceIds": [f"{SCOPE}seats", f"{SCOPE}refund"]}}
    )
    both = ("--retriever", "bm25", "--retriever", "blind")
    assert faq.evaluate(*both).code == 1
    outcome = faq.evaluate(*both, "--best-by", "Recall@2")
    assert outcome.code == 0, outcome.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--retriever", "bm52"], "no retriever is named 'bm52'"),
        (["--best-by", "RR@2"], "repeat --retriever"),
        (["--retriever", "all", "--max-latency", "5"], "add --best-by METRIC"),
        (["--retriever", "all", "--best-by", "nDCG@7"], "no dataset computes 'nDCG@7'"),
        (["--retriever", "all", "-o", "x.xml"], "has no suffix of a comparison format"),
        (["--retriever", "bm25", "--mode", "retrieve+rerank"], "the retriever 'bm25' cannot rerank"),
    ],
)
def test_a_wrong_choice_is_told_before_anything_is_asked(faq, service, arguments, said):
    outcome = faq.evaluate(*arguments)
    assert outcome.code == 2 and said in outcome.err
    assert service.requests == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"retriever": "mien"}, "no retriever is named 'mien'"),
        (
            {"metrics": ["string_match", "RR@2"]},
            "string_match scores an answer, but the retriever 'mine' returns only documents",
        ),
        ({"thresholds": {"gain.RR@2": 0}}, "does not compute gain.RR@2. set mode: retrieve+rerank"),
        ({"metrics": ["gain.RR@2"]}, "use a retriever that reranks, and mode: retrieve+rerank"),
        (
            {"filters": {"lang": "en"}},
            "the retriever 'mine' does not support filters. add {{filters}} to its search request",
        ),
        (
            {"filters": {"lang": "en"}, "retriever": "bm25"},
            "the retriever 'bm25' does not support filters. remove them",
        ),
        ({"retriever": None, "topK": 3}, "topK applies only to datasets with a retriever"),
        ({"loader": "no colon"}, "'no colon' is not an object in a module. write module:name"),
    ],
)
def test_a_wrong_dataset_is_told_at_its_line(faq, change, said):
    configure(faq, **change)
    faq.api = {"url": "http://127.0.0.1:9"}
    for key in [key for key, value in change.items() if value is None]:
        del faq.evaluation["datasets"][0][key]
    outcome = faq.validate()
    assert outcome.code == 2 and said in outcome.out
    assert "agent.yaml:" in outcome.out


def test_an_unknown_key_of_a_retriever_is_told_with_the_nearest(faq):
    faq.evaluation["retrievers"]["bm25"]["methd"] = "atire"
    faq.evaluation["retrievers"]["mine"]["http"]["search"]["reqest"] = {}
    outcome = faq.validate()
    assert outcome.code == 2
    assert "spec.evaluation.retrievers.bm25.methd: unknown key 'methd'. did you mean 'method'" in outcome.out
    assert "spec.evaluation.retrievers.mine.http.search.reqest" in outcome.out and "'request'" in outcome.out


def test_a_retriever_of_ones_own(faq):
    (faq.folder / "mine.py").write_text(
        "class Own:\n"
        "    def __init__(self): self.texts = {}\n"
        "    def ingest(self, documents, scope_prefix):\n"
        "        self.texts.update({d.id: d.text for d in documents})\n"
        "    def delete(self, scope_prefix): self.texts.clear()\n"
        "    async def search(self, request):\n"
        "        words = set(request.query.split())\n"
        "        best = sorted(self.texts, key=lambda i: -len(words & set(self.texts[i].split())))\n"
        "        return [{'id': f'{i}#{part}', 'document_id': i} for i in best for part in (1, 2)][:request.top_k]\n"
        "    def rerank(self, query, hits, top_k): return [hit.id for hit in hits[:top_k]]\n"
    )
    faq.evaluation["retrievers"]["own"] = {"python": "mine:Own"}
    outcome = faq.evaluate("--retriever", "own", "--mode", "retrieve+rerank", "--json")
    assert outcome.code == 0, outcome.err
    found = measured(outcome)
    assert found["Recall@2"] == found["retrieved.Recall@2"] == 1.0 and found["gain.Recall@2"] == 0.0
    gain = outcome.document["datasets"][0]["metrics"]["gain.Recall@2"]
    low, high = gain["interval"]
    assert low == pytest.approx(-high, abs=0.05) and high > 0.1, "a few zeros do not exclude a gain"
    assert any("took more than one search" in note for note in outcome.document["notes"])
    faq.evaluation["retrievers"]["own"] = {"python": "mine:Missing"}
    assert "mine.py does not define 'Missing'" in faq.validate().out


def test_secrets_of_a_retriever_are_kept_to_it(faq, service, monkeypatch):
    monkeypatch.setenv("EVALSPEC_TEST_KEY", "hush-hush-42")
    faq.evaluation["retrievers"]["mine"]["http"]["headers"] = {
        "Authorization": "Bearer ${env:EVALSPEC_TEST_KEY}",
        "X-Literal": "literal-header-43",
    }
    outcome = faq.evaluate("--json", "-o", "x.html", "-o", "x.md")
    assert outcome.code == 0, outcome.err
    assert service.requests[0].headers["authorization"] == "Bearer hush-hush-42"
    written = [path for path in faq.folder.rglob("*") if path.is_file()]
    assert len(written) > 6
    assert not [path for path in written if b"hush-hush-42" in path.read_bytes()]
    kept = [path for path in written if b"literal-header-43" in path.read_bytes()]
    assert [path.name for path in kept] == ["agent.yaml"]
    monkeypatch.delenv("EVALSPEC_TEST_KEY")
    checked = faq.validate()
    assert checked.code == 0 and "spec.evaluation.retrievers.mine.http.headers.Authorization" in checked.err
    outcome = faq.evaluate()
    assert outcome.code == 2 and "spec.evaluation.retrievers.mine.http.headers.Authorization" in outcome.err


def test_the_agent_and_a_retriever_in_one_run(faq, agent, service):
    faq.api = {"url": agent.url}
    faq.samples(3)
    outcome = faq.evaluate("--json")
    assert outcome.code == 0, outcome.err
    assert {dataset["name"]: dataset["answered"] for dataset in outcome.document["datasets"]} == {"faq": 4, "qa": 3}
    assert len(agent.requests) == 3
    outcome = faq.evaluate("--retriever", "bm25", "--json")
    assert [dataset["name"] for dataset in outcome.document["datasets"]] == ["faq"]


def test_a_retriever_that_is_gone(faq, service):
    faq.evaluation["retrievers"]["mine"]["http"]["url"] = "http://127.0.0.1:9"
    outcome = faq.evaluate("--no-ingest")
    assert outcome.code == 3 and "the retriever mine is down" in outcome.out


def test_an_url_that_is_none(faq):
    faq.evaluation["retrievers"]["mine"]["http"]["url"] = "localhost:4000"
    outcome = faq.evaluate()
    assert outcome.code == 2 and "retrievers.mine.http.url: 'localhost:4000' does not start with http://" in outcome.err
    del faq.evaluation["retrievers"]["mine"]["http"]["url"]
    assert "the agent has no URL" in faq.evaluate().err


def test_filters_go_with_every_search(faq, service):
    searched = {"query": "{{query}}", "topK": "{{topK}}", "scopePrefix": "{{scopePrefix}}", "where": "{{filters}}"}
    faq.evaluation["retrievers"]["mine"]["http"]["search"]["request"] = searched
    configure(faq, filters={"lang": "en", "year": {"$gte": 2020}})
    assert faq.evaluate("--json").code == 0
    assert [body["where"] for body in service.bodies("search")] == [{"lang": "en", "year": {"$gte": 2020}}] * 4


@pytest.mark.parametrize("preset", ["autorag", "mixpeek"])
def test_a_preset_is_all_that_a_known_wire_needs(faq, agent, preset):
    """The replies are of the wires' documented shape."""
    found = [f"{SCOPE}{relevant[0]}" for _, relevant in QUERIES.values()]
    agent.reply = {
        "autorag": {"passages": [{"doc_id": name, "score": 0.5, "content": "x"} for name in found]},
        "mixpeek": {"documents": [{"document_id": name, "score": 0.5} for name in found]},
    }[preset]
    search = {"preset": preset} | ({"path": "/v1/retrievers/ret_1/execute"} if preset == "mixpeek" else {})
    faq.evaluation["retrievers"]["known"] = {"http": {"url": agent.url, "search": search}}
    outcome = faq.evaluate("--retriever", "known", "--no-ingest", "--top-k", "4", "--json")
    assert outcome.code == 0, outcome.err
    assert measured(outcome)["Recall@2"] == 0.5
    paths = {"autorag": "/v1/retrieve", "mixpeek": "/v1/retrievers/ret_1/execute"}
    assert {request.path for request in agent.requests} == {paths[preset]}


def test_embeddings_that_no_retriever_wants_need_not_be_there(faq):
    embeddings = {"provider": "openai-compatible", "model": "m", "baseUrl": "$env:NO_SUCH_VARIABLE"}
    faq.evaluation |= {"embeddings": embeddings}
    assert faq.evaluate("--retriever", "bm25", "--json").code == 0
    faq.evaluation["retrievers"]["dense"] = {"builtin": "dense"}
    refused = faq.evaluate("--retriever", "dense")
    assert refused.code == 2 and "spec.evaluation.embeddings.baseUrl" in refused.err
