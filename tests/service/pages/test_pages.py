"""The pages by HTTP: problems, headers, downloads, namespaces, actions, and how large a page may become."""

import json
import re
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from html import unescape

import pytest
import yaml
from msgspec.structs import replace

import evalspec
from evalspec.model import DatasetResult, Run, SliceResult, Summary, Threshold, VerdictStatus
from evalspec.reports.base import REPORTERS
from evalspec.reports.markup.run_content import build_content
from evalspec.service import jobs, run_index
from evalspec.service.jobs import JobStatus
from evalspec.service.kept_json import encode_kept
from evalspec.service.pages import compare_pages
from evalspec.service.pages.assets import load_assets
from evalspec.service.sample_index import index_path
from evalspec.service.settings import ServiceLimits
from evalspec.service.tokens import Scope, create_token
from reporters.sample_run import sample_run
from servers.service import wait_for, write_project
from service.pages.shops import building, change_shop, run_shop, write_shop
from service.pages.visitors import Visitor, text_of

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
MOST_BYTES = 200_000


@pytest.fixture(autouse=True)
def _each_list_looks_at_the_files(monkeypatch):
    monkeypatch.setattr(run_index, "_FRESH_SECONDS", 0.0)


@pytest.fixture
def shop(projects):
    return write_shop(projects["shop"])


@pytest.fixture
def as_user(client, engine):
    """Sends requests as another user from now on."""

    def become(*scopes, namespaces=("shop",)):
        token = create_token(engine, "ben@example.com", [Scope(scope) for scope in scopes], namespaces, 3600)
        client.headers["Authorization"] = f"Bearer {token}"

    return become


def page_of(client, path, status=200):
    answered = client.get(path, headers=BROWSER)
    assert answered.status_code == status, answered.text
    assert answered.headers["Content-Type"] == "text/html; charset=utf-8"
    assert len(answered.content) <= MOST_BYTES
    return answered.text


def links_of(page):
    return [unescape(link) for link in re.findall(r'href="([^"]*)"', page)]


only_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def test_the_list_has_runs_with_values_and_trends(client, shop):
    runs = [run_shop(shop, wrong, datasets=["answers"]) for wrong in (3, 4)]
    page = page_of(client, "/runs")
    links = [f"/runs/{run.id}" for run in runs]
    trends, _, listed = page.partition('id="all-runs"')
    assert [link for link in links_of(listed) if link.startswith("/runs/")] == links[::-1]
    figure = trends.partition('aria-label="Trend of rouge')[2].partition("</figure>")[0]
    assert links_of(figure) == links
    assert f"UTC: {runs[0].datasets[0].metrics['rouge'].value:.3f}</title>" in figure
    assert len(re.findall(r'class="band" points="\S+ \S+ \S+ \S+"', figure)) == 1
    value = runs[1].datasets[0].metrics["exact_match"].value
    assert f'<b class="">{value:.3f}</b>' in page
    assert 'aria-label="Trend of rouge over 2 runs, from' in page
    assert "No run matches" in page_of(client, "/runs?verdict=FAIL")
    assert "evalspec evaluate" not in page_of(client, "/runs?verdict=FAIL")


@only_sqlite
def test_a_change_of_level_is_marked_with_its_commit_on_the_page_and_in_rest(client, projects, add_run):
    """A changed dataset begins another line, so what moved there is no change."""

    def evaluate(answer):
        with building("main"):
            return add_run(answer)

    [evaluate("Rome") for _ in range(3)]
    questions = projects["shop"] / "qa.jsonl"
    questions.write_text(questions.read_text().replace("question 0", "question zero"))
    runs = [evaluate("Paris") for _ in range(12)] + [evaluate("Rome") for _ in range(9)]
    trend = client.get("/v1/trends?dataset=qa&metric=exact_match").json()
    (change,) = trend["changes"]
    commit = "2f0c1c5e9a7b4d00"
    assert (change["runId"], change["commit"], change["before"], change["after"]) == (runs[12].id, commit, 1.0, 0.0)
    assert {point["commit"] for point in trend["points"]} == {commit}
    figure = page_of(client, "/runs").partition('aria-label="Trend of exact_match')[2].partition("</figure>")[0]
    (listed,) = re.findall(r"<li>level changed at (.*?)</li>", figure)
    assert f'href="/runs/{runs[12].id}"' in listed and "1.000 → 0.000, commit <bdi>2f0c1c5</bdi>" in listed
    (line,) = re.findall(r'class="change" x1="(.*?)"', figure)
    assert f'<a href="/runs/{runs[12].id}" tabindex="-1">' in figure.partition(f'x1="{line}"')[2].partition("</a>")[0]


