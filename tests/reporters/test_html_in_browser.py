"""The HTML report in a real headless Chromium: opened from disk, used by mouse and keyboard, attacked by its texts."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from msgspec.structs import replace
from playwright.sync_api import expect

from chromium import PATIENCE, watch_page
from evalspec.base.foreign_text import visible
from evalspec.model import (
    AgentReply,
    AgentTurn,
    DatasetResult,
    Distractor,
    Exchange,
    ExpectedCall,
    Run,
    Sample,
    SampleResult,
    SampleStatus,
    Score,
    SliceResult,
    StoredExchange,
    Summary,
    Threshold,
    ToolCall,
)
from evalspec.model.exchanges import join_turns
from evalspec.reports.base import no_exchanges
from evalspec.reports.html import render_html
from evalspec.verdict.wording import render_value
from fingerprints import as_fingerprint
from reporters.sample_curation import sample_curation
from reporters.sample_retrieval import HOSTILE_DOCUMENT, HOSTILE_QUERY, retrieval_exchanges, retrieval_run
from reporters.sample_run import HOSTILE_ID, sample_exchanges, sample_run
from reporters.small_runs import FAIL, PASS, retrieval_full_of, run_of

EVIL = (
    "<script>window.pwned = 1</script></script></style><!-- ]]><img src=x onerror='window.pwned = 2'>"
    "<iframe src='javascript:top.pwned=3'></iframe><base href='https://x.invalid/'> {{7*7}} ${7*7} "
    "<a href='javascript:window.pwned=4'>click</a> javascript:window.pwned=5 "
    "\u2028\u2029\x00\ud800\u202eevil\u202c \U0001f9ea"
)
EVIL_IDS = ("__proto__", "constructor", "</script>", "a&dataset=b", "100%", "x\u202ey\x00", EVIL)


@dataclass
class Opened:
    """One page, and what happened on it that must not."""

    page: Any
    troubles: list[str]

    @property
    def ids(self) -> list[str]:
        self.page.locator("#samples thead th").first.wait_for()
        return self.page.locator("#samples tbody th a").all_text_contents()

    def column(self, title: str) -> list[str]:
        titles = self.page.locator("#samples thead button bdi").all_text_contents()
        return self.page.locator(f"#samples tbody tr > :nth-child({titles.index(title) + 1})").all_text_contents()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a run's page; at the end nothing may have been said, asked for, thrown or requested by any of them."""

    @contextmanager
    def open_page(run: Run, exchanges=sample_exchanges, hash: str = "", **context) -> Iterator[Opened]:
        file = tmp_path / "report.html"
        file.write_text(render_html(run, exchanges), encoding="utf-8")
        with browser.new_context(**context) as browsing:
            browsing.set_default_timeout(PATIENCE)
            page = browsing.new_page()
            found = Opened(page, watch_page(page))
            page.goto(file.as_uri() + hash)
            assert found.troubles.pop(0).startswith(file.as_uri())
            yield found
            assert found.troubles == []
            shown = page.locator("main").inner_text()
            assert not re.search(r"null|undefined|NaN|\[object", shown), shown
            assert page.evaluate("window.pwned") is None

    return open_page


@pytest.fixture
def rag_quality(opened):
    with opened(sample_run()) as found:
        found.page.locator("#samples tbody tr").first.wait_for()
        yield found


