"""Which scopes open which route. A new route fails here until it is in the table."""

import pytest

from evalspec.service.tokens import Scope, create_token
from service.test_namespaces import fill, list_routes

READING = {Scope.READ, Scope.RUN, Scope.REVIEW, Scope.ADMIN}
RUNNING = {Scope.RUN, Scope.ADMIN}
REVIEWING = {Scope.REVIEW, Scope.ADMIN}
PUSHING = {Scope.PUSH, Scope.RUN, Scope.ADMIN}
ANYONE = set(Scope)
DATASETS = "/v1/retrievers/evaluations/datasets"
EVALUATIONS = "/v1/retrievers/{retriever_id}/evaluations"
CHANGES = {
    ("POST", "/v1/runs"): RUNNING,
    ("POST", "/v1/runs/{run_id}/resume"): RUNNING,
    ("POST", "/v1/runs/{run_id}/cancel"): RUNNING,
    ("DELETE", "/v1/runs/{run_id}"): RUNNING,
    ("POST", "/v1/jobs/{job_id}/cancel"): RUNNING,
    ("POST", "/v1/compare"): READING,
    ("POST", "/v1/gold/{name}/triples/{triple_id}/reviews"): REVIEWING,
    ("POST", "/v1/gold/{name}/triples/{triple_id}/resolution"): REVIEWING,
    ("POST", "/v1/gold/{name}/triples/{triple_id}/revisions"): REVIEWING,
    ("POST", "/v1/gold/{name}/assignments"): RUNNING,
    ("POST", "/v1/assignments"): RUNNING,
    ("DELETE", "/v1/assignments/{assignment_id}"): RUNNING,
    ("POST", DATASETS): PUSHING,
    ("POST", EVALUATIONS): RUNNING,
    ("POST", f"{EVALUATIONS}/{{evaluation_id}}/cancel"): RUNNING,
    ("POST", "/v1/erasure"): {Scope.ADMIN},
    ("POST", "/v1/pushes"): PUSHING,
    ("PUT", "/v1/pushes/{push_id}/files/{name}"): PUSHING,
    ("POST", "/v1/pushes/{push_id}/commit"): PUSHING,
    ("POST", "/v1/baselines/{name}"): REVIEWING,
    ("POST", "/v1/runs/{run_id}/labels"): REVIEWING,
    ("POST", "/v1/runs/{run_id}/labels/import"): REVIEWING,
    ("DELETE", "/v1/runs/{run_id}/labels"): REVIEWING,
    ("POST", "/runs/jobs/{job_id}/cancel"): RUNNING,
    ("POST", "/runs/jobs/{job_id}/retry"): RUNNING,
    ("POST", "/runs/{run_id}/resume"): RUNNING,
    ("POST", "/runs/{run_id}/label"): REVIEWING,
    ("POST", "/runs/{run_id}/labels"): REVIEWING,
    ("POST", "/gold/{name}/review"): REVIEWING,
    ("POST", "/gold/{name}/undo"): REVIEWING,
    ("POST", "/gold/{name}/settle"): REVIEWING,
    ("POST", "/gold/{name}/revise"): REVIEWING,
    ("POST", "/gold/{name}/assign"): RUNNING,
    ("POST", "/work"): RUNNING,
    ("POST", "/work/end"): RUNNING,
    ("POST", "/alerts"): {Scope.ADMIN},
    ("POST", "/datasets/upload"): RUNNING,
    ("POST", "/datasets/upload/{token}"): RUNNING,
    ("POST", "/datasets/upload/{token}/discard"): RUNNING,
    ("POST", "/people"): {Scope.ADMIN},
    ("POST", "/tokens"): READING,
    ("POST", "/tokens/revoke"): READING,
    ("POST", "/logout"): ANYONE,
}
"""Every route that is not a GET. `/logout` refuses tokens in another way."""
READS = {
    ("GET", "/v1/gold/{name}/next"): REVIEWING,
    ("GET", "/v1/audit"): {Scope.ADMIN},
    ("GET", "/v1/baselines/{name}"): READING | PUSHING,
    ("GET", "/v1/runs/{run_id}/labels/export"): RUNNING,
    ("GET", "/v1/runs/{run_id}/labels/calibration"): RUNNING,
    ("GET", "/runs/{run_id}/labels/calibration"): RUNNING,
    ("GET", "/runs/{run_id}/labels/export"): RUNNING,
    ("GET", "/v1/openapi.json"): ANYONE,
    ("GET", "/runs/{run_id}/label"): REVIEWING,
    ("GET", "/gold/{name}/review"): REVIEWING,
    ("GET", "/people"): {Scope.ADMIN},
    ("GET", "/datasets/upload"): RUNNING,
    ("GET", "/datasets/upload/{token}"): RUNNING,
}
"""GET routes that the scope read does not open, or that every token opens. All others need READING."""
PUBLIC = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/login"), ("POST", "/login"), ("GET", "/assets/{name}")} | {
    ("GET", "/login/start"),
    ("GET", "/login/callback"),
}


@pytest.fixture
def database(tmp_path):
    return f"sqlite:///{tmp_path / 'service.db'}"


def test_each_route_is_open_for_its_scopes_and_for_no_other(client, engine):
    tokens = {scope: create_token(engine, "u", [scope], None, 600) for scope in Scope}
    routes = [route for route in list_routes() if route not in PUBLIC]
    assert {route for route in routes if route[0] not in ("GET", "HEAD")} == set(CHANGES)
    assert set(READS) <= set(routes)
    wrong = []
    for route in routes:
        method, path = route
        expected = CHANGES.get(route) or READS.get(route, READING)
        for scope, token in tokens.items():
            headers = {"Authorization": f"Bearer {token}", "X-Namespace": "shop"}
            query = {} if path.startswith("/v1/") else {"namespace": "shop"}
            body = {} if method == "POST" else None
            answer = client.request(method, fill(path, "x"), params=query, headers=headers, json=body)
            assert answer.status_code < 500, (route, scope, answer.text)
            assert answer.status_code != 401, (route, scope)
            if (answer.status_code != 403) != (scope in expected):
                wrong.append((route, scope, answer.status_code))
    assert wrong == [], [(route, str(scope), status) for route, scope, status in wrong]
