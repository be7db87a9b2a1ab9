"""Evaluations of retrievers: requests, results, failures, takeovers and comparisons, on both databases."""

import json
import os
import signal
from collections import Counter

import pytest
import yaml

from evalspec.service import evaluation_comparison_api
from evalspec.service.tokens import Scope, create_token
from servers.ranked_retriever import RankedRetriever, describe_index, write_retrievers
from servers.service import Server, processes_of, wait_for

ON_ONE_DATABASE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
"""For what happens in files and runs."""
DATASETS = "/v1/retrievers/evaluations/datasets"
COMPARE = "/v1/retrievers/evaluations/compare"
PICTURE = "https://shop.example/a.jpg?x=1"
NOWHERE = "http://127.0.0.1:9"


def queries(count, **more):
    return [
        {"query_id": f"q{n}", "query_input": {"query": f"question {n}", **more}, "relevant_documents": [f"d{n}"]}
        for n in range(count)
    ]


def post(client, asked, name="golden"):
    answer = client.post(DATASETS, json={"dataset_name": name, "queries": asked})
    assert answer.status_code in (200, 201), answer.text


def start(client, retriever, *, name="golden", version=None, **config):
    body = {"dataset_name": name, "dataset_version": version, "evaluation_config": config}
    return client.post(f"/v1/retrievers/{retriever}/evaluations", json=body)


def finish(client, started):
    assert started.status_code == 202, started.text
    place = started.headers["Location"]
    return wait_for(lambda: (one := client.get(place).json())["status"] not in ("pending", "running") and one)


def evaluate(client, retriever, **config):
    ended = finish(client, start(client, retriever, **config))
    assert ended["status"] == "completed", ended["error"]
    return ended


@pytest.fixture
def manifest(projects):
    """A manifest of retrievers that nobody has to answer for."""
    schema = {"properties": {"color": {"enum": ["red", "green"]}}}
    write_retrievers(
        projects["shop"],
        plain=describe_index("plain", NOWHERE),
        whole=describe_index("plain", NOWHERE, input="{{input}}") | {"inputSchema": schema},
        words={"builtin": "bm25"},
        grid={"builtin": "bm25", "k1": [1.0, 1.5]},
    )