def test_it_opens_with_the_verdict_and_every_part(rag_quality):
    page = rag_quality.page
    expect(page).to_have_title("support-bot: FAIL (PARTIAL)")
    expect(page.locator(".verdict")).to_have_text("✗ FAIL")
    expect(page.locator("header")).to_contain_text("rag-quality: Recall@5 [advanced]: 0.25 is below 0.9")
    expect(page.locator("header")).to_contain_text("Partial.")
    expect(page.get_by_role("table", name="the comparison with the baseline").get_by_role("row")).to_have_count(6)
    metrics = page.get_by_role("table", name="the metrics of rag-quality")
    expect(metrics.get_by_role("row").nth(1)).to_contain_text("0.7996")
    expect(metrics.get_by_role("row", name="faithfulness")).to_contain_text("skipped")
    assert page.get_by_role("img", name=re.compile("Distribution of string_match: 5 scored")).count() == 1
    assert page.get_by_role("img", name=re.compile("Distribution of latency: p50 51.0, p95 1,727")).count() == 1
    expect(page.get_by_role("table", name="the slices of précision [fr]")).to_contain_text("too few samples to rank")
    expect(page.get_by_role("table", name="the repeats of support-chat").nth(0)).to_contain_text("0.667")


def test_a_retriever_has_its_gain_its_latencies_and_what_it_misses(opened):
    with opened(retrieval_run(), retrieval_exchanges) as found:
        panel = found.page.locator("#dataset-0")
        asked = "retriever bm25: retrieve+rerank (dataset), topK 10 (--top-k), rerankTopK 30 (default)"
        expect(panel).to_contain_text(asked)
        metrics = panel.get_by_role("table", name="the metrics of faq").locator("tbody th bdi")
        expect(metrics).to_have_text(["gain.nDCG@10", "nDCG@10", "Recall@10", "rerank.latency_p95"])
        gains = panel.get_by_role("table", name="the reranking of faq").get_by_role("row")
        expect(gains.nth(1)).to_have_text("nDCG@100.6350.629−0.0060−0.264 – +0.2523/4")
        stages = panel.get_by_role("table", name="the latencies of faq").get_by_role("row")
        expect(stages.nth(4)).to_have_text("total77.4 ms1,234 ms1,301 ms3")
        missing = panel.get_by_role("table", name="the missing documents of faq")
        hostile = missing.get_by_role("row").nth(1)
        expect(hostile.get_by_role("rowheader")).to_have_text(visible(HOSTILE_QUERY))
        expect(hostile.locator("ul").nth(0).locator("li").nth(0)).to_have_text(
            f"{visible(HOSTILE_DOCUMENT)} or faq-3 or faq-4 or faq-5 or 1 more (grade 2): rank 14"
        )
        expect(hostile.locator("ul").nth(1).locator("li")).to_have_count(8)
        expect(panel).to_contain_text("missed by 2 queries, nowhere in their rankings")
        missing.get_by_role("link", name="q-2").click()
        dialog = found.page.get_by_role("dialog", name="q-2")
        expect(dialog.get_by_text("none: a retriever returns documents")).to_be_visible()
        found.page.keyboard.press("Escape")
        quotes = found.page.locator("#dataset-1")
        expect(quotes).to_contain_text("retriever qdrant [eu]: retrieve, topK 10 (metrics), minGrade 2")
        expect(quotes.get_by_text("What is missing")).to_have_count(0)
        assert found.page.locator("main img, main script").count() == 0


def test_a_gold_set_has_a_part_of_its_own(opened):
    run = sample_run()
    sets = (replace(run.datasets[0], gold=sample_curation(EVIL)), *run.datasets[1:])
    with opened(replace(run, datasets=sets)) as found:
        found.page.get_by_role("link", name="Gold set rag-quality").click()
        panel = found.page.locator("#gold-0")
        expect(panel).to_contain_text("demonstration, not reviewed by people")
        expect(found.page.locator("#dataset-0")).to_contain_text("demonstration, not reviewed by people")
        measures = panel.get_by_role("table", name="the agreement").get_by_role("row")
        expect(measures.nth(2)).to_have_text("Krippendorff's alpha0.620.55 – 0.691,780bootstrap interval")
        expect(panel).to_contain_text("31 % of")
        expect(panel.get_by_role("table", name="the coverage").get_by_role("row")).to_have_count(3)