@only_sqlite
def test_partial_is_beside_the_verdict_and_lines_join_only_what_is_comparable(client, shop):
    runs = [run_shop(shop, wrong, datasets=["answers"]) for wrong in (3, 4)]
    runs.append(run_shop(shop, datasets=["answers"], sample_size=9))
    change_shop(shop)
    runs += [run_shop(shop, wrong, datasets=["answers"]) for wrong in (3, 4)]
    page = page_of(client, "/runs")
    states = re.findall(r'class="state">(.*?)</td>', page, re.DOTALL)
    assert ["partial" in state for state in states] == [run.partial for run in runs[::-1]]
    assert states[2].index(f"<span>{runs[2].verdict.lower()}</span>") < states[2].index("partial")
    figure = page.partition('aria-label="Trend of rouge')[2].partition("</figure>")[0]
    assert figure.startswith(" over 5 runs") and "; 2 breaks, where the measurement changed" in figure
    lines = [line.split() for line in re.findall(r'class="trend" points="(.*?)"', figure)]
    assert [len(set(line)) for line in lines] == [2, 1, 2]
    assert len(lines[1]) == 2, "a line from a point to itself is drawn as a dot"
    chosen = page_of(client, "/compare").partition("<select")[2].partition("</select>")[0]
    assert ["(partial)" in option for option in chosen.split("<option")[2:]] == [run.partial for run in runs[::-1]]


@only_sqlite
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/runs?verdit=FAIL", "query.verdit: unknown parameter. did you mean 'verdict'?"),
        ("/runs?verdict=FOO", "query.verdict: Input should be 'PASS', 'FAIL', 'INCOMPLETE', 'NOT_GATED' or 'SHARD'"),
        ("/runs?status=xyz", "query.status: Input should be 'running', 'finished', 'interrupted' or 'damaged'"),
        ("/runs/RUN?x=1", "query.x: unknown parameter"),
        ("/runs/RUN/samples?stat=failed", "query.stat: unknown parameter. did you mean 'state'?"),
        ("/runs/RUN/samples?state=fail", "query.state: unknown value. did you mean 'failed'?"),
        ("/runs/RUN/samples?reason=x", "query.reason: unknown value. known: 0, 1"),
        ("/runs/RUN/sample?at=0&in_state=bad", "query.in_state: unknown value. known: beyond, failed"),
        ("/runs/RUN/label?state=failed", "query.state: unknown value. known: beyond"),
        ("/runs/RUN/label?sead=1", "query.sead: unknown parameter. did you mean 'seed'?"),
        ("/datasets/dataset?name=answers&manifest=agent.yaml&kind=own", "query.kind: Input should be"),
        ("/compare?base=x", "query.base: unknown parameter"),
        ("/gold/help?state=lost", "query.state: unknown value"),
    ],
)
def test_pages_refuse_unknown_filters_as_rest_does(client, shop, path, said):
    page = unescape(page_of(client, path.replace("RUN", run_shop(shop, datasets=["answers"]).id), status=422))
    assert "<h1>Unprocessable" in page
    assert said in page


