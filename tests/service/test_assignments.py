"""Assignments of labels by HTTP: shares, who sees what first, people who leave, and who may assign."""

import re
from html import unescape
from itertools import chain
from typing import Any

import pytest
from sqlalchemy import select

from evalspec.curation.gold.protocol import add_triple, review
from evalspec.service import assignments_api
from evalspec.service.audit import list_entries
from evalspec.service.database import reading
from evalspec.service.people import set_disabled, set_role
from evalspec.service.tables import ASSIGNMENTS
from evalspec.service.tokens import EVERYWHERE, ProjectRole, Scope, create_token
from gold_sets import make_set, make_triple
from servers.service import wait_for
from service.pages.visitors import Visitor, text_of

ADA, BEN, CLEO, DORA = (f"{name}@example.com" for name in ("ada", "ben", "cleo", "dora"))
LABELLERS = [ADA, BEN, CLEO]


@pytest.fixture
def run(add_run, engine):
    for user in LABELLERS:
        set_role(engine, user, "shop", ProjectRole.REVIEWER)
    set_role(engine, DORA, EVERYWHERE, ProjectRole.VIEWER)
    return add_run().id


@pytest.fixture
def send(client, engine, run):
    """A function that sends a request as somebody with a scope, and returns the answer."""

    def ask(user, method="GET", path="/v1/assignments", status=200, scope=Scope.REVIEW, **body):
        token = create_token(engine, user, [scope], ["shop"], 60)
        headers = {"Authorization": f"Bearer {token}"}
        answer = client.request(method, path, headers=headers, json=body or None)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    return ask


@pytest.fixture
def assign(send, run):
    def add(status=201, user=DORA, scope=Scope.RUN, **asked):
        return send(user, "POST", status=status, scope=scope, **{"run_id": run, "people": LABELLERS, **asked})

    return add


@pytest.fixture
def walk(client, engine, run):
    """A function that labels the share of a person on the page until nothing is left. Returns the samples."""

    def label_all(user, assignment, most=99):
        token = create_token(engine, user, [Scope.REVIEW], ["shop"], 60)
        headers, seen = {"Authorization": f"Bearer {token}", "Accept": "text/html"}, []
        while len(seen) < most:
            page = client.get(f"/runs/{run}/label?assignment={assignment}", headers=headers).text
            if "<article" not in page:
                break
            sample = page.partition("<h1><bdi>")[2].partition("<")[0]
            said = client.post(f"/v1/runs/{run}/labels", headers=headers, json={"sample": sample, "verdict": "good"})
            assert said.status_code == 201
            seen.append(sample)
        return seen

    return label_all


def test_each_reply_goes_to_two_people_and_each_person_sees_only_their_share(assign, send, walk):
    made = assign(people_per_reply=2)
    assert (made["left"], made["assigned_by"], made["labelled"], made["waiting"]) == ([], DORA, None, None)
    waiting = {user: send(user)["assignments"][0]["waiting"] for user in LABELLERS}
    shares = {user: walk(user, made["id"]) for user in LABELLERS}
    assert {user: len(share) for user, share in shares.items()} == waiting
    assert sorted(chain.from_iterable(shares.values())) == sorted(2 * [f"s{place}" for place in range(6)])
    assert {(one["labelled"], one["waiting"]) for one in send(ADA)["assignments"]} == {(waiting[ADA], 0)}


def test_the_share_of_a_person_who_leaves_is_free_again_but_not_their_labels(assign, send, walk, engine):
    made = assign(people_per_reply=1)
    before = {user: send(user)["assignments"][0]["waiting"] for user in LABELLERS}
    leaving = max(before, key=before.get)
    done = walk(leaving, made["id"], most=1)
    staying = [user for user in LABELLERS if user != leaving]
    set_disabled(engine, leaving, is_disabled=True)
    assert send(staying[0])["assignments"][0]["left"] == [leaving]
    assert sorted(chain(done, *(walk(user, made["id"]) for user in staying))) == [f"s{place}" for place in range(6)]
    set_disabled(engine, leaving, is_disabled=False)
    counted = {user: (one["labelled"], one["waiting"]) for user in LABELLERS for one in send(user)["assignments"]}
    assert counted[leaving] == (1, 0), "who comes back is not asked again what others have labelled meanwhile"
    assert sum(labelled for labelled, _ in counted.values()) == 6


