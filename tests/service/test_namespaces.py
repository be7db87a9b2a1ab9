"""Namespaces never see each other, and nothing is public: for every route of the application, also future ones."""

import json
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evalspec
from evalspec.service import guard, jobs
from evalspec.service.app import ROUTERS
from evalspec.service.audit import record
from evalspec.service.settings import ServiceLimits
from evalspec.service.tokens import Scope, create_token

PUBLIC = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/login")}
ASSETS = ("GET", "/assets/{name}")
"""Style and scripts of the pages, which are in the package that everybody can install."""
LOGIN = ("POST", "/login")
"""Answers 401 itself, to a wrong code."""
NOWHERE = "zz00nowhere00zz"
PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


@cache
def list_routes():
    routes: list[Any] = [route for router in ROUTERS for route in router.routes]
    found = [(method, route.path) for route in routes for method in sorted(route.methods)]
    assert len(found) == len(set(found))
    return found


def fill(path, value):
    return PARAMETER.sub(lambda _: value, path)


@pytest.fixture
def tolerant(monkeypatch):
    """No address is shut out for its wrong tokens."""
    monkeypatch.setattr(guard, "FAILURES_A_MINUTE", 100_000)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "authorization",
    [
        {},
        {"Authorization": "Bearer evs_a_b"},
        {"Authorization": "Basic YTpi"},
        {"Cookie": "evalspec_session=evs_a_b", "Origin": "http://localhost"},
    ],
    ids=["nothing", "a wrong token", "a password", "a wrong cookie"],
)
def test_every_other_route_needs_a_token(tolerant, client, authorization):
    del client.headers["Authorization"]
    client.headers.update(authorization)
    for method, path in list_routes():
        expected = 200 if (method, path) in PUBLIC else 404 if (method, path) == ASSETS else 401
        assert client.request(method, fill(path, "x"), json={}).status_code == expected, f"{method} {path}"


@pytest.fixture
def secrets(projects, engine):
    """What namespace docs has: its ids and names, none of which may ever show in shop."""
    folder = projects["docs"]
    (folder / "private.yaml").write_text((folder / "agent.yaml").read_text())
    run = evalspec.evaluate(folder / "agent.yaml", store=folder / ".evalspec")
    (folder / ".evalspec" / "labels").mkdir()
    (folder / ".evalspec" / "labels" / "docs-label").symlink_to(f"../runs/{run.id}")
    job = jobs.enqueue(engine, "docs", "run", {"manifest": "private.yaml"}, "docs-user", id=jobs.create_id("run"),
                       calls=1, limits=ServiceLimits(), run_id=run.id)  # fmt: skip
    evaluation = jobs.enqueue(engine, "docs", "evaluation", {"note": "docs-evaluation"}, "docs-user",
                              id=jobs.create_id("eval"), calls=1, limits=ServiceLimits())  # fmt: skip
    record(engine, "docs-action", namespace="docs", user="docs-user", target=job.id)
    return [job.id, evaluation.id, run.id, "docs-label", "docs-user", "docs-action", "private.yaml", str(folder)]


FRESH = re.compile(r"[a-z]+_[0-9a-f]{8,}|\d{8}T\d{6}\.\d{3}Z-\w+|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+]00:00)|\d{10}\.\d+")


def shape(answer, value):
    """An answer without what legitimately differs: the id that was asked for, and new ids and times."""
    text = answer.text.replace(json.dumps(value)[1:-1], "ID").replace(value, "ID")
    return answer.status_code, FRESH.sub("NEW", text)


def alter(value):
    """An id or name of the same form that exists nowhere."""
    altered = value.replace("docs", "zzzz").replace("private", "zzzzzzz")
    return altered if altered != value else f"{value[:-4]}zzzz"


def find_slots(document, method, path):
    """Where a request can have an id: the path, each parameter of the query, each text in the body."""
    if PARAMETER.search(path):
        yield "path", None
    operation = document["paths"].get(path, {}).get(method.lower(), {})
    yield from (("query", one["name"]) for one in operation.get("parameters", ()) if one["in"] == "query")
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = content["schema"]
        known = document["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)
        yield from (("body", name) for name in known.get("properties", {}))


def send(client, route, slot, value):
    """Send an id. A body has it as text and in a list, whichever the field takes."""
    method, path = route
    kind, name = slot
    place = fill(path, value if kind == "path" else NOWHERE)
    bodies = [{name: value}, {name: [value]}, {name: {"id": value}}] if kind == "body" else [{}]
    query = {name: value} if kind == "query" else {}
    return [client.request(method, place, params=query, json=body) for body in bodies]


@pytest.mark.hypothesis
def test_no_route_shows_anything_of_another_namespace(client, engine, secrets):
    document = client.app.openapi()
    slots = [(route, slot) for route in list_routes() if route != LOGIN for slot in find_slots(document, *route)]

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.sampled_from(slots), st.sampled_from(secrets))
    def check(where, value):
        route, slot = where
        value = value.replace("/", "-") if slot[0] == "path" else value
        answers, nothing = (send(client, route, slot, one) for one in (value, alter(value)))
        got, absent = [shape(one, value) for one in answers], [shape(one, alter(value)) for one in nothing]
        if route != ("GET", "/v1/audit"):  # it has the requests of this test
            assert got == absent, f"{' '.join(route)} tells {value} in {slot} from an id that exists nowhere"
        assert not [secret for secret in secrets if secret != value and secret in str([one.text for one in answers])]

    check()


def test_no_list_shows_another_namespace(client, secrets):
    """Every route without ids that only reads, for the token of shop."""
    for method, path in list_routes():
        if method == "GET" and not PARAMETER.search(path):
            answer = client.get(path)
            assert not [secret for secret in secrets if secret in answer.text], path


def test_a_token_opens_its_namespaces_with_its_scopes(client, engine, secrets):
    def status(path, namespaces, header=None, scope=Scope.READ, method="GET"):
        token = create_token(engine, "u", [scope], namespaces, 60)
        headers = {"Authorization": f"Bearer {token}"} | ({} if header is None else {"X-Namespace": header})
        return client.request(method, path, headers=headers).status_code

    job = f"/v1/jobs/{secrets[0]}"
    assert status(job, ["docs"]) == 200
    assert status(job, ["shop"]) == 404
    assert status(job, ["shop"], "docs") == 403 == status(job, ["shop"], "none")
    assert status(job, ["shop", "docs"], "docs") == 200 == status(job, None, "docs")
    assert status(job, None) == 400
    assert status(f"{job}/cancel", ["docs"], method="POST") == 403
    assert status("/v1/audit", ["docs"], scope=Scope.RUN) == 403
    assert status(job, ["docs"], scope=Scope.PUSH) == 403
    assert status("/metrics", ["docs"], scope=Scope.ADMIN) == 403, "metrics show all namespaces"
    assert status("/v1/audit?everything=true", ["docs"], scope=Scope.ADMIN) == 403
    assert status("/metrics", None) == 200
