"""Posted datasets: versions, faults, names, scopes, and the files behind them."""

import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.service.tokens import Scope, create_token

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
"""Datasets are files, which no database knows."""
PLACE = "/v1/retrievers/evaluations/datasets"


def query(number=1, **changed):
    return {
        "query_id": f"q{number}",
        "query_input": {"query": f"question {number}", "color": "red"},
        "relevant_documents": ["a", "b"],
    } | changed


def post(client, *queries, name="golden", **more):
    return client.post(PLACE, json={"dataset_name": name, "queries": list(queries or [query()]), **more})


def test_equal_content_is_the_same_version_and_changed_content_the_next(client, projects):
    graded = query(2, relevance_scores={"a": 5, "b": 1})
    first, again, second, back = (post(client, *queries) for queries in ([graded], [graded], [query()], [graded]))
    assert [answer.status_code for answer in (first, again, second, back)] == [201, 200, 201, 201]
    assert [answer.json()["version"] for answer in (first, again, second, back)] == [1, 1, 2, 3]
    assert len({answer.json()["dataset_id"] for answer in (first, again, second, back)}) == 1
    assert post(client, graded, description="shoes").json()["version"] == 4
    newest = client.get(f"{PLACE}/golden").json()
    assert (newest["version"], newest["versions"], newest["description"]) == (4, [1, 2, 3, 4], "shoes")
    assert client.get(f"{PLACE}/golden?version=1").json()["queries"] == [graded]
    files = sorted((projects["shop"] / ".evalspec" / "datasets" / "golden").iterdir())
    assert [file.name for file in files] == ["1.json", "2.json", "3.json", "4.json"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    read = load_dataset(Source(files[0], "1.json"))
    assert (read.format, read.problems, read.samples[0].qrels) == ("mixpeek", (), {"a": 5, "b": 1})


def test_posts_at_the_same_time_lose_nothing(client):
    with ThreadPoolExecutor(8) as pool:
        different = list(pool.map(lambda n: post(client, query(n)).json()["version"], range(8)))
        same = list(pool.map(lambda _: post(client, query(9)), range(8)))
    assert sorted(different) == list(range(1, 9))
    assert {answer.json()["version"] for answer in same} == {9}
    assert sorted(answer.status_code for answer in same) == [200] * 7 + [201]


def test_few_queries_and_doubtful_ones_are_warnings(client):
    answer = post(client, query(relevant_documents=["a", "a"]))
    assert answer.status_code == 201
    few, twice = answer.json()["warnings"]
    assert few.startswith("only 1 query:")
    assert twice == "queries[0].relevant_documents: duplicate ids: a. each counts once"
    assert post(client, *map(query, range(50)), name="many").json()["warnings"] == []


FAULTS = [
    ({"relevant_documents": []}, "relevant_documents", "a query needs at least one relevant document"),
    ({"relevance_scores": {"a": 5}}, "relevance_scores", "no score for b"),
    ({"relevance_scores": {"a": 6, "b": 1}}, "relevance_scores.a", "6 is not accepted here"),
    ({"relevance_scores": {"a": 5, "b": 0}}, "relevance_scores", "relevant, but with score 0: b"),
    ({"query_input": {}}, "query_input", "it has no question"),
    ({"query_input": {"text": ""}}, "query_input", "it has no question"),
    ({"relevant": ["a"]}, "relevant", "unknown key 'relevant'"),
]


@pytest.mark.parametrize(("changed", "field", "message"), FAULTS, ids=[str(fault[0]) for fault in FAULTS])
def test_each_fault_of_a_query_has_its_place(client, projects, changed, field, message):
    answer = post(client, query(1), query(2, **changed))
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    (error,) = answer.json()["errors"]
    assert (error["query"], error["query_id"], error["field"], error["message"]) == (1, "q2", field, message)
    assert error["fix"]
    assert client.get(PLACE).json() == {"datasets": []}
    assert not list((projects["shop"] / ".evalspec" / "datasets").iterdir()), "nothing is left behind"


@pytest.mark.parametrize("value", ["file:1.json", "file:a.png", "data:image/png;base64,iVBORw0KGgo="])
def test_content_of_files_is_refused(client, value):
    """The server has no file of a client, and would send its own."""
    answer = post(client, query(1, query_input={"image": value}))
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["field"]) == (422, "query_input.image")
    assert error["message"].startswith("query 'q1': the ") and "URL" in error["fix"]
    assert post(client, query(1, query_input={"image": "https://shop.example/a.png", "max": 3})).status_code == 201


