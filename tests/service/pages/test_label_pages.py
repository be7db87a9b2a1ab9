"""Pages of labels by HTTP, as without JavaScript: forms, redirects, refusals, and how large a page may become."""

import re
from html import unescape

import pytest
import yaml

from evalspec import labels
from evalspec.service.tokens import Scope, create_token
from service.pages.shops import run_shop, write_shop

BROWSER = {"Accept": "text/html"}
ADA, BEN = "ada@example.com", "ben@example.com"
MOST_BYTES = 200_000

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def shop(projects):
    return write_shop(projects["shop"])


@pytest.fixture
def run(shop):
    return run_shop(shop).id


@pytest.fixture
def visit(client, engine, run):
    """A function that opens a page of the run as somebody with scopes, and checks its size."""

    def send(user, path, method="GET", status=200, scopes=(Scope.REVIEW,), **more):
        token = create_token(engine, user, scopes, ["shop"], 60)
        headers = {**BROWSER, "Authorization": f"Bearer {token}"}
        answer = client.request(method, path.replace("RUN", run), headers=headers, follow_redirects=False, **more)
        assert answer.status_code == status, answer.text
        assert len(answer.content) <= MOST_BYTES
        return answer

    return send


@pytest.fixture
def say(visit):
    """A function that presses a button of the form on a page. Returns where it leads."""

    def press(user, page, verdict, status=303, about=None, **fields):
        (action, *_) = [one for one in actions(page) if about is None or f"about={about}" in one]
        (seen, *_) = re.findall(r'name="seen" value="(\w+)"', page)
        answer = visit(user, action, "POST", status, data={"verdict": verdict, "seen": seen, **fields})
        return answer.headers["Location"] if status == 303 else answer.text

    return press


def actions(page):
    return [unescape(one) for one in re.findall(r'<form[^>]*method="post" action="([^"]*/label[?][^"]*)"', page)]


def heading(page):
    return unescape(re.search(r"<h1>(?:<bdi>)?(.*?)<", page)[1])


def said(shop, run):
    return [(one.sample, one.metric, str(one.verdict), one.value, one.note, one.labeller)
            for one in labels.list_labels(run, store=shop / ".evalspec")]  # fmt: skip


def test_the_queue_goes_on_after_each_label_with_skips_and_undo(visit, say, shop, run):
    page = visit(ADA, "/runs/RUN/label?tag=refunds&dataset=answers").text
    assert (heading(page), "1 of 6" in page) == ("refunds-0", True)
    following = visit(ADA, say(ADA, page, "bad", note=" Fourteen? ")).text
    assert (heading(following), "2 of 6" in following, "You said <em>bad</em>" in following) == (
        "refunds-4", True, True)  # fmt: skip
    assert said(shop, run) == [("refunds-0", None, "bad", None, "Fourteen?", ADA)]
    (undo, _) = actions(following)
    back = visit(ADA, visit(ADA, undo, "POST", 303, data={"verdict": "withdrawn"}).headers["Location"]).text
    assert (heading(back), said(shop, run)) == ("refunds-0", [])
    place = say(ADA, back, "bad")
    skips = 0
    while (skip := re.search(r'href="([^"]*)" data-key="s" data-next', page := visit(ADA, place).text)) is not None:
        place, skips = unescape(skip[1]), skips + 1
    assert (skips, heading(page), "5 cases that you skipped are left" in page) == (5, "That was the last one", True)
    again = visit(ADA, "/runs/RUN/label?tag=refunds&dataset=answers").text
    assert heading(again) == "refunds-4"
    assert heading(visit(BEN, "/runs/RUN/label?tag=refunds&dataset=answers").text) == "refunds-0"


def test_scores_are_labelled_with_a_score_of_ones_own(visit, say, shop, run):
    page = visit(ADA, "/runs/RUN/label?metric=rouge&state=beyond").text
    assert "Do you agree with the score?" in page
    refused = say(ADA, page, "disagree", 409, value="7", note="Mine & yours")
    assert "value: 7 is outside 0 to 1" in refused
    assert 'name="note" value="Mine &amp; yours"' in refused
    assert "is not a number" in say(ADA, refused, "disagree", 409, value="a lot")
    assert "&#39;agree&#39; has no value" in say(ADA, refused, "agree", 409, value="0.3")
    assert said(shop, run) == []
    say(ADA, refused, "disagree", value="0,5 ".replace("0,5", "0,25"), note="Half of it.")
    assert said(shop, run) == [("refunds-0", "rouge", "disagree", 0.25, "Half of it.", ADA)]


