"""Query inputs that a retriever does not take are found before the first request, by every command alike."""

import json
from typing import Any

import pytest

from servers.faulty_agent import status
from servers.faulty_retriever import FaultyRetriever

OBJECT = {"text": "red bags", "color": "red", "price": {"max": 30}}
QUERIES: list[dict[str, Any]] = [
    {"query_id": "q1", "query_input": OBJECT, "relevant_documents": ["d1"]},
    {"query_id": "q2", "query_input": "bags", "relevant_documents": ["d2"]},
    {"query_id": "q3", "query_input": {"query": "hats", "color": "blue"}, "relevant_documents": ["d1"]},
]
WHOLE = {"query": "{{query}}", "all": "{{input}}"}


@pytest.fixture
def service():
    with FaultyRetriever() as server:
        server.documents = {name: {"id": name, "text": text} for name, text in {"d1": "hats", "d2": "bags"}.items()}
        yield server


@pytest.fixture
def ask(project, service):
    """Declare the retriever `pages` and a dataset; return what a command says."""

    def ask(request, *, queries=QUERIES, schema=None, command="validate", options=(), target=None, **call):
        search = {"path": "/search", "request": request, "response": {"ids": "$.hits[*].id"}} | call
        target = target or {"http": {"url": service.url, "search": search}}
        project.evaluation = {
            "retrievers": {"pages": target | ({"inputSchema": schema} if schema is not None else {})},
            "datasets": [{"name": "shop", "path": "shop.json", "retriever": "pages", "metrics": ["Recall@2"]}],
            "ciGate": False,
        }
        lines = ",\n".join(map(json.dumps, queries))
        (project.folder / "shop.json").write_text(f'{{"queries": [\n{lines}\n]}}', encoding="utf-8")
        project.write()
        return project(command, "agent.yaml", *options)

    return ask


def problems(outcome):
    assert outcome.code == 2, outcome.out
    return [line.removeprefix("evalspec: ") for line in (outcome.out + outcome.err).splitlines() if "shop.json" in line]


def test_the_whole_input_reaches_the_service(ask, service, project):
    assert ask(WHOLE, command="evaluate").code == 0
    sent = [body["all"] for body in service.bodies("search")]
    assert sorted(sent, key=str) == sorted([OBJECT, {"text": "bags"}, QUERIES[2]["query_input"]], key=str)
    stored = next(project.folder.glob(".evalspec/runs/*/inputs.jsonl")).read_text(encoding="utf-8")
    assert json.dumps(OBJECT, separators=(",", ":")) in stored.replace(": ", ":").replace(", ", ",")


def test_it_survives_a_conversion_there_and_back(ask, service, project):
    ask(WHOLE)
    assert project("convert", "shop.json", "native.jsonl", "--to", "jsonl").code == 0
    project.evaluation["datasets"][0]["path"] = "native.jsonl"
    assert project.evaluate().code == 0
    assert OBJECT in [body["all"] for body in service.bodies("search")]
    assert project("convert", "native.jsonl", "back.json", "--to", "mixpeek").code == 0
    back = json.loads((project.folder / "back.json").read_text(encoding="utf-8"))["queries"]
    assert [query["query_input"] for query in back] == [OBJECT, {"text": "bags"}, QUERIES[2]["query_input"]]


@pytest.mark.parametrize("command", ["validate", "plan", "evaluate"])
def test_every_command_refuses_a_field_that_would_be_dropped(ask, service, command):
    request = {"query": "{{query}}", "max": "{{input.price.max}}"}
    assert problems(ask(request, queries=QUERIES[:1] + QUERIES[2:], command=command)) == [
        "shop.json:2: query_input.color: query 'q1': the retriever 'pages' does not take this field (also lines 3; 2 of"
        " 2 samples). add {{input.color}} to spec.evaluation.retrievers.pages.http.search.request, or remove it from"
        " the dataset",
        "shop.json:3: query_input.price.max: query 'q3': it has no such value, but the request of the retriever 'pages'"
        " has {{input.price.max}}. add it (null is a value), or remove the placeholder",
    ]
    assert service.requests == []


def test_a_question_that_nothing_takes_is_refused_too(ask):
    (found,) = problems(ask({"c": "{{input.color}}"}, queries=QUERIES[2:]))
    assert "query_input.query" in found and "add {{query}} to" in found


@pytest.mark.parametrize("builtin", ["bm25", "dense", "hybrid", "qdrant"])
def test_builtins_take_the_question_only(ask, builtin):
    first, second = problems(ask(None, target={"builtin": builtin}))
    assert "query_input.color: query 'q1': the retriever 'pages' does not take this field" in first
    assert "query a retriever that takes it" in first and "query_input.price" in second


def test_your_own_code_takes_everything(ask, project):
    (project.folder / "mine.py").write_text("def search(request):\n    return [request.input.get('color', 'none')]")
    assert ask(None, target={"python": "mine:search"}, command="evaluate").code == 0