def test_a_page_lists_the_worst_queries_and_counts_the_others(opened):
    run = retrieval_run()
    dataset = run.datasets[0]
    queries = tuple(
        replace(
            dataset.diagnosis.queries[1],
            query=f"q-{number}",
            pushed_out_by=tuple(Distractor(f"x-{rank}", rank, None) for rank in range(1, 31)),
        )
        for number in range(150)
    )
    many = replace(dataset, diagnosis=replace(dataset.diagnosis, queries=queries))
    with opened(replace(run, datasets=(many,)), retrieval_exchanges) as found:
        found.page.get_by_text("What is missing", exact=True).click()
        rows = found.page.get_by_role("table", name="the missing documents of faq").locator("tbody tr")
        expect(rows).to_have_count(25)
        found.page.get_by_role("button", name="Show all 100 rows").click()
        expect(rows).to_have_count(100)
        expect(rows.nth(25)).to_be_focused()
        expect(rows.nth(0).locator("ul").nth(1).locator("li")).to_have_count(21)
        expect(rows.nth(0)).to_contain_text("and 10 more")
        expect(found.page.locator("#dataset-0")).to_contain_text("and 50 more")


def test_samples_are_sorted_by_any_column_and_unknown_ones_come_last(rag_quality):
    page = rag_quality.page
    assert rag_quality.ids[:2] == ["q-6", "a-very-long-identifier-of-a-sample-0003"]
    header = page.get_by_role("columnheader", name="Recall@5")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    ascending = ["0.000", "0.500", "1.000", "1.000", "–not applicable", "–failed"]
    assert rag_quality.column("Recall@5") == ascending
    expect(header.get_by_role("button")).to_be_focused()
    page.keyboard.press("Enter")
    expect(header).to_have_attribute("aria-sort", "descending")
    assert rag_quality.column("Recall@5") == ["1.000", "1.000", "0.500", "0.000", "–not applicable", "–failed"]
    page.get_by_role("columnheader", name="#").get_by_role("button").click()
    assert rag_quality.ids[0] == "q-1"
    page.get_by_role("columnheader", name="tags").get_by_role("button").click()
    assert rag_quality.column("tags") == ["advanced", "advanced", "basic", "basic", "", ""]


def test_samples_are_filtered_by_text_status_tag_and_metric(rag_quality):
    page, count = rag_quality.page, rag_quality.page.get_by_role("status")
    search = page.get_by_label("Search")
    for words, found in [("onerror ALERT", 1), ("within 30 days", 4), ("q-6", 1), ("basic q-", 2), ("nowhere", 0)]:
        search.fill(words)
        expect(count).to_have_text(f"{found} of 6 samples")
    search.fill("")
    expect(count).to_have_text("6 samples")
    page.get_by_label("Status").select_option(label="failed (2)")
    assert rag_quality.ids == ["q-6", "a-very-long-identifier-of-a-sample-0003"]
    page.get_by_role("combobox", name="Tag", exact=True).select_option(label="advanced")
    assert rag_quality.ids == ["q-6"]
    page.get_by_label("Status").select_option(label="all (6)")
    page.get_by_label("Beyond the limit of").select_option(label="Recall@5 (1)")
    assert rag_quality.ids == [visible(HOSTILE_ID)]
    page.get_by_label("Dataset").select_option(label="support-chat")
    assert rag_quality.ids == ["c-3", "c-2", "c-1"]
    page.get_by_label("Status").select_option(label="flaky (1)")
    assert rag_quality.column("status") == ["~flakypasses 67 %"]