def test_a_sample_shows_others_labels_only_after_ones_own(visit, say, shop, run):
    path = "/runs/RUN/sample?dataset=answers&id=refunds-4"
    say(ADA, visit(ADA, path).text, "bad", note="ada says so")
    say(ADA, visit(ADA, path).text, "agree", about="cites")
    blind = visit(BEN, path).text
    assert "ada says so" not in blind
    assert ADA not in blind
    assert blind.count("1 label of others, shown after yours") == 2
    assert say(BEN, blind, "good") == path.replace("RUN", run)
    seen = visit(BEN, path).text
    assert ("ada says so" in seen, seen.count("of others, shown after yours")) == (True, 1)
    assert "ada@example.com" in visit(BEN, "/runs/RUN/labels").text
    assert "1 label of others on what you have not labelled is hidden" in visit(BEN, "/runs/RUN/labels").text
    reader = visit(BEN, path, scopes=(Scope.READ,)).text
    assert ("ada says so" in reader, actions(reader)) == (True, [])


def test_a_reply_that_changed_is_not_labelled(visit, say, shop, run):
    page = visit(ADA, "/runs/RUN/label").text
    changed = say(ADA, re.sub(r'name="seen" value="\w+"', 'name="seen" value="0"', page), "bad", 409, note="kept")
    assert ("another reply by now" in changed, 'value="kept"' in changed, said(shop, run)) == (True, True, [])


def test_problems_are_pages_and_say_who_may(visit, shop, run):
    for path, status, words in (
        ("/runs/RUN/label?metric=nope", 422, "has no metric &#39;nope&#39;"),
        ("/runs/RUN/label?metric=RR&state=beyond", 422, "has no threshold on RR"),
        ("/runs/RUN/label?size=many", 422, "the number of samples is not a whole number"),
        ("/runs/RUN/label?at=999", 404, "has no such sample"),
        ("/runs/RUN/label?at=7", 404, "has no reply"),
        ("/runs/RUN/label?at=1&about=nope", 404, "has no metric"),
        ("/runs/20261121T061500.000Z-00000000/labels", 404, "there is no run"),
        ("/runs/RUN/labels?cursor=x", 400, "not a cursor"),
    ):
        page = visit(ADA, path, status=status)
        assert page.headers["Content-Type"].startswith("text/html")
        assert words in page.text, path
    reader = (Scope.READ,)
    assert "Labelling needs the scope review" in visit(ADA, "/runs/RUN/labels", scopes=reader).text
    visit(ADA, "/runs/RUN/label", status=403, scopes=reader)
    visit(ADA, "/runs/RUN/label?at=0", "POST", 403, reader, data={"verdict": "good"})
    visit(ADA, "/runs/RUN/labels", "POST", 403, reader, files={"file": ("a.csv", b"")})
    visit(ADA, "/runs/RUN/labels/export", status=403)
    assert said(shop, run) == []


def test_a_run_without_texts_says_so(visit, shop):
    run = run_shop(shop, no_content=True).id
    page = visit(ADA, f"/runs/{run}/labels").text
    assert "stores no texts" in page
    assert "stores no texts" in visit(ADA, f"/runs/{run}/label", status=422).text
    assert actions(visit(ADA, f"/runs/{run}/sample?dataset=answers&id=refunds-4").text) == []


def test_files_are_downloaded_and_imported_all_or_none(visit, shop, run):
    labels.label(run, "refunds-0", "bad", by=ADA, note="No.", store=shop / ".evalspec")
    exported = visit("root", "/runs/RUN/labels/export?form=csv", scopes=(Scope.RUN,)).content
    head, row = exported.decode().splitlines()
    for file in (shop / ".evalspec" / "verdicts" / run).iterdir():
        file.unlink()
    wrong = "\n".join([head, row, row.replace("bad", "so-so")]).encode()
    refused = visit(ADA, "/runs/RUN/labels", "POST", 422, files={"file": ("mine.CSV", wrong)}).text
    assert ("labels.csv:3: verdict" in refused, "Nothing was imported" in refused, said(shop, run)) == (True, True, [])
    visit(BEN, "/runs/RUN/labels", "POST", 422, files={"file": ("mine.csv", exported)})
    done = visit(ADA, "/runs/RUN/labels", "POST", 303, files={"file": ("mine.csv", exported)})
    assert "1 label added" in visit(ADA, done.headers["Location"]).text
    assert said(shop, run) == [("refunds-0", None, "bad", None, "No.", ADA)]


