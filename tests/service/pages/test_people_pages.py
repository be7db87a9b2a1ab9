"""Pages of people and tokens: what an admin, a project's admin and everybody else may change."""

import re

import pytest

from evalspec.service.people import list_people, set_role, welcome
from evalspec.service.tokens import EVERYWHERE, SESSION, ProjectRole, Scope, create_token
from service.pages.visitors import BROWSER

ANA, BEN, CLEO = "ana@example.com", "ben@example.com", "cleo@example.com"


@pytest.fixture
def database(tmp_path):
    return f"sqlite:///{tmp_path / 'service.db'}"


@pytest.fixture
def visit(client, engine):
    """A function that sends a request in the session of a person, who has what their roles permit."""
    del client.headers["Authorization"]
    sessions = {}

    def send(who, path, status=200, method="GET", **form):
        if who not in sessions:
            welcome(engine, who)
            sessions[who] = create_token(engine, who, [Scope.ADMIN], None, 600, SESSION, granted_by=who)
        cookies = {"Cookie": f"evalspec_session={sessions[who]}", "Origin": "http://localhost"}
        answer = client.request(method, path, headers=BROWSER | cookies, data=form or None, follow_redirects=False)
        assert answer.status_code == status, answer.text
        return answer.text

    return send


@pytest.fixture
def roles(engine):
    set_role(engine, ANA, EVERYWHERE, ProjectRole.ADMIN)
    set_role(engine, BEN, "shop", ProjectRole.ADMIN)
    return lambda user: next(dict(one.roles) for one in list_people(engine) if one.user == user)


def test_an_admin_changes_roles_and_disables_people(visit, roles):
    place = "/people?namespace=shop"
    visit(CLEO, "/runs?namespace=shop", 403)
    visit(ANA, place, 303, "POST", user=CLEO, role="reviewer")
    assert roles(CLEO) == {"shop": "reviewer"}
    visit(CLEO, "/runs?namespace=shop")
    visit(CLEO, place, 403)
    visit(ANA, place, 303, "POST", user=CLEO, role="viewer", place="everywhere")
    assert roles(CLEO) == {"shop": "reviewer", "*": "viewer"}
    visit(CLEO, "/runs?namespace=docs")
    visit(ANA, place, 303, "POST", user=CLEO, role="disable")
    visit(CLEO, "/runs?namespace=docs", 401)
    assert f"{CLEO}</bdi> <small>disabled" in visit(ANA, place)
    visit(ANA, place, 303, "POST", user=CLEO, role="enable")
    visit(CLEO, "/runs?namespace=docs")


def test_an_address_is_disabled_in_every_spelling(visit, roles, engine, client):
    welcome(engine, "Dora@Example.com")  # as her link of the command line names her
    token = create_token(engine, "Dora@Example.com", [Scope.READ], ["shop"], 600)
    headers = {"Authorization": f"Bearer {token}"}
    shown = re.search(r'value="(dora@[^"]+)"', visit(ANA, "/people?namespace=shop"), re.IGNORECASE)[1]
    assert client.get("/v1/runs", headers=headers).status_code == 200
    visit(ANA, "/people?namespace=shop", 303, "POST", user=shown, role="disable")
    assert client.get("/v1/runs", headers=headers).status_code == 401
    assert "nobody is named" in visit(ANA, "/people?namespace=shop", 409, "POST", user="x@example.com", role="disable")


def test_the_last_admin_stays(visit, roles):
    place = "/people?namespace=shop"
    for role in ("none", "viewer"):
        assert "last admin of every project" in visit(ANA, place, 409, "POST", user=ANA, role=role, place="everywhere")
    assert "you cannot disable yourself" in visit(ANA, place, 409, "POST", user=ANA, role="disable")
    assert roles(ANA) == {"*": "admin"}
    visit(ANA, place, 303, "POST", user="Cleo@example.com", role="admin", place="everywhere")
    visit(ANA, place, 303, "POST", user=ANA, role="none", place="everywhere")
    assert (roles(ANA), roles(CLEO)) == ({}, {"*": "admin"})
    assert "last admin" in visit(CLEO, place, 409, "POST", user=CLEO, role="none", place="everywhere")


def test_an_admin_of_one_project_changes_only_that(visit, roles):
    assert CLEO not in visit(BEN, "/people")
    visit(BEN, "/people", 303, "POST", user=CLEO, role="editor")
    assert roles(CLEO) == {"shop": "editor"}
    visit(BEN, "/people", 403, "POST", user=CLEO, role="editor", place="everywhere")
    visit(BEN, "/people", 403, "POST", user=CLEO, role="disable")
    visit(BEN, "/people?namespace=docs", 403)
    visit(BEN, "/people?namespace=docs", 403, "POST", user=BEN, role="admin")


def test_a_token_is_shown_once_and_has_no_more_than_its_person(visit, roles, client, engine):
    visit(BEN, "/people", 303, "POST", user=CLEO, role="editor")
    made = re.search(r"evs_(\w+?)_[\w-]+", visit(CLEO, "/tokens", 200, "POST", scope="run", days="7"))
    shown = visit(CLEO, "/tokens")
    assert (made[0] in shown, made[1] in shown) == (False, True)
    visit(CLEO, "/tokens", 403, "POST", scope="admin", days="7")
    visit(CLEO, "/tokens", 403, "POST", scope="read", days="7", user=BEN)

    def status(path, method="GET", body=None):
        return client.request(method, path, headers={"Authorization": f"Bearer {made[0]}"}, json=body).status_code

    assert (status("/v1/runs"), status("/v1/runs/x", "DELETE"), status("/tokens", "POST")) == (200, 404, 422)
    set_role(engine, CLEO, "shop", ProjectRole.VIEWER)
    assert (status("/v1/runs"), status("/v1/runs/x", "DELETE")) == (200, 403), "its person may only read by now"
    set_role(engine, CLEO, "shop", None)
    assert status("/v1/runs") != 200
    set_role(engine, CLEO, "shop", ProjectRole.EDITOR)
    assert made[1] in visit(BEN, "/tokens"), "an admin sees the tokens of the project"
    visit(BEN, "/tokens/revoke", 303, "POST", id=made[1])
    assert status("/v1/runs") == 401
    own = re.search(r'name="id" value="(\w+)"', visit(CLEO, "/tokens"))[1]
    assert "there is no such token" in visit(BEN, "/tokens/revoke", 404, "POST", id=own), "a session of hers"
    visit(CLEO, "/tokens/revoke", 303, "POST", id=own)
    visit(CLEO, "/runs", 401)


def test_an_admin_of_one_project_sees_the_audit_of_no_other(client, engine):
    set_role(engine, BEN, EVERYWHERE, ProjectRole.VIEWER)
    set_role(engine, BEN, "shop", ProjectRole.ADMIN)
    token = create_token(engine, BEN, [Scope.ADMIN], None, 600, granted_by=BEN)
    headers = {"Authorization": f"Bearer {token}", "X-Namespace": "shop"}
    places = ("/v1/audit", "/v1/audit?everything=true", "/metrics")
    assert [client.get(place, headers=headers).status_code for place in places] == [200, 403, 200]
    set_role(engine, BEN, EVERYWHERE, ProjectRole.ADMIN)
    assert client.get(places[1], headers=headers).status_code == 200
