"""The pages of gold sets by HTTP: who may see and do what, reviews that meet, undo, disputes, hostile texts."""

import os
import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from evalspec.curation.gold import retraction
from evalspec.curation.gold.gold_set import read_entry, read_set
from evalspec.curation.gold.protocol import add_triple, resolve, review
from evalspec.curation.gold.retraction import find_last_reviews
from evalspec.service.tokens import Scope
from gold_sets import make_set, make_triple
from hostile_texts import HOSTILE
from service.pages.visitors import Visitor, text_of

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

REVIEW = "/gold/help/review"


@pytest.fixture
def root(projects):
    """A set with two pending triples by ada."""
    root = projects["shop"] / "evals" / "gold" / "help"
    root.parent.mkdir(parents=True)
    make_set(root)
    add_triple(root, "refund", make_triple(), "ada")
    add_triple(root, "ship", make_triple("How long does shipping take?", answer="3 days"), "ada")
    return root


class Person(Visitor):
    """Somebody who reviews."""

    def fill(self, page, path, status=303, **form):
        """Send the form of a page to a path, with its hidden fields."""
        (inside,) = re.findall(rf'<form[^>]*action="{path}"(?:(?!</form>).)*?</form>', page, re.DOTALL)[-1:]
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', inside)
        given = {name: unescape(value) for name, value in hidden if name != "verdict"}
        return self.post(path.replace("\\", ""), status, **given, **form)

    def review(self, id, status=303, verdict="confirm", **form):
        return self.fill(self.get(f"{REVIEW}?id={id}"), REVIEW, status, verdict=verdict, **form)


@pytest.fixture
def person(client, engine):
    return lambda user, *scopes: Person(client, engine, user, scopes or (Scope.REVIEW,))


@pytest.fixture
def end_undo(monkeypatch):
    """A function after which no review can be taken back, as if ten minutes had passed."""
    return lambda: monkeypatch.setattr(retraction, "UNDO_TIME", timedelta())


def test_two_people_accept_a_triple_and_see_each_other_only_afterwards(person, root, end_undo):
    ben, cleo = person("ben@example.com"), person("cleo@example.com")
    assert "Review 2" in text_of(ben.get("/gold"))
    page = ben.get(REVIEW)
    assert "How long does a refund take?" in text_of(page)
    following = ben.fill(page, REVIEW, verdict="confirm", note="It says so.")
    assert "How long does shipping take?" in text_of(ben.get(following))
    blind = cleo.get("/gold/help/triple?id=refund")
    assert "Your review of this triple is wanted" in blind
    assert "It says so." not in blind
    assert "2 to review" in text_of(cleo.get("/gold/help"))
    cleo.review("refund", verdict="overstated", category="numeric", note="It says 15.")
    withheld = cleo.get("/gold/help/triple?id=refund")
    assert "You have just reviewed this triple" in withheld
    assert "ben" not in text_of(withheld)
    assert "It says so." not in withheld
    after = cleo.get(cleo.review("ship"))
    assert "You have just reviewed this triple" in cleo.get("/gold/help/triple?id=refund"), "undo twice leads to it"
    assert "cleo has reviewed it" in text_of(cleo.get(f"{REVIEW}?id=refund"))
    stats = text_of(cleo.get("/gold/help/stats"))
    assert "2 reviewed by you" in stats
    assert "1 triple is counted without the reviews that you may not see yet" in stats
    again = cleo.get(cleo.fill(after, "/gold/help/undo"))
    assert cleo.fill(again, "/gold/help/undo") == f"{REVIEW}?id=refund"
    cleo.review("refund", verdict="overstated", category="numeric", note="It says 15.")
    end_undo()
    shown = text_of(cleo.get("/gold/help/triple?id=refund"))
    assert "to be settled by ada and cleo" in shown
    assert "It says so." in shown
    assert "1 dispute to settle" in text_of(cleo.get("/gold"))


def test_a_form_that_is_sent_twice_counts_once_and_another_answer_is_refused(person, root):
    ben = person("ben")
    page = ben.get(f"{REVIEW}?id=refund")
    for _ in range(2):
        ben.fill(page, REVIEW, verdict="confirm")
    events = [one.event.kind for one in read_entry(root, "refund").events]
    assert events == ["add", "confirm"]
    refused = text_of(ben.fill(page, REVIEW, 409, verdict="confirm", note="Another word."))
    assert "ben has reviewed revision 1 already" in refused
    assert "Another word." in refused


