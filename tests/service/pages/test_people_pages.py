"""Pages of people and tokens: what an admin, a project's admin and everybody else may change."""

import re

import pytest
from sqlalchemy import update

from evalspec.service.database import writing
from evalspec.service.people import list_people, set_role, welcome
from evalspec.service.tables import PEOPLE
from evalspec.service.tokens import EVERYWHERE, SESSION, TOKEN, ProjectRole, Scope, create_token, list_tokens
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
    assert 'action="/logout"' in visit(CLEO, "/runs?namespace=shop", 403), "for who came with another account"
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


def test_people_beyond_the_first_hundred_are_found_by_a_part_of_their_names(visit, roles, engine):
    for number in range(120):
        set_role(engine, f"P{number:03}", "shop", ProjectRole.VIEWER)
    page = visit(ANA, "/people?namespace=shop")
    assert page.count("<tr role") == 101 and "… and 22 more people" in page  # with Ana, Ben, and the head of the table
    found = visit(ANA, "/people?namespace=shop&name=p11")
    assert re.findall(r"<bdi>(P\d+)</bdi>", found) == [f"P11{last}" for last in range(10)]
    assert "more people" not in found
    assert "<bdi>&lt;i&gt;</bdi>" in visit(ANA, "/people?namespace=shop&name=<i>")


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
    visit(BEN, "/tokens", 200, "POST", scope="read", days="7", user="ci")
    with writing(engine) as connection:
        connection.execute(update(PEOPLE).where(PEOPLE.c.user == CLEO).values(last_seen=86_400))
        connection.execute(update(PEOPLE).where(PEOPLE.c.user == BEN).values(last_seen=2 * 86_400))
    rows = re.findall(
        r'data-title="user"><bdi>(.+?)</bdi>.+?data-title="last login">(.*?)<', visit(BEN, "/tokens"), re.DOTALL
    )
    assert {(CLEO, "1970-01-02"), ("ci", "1970-01-03")} <= {*rows}, "of the user, or else of who created it"
    visit(BEN, "/tokens/revoke", 303, "POST", id=made[1])
    assert status("/v1/runs") == 401
    own = re.search(r'name="id" value="(\w+)"', visit(CLEO, "/tokens"))[1]
    assert "there is no such token" in visit(BEN, "/tokens/revoke", 404, "POST", id=own), "a session of hers"
    visit(CLEO, "/tokens/revoke", 303, "POST", id=own)
    visit(CLEO, "/runs", 401)


def test_a_token_in_the_name_of_somebody_does_not_show_or_end_what_is_theirs(visit, roles, client, engine):
    visit(ANA, "/tokens?namespace=docs", 200, "POST", scope="read")
    theirs = [
        one.token_id
        for one, *_ in list_tokens(engine, (TOKEN, SESSION))
        if one.user == ANA and one.namespaces != {"shop"}
    ]
    made = re.search(r"evs_(\w+?)_[\w-]+", visit(BEN, "/tokens", 200, "POST", scope="admin", user=ANA.upper()))
    sent = BROWSER | {"Authorization": f"Bearer {made[0]}"}
    shown = client.get("/tokens", headers=sent).text
    assert (made[1] in shown, [one for one in theirs if one in shown], "docs" in shown) == (True, [], False)
    for one in theirs:
        assert client.post("/tokens/revoke", headers=sent, data={"id": one}).status_code == 404
    visit(ANA, "/runs?namespace=docs")


def test_an_admin_of_one_project_sees_the_audit_of_no_other(client, engine):
    set_role(engine, BEN, EVERYWHERE, ProjectRole.VIEWER)
    set_role(engine, BEN, "shop", ProjectRole.ADMIN)
    token = create_token(engine, BEN, [Scope.ADMIN], None, 600, granted_by=BEN)
    headers = {"Authorization": f"Bearer {token}", "X-Namespace": "shop"}
    places = ("/v1/audit", "/v1/audit?everything=true", "/metrics")
    assert [client.get(place, headers=headers).status_code for place in places] == [200, 403, 200]
    set_role(engine, BEN, EVERYWHERE, ProjectRole.ADMIN)
    assert client.get(places[1], headers=headers).status_code == 200