def test_a_sample_opens_by_keyboard_and_shows_all_that_is_known(rag_quality):
    page = rag_quality.page
    page.locator("#samples").get_by_role("link", name="q-2").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="q-2")
    expect(dialog).to_contain_text("evals/rag.jsonl:2")
    expect(dialog.get_by_role("heading", name="q-2")).to_be_focused()
    for text in ("How long can I return a lamp?", "You can return it within 30 days.", "a month", "search"):
        expect(dialog).to_contain_text(text)
    contexts = dialog.locator(".contexts").first.locator("> li")
    assert [text.split("You")[0].split("A r")[0].split("St")[0] for text in contexts.all_text_contents()] == [
        "returns✓relevant, grade 2✓a reference passage",
        "refunds✓relevant, grade 1",
        "shippingunjudged",
    ]
    expect(dialog.locator(".verdicts li").first).to_have_text(
        "✓in the contextsA lamp can be returned.The first context says so."
    )
    expect(page).to_have_url(re.compile("#dataset=rag-quality&sample=q-2$"))
    dialog.get_by_role("button", name="Next").click()
    expect(page.get_by_role("dialog")).to_have_accessible_name("q-1")
    expect(page).to_have_url(re.compile("sample=q-1$"))
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).to_have_url(re.compile("#samples$"))
    page.get_by_role("row", name="q-6").locator("td").nth(2).click()
    dialog = page.get_by_role("dialog", name="q-6")
    expect(dialog).to_contain_text("HTTP 500 after 3 attempts: [Errno 5] upstream said <b>no</b>")
    expect(dialog).to_contain_text("tickets")
    page.go_back()
    expect(dialog).to_have_count(0)


def test_documents_are_marked_and_missed_ones_listed_highest_grade_first(opened):
    run = run_of(0.5, status=FAIL, min=0.9)
    asked = Sample("s-0", "?", retrieved_contexts=("one", "two"), qrels={"a": 1, "b": 3, "c": 0, "d": 2})
    reply = AgentReply("!", retrieved_context_ids=("d", "c"))
    with opened(run, lambda: [StoredExchange("d", 1, Exchange(asked, reply), {})], "#sample=s-0") as found:
        missed = found.page.get_by_role("dialog").locator(".missed li")
        expect(missed).to_have_text(["b grade 3", "a grade 1"])
        documents, contexts = found.page.locator(".contexts").nth(1), found.page.locator(".contexts").nth(0)
        expect(documents.locator("> li")).to_have_text(["d✓relevant, grade 2", "c✗judged not relevant"])
        expect(contexts.locator("> li")).to_have_text(["one", "two"])


def test_every_attempt_of_a_sample_can_be_seen(opened):
    with opened(sample_run(), hash="#dataset=support-chat&sample=c-2") as found:
        dialog = found.page.get_by_role("dialog", name="c-2")
        rows = dialog.get_by_role("table", name="Attempts").get_by_role("row")
        expect(rows).to_have_count(5)
        expect(rows.nth(2)).to_contain_text("0.000")
        expect(dialog).to_contain_text("Yes: the switch is covered")
        dialog.locator("summary").filter(has_text="Attempt 2").click()
        expect(dialog.get_by_role("heading", name="Answer of attempt 2")).to_be_visible()
        second = dialog.locator("details.attempt").nth(1)
        expect(dialog).to_contain_text("1 of 2 statements is not supported")
        expect(second.locator(".scores > li").nth(1)).to_contain_text("✗beyond limitlimit ≥ 0.70 · graded 0.000, 0.040")
        expect(second.locator(".verdicts li").nth(1)).to_contain_text("✗not supported")
        expect(second.locator(".definitions > div").filter(has_text="finish reason")).to_contain_text("length")


def test_scores_beyond_their_limit_come_first_and_those_within_it_are_folded(opened):
    with opened(sample_run(), hash="#dataset=support-chat&sample=c-2") as found:
        dialog = found.page.get_by_role("dialog", name="c-2")
        first, second = dialog.locator("details.attempt").nth(0), dialog.locator("details.attempt").nth(1)
        met = first.locator("details .scores")
        expect(met).to_be_hidden()
        first.get_by_text("2 scores within the limit").click()
        expect(met.locator("> li strong")).to_have_text(["string_match", "faithfulness"])
        shown = second.locator(".scores > li strong")
        expect(shown).to_have_text(["string_match", "faithfulness", "answer_correctness", "toxicity"])