@only_sqlite
def test_an_empty_filter_is_none(client, shop):
    run = run_shop(shop, datasets=["answers"])
    assert run.id in page_of(client, "/runs?verdict=&status=&dataset=&manifest=&branch=")
    assert "answers" in page_of(client, f"/runs/{run.id}/samples?state=&reason=&tag=")


@only_sqlite
def test_a_reason_links_to_exactly_the_samples_that_it_is_about(client, shop):
    """If the limit is missed, those beyond it; if a missing score could change that, those without one."""
    run = run_shop(shop, 1, datasets=["answers"])
    page, statuses = page_of(client, f"/runs/{run.id}"), set()
    reasons = [one for one in re.findall(r'<li dir="auto">.*?</li>', page, re.DOTALL) if links_of(one)]
    assert len(reasons) == len(run.reasons) == 2
    for reason in reasons:
        limit = next(one for one in run.datasets[0].thresholds if f"answers: {one.metric}: " in reason)
        scores = [one.scores[limit.metric] for one in run.datasets[0].samples]
        missing = sum(score.value is None for score in scores)
        beyond = sum(score.value is not None and not limit.holds(score.value) for score in scores)
        count = beyond if limit.status is VerdictStatus.FAIL else missing
        statuses.add(limit.status)
        (link,) = links_of(reason)
        assert f">{count} sample" in reason
        shown = page_of(client, link)
        assert shown.count('<tr role="row" data-row') == count > 0
        assert f"{limit.metric}: " in shown.partition("Only samples of the reason")[2]
    assert statuses == {VerdictStatus.FAIL, VerdictStatus.INCOMPLETE}


@only_sqlite
def test_reasons_without_a_threshold_link_to_their_samples(client, projects, agent):
    agent.reply = lambda asked: {"response": "Rome" if "question 1" in json.dumps(asked) else "Paris"}
    folder = write_project(projects["shop"], agent.url, thresholds={"exact_match": 1.0}, ciGate={"minPassRate": 0.9})
    run = evalspec.evaluate(folder / "agent.yaml", store=folder / ".evalspec", repeat=2)
    (number,) = [number for number, reason in enumerate(run.reasons) if "minPassRate" in reason]
    found = client.get(f"/v1/runs/{run.id}/samples", params={"reason": number}).json()["samples"]
    assert found
    assert {one["result"]["id"] for one in found} == {one.id for one in run.datasets[0].samples if one.pass_rate < 0.9}
    page = page_of(client, f"/runs/{run.id}")
    assert f'href="/runs/{run.id}/samples?reason={number}">{len(found)} sample' in page
    assert client.get(f"/v1/runs/{run.id}/samples", params={"reason": 99}).json()["samples"] == []


@only_sqlite
def test_a_blank_is_between_a_sample_and_its_dataset(client, shop):
    page = page_of(client, f"/runs/{run_shop(shop).id}/samples")
    shown = re.search(r'class="sample">(<a .*?</small>)', page).group(1)
    assert re.sub(r"<[^>]*>", "", shown) == "refunds-0 answers"


@only_sqlite
def test_lists_are_paged_by_links(client, shop, monkeypatch):
    from evalspec.service.pages import runs_pages, samples_pages

    monkeypatch.setattr(runs_pages, "_RUNS_SHOWN", 1)
    monkeypatch.setattr(samples_pages, "_SAMPLES_SHOWN", 20)
    runs = [run_shop(shop, datasets=["answers"]).id for _ in range(3)]
    seen, path = [], "/runs?dataset=answers"
    while path:
        page = page_of(client, path)
        seen += re.findall(r"<small><bdi>(.*?)</bdi>", page)
        path = next((unescape(link) for link in re.findall(r'href="([^"]*)"[^>]*rel="next"', page)), None)
    assert seen == runs[::-1]
    page = page_of(client, f"/runs/{runs[0]}/samples")
    (following,) = [unescape(link) for link in re.findall(r'href="([^"]*)"[^>]*rel="next"', page)]
    assert page_of(client, following).count('<tr role="row" data-row="">') == 4