def test_an_evaluation_waits_and_is_listed_and_cancelled(client, engine, manifest, projects):
    post(client, queries(3))
    ids = [start(client, "plain", k_values=[5, 1, 5], metrics=["map", "f1"]).json()["evaluation_id"] for _ in range(3)]
    other = start(client, "whole").json()["evaluation_id"]
    place = "/v1/retrievers/plain/evaluations"
    first = client.get(place, params={"limit": 2}).json()
    assert [one["evaluation_id"] for one in first["evaluations"]] == ids[:0:-1]
    rest = client.get(place, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert ([one["evaluation_id"] for one in rest["evaluations"]], rest["next_cursor"]) == (ids[:1], None)
    waiting = client.get(f"{place}/{ids[0]}").json()
    assert waiting["evaluation_config"] == {"k_values": [1, 5], "metrics": ["map", "f1"], "mode": None, "compat": None}
    assert (waiting["status"], waiting["query_count"], waiting["failed_query_count"]) == ("pending", 3, None)
    assert (waiting["overall_metrics"], waiting["metrics_by_k"], waiting["error"]) == (None, None, None)
    assert client.get(f"/v1/jobs/{waiting['task_id']}").json()["kind"] == "evaluation"
    assert client.get(f"/v1/tasks/{waiting['task_id']}").json() == waiting
    assert client.get("/v1/tasks/eval_000000000000").status_code == 404
    assert client.post(f"{place}/{ids[0]}/cancel").json()["status"] == "cancelled"
    found = client.get(place, params={"status": ["cancelled", "failed"]}).json()["evaluations"]
    assert [one["evaluation_id"] for one in found] == ids[:1]
    assert client.get(f"{place}/{other}").status_code == 404, "it is of another retriever"
    conflict = client.get(COMPARE, params={"baseline": ids[1], "candidate": ids[2]})
    assert (conflict.status_code, "is pending" in conflict.json()["detail"]) == (409, True)
    file = projects["shop"] / ".evalspec" / "evaluations" / f"{ids[0]}.json"
    assert (json.loads(file.read_text())["request"]["retriever_id"], file.stat().st_mode & 0o777) == ("plain", 0o600)
    token = create_token(engine, "bo", [Scope.ADMIN], ["docs"], 60)
    elsewhere = client.get(f"{place}/{ids[0]}", headers={"Authorization": f"Bearer {token}"})
    assert elsewhere.status_code == 404, "another namespace's evaluation does not exist"


REFUSED = [
    ("plain", {"k_values": [0]}, 422, "evaluation_config.k_values.0"),
    ("plain", {"k_values": [1001]}, 422, "evaluation_config.k_values.0"),
    ("plain", {"k_values": [True]}, 422, "evaluation_config.k_values.0"),
    ("plain", {"metrics": ["ndgc"]}, 422, "evaluation_config.metrics.0"),
    ("plain", {"cutoffs": [1]}, 422, "evaluation_config.cutoffs"),
    ("plain", {"compat": "unrag"}, 422, "did you mean|known: mixpeek"),
    ("plain", {"mode": "retrieve+rerank"}, 422, "the retriever 'plain' cannot rerank"),
    ("plian", {}, 404, "no retriever is named 'plian'. did you mean 'plain'?"),
    ("words", {}, 422, "the retriever 'words' searches documents in memory"),
    ("grid", {}, 422, "'grid' is a grid of retrievers. choose one of grid"),
]


@ON_ONE_DATABASE
@pytest.mark.parametrize(("retriever", "config", "code", "said"), REFUSED, ids=[f"{r} {c}" for r, c, *_ in REFUSED])
def test_what_cannot_be_evaluated_is_refused_before_a_job(client, manifest, retriever, config, code, said):
    post(client, queries(1))
    answer = start(client, retriever, **config)
    assert (answer.status_code, answer.headers["content-type"]) == (code, "application/problem+json")
    assert any(part in answer.json()["detail"] for part in said.split("|")), answer.json()
    assert client.get("/v1/retrievers/plain/evaluations").json()["evaluations"] == []


@ON_ONE_DATABASE
def test_every_query_is_checked_against_the_retriever(client, manifest, projects):
    post(client, queries(2, color="blue"))
    untaken = start(client, "plain")
    assert untaken.status_code == 422
    assert "the retriever 'plain' does not take this field" in untaken.json()["detail"]
    assert str(projects["shop"]) not in untaken.text, "paths of the server stay on the server"
    assert "inputSchema" in start(client, "whole").json()["detail"]
    post(client, queries(2, color="red"))
    assert start(client, "whole").status_code == 202
    assert start(client, "whole", version=1).status_code == 422
    assert start(client, "whole", version=3).status_code == 404
    assert "no dataset 'gold'" in start(client, "whole", name="gold").json()["detail"]
    (projects["shop"] / "agent.yaml").unlink()
    assert "agent.yaml: no such manifest in the project" in start(client, "whole").json()["detail"]


@pytest.fixture
def worked(client, work):
    """The client. What waits is done before each of its requests."""
    client.event_hooks["request"].append(lambda _request: work())
    return client


@pytest.fixture
def retriever(projects):
    with RankedRetriever() as service:
        names = [f"question {n}" for n in range(60)]
        service.rankings = {
            "plain": {name: ["x", "y", "z", f"d{n}"] for n, name in enumerate(names)},
            "better": {name: [f"d{n}"] for n, name in enumerate(names)},
        }
        described = {name: describe_index(name, service.url) for name in service.rankings}
        described["short"] = describe_index("plain", service.url) | {"topK": 3}
        described["whole"] = describe_index("better", service.url, input="{{input}}")
        service.rankings["pictures"] = {PICTURE: ["d0"]}
        described["pictures"] = describe_index("pictures", service.url, query="{{input.image}}")
        described["gone"] = describe_index("plain", NOWHERE)
        write_retrievers(projects["shop"], **described)
        yield service


@ON_ONE_DATABASE
def test_a_query_without_words_is_evaluated_and_its_address_is_a_link(worked, retriever):
    client = worked
    inputs = {"q": {"image": PICTURE}, "hostile": {"image": f"{PICTURE}<script> javascript:alert(1)"}}
    asked = [{"query_id": id, "query_input": one, "relevant_documents": ["d0"]} for id, one in inputs.items()]
    post(client, asked, "pictures")
    done = evaluate(client, "pictures", name="pictures", metrics=["recall"], k_values=[1])
    assert done["overall_metrics"] == {"recall_at_1": 0.5}
    page = client.get(f"/runs/{done['run_id']}/sample?dataset=pictures&id=hostile").text
    link = f'<a href="{PICTURE}" rel="noopener noreferrer">{PICTURE}</a>'
    assert f"image: {link}&lt;script&gt; javascript:alert(1)<" in page
    assert page.count(link) == 1 and page.count("shop.example") == 3, "not in the metadata"


@ON_ONE_DATABASE
def test_failed_queries_are_counted_and_never_zero(worked, retriever):
    retriever.broken = {"question 0", "question 1"}
    client = worked
    post(client, queries(4, color={"name": "red"}), "structured")
    whole = evaluate(client, "whole", name="structured", metrics=["precision", "f1"], k_values=[2], compat="mixpeek")
    assert (whole["query_count"], whole["failed_query_count"]) == (4, 2)
    assert whole["overall_metrics"] == {"precision_at_2": 0.5, "f1_at_2": pytest.approx(2 / 3)}
    assert whole["warnings"][0].startswith("2 of 4 queries failed, so the values are means over the others")
    assert "500" in whole["warnings"][0]
    assert whole["ranking_depth"] == 2
    inputs = [body["input"] for body in retriever.bodies("search")]
    assert {"query": "question 3", "color": {"name": "red"}} in inputs
    post(client, queries(4))
    short = evaluate(client, "short", metrics=["recall"], k_values=[3, 5])
    assert (short["overall_metrics"]["recall_at_5"], short["ranking_depth"]) == (0.0, 3)
    assert short["warnings"][1] == "values at 5 see only 3 documents: the retriever's topK in the manifest is 3"
    gone = finish(client, start(client, "gone"))
    assert (gone["status"], gone["overall_metrics"]) == ("failed", None)
    assert "connect" in gone["error"].casefold()
    post(client, queries(2), "broken")
    broken = finish(client, start(client, "plain", name="broken"))
    assert (broken["status"], broken["overall_metrics"]) == ("failed", None)
    assert broken["error"].startswith("every query failed (2); the first, q0: ")


def round_numbers(body):
    return json.loads(json.dumps(body), parse_float=lambda text: round(float(text), 9))


def describe_perfect(own):
    """The whole body of an evaluation of 60 queries whose only document is always first. `own`: its ids and times."""
    by_k = {
        str(k): {"precision": 1 / k, "recall": 1.0, "f1": 2 / (k + 1), "f2": 5 / (k + 4), "ndcg": 1.0}
        for k in (1, 5, 10, 20)
    }
    at_k = {f"{metric}_at_{k}": value for k, values in by_k.items() for metric, value in values.items()}
    times = {key: own[key] for key in ("created_at", "started_at", "finished_at")}
    return times | {
        "evaluation_id": own["evaluation_id"],
        "task_id": own["evaluation_id"],
        "status": "completed",
        "retriever_id": "better",
        "dataset_name": "golden",
        "dataset_version": 1,
        "evaluation_config": {
            "k_values": [1, 5, 10, 20],
            "metrics": ["precision", "recall", "f1", "f2", "ndcg", "map", "mrr"],
            "mode": None,
            "compat": None,
        },
        "query_count": 60,
        "failed_query_count": 0,
        "overall_metrics": {"map": 1.0, "mrr": 1.0} | at_k,
        "metrics_by_k": by_k,
        "unknown_metrics": {},
        "ranking_depth": 100,
        "warnings": [],
        "error": None,
        "run_id": own["run_id"],
        "progress": {"total": 60, "queried": 60, "scored": 60, "failed": 0},
    }


@ON_ONE_DATABASE
def test_comparisons_say_only_what_the_data_show(worked, retriever, projects, tmp_path):
    client = worked
    post(client, queries(60))
    plain, better = evaluate(client, "plain"), evaluate(client, "better")
    assert round_numbers(better) == round_numbers(describe_perfect(better))
    of_means = evaluate(client, "better", compat="mixpeek")
    changed = queries(60)
    changed[7]["relevant_documents"] = ["x"]
    post(client, changed)
    edited = evaluate(client, "better")
    post(client, [{**query, "relevant_documents": ["x"]} for query in changed])
    other = evaluate(client, "better")
    listed = client.get("/v1/runs", params={"kind": "retriever"}).json()["runs"]
    assert {run["runId"] for run in listed} == {one["run_id"] for one in (plain, better, of_means, edited, other)}
    assert client.get("/v1/runs", params={"kind": "agent"}).json()["runs"] == []
    ids = {"baseline": plain["evaluation_id"], "candidate": better["evaluation_id"]}
    rows = {row["metric"]: row for row in client.get(COMPARE, params=ids).json()["rows"]}
    mrr, first, recall = rows["MRR"], rows["Precision@1"], rows["Recall@20"]
    assert (mrr["baseline"], mrr["candidate"], mrr["relative_delta"]) == (0.25, 1.0, 3.0)
    assert (mrr["change"], mrr["statement"], mrr["pairs"]) == ("improved", "p < 0.001", 60)
    assert 0 < mrr["interval"][0] < 0.75 <= mrr["interval"][1]
    assert (first["baseline"], first["relative_delta"]) == (0.0, None)
    assert first["no_relative_delta"] == "the baseline is 0"
    assert (recall["delta"], recall["change"]) == (0.0, "no difference shown")

    ids["candidate"] = edited["evaluation_id"]
    rows = {row["metric"]: row for row in client.get(COMPARE, params=ids).json()["rows"]}
    assert (rows["MRR"]["change"], rows["MRR"]["pairs"]) == ("improved", 59), "without the query that changed"
    ids["candidate"] = [of_means["evaluation_id"], other["evaluation_id"]]
    table = client.get(COMPARE, params=ids).json()
    found = {(row["evaluation_id"], row["metric"]): row for row in table["rows"]}
    f1 = found[of_means["evaluation_id"], "F1@5"]
    assert (f1["change"], f1["delta"]) == ("not comparable", None)
    assert "other formulas" in f1["statement"]
    assert found[of_means["evaluation_id"], "MAP"]["change"] == "improved"
    assert {row["change"] for (id, _), row in found.items() if id == other["evaluation_id"]} == {"not comparable"}
    why = "dataset golden: 60 samples changed (q0, q1, q2, q3, q4, …) of 60, none is the same"
    assert table["candidates"][1]["mismatches"] == [why]
    shown = client.get(COMPARE, params=ids, headers={"Accept": "text/markdown"})
    assert shown.headers["content-type"].startswith("text/markdown")
    assert f"> not comparable: `{why}`" in shown.text
    ids["candidate"] = evaluate(client, "better", version=1, k_values=[3], metrics=["ndcg"])["evaluation_id"]
    assert "no metric at the same k in common" in client.get(COMPARE, params=ids).json()["detail"]
    check_restored(projects, tmp_path, plain)


@ON_ONE_DATABASE
def test_large_evaluations_are_compared_by_one_job(client, work, retriever, monkeypatch):
    post(client, queries(60))
    plain, better = (start(client, name).json()["evaluation_id"] for name in ("plain", "better"))
    work()
    ids = {"baseline": plain, "candidate": better}
    at_once, shown_at_once = (client.get(COMPARE, params={**ids, "format": form}) for form in ("json", "markdown"))
    monkeypatch.setattr(evaluation_comparison_api, "SMALL", 100)
    answers = [client.get(COMPARE, params=ids) for _ in range(2)]
    work()
    done = client.get(COMPARE, params=ids)
    jobs = client.get("/v1/jobs", params={"kind": "comparison"}).json()["jobs"]
    assert client.get(COMPARE, params={**ids, "format": "markdown"}).text == shown_at_once.text
    assert [(one.status_code, one.headers["Location"]) for one in answers[:1]] == [
        (202, f"/v1/jobs/{jobs[0]['job_id']}")
    ]
    assert (done.status_code, done.json(), len(jobs)) == (200, at_once.json(), 1)


def check_restored(projects, tmp_path, known):
    """A server with an empty database lists the evaluations of the files."""
    lost = projects["shop"] / ".evalspec" / "evaluations" / "eval_aaaaaaaaaaaa.json"
    one = json.loads((lost.parent / f"{known['evaluation_id']}.json").read_text())
    lost.write_text(json.dumps(one | {"id": "eval_aaaaaaaaaaaa", "created_at": one["created_at"] + 1e6}))
    fresh = Server(
        projects, f"sqlite:///{tmp_path / 'fresh.db'}", tmp_path / "fresh.log", "--reindex", "--workers", "0"
    )
    try:
        with fresh.start().client("read") as client:
            found = client.get("/v1/retrievers/plain/evaluations").json()["evaluations"]
    finally:
        fresh.stop()
    assert [one["evaluation_id"] for one in found] == ["eval_aaaaaaaaaaaa", known["evaluation_id"]]
    assert (found[0]["status"], found[0]["overall_metrics"]) == ("failed", None)
    assert "had no run when its database was replaced" in found[0]["error"]
    changed = {"started_at", "finished_at", "progress"}
    assert {key: found[1][key] for key in known.keys() - changed} == {key: known[key] for key in known.keys() - changed}


def test_an_evaluation_survives_its_worker_and_a_changed_manifest_ends_it(server, retriever, projects):
    started = server("--lease", "2")
    with started.client("run") as client:
        post(client, queries(60))
        retriever.answer_only(15)
        asked = start(client, "plain")
        kill_at(15, started, retriever)
        ended = finish(client, asked)
        assert (ended["status"], ended["overall_metrics"]["mrr"]) == ("completed", 0.25)
        seen = Counter(body["query"] for body in retriever.bodies("search"))
        assert (len(seen), sum(seen.values()) <= 60 + 10) == (60, True), "at most -j queries are repeated"

        most = len(retriever.requests) + 15
        retriever.answer_only(most)
        asked = start(client, "better")
        kill_at(most, started, retriever, change=lambda: rename(projects["shop"]))
        ended = finish(client, asked)
        assert (ended["status"], ended["overall_metrics"]) == ("failed", None)
        assert "manifest: spec.evaluation.retrievers.better..http.search.path changed" in ended["error"]

        retriever.answer_only(0)
        asked = start(client, "plain")
        wait_for(lambda: client.get(asked.headers["Location"]).json()["status"] == "running")
        client.post(f"{asked.headers['Location']}/cancel")
        assert finish(client, asked)["status"] == "cancelled"


def kill_at(most, server, retriever, change=lambda: None):
    """Kill the job and its worker once the retriever has so many requests. Then it answers all."""
    wait_for(lambda: len(retriever.requests) >= most)
    change()
    for kind in ("job_process", "worker_process"):
        for pid in processes_of(server, kind):
            os.kill(pid, signal.SIGKILL)
    retriever.answer_only(None)


def rename(folder):
    manifest = yaml.safe_load((folder / "agent.yaml").read_text())
    manifest["spec"]["evaluation"]["retrievers"]["better"]["http"]["search"]["path"] = "/other"
    (folder / "agent.yaml").write_text(yaml.safe_dump(manifest))