def test_reasons_lead_to_the_samples_concerned(rag_quality):
    page = rag_quality.page
    reasons = page.locator(".reasons > li")
    expect(reasons.nth(0).get_by_role("link")).to_have_text([visible(HOSTILE_ID)])
    reasons.filter(has_text="support-chat: string_match").get_by_role("link", name="c-3").click()
    expect(page.get_by_role("dialog", name="c-3")).to_contain_text("support-chat")


def test_a_reason_of_many_samples_lists_them_in_their_dataset(opened):
    run = run_of(*[0.1] * 12, *[0.9] * 3, status=FAIL, min=0.5)
    other = replace(run_of(0.9, status=PASS, min=0.5).datasets[0], name="e")
    both = replace(run, reasons=("d: m: why",), datasets=(other, *run.datasets))
    with opened(both, no_exchanges) as found:
        page, count = found.page, found.page.get_by_role("status")
        assert found.ids == ["s-0"]
        page.get_by_role("link", name="all 12 samples").click()
        expect(page.get_by_label("Dataset")).to_have_value("1")
        expect(count).to_have_text("12 of 15 samples")
        page.get_by_role("link", name="s-3").click()
        page.keyboard.press("Escape")
        expect(count).to_have_text("12 of 15 samples")
        page.get_by_role("button", name="Show all samples").click()
        expect(count).to_have_text("15 samples")


