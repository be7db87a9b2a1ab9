"""Gold sets by HTTP: who reviews is the user of the token, and nobody sees other reviews before their own."""

from datetime import timedelta

import pytest

from evalspec.curation.gold import retraction
from evalspec.curation.gold.authoring import create_set
from evalspec.curation.gold.gold_set import read_entry
from evalspec.curation.gold.protocol import add_triple
from evalspec.curation.gold.schema import GoldTriple, Person
from evalspec.service.tokens import Scope, create_token

PEOPLE = {who: Person(email=f"{who.title()}@example.com") for who in ("ada", "ben", "cleo", "dan")}
TRIPLES = "/v1/gold/help/triples"
CONTENT = {
    "question": "When is a refund paid?",
    "expected_block": {"block_id": "terms-17", "version": "v1"},
    "expected_answer": "In 14 days.",
}
OUTDATED = {"revision": 2, "verdict": "confirm"}


@pytest.fixture
def root(projects):
    """A set with one pending triple by ada."""
    root = projects["shop"] / "evals" / "gold" / "help"
    root.mkdir(parents=True)
    create_set(root, "Help pages", PEOPLE)
    add_triple(root, "refund", GoldTriple.model_validate(CONTENT), "ada")
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


@pytest.fixture
def end_undo(monkeypatch):
    """A function after which no review can be taken back, as if ten minutes had passed."""
    return lambda: monkeypatch.setattr(retraction, "UNDO_TIME", timedelta())


def test_two_people_accept_a_triple_and_neither_sees_the_other_first(as_user, root, end_undo):
    waiting = as_user("ben@EXAMPLE.com", "GET", "/v1/gold/help/next").json()
    assert (waiting["waiting"], waiting["triple"]["question"]) == (1, "When is a refund paid?")
    first = review(as_user, "ben@example.com", note="It says so.")
    assert (first.status_code, first.json()["state"]) == (201, "reviewed by you")
    blind = as_user("cleo", "GET", f"{TRIPLES}/refund").json()
    assert (blind["state"], "reviewedBy" in blind, "openFlags" in blind) == ("to review", False, False)
    assert "ben" not in str(blind["history"])
    assert "It says so." not in str(blind)
    assert as_user("cleo", "GET", f"{TRIPLES}?state=to review").json()["triples"][0]["id"] == "refund"
    assert as_user("cleo", "GET", "/v1/gold").json()["sets"][0]["states"] == {"to review": 1}
    assert "reviewedBy" not in review(as_user, "cleo").json()
    end_undo()
    done = as_user("cleo", "GET", f"{TRIPLES}/refund").json()
    assert (done["state"], done["reviewedBy"]) == ("accepted", ["ben", "cleo"])
    entry = read_entry(root, "refund")
    assert {one.event.by for one in entry.events} == {"ada", "ben", "cleo"}
    assert as_user("dan", "GET", "/v1/gold/help/next").json() == {"waiting": 0, "triple": None}
    assert as_user("dan", "GET", "/v1/gold/help/stats").json()["states"] == {"accepted": 1}


def test_while_a_review_can_be_taken_back_no_route_shows_what_others_said(as_user, root, end_undo):
    add_triple(root, "ship", GoldTriple.model_validate(CONTENT | {"question": "How long is shipping?"}), "ada")
    review(as_user, "ben", "overstated", note="It says 15.")
    routes = ["", "/help/triples", "/help/triples/refund", "/help/stats", "/help/triples?state=disputed"]

    def read():
        return " ".join(as_user("cleo", "GET", f"/v1/gold{one}").text for one in routes)

    before = read()
    answers = [review(as_user, "cleo").text, review(as_user, "cleo", "wrong_block").text, review(as_user, "cleo").text]
    answers += [as_user("cleo", "POST", f"{TRIPLES}/refund/resolution", json={"outcome": "dropped"}).text]
    answers += [as_user("cleo", "POST", f"{TRIPLES}/ship/reviews", json={"revision": 1, "verdict": "confirm"}).text]
    for said in (before, *answers, read()):
        assert not [word for word in ('"ben"', "overstated", "It says 15.", "disputed", "is dropped") if word in said]
    assert "you can still take your review of 'refund' back" in answers[3]
    assert as_user("cleo", "GET", "/v1/gold/help/stats").json()["hidden"] == 1
    end_undo()
    assert '"ben"' in read()
    assert as_user("cleo", "GET", "/v1/gold/help/stats").json()["states"] == {"pending": 1, "dropped": 1}


