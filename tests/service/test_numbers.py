"""Numbers and selections of requests: what no run can do is refused in the request, with the field and the bound."""

import json

import pytest

HUGE = 10**40
WRONG = (HUGE, -HUGE, 0.5, "NaN", "1e999", True, [1], "", -1)
FRACTIONS = ("alpha", "value")
SIGNED = ("seed", "value")


@pytest.fixture
def database(tmp_path):
    return f"sqlite:///{tmp_path / 'service.db'}"


def list_numbers(schema, schemas, place):
    """Yield the place of each number of a schema, with its bounds."""
    schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if schema.get("type") in ("integer", "number"):
        yield place, [f"{value:.16g}" for key, value in schema.items() if "inimum" in key or "aximum" in key]
    for option in schema.get("anyOf", ()):
        yield from list_numbers(option, schemas, place)
    for name, inner in schema.get("properties", {}).items():
        yield from list_numbers(inner, schemas, (*place, name))
    if "items" in schema:
        yield from list_numbers(schema["items"], schemas, (*place, 0))


def list_requests(document):
    """Yield method, address, part and number of each number that a request of the API can have."""
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            address = "/".join("x" if part.startswith("{") else part for part in path.split("/"))
            for one in operation.get("parameters", ()):
                for place, bounds in list_numbers(one["schema"], schemas, (one["name"],)):
                    yield method, address, one["in"], place, bounds
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            for place, bounds in list_numbers(body.get("schema", {}), schemas, ()):
                yield method, address, "body", place, bounds


def nest(place, value):
    for key in reversed(place):
        value = [value] if key == 0 else {key: value}
    return value


def test_a_number_that_no_run_can_use_is_refused_with_its_field_and_bound(client):
    found = list(list_requests(client.get("/v1/openapi.json").json()))
    assert {part for _, _, part, _, _ in found} == {"query", "body"}
    assert {place[-1] for *_, place, _ in found} >= {"seed", "sample_size", "top_k", "resamples", "revision", "version"}
    for method, address, part, place, bounds in found:
        for value in WRONG:
            if (place[-1] in FRACTIONS and value == 0.5) or (place[-1] in SIGNED and value == -1):
                continue
            sent = {"json": nest(place, value)} if part == "body" else {"params": {place[0]: json.dumps(value)}}
            answer = client.request(method, address, **sent)
            named = ".".join([part, *map(str, place)])
            assert answer.status_code == 422, (address, named, value, answer.text)
            faults = [one["message"] for one in answer.json()["errors"] if one["field"] == named]
            assert faults, (address, named, value, answer.text)
            assert value not in (HUGE, -HUGE) or any(bound in faults[0] for bound in bounds), (address, named, faults)


@pytest.mark.parametrize("path", ["/runs/x/part?page=", "/runs/x/samples?after=", "/runs/x/sample?at="])
def test_pages_refuse_such_numbers_too(client, path):
    for value in (HUGE, -HUGE, "NaN", "0.5", ""):
        assert client.get(f"{path}{value}").status_code in (400, 404, 422), value


def test_numbers_within_datasets_and_cursors_are_no_fault(client):
    query = {"query_id": "q", "query_input": {"query": "a", "n": HUGE}, "relevant_documents": ["d"]}
    for more in (
        {"relevance_scores": {"d": HUGE}},
        {"relevance_scores": {"d": 0.5}},
        {"relevance_scores": {"d": True}},
    ):
        answer = client.post("/v1/retrievers/evaluations/datasets",
                             json={"dataset_name": "a", "queries": [query | more]})  # fmt: skip
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"].startswith("relevance_scores"), answer.text
    body = {"dataset_name": "a", "queries": [query], "metadata": {"n": HUGE}}
    assert client.post("/v1/retrievers/evaluations/datasets", json=body).status_code == 201
    assert client.get("/v1/retrievers/evaluations/datasets/a").json()["queries"][0]["query_input"]["n"] == HUGE


@pytest.mark.parametrize(
    ("more", "said"),
    [({"tags": ["nosuch"]}, "no sample is selected"), ({"exclude_tags": ["a", "b"]}, "no sample is selected"),
     ({"where": ["id=nosuch"]}, "no sample is selected"), ({"where": ["x=1"]}, "no sample has the key 'x'"),
     ({"stratify": ["x"], "sample_size": 2}, "no sample has the key 'x'"), ({"slice": "x"}, "is no gold set")],
    ids=str,
)  # fmt: skip
def test_a_selection_of_nothing_is_refused_in_the_request(client, projects, more, said):
    lines = [{"id": f"s{n}", "input": "?", "expected": "Paris", "tags": ["ab"[n % 2]]} for n in range(4)]
    (projects["shop"] / "qa.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    refused = client.post("/v1/runs", json=more)
    assert (refused.status_code, said in refused.json()["detail"]) == (422, True), refused.text
    assert client.get("/v1/jobs").json()["jobs"] == []
    assert client.post("/v1/runs", json={"tags": ["a"]}).status_code == 202