@only_sqlite
@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/nowhere", 404, "there is nothing at this address"),
        ("/runs/20261121T061500.000Z-00000000", 404, "there is no run"),
        ("/runs/../etc", 404, "Not Found"),
        ("/runs?cursor=x", 400, "not a cursor"),
        ("/runs?namespace=docs", 403, "you may not see this namespace"),
        (f"/runs?verdict={'x' * 301}", 422, "verdict"),
        ("/compare?baseline=x&candidate=y", 200, "there is no run &#39;x&#39;"),
    ],
)
def test_problems_are_pages_for_browsers_and_documents_for_programs(client, path, status, words):
    assert words in page_of(client, path, status)
    if status != 200:
        answered = client.get(path)
        assert answered.status_code == status
        assert answered.headers["Content-Type"] == "application/problem+json"
        assert answered.json()["status"] == status


@only_sqlite
def test_the_api_answers_browsers_with_documents_too(client):
    assert client.get("/v1/runs/x", headers=BROWSER).headers["Content-Type"] == "application/problem+json"


@only_sqlite
def test_every_page_needs_a_token(client, shop):
    run = run_shop(shop).id
    del client.headers["Authorization"]
    for path in ("/", "/runs", f"/runs/{run}", f"/runs/{run}/samples", f"/runs/{run}/sample?at=0", "/compare"):
        page_of(client, path, 401)
        assert client.get(path).status_code == 401


@only_sqlite
def test_pages_have_a_strict_policy_and_nothing_inline(client, shop):
    run = run_shop(shop).id
    for path in ("/runs", f"/runs/{run}", f"/runs/{run}/samples", f"/runs/{run}/sample?at=0", "/compare", "/nowhere"):
        answered = client.get(path, headers=BROWSER)
        policy = answered.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answered.headers["X-Content-Type-Options"] == "nosniff"
        assert not re.search(r"<style|<script(?! src=)| style=| on\w+=|javascript:", answered.text)
        for link in re.findall(r'(?:src|href)="(/assets/[^"]*)"', answered.text):
            asset = client.get(link)
            assert asset.status_code == 200
            assert "immutable" in asset.headers["Cache-Control"]
    assert client.get("/assets/pages.css").status_code == 404
    assert {asset.media_type for asset in load_assets().values()} == {"text/css", "text/javascript", "image/svg+xml"}


@only_sqlite
def test_every_form_of_report_is_a_download(client, shop):
    run = run_shop(shop).id
    offered = [link for link in links_of(page_of(client, f"/runs/{run}")) if "/report?" in link]
    assert len(offered) == len(list(REPORTERS))
    for link in offered:
        answered = client.get(link, headers=BROWSER)
        assert answered.status_code == 200, link
        assert answered.headers["Content-Disposition"].startswith(f'attachment; filename="{run}.')


@only_sqlite
def test_a_visitor_of_several_namespaces_has_them_in_every_address(client, projects, as_user):
    run = run_shop(write_shop(projects["docs"])).id
    as_user("read", namespaces=("shop", "docs"))
    answered = client.get(f"/runs/{run}?x=a%26b", headers=BROWSER, follow_redirects=False)
    assert answered.headers["Location"] == f"/runs/{run}?x=a%26b&namespace=shop"
    page_of(client, f"/runs/{run}?namespace=shop", 404)
    for path in (f"/runs/{run}", f"/runs/{run}/samples", "/runs", "/compare"):
        page = page_of(client, f"{path}?namespace=docs")
        inside = [link for link in links_of(page) if link.startswith(("/runs", "/compare"))]
        assert inside
        assert not [link for link in inside if "namespace=" not in link]
        for form in re.findall(r"<form class=\"fields\".*?</form>", page, re.DOTALL):
            assert 'name="namespace" value="docs"' in form


def interrupt(shop, run):
    (shop / ".evalspec" / "runs" / run / "report.json").unlink()
    log = shop / ".evalspec" / "runs" / run / "samples.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-3]))