def test_the_list_is_paged_and_stays_small(visit, shop, run):
    lines = [
        f'{{"run": "{run}", "dataset": "answers", "sample": "refunds-0", "verdict": "good", "labeller": "p{n}",'
        f' "note": "{"&" * 4000}"}}'
        for n in range(150)
    ]
    lines.append(lines[0].replace('"p0"', f'"{ADA}"'))
    path = shop / "many.jsonl"
    path.write_text("\n".join(lines))
    labels.import_labels(path, store=shop / ".evalspec")
    page = visit(ADA, "/runs/RUN/labels").text
    assert "the other pairs of 151 people" in page
    (older,) = [unescape(one) for one in re.findall(r'href="([^"]*)" rel="next"', page)]
    rows = [page.count('<tr role="row" data-row>'), visit(ADA, older).text.count('<tr role="row" data-row>')]
    assert (rows[0] > 0, sum(rows) <= 151) == (True, True)
    visit(ADA, "/runs/RUN/sample?dataset=answers&id=refunds-0")
    visit(ADA, "/runs/RUN/label?at=0")


def test_a_drawn_score_is_hidden_until_ones_own_is_given(visit, say, shop, run):
    page = visit(ADA, "/runs/RUN/label?metric=rouge&draw=random&size=2&seed=1").text
    assert "1 of 2" in page and "Which score of rouge would you give?" in page
    assert "<h2>Score</h2>" not in page and 'value="agree"' not in page
    following = visit(ADA, say(ADA, page, "rated", value="0,25")).text
    assert "2 of 2" in following and re.search(r"You said <em>rated \(0\.25\); the judge says [01]", following)
    (made,) = labels.list_labels(run, store=shop / ".evalspec")
    assert (made.is_blind, made.draw.seed, made.draw.place) == (True, 1, 1)
    undo, _ = actions(following)
    visit(ADA, undo, "POST", 303, data={"verdict": "withdrawn"})
    assert labels.list_labels(run, store=shop / ".evalspec") == []
    refused = visit(ADA, "/runs/RUN/label?draw=random", status=422).text
    assert "choose the metric" in refused


def test_each_question_of_the_judge_has_a_line(visit, say, shop, run):
    page = visit(ADA, "/runs/RUN/label?metric=exact_match&draw=random&size=1").text
    assert page.count('name="answers"') == 1 and 'name="texts"' not in page and 'name="value"' not in page
    assert "answer each question" in say(ADA, page, "rated", 409, answers=[""])
    say(ADA, page, "rated", answers=["no"])
    (made,) = labels.list_labels(run, store=shop / ".evalspec")
    assert (made.value, [one.value for one in made.answers]) == (0.0, [0.0])


def test_statements_may_be_corrected(visit, say, shop):
    """Without a judge, the statements to begin with are sentences."""
    manifest = yaml.safe_load((shop / "agent.yaml").read_text())
    manifest["spec"]["evaluation"]["datasets"][0]["metrics"].append("faithfulness")
    manifest["spec"]["evaluation"]["judge"] = {"model": "m", "baseUrl": "http://127.0.0.1:9/v1"}
    (shop / "agent.yaml").write_text(yaml.safe_dump(manifest))
    judged = run_shop(shop, no_judge=True).id
    page = visit(ADA, f"/runs/{judged}/label?metric=faithfulness&draw=new").text
    assert re.search(r'<textarea name="texts"[^>]*>Refunds|<textarea name="texts"[^>]*>[^<]+\.</textarea>', page)
    fields = {"texts": ["It is so.", "Never.", "A question?", ""], "answers": ["yes", "no", "left out", ""]}
    said_by_judge = visit(ADA, say(ADA, page, "rated", **fields)).text
    assert "You said <em>rated (0.5); the judge has no score" in said_by_judge
    (made,) = labels.list_labels(judged, store=shop / ".evalspec")
    assert [(one.question, one.value) for one in made.answers] == [("It is so.", 1.0), ("Never.", 0.0)]