def test_an_assignment_locks_nothing_and_ends(assign, send, walk, run):
    made = assign(people=[BEN], people_per_reply=1)
    assert len(walk(ADA, made["id"], most=2)) == 2, "others label the whole queue"
    send(BEN, "DELETE", f"/v1/assignments/{made['id']}", 403)
    send(DORA, "DELETE", f"/v1/assignments/{made['id']}", 204, Scope.RUN)
    send(DORA, "DELETE", f"/v1/assignments/{made['id']}", 404, Scope.RUN)
    assert send(BEN)["assignments"] == []
    assert len(walk(BEN, made["id"])) == 6
    found = send(BEN, path=f"/v1/runs/{run}/labels")
    assert (len(found["labels"]), found["hidden"]) == (8, 0)


def test_own_assignments_come_first_without_labels_of_others(assign, send, engine):
    own = assign(people=[ADA], queue={"metric": "exact_match", "draw": "random", "size": 2})
    later = assign(people=[BEN])
    assert [(one["id"], one["waiting"]) for one in send(ADA)["assignments"]] == [(own["id"], 2), (later["id"], None)]
    assert [one["id"] for one in send(BEN)["assignments"]] == [later["id"], own["id"]]
    assert own["queue"] == {**dict.fromkeys(("dataset", "tag", "state", "seed")), "metric": "exact_match"} | {
        "draw": "random",
        "size": 2,
    }
    said = {(one.action, one.user, one.target) for one in list_entries(engine, "shop", action="labels assign")}
    assert ("labels assign", DORA, f"{later['id']} {later['run_id']} {BEN}") in said


def test_own_assignments_are_listed_however_many_others_are_newer(assign, send, monkeypatch):
    own = assign(people=[ADA])
    assign(people=[BEN])
    monkeypatch.setattr(assignments_api, "_MOST_LISTED", 1)
    assert [one["id"] for one in send(ADA)["assignments"]] == [own["id"]]
    monkeypatch.setattr(assignments_api, "_MOST_LISTED", 2)
    monkeypatch.setattr(assignments_api, "_MOST_LOOKED_AT", 11)
    assign(people=[ADA])
    assert [one["waiting"] for one in send(ADA)["assignments"]] == [6, None], "counting has a limit, of 6 samples each"
    assert [one["waiting"] for one in send("Ada@Example.com")["assignments"]] == [6, None], (
        "addresses are one in any case"
    )


def test_a_run_that_is_deleted_has_no_assignments(assign, send, add_run, projects, engine):
    runs = projects["shop"] / ".evalspec" / "runs"
    kept, away = assign(people=[ADA], run_id=add_run().id), assign(people=[ADA])
    (runs / away["run_id"]).rename(projects["shop"] / "away")
    wait_for(lambda: [one["id"] for one in send(ADA)["assignments"]] == [kept["id"]])
    (projects["shop"] / "away").rename(runs / away["run_id"])
    wait_for(lambda: len(send(ADA)["assignments"]) == 2)
    for one in (kept, away):
        send(DORA, "DELETE", f"/v1/runs/{one['run_id']}", 204, Scope.RUN)
    assert send(ADA)["assignments"] == []
    with reading(engine) as connection:
        assert connection.execute(select(ASSIGNMENTS)).all() == []


def test_the_character_nul_is_refused(client, engine, run):
    editor = Visitor(client, engine, DORA, [Scope.ADMIN])
    for path, given in (("/work/end", {"id": "a\0"}), ("/people", {"user": "İ@" * 100, "role": "reviewer"})):
        answered = client.post(path, headers=editor._headers, data=given, follow_redirects=False)
        assert answered.status_code < 500, (path, answered.text)
    reason = {"run_id": run, "reason": "a\0"}
    assert client.post("/v1/baselines/main", json=reason).status_code < 500


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_refused_assignments(assign, send, engine):
    def why(status=422, **asked):
        return assign(status, **asked)["detail"]

    assert f"{DORA} may not label here" in why(people=[ADA, DORA]), "a viewer"
    set_role(engine, CLEO, "shop", None)
    assert f"{CLEO} may not label here" in why(), "a person of no project"
    assert "this draw depends on" in why(
        people=[ADA, BEN], people_per_reply=1, queue={"metric": "exact_match", "draw": "strata"}
    )
    assert "has no metric 'other'" in why(people=[ADA], queue={"metric": "other"})
    why(people=[ADA], queue={"tag": "other"})
    assert "1 person cannot give 2 labels for each reply" in why(people=[ADA, ADA], people_per_reply=2)
    why(404, people=[ADA], run_id="other")
    why(403, people=[ADA], scope=Scope.REVIEW)
    assert send(ADA)["assignments"] == []