@only_sqlite
def test_a_run_that_is_completed_while_its_page_is_made_is_not_called_interrupted(client, projects, work, monkeypatch):
    assert client.post("/v1/runs", json={}).status_code == 202
    work()
    (run,) = [one["runId"] for one in client.get("/v1/runs").json()["runs"]]
    interrupt(projects["shop"], run)
    assert "INTERRUPTED" in page_of(client, f"/runs/{run}")
    assert client.post(f"/runs/{run}/resume", headers=BROWSER, follow_redirects=False).status_code == 303
    find = jobs.find_job_of_run

    def complete_and_find(*given):
        work()
        return find(*given)

    monkeypatch.setattr(jobs, "find_job_of_run", complete_and_find)
    page = page_of(client, f"/runs/{run}")
    assert "INTERRUPTED" not in page
    assert "NOT GATED" in page


@only_sqlite
def test_only_an_operator_has_buttons_that_change_something(client, shop, engine, as_user):
    run = run_shop(shop).id
    interrupt(shop, run)
    resume = f"/runs/{run}/resume"
    as_user("read")
    page = page_of(client, f"/runs/{run}")
    assert "INTERRUPTED" in page
    assert "the run is not finished" in page
    assert resume not in page
    assert client.post(resume, headers=BROWSER).status_code == 403
    as_user("run")
    assert resume in page_of(client, f"/runs/{run}")
    assert client.post(resume, headers=BROWSER, follow_redirects=False).status_code == 303
    (job,) = jobs.list_jobs(engine, "shop", ["run"])
    cancel = f"/runs/jobs/{job.id}/cancel"
    assert cancel in page_of(client, f"/runs/{run}")
    assert cancel in page_of(client, "/runs")
    as_user("read")
    assert cancel not in page_of(client, "/runs")
    assert client.post(cancel, headers=BROWSER).status_code == 403
    as_user("run")
    assert client.post(cancel, headers=BROWSER, follow_redirects=False).headers["Location"] == f"/runs/{run}"
    assert jobs.find_job(engine, "shop", job.id).status == JobStatus.CANCELLED


@only_sqlite
def test_what_failed_is_tried_again_by_a_button(client, shop, engine, as_user):
    run = run_shop(shop).id
    retry = f"/runs/{run}/resume?retry=1"
    asked = {"manifest": "agent.yaml", "options": {}}
    job = jobs.enqueue(engine, "shop", "run", asked, "ana", id=jobs.create_id("run"), calls=6, limits=ServiceLimits())
    again = f"/runs/jobs/{job.id}/retry"
    assert client.post(again, headers=BROWSER).status_code == 409
    assert jobs.cancel(engine, "shop", job.id)
    as_user("read")
    page = page_of(client, "/runs") + page_of(client, f"/runs/{run}")
    assert again not in page
    assert retry not in page
    assert client.post(again, headers=BROWSER).status_code == 403
    as_user("run")
    assert again in page_of(client, "/runs")
    assert client.post(again, headers=BROWSER, follow_redirects=False).headers["Location"] == "/runs"
    new, old = jobs.list_jobs(engine, "shop", ["run"])
    assert (old.id, new.status, new.user, new.request) == (
        job.id,
        JobStatus.PENDING,
        "ben@example.com",
        job.request,
    )
    assert again not in page_of(client, "/runs")
    assert retry in page_of(client, f"/runs/{run}")
    assert client.post(retry, headers=BROWSER, follow_redirects=False).headers["Location"] == f"/runs/{run}"
    newest = jobs.list_jobs(engine, "shop", ["run"])[0]
    assert (newest.run_id, newest.request["retryErrors"]) == (run, True)
    assert retry not in page_of(client, f"/runs/{run}")