def test_all_faults_are_reported_at_once(client):
    faulty = [query(n, relevant_documents=[], extra=1) for n in range(80)]
    answer = post(client, *faulty).json()
    assert len(answer["errors"]) == 101
    assert answer["errors"][-1]["message"] == "60 more faults"
    assert len(answer["detail"]) < 1000


BODIES = [
    ({"dataset_name": "x", "queries": []}, "body.queries"),
    ({"queries": [query()]}, "body.dataset_name"),
    ({"dataset_name": "x", "queries": [query()], "dataset_id": "ds_1"}, "body.dataset_id"),
    ({"dataset_name": "a/b", "queries": [query()]}, "dataset_name"),
    ({"dataset_name": "..", "queries": [query()]}, "dataset_name"),
    ({"dataset_name": "a\u0000b", "queries": [query()]}, "dataset_name"),
    ({"dataset_name": "é" * 40, "queries": [query()]}, "dataset_name"),
]


@pytest.mark.parametrize(("body", "field"), BODIES, ids=[field for _, field in BODIES])
def test_invalid_bodies(client, body, field):
    answer = client.post(PLACE, json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


TEXTS = {
    b'{"dataset_name": "x", "queries": [NaN]}': "NaN is not JSON",
    b'{"dataset_name": "x", "dataset_name": "y", "queries": []}': "duplicate",
    b'{"dataset_name": "x"': "delimiter",
    b'{"dataset_name": "\\ud800", "queries": []}': "surrogates",
    b"\xff": "utf-8",
}


@pytest.mark.parametrize(("body", "said"), TEXTS.items(), ids=map(str, TEXTS))
def test_bodies_that_are_no_json(client, body, said):
    answer = client.post(PLACE, content=body)
    assert (answer.status_code, answer.json()["title"]) == (400, "Bad Request")
    assert said in answer.json()["detail"]


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "text/plain", "application/json"])
def test_bodies_are_json_whatever_their_type(client, kind):
    body = json.dumps({"dataset_name": "golden", "queries": [query()]}).encode()
    headers = {} if kind is None else {"Content-Type": kind}
    assert client.post(PLACE, content=body, headers=headers).status_code == 201


def test_any_name_that_a_url_can_hold(client, projects):
    for name in ("...", ".hidden", "große Schuhe", "50% off", "Q&A?"):
        assert post(client, name=name).status_code == 201
        assert client.get(f"{PLACE}/{quote(name, safe='')}").json()["dataset_name"] == name
    names = [one["dataset_name"] for one in client.get(PLACE).json()["datasets"]]
    assert sorted(names) == sorted(["...", ".hidden", "große Schuhe", "50% off", "Q&A?"])
    assert not (projects["shop"] / "1.json").exists()


def test_unknown_datasets_and_versions(client):
    post(client)
    unknown = client.get(f"{PLACE}/goldem")
    assert (unknown.status_code, "did you mean 'golden'?" in unknown.json()["detail"]) == (404, True)
    assert (
        client.get(f"{PLACE}/golden?version=2").json()["detail"] == "dataset 'golden' has no version 2. it has 1 to 1"
    )


def test_scopes_and_namespaces(client, engine):
    def headers(*scopes, namespaces=("shop",)):
        token = create_token(engine, "bo", scopes, namespaces, 60)
        return {"Authorization": f"Bearer {token}", "X-Namespace": namespaces[0]}

    body = {"dataset_name": "golden", "queries": [query()]}
    refused = client.post(PLACE, json=body, headers=headers(Scope.READ))
    assert (refused.status_code, "push or run" in refused.json()["detail"]) == (403, True)
    for number, scope in enumerate((Scope.PUSH, Scope.RUN)):
        own = body | {"description": scope}
        assert client.post(PLACE, json=own, headers=headers(scope)).json()["version"] == number + 1
    assert client.get(PLACE, headers=headers(Scope.PUSH)).status_code == 403
    assert client.get(PLACE, headers=headers(Scope.READ, namespaces=["docs"])).json() == {"datasets": []}
    assert client.get(f"{PLACE}/golden", headers=headers(Scope.READ, namespaces=["docs"])).status_code == 404