def test_a_dispute_is_settled_by_its_rules(as_user, root, end_undo):
    review(as_user, "ben", "overstated", category="other", note="Mostly.")
    end_undo()
    flagged = as_user("ben", "GET", f"{TRIPLES}/refund").json()
    assert (flagged["state"], flagged["openFlags"]) == ("disputed", {"ben": "overstated"})
    refused = as_user("dan", "POST", f"{TRIPLES}/refund/resolution", json={"outcome": "upheld"})
    assert (refused.status_code, "after two reviews" in refused.json()["detail"]) == (422, True)
    dropped = as_user("ada@example.com", "POST", f"{TRIPLES}/refund/resolution", json={"outcome": "dropped"})
    assert (dropped.status_code, dropped.json()["state"]) == (201, "dropped")


def test_a_revision_replaces_what_it_names_and_starts_the_reviews_again(as_user, root, end_undo):
    place = f"{TRIPLES}/refund/revisions"
    review(as_user, "ben", "overstated", note="It says 15.")
    withheld = as_user("ben", "POST", place, json={"revision": 1, "expected_answer": "15 days."})
    assert (withheld.status_code, "you can still take your review" in withheld.json()["detail"]) == (409, True)
    end_undo()
    before = read_entry(root, "refund").triple
    for body, status in (
        ({"revision": 2, "expected_answer": "15 days."}, 409),
        ({"revision": 1, "question": ""}, 422),
        ({"revision": 1, "expected_answer": before.expected_answer}, 422),
        ({"revision": 1, "expected_block": {"block_id": "x"}}, 422),
    ):
        assert as_user("ben", "POST", place, json=body).status_code == status, body
    revised = as_user("ben", "POST", place, json={"revision": 1, "expected_answer": "15 days.", "claims": ["15 days"]})
    assert (revised.status_code, revised.json()["revision"], revised.json()["state"]) == (201, 2, "pending")
    after = read_entry(root, "refund").triple
    assert (after.question, after.expected_answer, after.claims) == (before.question, "15 days.", ["15 days"])
    assert after.blocks == before.blocks
    assert as_user("ada", "POST", place, json={"revision": 2, "claims": []}).status_code == 201
    assert read_entry(root, "refund").triple.claims is None


def test_a_revision_before_ones_review_is_refused_and_says_nothing_about_other_reviews(as_user, root, end_undo):
    add_triple(root, "ship", GoldTriple.model_validate(CONTENT | {"question": "How long is shipping?"}), "ada")
    review(as_user, "ben", "overstated")
    end_undo()
    words = {"revision": 1, "expected_answer": "15 days."}
    answers = [as_user("dan", "POST", f"{TRIPLES}/{id}/revisions", json=words) for id in ("refund", "ship")]
    assert {answer.status_code for answer in answers} == {409}
    assert len({answer.json()["detail"].replace("ship", "refund") for answer in answers}) == 1
    assert "review 'ship' first" in answers[1].json()["detail"]
    own = as_user("ada", "POST", f"{TRIPLES}/ship/revisions", json={"revision": 1, "expected_answer": " 15 days.\n"})
    assert (own.status_code, own.json()["expected_answer"]) == (201, "15 days.")
    blank = as_user("ada", "POST", f"{TRIPLES}/ship/revisions", json={"revision": 2, "expected_answer": " \n"})
    assert (blank.status_code, "it is empty" in blank.json()["detail"]) == (422, True)


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