@only_sqlite
def test_a_run_is_followed_while_it_is_in_progress(client, agent, work):
    go_on = threading.Event()
    agent.reply = lambda _: (len(agent.requests) < 3 or go_on.wait(60)) and {"response": "Paris"}
    assert client.post("/v1/runs", json={"concurrency": 1}).status_code == 202
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work, lease_seconds=2)
        shown = wait_for(lambda: "<progress" in (page := page_of(client, "/runs")) and page)
        (progress,) = re.findall(r'hx-get="(/runs/jobs/[^"]*)"', shown)
        assert "hx-trigger" in client.get(progress).text
        go_on.set()
        working.result()
    done = client.get(progress).text
    assert "Show the results" in done
    assert "hx-trigger" not in done
    (run,) = set(re.findall(r'href="(/runs/[^"]*)"', done))
    assert "NOT GATED" in page_of(client, run)


def store_content(folder, run: Run) -> None:
    """Let the page of a stored run show another run, as its index would have it."""
    with closing(sqlite3.connect(index_path(folder))) as database, database:
        database.execute("UPDATE run SET content = ?", (encode_kept(build_content(run, [])),))


def crowded_run(datasets: int, metrics: int, slices: int) -> Run:
    names = [f"a-metric-with-a-long-name-{number}" for number in range(metrics)]
    summary = Summary(value=0.5, interval=(0.25, 0.75), scored=10, failed=3)
    summaries = dict.fromkeys(names, summary)
    limits = tuple(
        Threshold(
            name, min=0.6, status=VerdictStatus.FAIL, value=0.5, scored=10, expected=13, reason="0.5 is below 0.6"
        )
        for name in names
    )
    parts = tuple(SliceResult(name=f"topic={number}", selected=9, metrics=summaries) for number in range(slices))
    one = DatasetResult(
        name="d", selected=13, answered=13, samples=(), metrics=summaries, thresholds=limits, slices=parts
    )
    several = tuple(replace(one, name=f"dataset-{number}") for number in range(datasets))
    reasons = tuple(f"dataset-{number}: 0.5 is below 0.6" for number in range(datasets))
    return Run(id="r", verdict=VerdictStatus.FAIL, reasons=reasons, exit_code=1, datasets=several)


@only_sqlite
@pytest.mark.parametrize("crowd", [(1, 5, 3000), (400, 5, 30), (3, 300, 20), (1, 1, 1)])
def test_a_page_stays_small_and_links_to_the_rest(client, shop, crowd):
    run = run_shop(shop)
    assert client.get(f"/v1/runs/{run.id}/samples").status_code == 200  # writes the index
    store_content(shop / ".evalspec" / "runs" / run.id, crowded_run(*crowd))
    page = page_of(client, f"/runs/{run.id}")
    rest = [link for link in links_of(page) if "/part?" in link]
    assert bool(rest) == (crowd != (1, 1, 1))
    for link in rest[:5]:
        assert "<table" in page_of(client, link)
    if crowd == (1, 5, 3000):
        seen, path = set(), next(link for link in rest if "at=0.0" in link)
        while path:
            part = page_of(client, path)
            seen |= set(re.findall(r"topic=(\d+)", part))
            path = next((unescape(link) for link in re.findall(r'href="([^"]*)"[^>]*rel="next"', part)), None)
        assert len(seen) == 1000
        assert "and 2,000 more" in part


@only_sqlite
def test_everything_of_the_terminal_is_on_the_page(client, shop):
    from evalspec.reports.terminal import Amount, render_terminal

    run = run_shop(shop)
    assert client.get(f"/v1/runs/{run.id}/samples").status_code == 200
    shown = replace(sample_run(), regressions=sample_run().regressions)
    store_content(shop / ".evalspec" / "runs" / run.id, shown)
    page = unescape(re.sub(r"<[^>]+>", " ", page_of(client, f"/runs/{run.id}")))
    words = set(re.findall(r"[\w.@]+", render_terminal(shown, width=400, color=False, amount=Amount.FULL)))
    missing = words - set(re.findall(r"[\w.@]+", page))
    assert missing <= {"fewer", "u2"}, "slices of few samples are shown, and escapes are cut elsewhere"


