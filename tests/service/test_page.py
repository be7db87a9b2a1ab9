"""The public API of evaluations of retrievers, by curl: a dataset, an evaluation, its results, a comparison."""

import json
import math
import os
import subprocess

import pytest
import pytrec_eval

from servers.ranked_retriever import RankedRetriever, describe_index, write_retrievers
from servers.service import wait_for

POST_DATASET = """
curl -sS -w '\\n%{http_code}' -X POST "$MP_API_URL/v1/retrievers/evaluations/datasets" \\
  -H "Authorization: Bearer $MP_API_KEY" \\
  -H "X-Namespace: $MP_NAMESPACE" \\
  -H "Content-Type: application/json" \\
  -d '{
    "dataset_name": "shoe-search-golden",
    "queries": [
      {
        "query_id": "q1",
        "query_input": {"query": "waterproof boots"},
        "relevant_documents": ["a1", "a2", "a3"],
        "relevance_scores": {"a1": 5, "a2": 3, "a3": 2}
      },
      {
        "query_id": "q2",
        "query_input": {"query": "running shoes"},
        "relevant_documents": ["b1", "b4"]
      }
    ]
  }'
"""
START = """
curl -sS -w '\\n%{http_code}' -X POST "$MP_API_URL/v1/retrievers/plain/evaluations" \\
  -H "Authorization: Bearer $MP_API_KEY" \\
  -H "X-Namespace: $MP_NAMESPACE" \\
  -H "Content-Type: application/json" \\
  -d '{
    "dataset_name": "shoe-search-golden",
    "evaluation_config": {
      "k_values": [1, 5, 10, 20],
      "metrics": ["precision", "recall", "f1", "f2", "ndcg", "map", "mrr"]
    }
  }'
"""
START_WITHOUT_CONTENT_TYPE = """
curl -sS -w '\\n%{http_code}' -X POST "$MP_API_URL/v1/retrievers/reranked/evaluations" \\
  -H "Authorization: Bearer $MP_API_KEY" \\
  -H "X-Namespace: $MP_NAMESPACE" \\
  -d '{"dataset_name": "shoe-search-golden"}'
"""
GET = """
curl -sS -g -w '\\n%{http_code}' "$MP_API_URL/v1/retrievers/PLACE" \\
  -H "Authorization: Bearer $MP_API_KEY" \\
  -H "X-Namespace: $MP_NAMESPACE"
"""

QRELS = {"q1": {"a1": 5, "a2": 3, "a3": 2}, "q2": {"b1": 1, "b4": 1}}
PLAIN = {"waterproof boots": ["a1", "x", "a3"], "running shoes": ["y", "b4"]}
RERANKED = {"waterproof boots": ["a1", "a2", "a3"], "running shoes": ["b4", "y", "b1"]}


@pytest.fixture
def retriever(projects):
    with RankedRetriever() as service:
        service.rankings = {"plain": PLAIN, "reranked": RERANKED}
        described = {name: describe_index(name, service.url) for name in service.rankings}
        write_retrievers(projects["shop"], **described)
        yield service


@pytest.fixture
def curl(server, retriever):
    """Runs a command of the page and returns the status and the answer."""
    started = server()
    token = started.token("run", namespaces=("shop", "docs"))
    environment = {**os.environ, "MP_API_URL": started.url, "MP_API_KEY": token, "MP_NAMESPACE": "shop"}

    def run(command, place=""):
        done = subprocess.run(
            ["sh", "-c", command.strip().replace("PLACE", place)], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        body, _, code = done.stdout.rpartition("\n")
        return int(code), json.loads(body) if body.startswith(("{", "[")) else body

    return run


def poll(curl, retriever, id):
    """The evaluation once it has ended."""
    place = f"{retriever}/evaluations/{id}"
    found = wait_for(lambda: (answer := curl(GET, place)[1])["status"] not in ("pending", "running") and answer)
    assert found["status"] == "completed", found
    return found


def f_beta(precision, recall, beta):
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall) if precision + recall else 0.0


def test_every_command_of_the_page(curl):
    code, posted = curl(POST_DATASET)
    assert code == 201
    assert {key: posted[key] for key in ("dataset_name", "version", "query_count")} == {
        "dataset_name": "shoe-search-golden",
        "version": 1,
        "query_count": 2,
    }
    assert posted["dataset_id"]
    assert "only 2 queries" in posted["warnings"][0]
    assert curl(POST_DATASET)[0] == 200

    code, started = curl(START)
    assert (code, started["status"]) == (202, "pending")
    assert started["evaluation_id"]
    assert started["task_id"]
    assert (started["overall_metrics"], started["metrics_by_k"]) == (None, None)
    plain = poll(curl, "plain", started["evaluation_id"])
    check_numbers(plain)

    code, started = curl(START_WITHOUT_CONTENT_TYPE)
    assert code == 202
    assert started["evaluation_config"]["k_values"] == [1, 5, 10, 20]
    reranked = poll(curl, "reranked", started["evaluation_id"])

    code, listed = curl(GET, "evaluations/datasets")
    assert (code, [one["dataset_name"] for one in listed["datasets"]]) == (200, ["shoe-search-golden"])
    code, dataset = curl(GET, "evaluations/datasets/shoe-search-golden")
    assert (code, [query["query_id"] for query in dataset["queries"]]) == (200, ["q1", "q2"])
    code, listed = curl(GET, "plain/evaluations?status=completed")
    assert (code, [one["evaluation_id"] for one in listed["evaluations"]]) == (200, [plain["evaluation_id"]])
    check_comparison(curl, plain, reranked)

    code, started = curl(START.replace('"k_values"', '"compat": "mixpeek", "k_values"'))
    assert code == 202
    check_of_means(poll(curl, "plain", started["evaluation_id"]), plain)


