"""Whatever a request holds: no server error, and every response is one that the OpenAPI document describes.

A few requests for each operation by default; FUZZ=N sends N, and FUZZ_FROM=N sends others. `-k TAG` chooses a tag.
"""

import copy
import os

import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from evalspec.curation.gold.authoring import create_set
from evalspec.curation.gold.protocol import add_triple
from evalspec.curation.gold.schema import GoldTriple, Person
from evalspec.service import jobs
from evalspec.service.cursors import encode_cursor
from evalspec.service.job_calls import JobCalls
from evalspec.service.job_process import Lease, Work, run_job
from evalspec.service.settings import ServiceLimits, ServiceSettings, parse_projects
from servers.ranked_retriever import RankedRetriever, describe_index
from servers.service import write_project

IS_LONG = "FUZZ" in os.environ
COUNT = int(os.environ.get("FUZZ", "3"))
FIRST = int(os.environ.get("FUZZ_FROM", "0"))
TAGS = (
    *("jobs", "runs", "samples", "compare", "baselines", "trends", "gold", "evaluations", "pushes", "labels"),
    "operations",
)
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ERASURE = "/v1/erasure"
DATASETS = "/v1/retrievers/evaluations/datasets"
EVALUATIONS = "/v1/retrievers/search/evaluations"
PLACES = [(1e12, "z"), (float("nan"), "z"), (0,), (10**30,), ("a",), ("\ud800",)]
"""Of the cursors of lists: some that exist, and some that no list has."""
QUERIES = [
    {"query_id": f"q{n}", "query_input": {"query": f"question {n}"}, "relevant_documents": [f"d{n}"]} for n in range(4)
]


@pytest.fixture
def database(tmp_path):
    return f"sqlite:///{tmp_path / 'service.db'}"


@pytest.fixture(name="settings")
def settings_without_limits(projects, database):
    """Limits that no test reaches: their problems would hide others."""
    given = parse_projects(f"{name}={folder}" for name, folder in projects.items())
    return ServiceSettings(given, database, limits=ServiceLimits(requests_a_minute=10**6, queued_jobs=10**6))


@pytest.fixture
def known(client, engine, settings, projects, add_run, monkeypatch):
    """Values that exist in a namespace with runs, jobs, evaluations, a dataset and a gold set, by parameter or key."""
    with RankedRetriever() as service:
        service.rankings = {"plain": {f"question {n}": [f"d{n}", "d9"] for n in range(3)}}
        write_project(projects["shop"], retrievers={"search": describe_index("plain", service.url)})
        runs = [add_run(answer).id for answer in ("Paris", "Rome")]
        assert client.post(DATASETS, json={"dataset_name": "golden", "queries": QUERIES}).status_code == 201
        evaluations = [start(client, EVALUATIONS, dataset_name="golden") for _ in range(3)]
        with monkeypatch.context() as context:
            context.chdir(projects["shop"])  # where jobs are executed
            for _ in evaluations[1:]:
                finish_next_job(engine, settings)
    started = start(client, "/v1/runs")
    return {
        "x-namespace": ["shop"],
        "job_id": [started, evaluations[0]],
        "run_id": runs,
        "dataset": ["qa"],
        "sample_id": ["s0", "s1"],
        "metric": ["exact_match"],
        "manifest": ["agent.yaml"],
        "form": ["json", "csv", "html", "markdown", "junit", "sarif"],
        "baseline": ["latest", *runs, *evaluations],
        "candidate": evaluations,
        "candidates": [["latest"], runs],
        "name": [write_gold_set(projects["shop"])],
        "triple_id": ["refund"],
        "dataset_name": ["golden"],
        "retriever_id": ["search"],
        "evaluation_id": evaluations,
        "datasets": [[], ["qa"]],
        "metrics": [[], ["exact_match"]],
        "tags": [[], ["no such tag"]],
        "cursor": [evaluations[0], *map(encode_place, PLACES)],
    }