def test_a_triple_that_changed_meanwhile_is_read_again(person, root):
    ben = person("ben")
    page = ben.get(f"{REVIEW}?id=refund")
    content = (root / "triples" / "refund.yaml").read_text()
    (root / "triples" / "refund.yaml").write_text(content.replace("14 days", "15 days"))
    refused = text_of(ben.fill(page, REVIEW, 409, verdict="not_entailed", note="My long note."))
    assert "was changed after it was shown" in refused
    assert "My long note." in refused
    assert len(read_entry(root, "refund").events) == 1
    for other in ("cleo", "dan"):
        review(root, "ship", other)
    assert "You cannot review this triple now: the triple is accepted" in text_of(ben.get(f"{REVIEW}?id=ship"))


def test_the_latest_review_is_taken_back_first(person, root):
    ben = person("ben")
    page = ben.get(ben.review("refund", verdict="wrong_block", note="No."))
    assert "You flagged refund as the answer comes from another block" in text_of(page)
    assert ben.fill(page, "/gold/help/undo") == f"{REVIEW}?id=refund"
    assert [one.event.kind for one in read_entry(root, "refund").events] == ["add"]
    assert "only your latest review" in text_of(ben.fill(page, "/gold/help/undo", 409))
    older = ben.get(ben.review("refund"))
    ben.review("ship")
    ben.fill(older, "/gold/help/undo", 409)
    assert len(read_entry(root, "refund").events) == 2


def test_what_others_rely_on_or_git_may_have_or_is_old_is_not_taken_back(person, root, projects):
    ben = person("ben")
    page = ben.get(ben.review("refund", verdict="overstated"))
    resolve(root, "refund", "ada", "upheld")
    assert "others have acted on the review" in text_of(ben.fill(page, "/gold/help/undo", 409))
    index = projects["shop"] / ".git" / "index"
    index.parent.mkdir()
    page = ben.get(ben.review("ship"))
    assert "You confirmed ship" in text_of(page)
    index.write_bytes(b"")
    os.utime(index, ns=(2**62, 2**62))
    assert "You confirmed ship" not in text_of(ben.get(REVIEW))
    assert "git may have it" in text_of(ben.fill(page, "/gold/help/undo", 409))
    index.unlink()
    later = datetime.now(UTC) + timedelta(minutes=11)
    assert [one.is_open for one in find_last_reviews(read_set(root), "ben")] == [True, True]
    assert [one.is_open for one in find_last_reviews(read_set(root), "ben", later)] == [False, False]


def test_skipped_triples_come_at_the_end(person, root):
    ben = person("ben")
    assert "How long does shipping take?" in text_of(ben.get(f"{REVIEW}?after=refund"))
    last = text_of(ben.get(f"{REVIEW}?after=ship"))
    assert "2 triples are left that you skipped" in last
    assert "How long does a refund take?" in text_of(ben.get(f"{REVIEW}?after=gone"))


def test_a_dispute_is_settled_by_those_who_may(person, root):
    review(root, "refund", "ben", "overstated", category="numeric", note="It says 15.", at="2026-11-01T10:00:00Z")
    review(root, "refund", "cleo", at="2026-11-01T11:00:00Z")
    place = "/gold/help/triple?id=refund"
    ada, cleo, dan = person("ada"), person("cleo"), person("dan")
    assert "1 dispute to settle" in text_of(ada.get("/gold"))
    assert "only the author and the flagger settle it" in text_of(cleo.get(place))
    page = dan.get(place)
    assert "Decide as a third person" in page
    assert "The block decides" in text_of(page)
    refused = text_of(dan.fill(page, "/gold/help/settle", 409, outcome="upheld"))
    assert "say in a note (--note) why it is right" in refused
    review(root, "refund", "dan", at="2026-11-01T12:00:00Z")
    assert "was changed after it was shown" in text_of(dan.fill(page, "/gold/help/settle", 409, outcome="dropped"))
    page = ada.get(place)
    for _ in range(2):
        assert ada.fill(page, "/gold/help/settle", outcome="dropped", note="Right.") == place
    entry = read_entry(root, "refund")
    assert (entry.state, sum(one.event.kind == "resolve" for one in entry.events)) == ("dropped", 1)
    assert "dropped" in text_of(ada.get("/gold/help/triple?id=refund"))


