"""Requests that no client sends by accident get an answer that says why, never an internal error."""

import base64

import pytest

CURSORS = ("[" * 1400, '[1.0,"\\u0000"]', '[1.0,"\\ud800"]', '[NaN,"a"]', '[1e999,"a"]')
BODIES = ('{"repeat": 1, "repeat": 100}', '{"seed": NaN}', "[" * 100_000, '{"tags": ["\\ud800"]}')
ROUTES = (
    "/v1/runs",
    "/v1/compare",
    "/v1/erasure",
    "/v1/gold/a/triples/b/reviews",
    "/v1/gold/a/triples/b/resolution",
    "/v1/gold/a/triples/b/revisions",
)


def encode(text):
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def test_forged_cursors_are_refused(client, add_run):
    run = add_run().id
    for path in ("/v1/runs", "/v1/jobs"):
        for cursor in CURSORS:
            assert client.get(path, params={"cursor": encode(cursor)}).status_code == 400, (path, cursor)
    for place in (2**63, -(10**300)):
        assert client.get(f"/v1/runs/{run}/samples", params={"cursor": encode(f"[{place}]")}).status_code == 400


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("path", ["/v1/runs?dataset=qa", "/v1/trends?dataset=qa&metric=exact_match"])
def test_times_without_a_zone_are_in_utc(client, add_run, path):
    started = client.get(f"/v1/runs/{add_run().id}").json()["startedAt"]
    found = client.get(f"{path}&from={started.removesuffix('+00:00')}").json()
    assert len(found.get("runs", found.get("points"))) == 1
    assert client.get(f"{path}&from=0001-01-01T00:00:00").status_code == 200


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("path", ROUTES)
def test_a_body_means_one_thing(client, path):
    for body in BODIES:
        answer = client.post(path, content=body)
        assert answer.status_code == 400, body
        assert "the body is not valid JSON" in answer.json()["detail"]


def test_a_session_of_any_text_is_unknown(client):
    del client.headers["Authorization"]
    answer = client.get("/v1/runs", headers={"Cookie": 'evalspec_session="evs_\\000_x"'})
    assert answer.status_code == 401