def test_an_input_that_lost_its_question_is_refused(ask, project):
    ask(WHOLE)
    line = {"input": "edited", "expected": "", "relevant": ["d1"], "metadata": {"mixpeek": {"query_input": OBJECT}}}
    (project.folder / "native.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    project.evaluation["datasets"][0]["path"] = "native.jsonl"
    outcome = project.validate()
    assert outcome.code == 2
    assert "native.jsonl:1: metadata.mixpeek.query_input: query " in outcome.out + outcome.err
    assert "this input does not contain the question" in outcome.out + outcome.err


def test_a_resumed_run_sends_what_is_left_whole(ask, service, project):
    service.script = [status(400), "ok", "ok"]
    assert "1 without a usable reply" in ask(WHOLE, command="evaluate", options=("-j", "1", "--depth", "0")).out
    lost = service.bodies("search")[0]
    assert lost["all"] == OBJECT
    assert project("evaluate", "agent.yaml", "--resume", "--retry-errors").code == 0
    assert service.bodies("search")[3:] == [lost]


def test_scoring_stored_rankings_needs_no_inputs(ask, project):
    assert ask(WHOLE, command="evaluate").code == 0
    run = next(project.folder.glob(".evalspec/runs/*"))
    ask({"query": "{{query}}"})
    assert project("rescore", run.name).code == 0


def test_many_problems_are_counted(ask):
    queries = [
        {"query_id": f"q{n}", "query_input": {"text": "x", f"own{n}": 1}, "relevant_documents": []} for n in range(30)
    ]
    found = problems(ask({"query": "{{query}}"}, queries=queries))
    assert len(found) == 21
    assert found[-1] == "shop.json: 10 more inputs do not fit the retriever 'pages'. fix those above first"


SCHEMA = {
    "type": "object",
    "required": ["color"],
    "properties": {"color": {"enum": ["red", "green"]}, "price": {"$ref": "#/$defs/price"}},
    "$defs": {"price": {"type": "object", "properties": {"max": {"maximum": 20}}, "required": ["max"]}},
}


def test_inputs_that_do_not_match_the_schema(ask, service):
    of_schema = "(inputSchema of the retriever 'pages')"
    assert problems(ask(WHOLE, schema=SCHEMA, command="evaluate")) == [
        f"shop.json:2: query_input.price.max: query 'q1': 30 is greater than the maximum of 20 {of_schema}",
        f"shop.json:3: query_input: query 'q2': 'color' is a required property {of_schema}",
        f"shop.json:4: query_input.color: query 'q3': 'blue' is not one of ['red', 'green'] {of_schema}",
    ]
    assert service.requests == []


def test_a_schema_for_which_all_inputs_are_fine(ask):
    assert (
        ask(WHOLE, schema={"type": "object", "properties": {"color": {"type": "string"}}}, command="evaluate").code == 0
    )


@pytest.mark.parametrize(
    ("schema", "place", "says"),
    [
        ({"type": "strnig"}, "inputSchema.type", "it is not a JSON Schema: 'strnig'"),
        ({"properties": {"a": {"pattern": "("}}}, "inputSchema.properties.a.pattern", "is not a 'regex'"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:1/s"}}}, "inputSchema.properties.a.$ref", "fetches no others"),
        ({"allOf": [{"$ref": "file:///etc/hostname"}]}, "inputSchema.allOf[0].$ref", "fetches no others"),
        ({"$ref": "other.json"}, "inputSchema.$ref", "fetches no others"),
        ({"$ref": "#/$defs/a"}, "inputSchema.$ref", "copy it to $defs"),
        ({"$id": "http://x/", "$ref": "y"}, "inputSchema.$ref", "fetches no others"),
        ({"$ref": "#/allOf/x", "allOf": [True]}, "inputSchema.$ref", "fetches no others"),
        ({"$ref": "#/own/a", "own": {"a": {"type": 3}}}, "inputSchema.$ref", "is not a schema"),
        ({"$ref": "#/own/a", "own": {"a": {"$ref": "http://x"}}}, "inputSchema.own.a.$ref", "fetches no others"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "inputSchema.$schema", "only draft 2020-12"),
        ({"maximum": float("nan")}, "inputSchema", "not finite"),
    ],
    ids=str,
)
def test_a_bad_schema_is_an_error_of_the_manifest(ask, schema, place, says):
    outcome = ask(WHOLE, schema=schema)
    found = [line for line in (outcome.out + outcome.err).splitlines() if line.startswith("agent.yaml:")]
    assert outcome.code == 2
    assert len(found) == 1 and f": spec.evaluation.retrievers.pages.{place}: " in found[0] and says in found[0], found


def test_references_inside_the_schema_resolve(ask):
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "http://127.0.0.1:1/schema",
        "properties": {"price": {"$ref": "http://127.0.0.1:1/schema#price"}},
        "$defs": {"price": {"$anchor": "price", "properties": {"max": {"type": "string"}, "in": {"$ref": "#price"}}}},
    }
    (found,) = problems(ask(WHOLE, schema=schema))
    assert "query_input.price.max: query 'q1': 30 is not of type 'string'" in found


def test_a_schema_without_an_end_fails_the_query(ask):
    (found,) = problems(ask(WHOLE, schema={"$ref": "#"}))
    assert "the schema refers to itself without end" in found and "3 of 3" in found


def test_retrievers_check_has_no_fields_to_send(ask, project, service):
    described = {
        "search": {"path": "/", "request": ["{{query}}", "{{input.color}}"], "response": {"ids": "$.hits[*].id"}},
        "ingest": {"path": "/", "request": {"documents": "{{documents}}"}},
        "delete": {"path": "/{{scopePrefix}}"},
    }
    ask(None, target={"http": {"url": service.url} | described})
    outcome = project("retrievers", "check", "pages", "agent.yaml")
    assert outcome.code == 2
    assert "a check sends only a question, but the search request of 'pages' has {{input.color}}" in outcome.err
    assert service.requests == []


def test_a_pattern_that_would_take_years_is_refused_in_a_second(ask):
    """Also under `not`, where a mismatch would be a match."""
    slow = {"properties": {"text": {"not": {"pattern": "(a|aa)+$"}}}}
    queries = [QUERIES[0] | {"query_input": {"text": "a" * 500 + "b"}}]
    (found,) = problems(ask(WHOLE, queries=queries, schema=slow))
    assert "the pattern '(a|aa)+$' takes longer than 1 s on a text; write one without nested repetitions" in found
    assert ask(WHOLE, queries=[QUERIES[0] | {"query_input": {"text": "b"}}], schema=slow).code == 0