def check_of_means(found, plain):
    """F1 and F2 are those of the mean precision and recall; all else is unchanged."""
    for k, row in found["metrics_by_k"].items():
        own = plain["metrics_by_k"][k]
        assert row == {
            **own,
            "f1": pytest.approx(f_beta(own["precision"], own["recall"], 1)),
            "f2": pytest.approx(f_beta(own["precision"], own["recall"], 2)),
        }
    precision, recall = (2 / 5 + 1 / 5) / 2, (2 / 3 + 1 / 2) / 2
    assert found["overall_metrics"]["f1_at_5"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert found["overall_metrics"]["f1_at_5"] > plain["overall_metrics"]["f1_at_5"] + 0.003


def check_numbers(found):
    """By hand, and against trec_eval where it defines the measure. evalspec's F is the mean over the queries."""
    q1 = (5 + 2 / math.log2(4)) / (5 + 3 / math.log2(3) + 2 / math.log2(4))
    q2 = (1 / math.log2(3)) / (1 + 1 / math.log2(3))
    at_5 = {
        "precision": (2 / 5 + 1 / 5) / 2,
        "recall": (2 / 3 + 1 / 2) / 2,
        "f1": (f_beta(2 / 5, 2 / 3, 1) + f_beta(1 / 5, 1 / 2, 1)) / 2,
        "f2": (f_beta(2 / 5, 2 / 3, 2) + f_beta(1 / 5, 1 / 2, 2)) / 2,
        "ndcg": (q1 + q2) / 2,
    }
    by_k, overall = found["metrics_by_k"], found["overall_metrics"]
    assert list(by_k) == ["1", "5", "10", "20"]
    assert by_k["5"] == pytest.approx(at_5)
    assert by_k["1"] == pytest.approx({"precision": 0.5, "recall": 1 / 6, "f1": 0.25, "f2": 5 / 26, "ndcg": 0.5})
    assert overall["map"] == pytest.approx(((1 + 2 / 3) / 3 + (1 / 2) / 2) / 2)
    assert overall["mrr"] == pytest.approx((1 + 1 / 2) / 2)
    assert overall.keys() - {"map", "mrr"} == {f"{metric}_at_{k}" for k in by_k for metric in at_5}
    assert all(overall[f"{metric}_at_{k}"] == value for k, row in by_k.items() for metric, value in row.items())
    run = {"q1": PLAIN["waterproof boots"], "q2": PLAIN["running shoes"]}
    ranked = {query: {id: -float(place) for place, id in enumerate(ids)} for query, ids in run.items()}
    names = {"P_5": "precision_at_5", "recall_10": "recall_at_10", "ndcg_cut_5": "ndcg_at_5", "map": "map"}
    names["recip_rank"] = "mrr"
    scored = pytrec_eval.RelevanceEvaluator(QRELS, {"P", "recall", "ndcg_cut", "map", "recip_rank"}).evaluate(ranked)
    for name, own in names.items():
        assert overall[own] == pytest.approx(sum(one[name] for one in scored.values()) / 2), own
    assert (found["query_count"], found["failed_query_count"], found["ranking_depth"]) == (2, 0, 100)
    assert (found["error"], found["unknown_metrics"], found["warnings"]) == (None, {}, [])


def check_comparison(curl, plain, reranked):
    ids = f"baseline={plain['evaluation_id']}&candidate={reranked['evaluation_id']}"
    code, table = curl(GET, f"evaluations/compare?{ids}")
    assert code == 200, table
    rows = {row["metric"]: row for row in table["rows"]}
    assert rows.keys() >= {"NDCG@10", "Precision@5", "F2@10", "MRR", "MAP"}
    mrr = rows["MRR"]
    assert (mrr["baseline"], mrr["candidate"], mrr["delta"]) == (0.75, 1.0, 0.25)
    assert mrr["relative_delta"] == pytest.approx(1 / 3)
    assert mrr["change"] == "too few samples"
    assert "2 pairs cannot show a change" in mrr["statement"]
    assert table["candidates"][0]["is_comparable"]
    code, shown = curl(GET, f"evaluations/compare?{ids}&format=markdown")
    assert code == 200
    assert "| MRR | 0.750 | 1.000 | +0.250 | +33.3 % | too few samples |" in shown