def test_keys_go_through_samples_search_and_explain_themselves(rag_quality):
    page = rag_quality.page
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="a-very-long").last).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="q-6")).to_be_visible()
    page.keyboard.press("k")
    page.keyboard.press("j")
    expect(page.get_by_role("dialog", name="a-very-long")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("j?")
    expect(page.get_by_label("Search")).to_have_value("j?")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("next sample")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def test_on_a_phone_a_sample_shows_what_is_wrong_with_it_and_by_what_it_is_sorted(opened):
    with opened(run_of(0.9, 0.1, status=FAIL, min=0.5), no_exchanges, **PHONE) as found:
        shown = found.page.locator("#samples tbody td.number:not(.order):visible")
        assert found.ids == ["s-1", "s-0"]
        expect(shown).to_have_text(["0.100"])
        found.page.locator("#samples thead").get_by_role("button", name="latency").click()
        expect(shown).to_have_text(["10.0 ms", "0.100", "10.0 ms"])


def test_on_a_phone_the_page_of_ten_thousand_samples_ends_early(opened):
    dataset = run_of(*[0.1] * 2_500, status=FAIL, min=0.5).datasets[0]
    slices = tuple(SliceResult(name=f"t{n}", selected=9, metrics=dataset.metrics) for n in range(40))
    limits = tuple(replace(dataset.thresholds[0], slice=f"t{number}") for number in range(35))
    full = replace(dataset, slices=slices, thresholds=limits)
    run = Run(
        id="r",
        verdict=FAIL,
        exit_code=1,
        reasons=tuple(f"reason {number}" for number in range(50)),
        notes=tuple(f"note {number}" for number in range(50)),
        datasets=tuple(replace(full, name=f"d{number}") for number in range(4)),
    )
    with opened(run, no_exchanges, **PHONE) as found:
        page = found.page
        assert len(found.ids) == 10
        assert page.evaluate("document.documentElement.scrollHeight") < 6 * PHONE["viewport"]["height"]
        metrics = page.get_by_role("table", name="the metrics of d3")
        expect(metrics).to_have_count(0)
        page.get_by_role("navigation").get_by_role("link", name="d3").click()
        expect(metrics.locator("tbody tr")).to_have_count(5)
        page.locator("#dataset-3").get_by_role("button", name="Show all 36 rows").click()
        expect(metrics.locator("tbody tr")).to_have_count(36)


CONTEXTS = pytest.mark.parametrize("context", [{"color_scheme": "light"}, {"color_scheme": "dark", **PHONE}])


@pytest.mark.parametrize("hash", ["", "#dataset=support-chat&sample=c-2"])
@CONTEXTS
def test_it_is_accessible(opened, context, hash):
    with opened(sample_run(), hash=hash, **context) as found:
        found.page.locator("#samples tbody tr").first.wait_for()
        if hash:
            found.page.locator("dialog .scores").first.wait_for()
        check_accessible(found.page)


def check_accessible(page):
    results = Axe().run(page, options={"resultTypes": ["violations"]})
    assert not [(one["id"], one["nodes"][0]["html"]) for one in results.response["violations"]]


def talk_exchanges() -> list[StoredExchange]:
    """A conversation of two turns. One call has a wrong argument, one failed, and one was not made."""
    expected = (ExpectedCall("book", {"month": 5, "guests": ["Ada"]}), ExpectedCall("find"), ExpectedCall("pay"))
    calls = (ToolCall("book", {"month": 6, "guests": ["Ada"]}, error="it is full"), ToolCall("find", result=["Ritz"]))
    turns = (AgentTurn("To Paris", AgentReply("When?")), AgentTurn("In May", AgentReply("Booked", tool_calls=calls)))
    pairs = [("book", 0, 0.5), ("find", 1, 1.0), ("pay", None, 0.0)]
    evidence = {"expected": [{"name": n, "made": made, "share": share} for n, made, share in pairs], "extra": []}
    scores = {"m": Score.scored(0.2, None, evidence)}
    sample = Sample("s-0", "To Paris", ("Done",), expected_tools=expected)
    return [StoredExchange("d", 1, Exchange(sample, join_turns(turns)), scores)]


@CONTEXTS
def test_a_conversation_is_read_by_keyboard_and_accessible(opened, context):
    with opened(run_of(0.2), talk_exchanges, "#sample=s-0", **context) as found:
        dialog = found.page.get_by_role("dialog")
        expect(dialog.get_by_role("heading", name=re.compile("^Turn"))).to_have_count(2)
        differences = dialog.get_by_role("table", name="Arguments of book that differ")
        assert differences.locator("tbody th").all_text_contents() == ["month"]
        expect(dialog.get_by_text("not called")).to_be_visible()
        result = dialog.get_by_text('["Ritz"]')
        expect(result).not_to_be_visible()
        dialog.locator("summary", has_text="find").focus()
        found.page.keyboard.press("Enter")
        expect(result).to_be_visible()
        for summary in dialog.locator(".calls details:not([open]) > summary").all():
            summary.click()
        check_accessible(found.page)
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert found.page.evaluate(wide) == 0


def test_links_lead_to_samples_and_say_where_there_is_none(opened):
    with opened(sample_run(), hash="#sample=o-3") as found:
        expect(found.page.get_by_role("dialog", name="o-3")).to_contain_text("30日以内です。")
        found.page.evaluate("location.hash = '#sample=gone%'")
        expect(found.page.get_by_role("dialog", name="gone%")).to_contain_text("no sample of that id")
        found.page.keyboard.press("Escape")
        found.page.get_by_role("link", name="c-2").click()
        expect(found.page.get_by_role("dialog", name="c-2")).to_be_visible()


def evil_run() -> Run:
    """A sample for each evil id, with every other text evil too; the answer of the first is a megabyte."""
    samples = tuple(
        SampleResult(
            id=sample_id,
            status=SampleStatus.ANSWERED,
            tags=(EVIL, "__proto__"),
            metadata={"__proto__": EVIL, "toString": 1, EVIL: EVIL},
            scores={"__proto__": Score.scored(0.1), EVIL: Score.scored(0.2)},
            line=number,
        )
        for number, sample_id in enumerate(EVIL_IDS, 1)
    )
    metrics = ("__proto__", EVIL)
    dataset = DatasetResult(
        name=EVIL,
        samples=samples,
        metrics={metric: Summary(value=0.1, scored=len(samples)) for metric in metrics},
        thresholds=tuple(
            Threshold(metric, min=0.5, status=FAIL, value=0.1, scored=len(samples), expected=len(samples), reason=EVIL)
            for metric in metrics
        ),
        file=EVIL,
    ).with_limits()
    return Run(
        id=EVIL,
        verdict=FAIL,
        reasons=(EVIL,),
        exit_code=1,
        datasets=(dataset,),
        notes=(EVIL,),
        fingerprint=as_fingerprint({"agent": {"name": EVIL}, "versions": {"__proto__": EVIL}}),
    )


EVIL_CALLS = (ToolCall(EVIL, {EVIL: EVIL}, EVIL, EVIL, EVIL, EVIL),)


def evil_exchanges() -> list[StoredExchange]:
    answers = [EVIL * 6_000, *[EVIL] * (len(EVIL_IDS) - 1)]
    evidence = {"statements": [{"statement": EVIL, "reason": EVIL, "verdict": 0}], "__proto__": EVIL}
    scores = {"__proto__": Score.scored(0.1, EVIL, evidence), EVIL: Score.scored(0.2, EVIL, [EVIL])}
    return [
        StoredExchange(
            EVIL,
            1,
            Exchange(
                Sample(sample_id, EVIL, (EVIL,), reference_contexts=(EVIL,), qrels={"__proto__": 1, EVIL: 1}),
                AgentReply(answer, (EVIL, EVIL), ("__proto__", EVIL), EVIL_CALLS),
            ),
            scores,
        )
        for sample_id, answer in zip(EVIL_IDS, answers, strict=True)
    ]


def test_hostile_texts_are_shown_and_do_nothing(opened):
    with opened(evil_run(), evil_exchanges) as found:
        page = found.page
        page.get_by_label("Search").fill("window.pwned")
        expect(page.get_by_role("status")).to_have_text(f"{len(EVIL_IDS)} samples")
        assert sorted(found.ids) == sorted(map(visible, EVIL_IDS))
        for number in range(len(EVIL_IDS)):
            page.locator("#samples tbody th a").nth(number).click()
            dialog = page.get_by_role("dialog")
            expect(dialog.locator(".verdicts")).to_have_count(1)
            expect(dialog.locator(".prose").first).to_have_text(visible(EVIL))
            for summary in dialog.locator("summary").all():
                summary.click()
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
        assert page.locator("img, iframe, object, embed, base, form[action], link").count() == 0
        assert page.locator("main script, main style, main [href]:not([href^='#'])").count() == 0


def test_a_megabyte_is_shown_whole_when_asked_for(opened):
    with opened(evil_run(), evil_exchanges, "#sample=__proto__") as found:
        dialog = found.page.get_by_role("dialog")
        whole = visible(EVIL * 6_000)
        assert len(whole) > 1_000_000
        dialog.get_by_role("button", name=f"Show all {len(whole):,} characters").click()
        assert dialog.locator(".beside .prose").first.text_content() == whole


def test_the_policy_refuses_a_script_even_if_it_came_into_the_page(opened):
    with opened(sample_run()) as found:
        refused = found.page.evaluate("""() => {
          const script = document.createElement("script");
          try { document.body.innerHTML = "<p>"; return "allowed"; } catch { }
          script.append("window.pwned = 1");
          document.body.append(script);
          return "refused";
        }""")
        assert refused == "refused"
        assert found.troubles
        found.troubles.clear()


@pytest.mark.parametrize("hash", ["", "#dataset=support-chat&sample=c-2", f"#sample={quote(visible(HOSTILE_ID))}"])
def test_on_a_phone_the_page_does_not_scroll_sideways(opened, hash):
    with opened(sample_run(), hash=hash, viewport={"width": 360, "height": 740}, is_mobile=True) as found:
        page = found.page
        page.locator("#samples tbody tr").first.wait_for()
        if hash:
            page.locator("dialog .scores").first.wait_for()
        for where in ("document.documentElement", *(["document.querySelector('dialog .blocks')"] if hash else [])):
            assert page.evaluate(f"{where}.scrollWidth <= {where}.clientWidth")
        assert page.evaluate("document.documentElement.clientWidth") == 360


def test_on_a_phone_neither_does_what_a_retriever_adds(opened):
    phone = {"viewport": {"width": 360, "height": 740}, "is_mobile": True}
    for run in (retrieval_run(), retrieval_full_of("x" * 300), retrieval_full_of(EVIL)):
        with opened(run, no_exchanges, **phone) as found:
            found.page.locator("#samples tbody tr").first.wait_for()
            found.page.get_by_text("pushed out by").first.wait_for(state="attached")
            assert found.page.evaluate("document.documentElement.scrollWidth") == 360


def test_long_names_without_a_space_do_not_widen_the_page(opened):
    with opened(evil_run(), evil_exchanges, viewport={"width": 360, "height": 740}, is_mobile=True) as found:
        found.page.locator("#samples tbody tr").first.wait_for()
        assert found.page.evaluate("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_scheme_of_the_reader(opened, scheme):
    with opened(sample_run(), color_scheme=scheme) as found:
        color = found.page.evaluate("getComputedStyle(document.body).backgroundColor")
        lightness = sum(map(int, re.findall(r"\d+", color))) / (3 * 255)
        assert lightness > 0.9 if scheme == "light" else lightness < 0.15


def test_numbers_are_written_as_in_the_other_reports(opened):
    values = (0.7999996, 0.86149, 0.0, 12.345, 1234.5678, -0.25, 0.8)
    run = run_of(*values, status=FAIL, min=0.8)
    limit = Threshold("m", min=0.8, status=FAIL, value=0.1, scored=7, expected=7)
    with opened(run, no_exchanges) as found:
        found.page.get_by_role("columnheader", name="#").get_by_role("button").click()
        assert found.column("m") == [render_value("m", value, limit) for value in values]
        assert found.column("latency")[0] == render_value("latency", 10.0)


def test_a_large_table_is_leafed_through(opened):
    with opened(run_of(*[0.5] * 250, status=PASS, min=0.1), no_exchanges) as found:
        page = found.page
        assert len(found.ids) == 100
        for _ in range(2):
            page.get_by_role("button", name="Next").click()
        expect(page.get_by_text("201 to 250 of 250")).to_be_visible()
        assert found.ids == [f"s-{number}" for number in range(200, 250)]


def test_a_run_of_nothing_opens(opened):
    with opened(Run(id="r", verdict=FAIL, exit_code=2, datasets=()), no_exchanges) as found:
        expect(found.page.get_by_role("heading", name="Samples")).to_be_visible()
        expect(found.page.locator("header")).to_contain_text("0 samples")


def test_a_run_of_another_agent_says_so_above_everything_else(opened):
    reused = as_fingerprint({"agent": {"name": "bot", "reusedUrl": "http://localhost:4000/<b>"}})
    with opened(Run(id="r", verdict=FAIL, exit_code=2, datasets=(), fingerprint=reused), no_exchanges) as found:
        said = "used the agent already running at http://localhost:4000/<b>; `command` was not started"
        expect(found.page.locator("header")).to_contain_text(said)


def test_a_run_without_texts_says_so(opened):
    with opened(replace(sample_run(), has_texts=False), no_exchanges, "#sample=q-1") as found:
        expect(found.page.locator("header")).to_contain_text("Without texts.")
        dialog = found.page.get_by_role("dialog", name="q-1")
        expect(dialog).to_contain_text("not kept (--no-content)")
        expect(dialog).to_contain_text("0.900")


def test_without_scripts_everything_but_the_samples_is_there(opened):
    with opened(sample_run(), java_script_enabled=False) as found:
        expect(found.page.locator("header")).to_contain_text("support-bot")
        expect(found.page.get_by_role("table", name="the metrics of rag-quality")).to_contain_text("string_match")
        expect(found.page.locator("#samples noscript p")).to_have_text("The samples need JavaScript.")