def test_pages_assign_shares_and_show_own_work_first(client, engine, run, send):
    editor, ada = (
        Visitor(client, engine, user, scopes) for user, scopes in ((DORA, [Scope.RUN]), (ADA, [Scope.REVIEW]))
    )
    page = editor.get(f"/runs/{run}/labels")
    assert f'value="{ADA}"' in page and f'value="{DORA}"' not in page, "viewers are not offered"
    assert "Ask others to label it" not in ada.get(f"/runs/{run}/labels")
    ada.post("/work", 403, run_id=run, people=[ADA])
    assert "nobody is chosen" in text_of(editor.post("/work", 422, run_id=run))
    editor.post("/work", 422, run_id=run, people=[ADA], each="999999999")
    editor.post("/work", 422, run_id=run, people=["a" * 301])
    assert editor.post("/work", run_id=run, people=[BEN], each="", metric="") == "/work"
    editor.post("/work", run_id=run, people=[ADA, BEN], metric="exact_match", draw="random", size="4", each="2")
    shown = ada.get("/work")
    assert shown.index("For you") < shown.index("Label 4") < shown.index("For others")
    place = unescape(re.search(r'class="button" href="([^"]*)">Label 4', shown)[1])
    case = ada.get(place)
    assert "1 of 4" in text_of(case) and "The judge&#39;s score is hidden" in case
    assert "End" not in text_of(shown)
    id = send(ADA)["assignments"][0]["id"]
    assert editor.post("/work/end", id=id) == "/work"
    assert "Label 4" not in ada.get("/work")
    assert "1 of 4" in text_of(ada.get(place)), "the address stays that of the draw"


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_reviews_and_disputes_are_assigned_and_stay_blind(client, engine, projects, send):
    root = projects["shop"] / "evals" / "gold" / "help"
    root.parent.mkdir(parents=True)
    make_set(root)
    for id in ("refund", "ship"):
        add_triple(root, id, make_triple(f"What about {id}?"), "ada")
    for user in ("ben", "dan"):
        set_role(engine, user, "shop", ProjectRole.REVIEWER)
    set_role(engine, CLEO, "shop", ProjectRole.VIEWER)
    place = "/v1/gold/help/assignments"

    def why(status=422, user="ada", scope=Scope.RUN, **asked):
        return send(user, "POST", place, status, scope, **asked)["detail"]

    assert "cleo may not review here" in why(reviewer="cleo", count=1), "she only reads"
    assert "no triple waits for a review by ben" in why(reviewer="ben")
    assert "is not one of the people" in why(403, user="zoe", reviewer="ben", count=1)
    why(403, scope=Scope.REVIEW, reviewer="ben", count=1)
    made = [send("ada", "POST", place, 201, Scope.RUN, reviewer=who, count=1) for who in ("ben", "dan")]
    assert sorted(made[0]["triples"] + made[1]["triples"]) == ["refund", "ship"], "the shares differ"
    mine, other = made[1]["triples"][0], made[0]["triples"][0]
    assert send("dan", path="/v1/gold/help/next")["triple"]["id"] == mine
    editor, ben, dan = (
        Visitor(client, engine, who, [scope])
        for who, scope in (("ada", Scope.RUN), ("ben", Scope.REVIEW), ("dan", Scope.REVIEW))
    )
    review(root, other, "ben", "overstated", category="numeric")
    shown = text_of(dan.get("/work"))
    assert f"{mine} help review" in shown and other not in shown
    assert "settle" not in shown, "whoever has to review does not see that there is a dispute"
    review(root, other, "cleo")
    assert f"/gold/help/triple?id={other}" in editor.post("/gold/help/assign", to="dan", id=other)
    assert f"{other} help settle a dispute" in text_of(dan.get("/work"))
    assert "Ask for reviews" in editor.get("/gold/help") and "Ask for reviews" not in ben.get("/gold/help")
    ben.post("/gold/help/assign", 403, to="dan", id=mine)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_whoever_can_take_a_review_back_learns_nothing_by_asking_others(client, engine, projects, send):
    root = projects["shop"] / "evals" / "gold" / "help"
    root.parent.mkdir(parents=True)
    make_set(root)
    set_role(engine, "dan", "shop", ProjectRole.REVIEWER)
    cleo = Visitor(client, engine, "cleo", [Scope.REVIEW, Scope.RUN])
    flagged: dict[str, Any] = {"verdict": "overstated", "category": "numeric"}
    for id, said in {"agreed": {}, "disputed": flagged}.items():
        add_triple(root, id, make_triple(f"Is it {id}?"), "ada")
        review(root, id, "ben", **said)
        review(root, id, "cleo")
        assert "Ask for a review" not in cleo.get(f"/gold/help/triple?id={id}")
        refused = send("cleo", "POST", "/v1/gold/help/assignments", 409, Scope.RUN, reviewer="dan", triples=[id])
        assert f"you can still take your review of '{id}' back" in refused["detail"]