def test_a_dispute_ends_with_a_revision_by_the_author_or_flagger(person, root):
    when = "2026-11-01T10:00:00Z"
    review(root, "refund", "ben", "overstated", category="numeric", note="It says 15.", at=when)
    review(root, "refund", "cleo", at=when)
    place, revise = "/gold/help/triple?id=refund", "/gold/help/revise"
    ada, dan = person("ada"), person("dan")
    assert revise not in dan.get(place), "a third person upholds or drops"
    page = ada.get(place)
    assert "revise" in page.partition("<dialog")[2], "its key is listed"
    empty = ada.fill(page, revise, 409, question=" ", answer="Kept words.", note="Why <b>not</b>?")
    for part in ("Kept words.", "Why &lt;b&gt;not&lt;/b&gt;?", "Nothing was recorded"):
        assert part in empty
    same = text_of(ada.fill(page, revise, 409, question="How long does a refund take?", answer="14 days"))
    assert "unchanged" in same
    words = {"question": "How long\r\ndoes it take?", "answer": "Within 14 days.\r\n", "note": "Ben is right."}
    for _ in range(2):
        assert ada.fill(page, revise, **words) == place
    entry = read_entry(root, "refund")
    assert (entry.state, entry.review_status.revision) == ("pending", 2)
    assert (entry.triple.question, entry.triple.expected_answer) == ("How long\ndoes it take?", "Within 14 days.")
    assert entry.triple.blocks == make_triple().blocks
    assert [one.event.kind for one in entry.events][-2:] == ["resolve", "revise"]
    assert entry.events[-1].event.note == "Ben is right."
    assert "was changed after it was shown" in text_of(ada.fill(page, revise, 409, question="Another?", answer="15"))
    assert read_entry(root, "refund").review_status.revision == 2


def test_refusals_are_clear_pages(person, root, projects):
    cases = [
        (person("eve@example.com"), REVIEW, 403, "eve@example.com is not one of the people in help/set.yaml"),
        (person("ben", Scope.READ), REVIEW, 403, "this needs the scope review"),
        (person("ben"), f"{REVIEW}?id=nothing", 404, "there is no triple 'nothing'"),
        (person("ben"), f"{REVIEW}?id=../../set", 404, "there is no triple"),
        (person("ben"), "/gold/other/review", 404, "there is no gold set 'other'"),
        (person("ada"), f"{REVIEW}?id=refund", 200, "nobody reviews their own triple"),
        (person("eve", Scope.READ), "/gold", 200, "you are not one of its people: set.yaml has no eve"),
        (person("eve", Scope.READ), "/gold/help/stats", 200, "Agreement"),
    ]
    for who, path, status, words in cases:
        page = text_of(who.get(path, status))
        assert words in page, path
        assert str(projects["shop"]) not in page
    person("ben", Scope.READ).post(REVIEW, 403, id="refund", shown="x", verdict="confirm")
    assert len(read_entry(root, "refund").events) == 1
    (root / "triples" / "broken.yaml").write_text("question: [")
    assert "evals/gold/help/triples/broken.yaml" in text_of(person("ben").get("/gold/help"))


def test_forms_stay_in_the_namespace_of_the_page(client, engine, root):
    ben = Person(client, engine, "ben", scopes=(Scope.REVIEW,), namespaces=("docs", "shop"))
    place = f"{REVIEW}?namespace=shop"
    following = ben.fill(ben.get(place), re.escape(place), verdict="confirm")
    assert following == place
    assert "How long does shipping take?" in text_of(ben.get(following))


def test_without_sets_the_page_says_how_to_make_one(person):
    assert "--person ana=ben@example.com" in person("ben@example.com").get("/gold")


def test_long_and_hostile_texts_are_shown_and_do_nothing(person, root):
    texts = [text for name, text in HOSTILE.items() if name not in ("surrogates", "not in xml")]
    for number, text in enumerate(texts):
        triple = make_triple(text, f"{text}b", f"{text} answer", domain=text, other={text: [text]})
        add_triple(root, f"hostile-{number}", triple, "ada")
    ben = person("ben")
    ben.get("/gold")
    ben.get("/gold/help?text=%3Cscript%3E")
    assert "<img" not in ben.get("/gold/help?state=%3Cimg%3E", 422)
    for number, text in enumerate(texts):
        page = ben.get(f"{REVIEW}?id=hostile-{number}")
        place = ben.fill(page, REVIEW, verdict="wrong_block", note=text[:5000])
        page += ben.get(place) + ben.get(f"/gold/help/triple?id=hostile-{number}")
        inside = page.partition("<main")[2]
        assert not re.search(r"<(?:img|svg onload|iframe|base|meta http)", inside)
        assert "<script>alert" not in inside
        assert "\x1b" not in page
        assert "\u202e" not in page
    ben.get("/gold/help/stats")