def encode_place(place):
    return encode_cursor(*place)


def start(client, path, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()["job_id" if path == "/v1/runs" else "task_id"]


def finish_next_job(engine, settings):
    job = jobs.claim(engine, "w", {"shop": 1}, 600)
    lease = Lease(JobCalls(engine, job, 600), 600)
    assert run_job(Work(job, settings.projects["shop"], lease)) == 0
    lease.close()
    ended = jobs.find_job(engine, "shop", job.id)
    assert ended.status == "completed", ended.error


def write_gold_set(folder):
    """A set with a triple that the caller can review."""
    root = folder / "evals" / "gold" / "help"
    root.mkdir(parents=True)
    people = {who: Person(email=f"{who}@example.com") for who in ("ana", "ben", "cleo")}
    create_set(root, "Help pages", people)
    content = {"question": "When is a refund paid?", "expected_block": {"block_id": "terms-17", "version": "v1"}}
    add_triple(root, "refund", GoldTriple.model_validate(content | {"expected_answer": "In 14 days."}), "ben")
    return root.name


@pytest.fixture
def apis(client, known):
    """The operations with any values, and those whose values exist, for what happens further inside."""
    document = client.get("/v1/openapi.json").json()
    return [load_api(document, client.app), load_api(restrict(document, known), client.app)]


def load_api(document, app):
    stated = {"max-stream-events": 1, "generation": {"with-security-parameters": False}}
    schema = schemathesis.openapi.from_dict(document, config=SchemathesisConfig.from_dict(stated))
    schema.app = app
    return schema


def restrict(document, known):
    """A document in which known values are the only ones of parameters and of keys of request bodies."""
    restricted = copy.deepcopy(document)
    for operation in (one for path in restricted["paths"].values() for one in path.values()):
        for parameter in operation.get("parameters", ()):
            if parameter["name"] in known:
                parameter["schema"] = {"enum": known[parameter["name"]]}
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        for reference in filter(None, (one.get("$ref") for one in [body, *body.get("anyOf", ())])):
            properties = restricted["components"]["schemas"][reference.rpartition("/")[2]]["properties"]
            properties |= {name: {"enum": known[name]} for name in properties.keys() & known.keys()}
    return restricted


def test_every_operation_has_a_tag_of_this_test(client):
    document = client.get("/v1/openapi.json").json()
    found = {tuple(one["tags"]) for path in document["paths"].values() for one in path.values()}
    assert found == {(tag,) for tag in TAGS}


@pytest.mark.timeout(0)
@pytest.mark.parametrize("tags", [[tag] for tag in TAGS] if IS_LONG else [TAGS], ids=" ".join)
def test_no_request_fails_the_server_or_is_answered_in_an_unknown_form(apis, client, tags, subtests):
    headers = {"Authorization": client.headers["Authorization"]}
    found = [(one.ok(), api is apis[1]) for api in apis for one in api.include(tag=list(tags)).get_all_operations()]
    for operation, is_restricted in sorted(found, key=lambda one: is_destructive(one[0])):
        for mode in list_modes(operation, is_restricted):
            with subtests.test(operation.label, mode=mode.value, is_restricted=is_restricted):
                send(operation.as_strategy(mode), headers)


def list_modes(operation, is_restricted):
    """Valid requests, and invalid ones where any can be: each text is a valid part of a path."""
    can_be_wrong = list(operation.body) or (list(operation.query) and not is_restricted)
    return list(GenerationMode) if can_be_wrong else [GenerationMode.POSITIVE]


def is_destructive(operation):
    """Whether it removes what other operations need."""
    return operation.method == "delete" or operation.path == ERASURE


def send(cases, headers):
    """Send many requests of one operation, and check the responses."""

    @seed(FIRST)
    @settings(max_examples=COUNT, database=None, suppress_health_check=list(HealthCheck), deadline=None)
    @given(cases)
    def check(case):
        case.call_and_validate(base_url="http://localhost", headers=headers, checks=CHECKS)

    check()
