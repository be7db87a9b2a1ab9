"""Gold sets by HTTP: who reviews is the user of the token, and nobody sees other reviews before their own."""

import pytest

from evalspec.gold.authoring import create_set
from evalspec.gold.gold_set import read_entry
from evalspec.gold.protocol import add_triple
from evalspec.gold.schema import GoldTriple, Person
from evalspec.service.tokens import Scope, create_token

PEOPLE = {who: Person(email=f"{who.title()}@example.com") for who in ("ada", "ben", "cleo", "dan")}
TRIPLES = "/v1/gold/help/triples"
OUTDATED = {"revision": 2, "verdict": "confirm"}


@pytest.fixture
def root(projects):
    """A set with one pending triple by ada."""
    root = projects["shop"] / "evals" / "gold" / "help"
    root.mkdir(parents=True)
    create_set(root, "Help pages", PEOPLE)
    content = {"question": "When is a refund paid?", "expected_block": {"block_id": "terms-17", "version": "v1"}}
    add_triple(root, "refund", GoldTriple.model_validate(content | {"expected_answer": "In 14 days."}), "ada")
    return root


@pytest.fixture
def as_user(client, engine):
    """A function that sends requests as somebody with a scope."""

    def ask(user, method, path, scope=Scope.REVIEW, **more):
        token = create_token(engine, user, [scope], ["shop"], 60)
        return client.request(method, path, headers={"Authorization": f"Bearer {token}"}, **more)

    return ask


def review(as_user, user, verdict="confirm", **more):
    return as_user(user, "POST", f"{TRIPLES}/refund/reviews", json={"revision": 1, "verdict": verdict, **more})


def test_two_people_accept_a_triple_and_neither_sees_the_other_first(as_user, root):
    waiting = as_user("ben@EXAMPLE.com", "GET", "/v1/gold/help/next").json()
    assert (waiting["waiting"], waiting["triple"]["question"]) == (1, "When is a refund paid?")
    first = review(as_user, "ben@example.com", note="It says so.")
    assert (first.status_code, first.json()["state"]) == (201, "pending")
    blind = as_user("cleo", "GET", f"{TRIPLES}/refund").json()
    assert (blind["state"], blind["reviewed_by"], blind["open_flags"]) == ("to review", None, None)
    assert "ben" not in str(blind["history"])
    assert "It says so." not in str(blind)
    assert as_user("cleo", "GET", f"{TRIPLES}?state=to review").json()["triples"][0]["id"] == "refund"
    assert as_user("cleo", "GET", "/v1/gold").json()["sets"][0]["states"] == {"to review": 1}
    done = review(as_user, "cleo").json()
    assert (done["state"], done["reviewed_by"]) == ("accepted", ["ben", "cleo"])
    entry = read_entry(root, "refund")
    assert {one.event.by for one in entry.events} == {"ada", "ben", "cleo"}
    assert as_user("dan", "GET", "/v1/gold/help/next").json() == {"waiting": 0, "triple": None}
    assert as_user("dan", "GET", "/v1/gold/help/stats").json()["states"] == {"accepted": 1}


def test_a_dispute_is_settled_by_its_rules(as_user, root):
    flagged = review(as_user, "ben", "overstated", category="other", note="Mostly.").json()
    assert (flagged["state"], flagged["open_flags"]) == ("disputed", {"ben": "overstated"})
    refused = as_user("dan", "POST", f"{TRIPLES}/refund/resolution", json={"outcome": "upheld"})
    assert (refused.status_code, "after two reviews" in refused.json()["detail"]) == (422, True)
    dropped = as_user("ada@example.com", "POST", f"{TRIPLES}/refund/resolution", json={"outcome": "dropped"})
    assert (dropped.status_code, dropped.json()["state"]) == (201, "dropped")


def test_refusals(as_user, root, projects):
    cases = [
        (as_user("eve@example.com", "GET", "/v1/gold/help/next"), 403, "not one of the people in help/set.yaml"),
        (review(as_user, "eve"), 403, "add the name or email there"),
        (review(as_user, "ada"), 422, "nobody reviews their own triple"),
        (as_user("ben", "GET", "/v1/gold/help/next", Scope.READ), 403, "this needs the scope review"),
        (as_user("ben", "POST", f"{TRIPLES}/refund/reviews", json=OUTDATED), 409, "has revision 1 by now"),
        (as_user("ben", "GET", f"{TRIPLES}/other"), 404, "there is no triple 'other'"),
        (as_user("ben", "GET", f"{TRIPLES}/..%2f..%2fset"), 404, ""),
        (as_user("ben", "GET", "/v1/gold/other/next"), 404, "there is no gold set 'other'"),
    ]  # fmt: skip
    for answer, status, words in cases:
        assert answer.status_code == status, answer.text
        assert words in answer.json()["detail"], answer.text
        assert str(projects["shop"]) not in answer.text
    review(as_user, "ben")
    again = review(as_user, "ben")
    assert (again.status_code, "has reviewed revision 1 already" in again.json()["detail"]) == (422, True)
    (root / "triples" / "broken.yaml").write_text("question: [")
    listed = as_user("ben", "GET", "/v1/gold", Scope.READ).json()["sets"][0]
    assert listed["problems"][0].startswith("evals/gold/help/triples/broken.yaml:")