@only_sqlite
def test_long_texts_are_cut_with_a_link_to_the_whole(client, projects):
    import evalspec

    text = "<b>&" * 100_000
    run = evalspec.evaluate(
        projects["shop"] / "agent.yaml", agent=lambda question: text, store=projects["shop"] / ".evalspec"
    )
    page = page_of(client, f"/runs/{run.id}/sample?at=0")
    (whole,) = {link for link in links_of(page) if "whole=1" in link}
    assert "more characters" in page
    answered = client.get(whole, headers=BROWSER)
    assert unescape(answered.text).count(text) == 1


TALK = [
    {"user": "To Paris", "expected": "When?"},
    {"user": "In May", "expected": "Booked", "expected_tools": [{"name": "book", "arguments": {"month": 5}}]},
]


@only_sqlite
def test_a_conversation_is_shown_as_turns_on_each_page(client, engine, projects):
    folder = write_shop(projects["shop"])
    (folder / "answers.jsonl").write_text(json.dumps({"id": "trip", "turns": TALK}))
    manifest = yaml.safe_load((folder / "agent.yaml").read_text())
    dataset = manifest["spec"]["evaluation"]["datasets"][0] | {"metrics": ["string_match", "tool_calls_exact"]}
    manifest["spec"]["evaluation"]["datasets"] = [dataset | {"thresholds": {"tool_calls_exact": 1}}]
    (folder / "agent.yaml").write_text(yaml.safe_dump(manifest))

    def evaluate(month):
        def answer(messages):
            if len(messages) == 1:
                return {"response": "When?", "tool_calls": []}
            return {
                "response": "Booked",
                "tool_calls": [{"name": "book", "arguments": {"month": month}, "error": "full"}],
            }

        return evalspec.evaluate(folder / "agent.yaml", agent=answer, store=folder / ".evalspec").id

    right, wrong = evaluate(5), evaluate(6)
    sample = Visitor(client, engine).get(f"/runs/{wrong}/sample?at=0")
    words = text_of(sample)
    assert words.index("Turn 1") < words.index("To Paris") < words.index("When?") < words.index("Turn 2")
    assert "string_match 1.000" in words
    assert words.index("In May") < words.index("book(month: 6)") < words.index("Booked")
    assert "✗ other arguments ! error" in words and "month 5 6" in words
    labelled = text_of(Visitor(client, engine, scopes=(Scope.REVIEW,)).get(f"/runs/{wrong}/label"))
    assert "book(month: 6)" in labelled and "string_match 1.000" not in labelled, "scores could sway a person"
    compared = text_of(Visitor(client, engine).get(f"/compare?baseline={right}&candidate={wrong}"))
    assert compared.index("book(month: 5) ✓ as expected") < compared.index("book(month: 6) ✗ other arguments")


@only_sqlite
def test_a_large_comparison_is_made_by_a_job(client, engine, work, shop):
    runs = [run_shop(shop, wrong).id for wrong in (3, 4)]
    asked = {"baseline": runs[0], "candidates": [runs[1]], "allow_mismatch": False}
    id, limits = jobs.create_id("compare"), ServiceLimits()
    jobs.enqueue(engine, "shop", compare_pages.KIND, asked, "ana", id=id, calls=0, limits=limits)
    work()
    job = jobs.find_job(engine, "shop", id)
    assert job.status == JobStatus.COMPLETED, job.error
    assert list((shop / ".evalspec" / "index" / runs[1]).glob("comparison-*.json"))
    page = page_of(client, f"/compare?baseline={runs[0]}&candidate={runs[1]}")
    assert "Newly passing" in page
    several = page_of(client, f"/compare?baseline={runs[0]}&candidate={runs[1]},{runs[0]}")
    assert "may be the best" in several and "Candidates with each other" in several
    assert "may be the best" not in page and "Candidates with each other" not in page
