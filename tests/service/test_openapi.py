"""The OpenAPI document: complete, and its examples are true."""

import jsonschema
import pytest

from evalspec.service.examples import DATASET, RETRIEVER
from servers.ranked_retriever import describe_index
from servers.service import write_project

METHODS = ("get", "post", "put", "patch", "delete")
PROBLEMS = {"400", "401", "403", "404", "409", "413", "415", "422", "429", "503"}


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if path.startswith("/v1/") and method in METHODS:
                yield path, method, operation


def whole(schema, document):
    """A schema with the components that it refers to."""
    found = schema
    while "$ref" in found:
        found = document["components"]["schemas"][found["$ref"].rpartition("/")[2]]
    return {**found, "components": document["components"]}


@pytest.fixture
def document(client):
    return client.get("/v1/openapi.json").json()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_every_route_says_what_it_does_and_how_it_fails(document):
    for path, method, operation in operations(document):
        place = f"{method} {path}"
        assert operation["summary"], place
        assert operation["description"], place
        assert operation["responses"].keys() >= PROBLEMS, place
        for status in PROBLEMS:
            assert "application/problem+json" in operation["responses"][status]["content"], place


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_every_example_fits_its_schema(document):
    for path, method, operation in operations(document):
        bodies = [operation.get("requestBody", {}).get("content", {}).get("application/json")]
        answers = [
            answer.get("content", {}).get("application/json")
            for status, answer in operation["responses"].items()
            if status.startswith("2")
        ]
        for body in filter(None, bodies + answers):
            for schema in [body["schema"], *body["schema"].get("anyOf", ())]:
                found = whole(schema, document)
                if found.get("type") == "null" or "anyOf" in found:
                    continue
                assert found.get("examples"), f"{method} {path}: no example"
                for example in found["examples"]:
                    jsonschema.validate(example, found)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_examples_of_requests_are_understood_and_answers_fit_their_schemas(client, document, add_run, projects):
    write_project(projects["shop"], retrievers={RETRIEVER: describe_index("products", "http://127.0.0.1:9")})
    run = add_run()
    values = {"run_id": run.id, "dataset": "qa", "sample_id": "s0", "form": "json", "metric": "exact_match"}
    values |= {"retriever_id": RETRIEVER, "dataset_name": DATASET}
    for path, method, operation in sorted(operations(document), key=lambda one: one[1] == "delete"):
        parameters = operation.get("parameters", ())
        required = {one["name"]: values.get(one["name"], "x") for one in parameters if one["required"]}
        named = path.replace(":path}", "}").format(**{name: required.get(name, "x") for name in required})
        query = {
            one["name"]: values.get(one["name"], "x") for one in parameters if one["in"] == "query" and one["required"]
        }
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if "requestBody" in operation and body is None:
            continue  # a file, which names its run
        examples = (
            whole(next(iter(body["schema"].get("anyOf", [body["schema"]]))), document)["examples"] if body else [None]
        )
        for example in examples:
            answer = client.request(method, named, params=query, json=example)
            assert answer.status_code < 500, f"{method} {path}: {answer.text}"
            assert answer.status_code not in (400, 422), f"{method} {path}: {answer.text}"
            if answer.status_code in (201, 202):
                values = {**answer.json(), **values}  # later routes show what was made
            declared = operation["responses"][str(answer.status_code)]
            form = declared.get("content", {}).get(answer.headers.get("Content-Type", ""))
            if form and form.get("schema", {"type": "string"}).get("type") != "string":
                jsonschema.validate(answer.json(), whole(form["schema"], document))
    assert {"dataset_id", "evaluation_id", "job_id"} <= values.keys(), "examples made a dataset, an evaluation, a run"
