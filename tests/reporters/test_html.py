"""The HTML report as a file: what is in it, that no text becomes markup, and that it stays small."""

import json
import random
import re
import zlib
from base64 import b64decode, b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

import evalspec.reports.html_report.page
from evalspec.base.foreign_text import inert, visible
from evalspec.model import AgentReply, Exchange, Run, Sample, SampleResult, SampleStatus, Score, StoredExchange
from evalspec.reports.base import no_exchanges, reporter_for
from evalspec.reports.html import render_html
from evalspec.reports.html_report.page import Texts, pack_texts
from evalspec.reports.html_report.page_data import Chunks
from evalspec.reports.markup.run_content import compute_histogram
from evalspec.reports.markup.sample_content import render_latency
from evalspec.reports.rows import render_data
from reporters.sample_run import HOSTILE_ID, HOSTILE_REASON, sample_exchanges, sample_run
from reporters.sample_texts import HOSTILE_TEXT
from reporters.small_runs import FAIL, PASS, exchanges_full_of, retrieval_full_of, run_full_of, run_of


class Page(HTMLParser):
    """Its parts: tags with their attributes, texts and comments. The content of each script and style by id or name."""

    def __init__(self, run: Run, exchanges=sample_exchanges) -> None:
        super().__init__()
        self.parts: list = []
        self.links: list[str] = []
        self.policy = ""
        self.blocks: dict[str, str] = {}
        self._block: str | None = None
        self.source = render_html(run, exchanges)
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.parts.append([tag, found])
        self.links += [found["href"]] if "href" in found else []
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]
        if tag in ("script", "style", "title"):
            self._block = found.get("id", tag)

    def handle_endtag(self, tag):
        self.parts.append(f"</{tag}>")
        self._block = None

    def handle_data(self, data):
        if self._block is not None:
            self.blocks[self._block] = self.blocks.get(self._block, "") + data
        else:
            self.parts.append(data)

    def handle_comment(self, data):
        self.parts.append(f"<!--{data}")

    def unpacked(self, name: str):
        return json.loads(zlib.decompress(b64decode(self.blocks[name])))

    @property
    def overview(self):
        return json.loads(self.blocks["overview"])

    @property
    def columns(self):
        return self.unpacked("columns")

    def items(self, kind: str) -> list:
        return [
            item for number in range(len(self.overview["chunks"][kind])) for item in self.unpacked(f"{kind}-{number}")
        ]

    def opened_samples(self) -> list:
        """What is shown of each opened sample, as elements with their texts: beside its title, and below it."""
        found = zip(self.items("asked"), self.items("rest"), strict=True)
        return [["", {}, [about, fill(content, texts)]] for (_, texts), (about, content) in found]

    def everything(self) -> list:
        """All that a browser shows or finds in the page, apart from its title."""
        asked = [known for known, _ in self.items("asked")]
        return [self.parts, self.overview, self.columns, self.items("rows"), asked, self.opened_samples()]


MARKER = "QxZ"
"""A text that is in no other text of the page."""
LONGEST_ON_PAGE = 2000


def put(text: str, found):
    """What a page shows of a run that has `text` wherever the run of this page has MARKER."""
    if isinstance(found, dict):
        return {put(text, key): put(text, value) for key, value in found.items()}
    if isinstance(found, list):
        return [put(text, one) for one in found]
    if not isinstance(found, str) or MARKER not in found:
        return found
    shown = visible(text)
    if found.startswith("#"):
        return found.replace(MARKER, quote(shown, safe=""))
    if found.startswith('{"'):
        return visible(render_data(json.loads(found.replace(MARKER, json.dumps(text)[1:-1]))))
    return found.replace(MARKER, shown)


def assert_only_its_texts_differ(page: Page, marked: Page, text: str) -> None:
    """Tags, attributes and places are those of a page with a harmless text. The title is one line."""
    assert page.everything() == put(text, marked.everything())
    assert page.blocks.keys() == marked.blocks.keys()
    assert page.blocks["script"] == marked.blocks["script"]
    assert page.blocks["title"] == inert(marked.blocks["title"].replace(MARKER, text))


def fill(node, texts: list[str]):
    """An element whose numbers are replaced by the texts that they stand for."""
    if not isinstance(node, list):
        return texts[node] if isinstance(node, int) else node
    tag, attributes, children = node
    return [tag, attributes, [fill(child, texts) for child in children]]


def texts_of(node) -> str:
    return node if isinstance(node, str) else "".join(map(texts_of, node[2]))


def elements(node, tag: str, kind: str | None) -> list[str]:
    """The texts of the elements with this tag and class."""
    if isinstance(node, str):
        return []
    own = [texts_of(node)] if node[0] == tag and node[1].get("class") == kind else []
    return own + [said for child in node[2] for said in elements(child, tag, kind)]


def facts_of(node) -> list[dict[str, str]]:
    """The definitions in a sample: of each attempt, then its metadata."""
    if isinstance(node, str):
        return []
    if node[1].get("class") == "definitions":
        return [{texts_of(pair[2][0]): texts_of(pair[2][1]) for pair in node[2]}]
    return [facts for child in node[2] for facts in facts_of(child)]


@pytest.fixture(scope="module")
def page():
    return Page(sample_run())


def test_the_suffix_names_it():
    assert reporter_for(Path("out/Report.HTML")).render is render_html


def test_every_sample_and_asking_is_there_in_the_order_of_the_run(page):
    run = sample_run()
    columns = page.unpacked("columns")
    assert [column["ids"] for column in columns] == [[visible(s.id) for s in d.samples] for d in run.datasets]
    for dataset, column, overview in zip(run.datasets, columns, page.overview["datasets"], strict=True):
        for metric, values in zip(overview["metrics"], column["values"], strict=True):
            scores = [sample.scores[metric] for sample in dataset.samples]
            assert values == [pytest.approx(score.value) for score in scores]
    attempts = [(s.id, a) for d in run.datasets for s in d.samples for a in s.attempts or (s,)]
    shown = page.opened_samples()
    assert len(shown) == len(page.items("rows")) == sum(len(dataset.samples) for dataset in run.datasets)
    told = [facts for sample in shown for facts in facts_of(sample) if "latency" in facts]
    assert [facts["latency"] for facts in told] == [render_latency(asking.latency_ms) for _, asking in attempts]
    assert [facts.get("finish reason") for facts in told] == [asking.finish_reason for _, asking in attempts]
    assert {"stop", "length"} <= {facts.get("finish reason") for facts in told}
    samples = [sample for dataset in run.datasets for sample in dataset.samples]
    for sample, opened in zip(samples, shown, strict=True):
        attempts_of: list[Any] = [sample, *sample.attempts]
        errors = [asking.error for asking in attempts_of if asking.error is not None]
        assert elements(opened, "div", "prose error") == [visible(error) for error in errors]


def test_an_opened_sample_has_its_texts_and_evidence(page):
    ids = [visible(sample.id) for dataset in sample_run().datasets for sample in dataset.samples]
    hostile, flaky = ids.index(visible(HOSTILE_ID)), ids.index("c-2")
    asked, shown = page.items("asked"), page.opened_samples()
    place, texts = asked[hostile]
    assert texts[place] == visible(HOSTILE_TEXT)
    assert elements(shown[hostile], "div", "score")[-3:] == [
        "+returnsunjudged",
        "</td>✗judged not relevant",
        "docs/4.md✓relevant, grade 1✓a reference passage",
    ]
    said = f"string_match0.499✗beyond limitlimit ≥ 0.80 · limit ≥ 0.25{visible(HOSTILE_REASON)}"
    assert elements(shown[hostile], "li", None)[0] == said
    assert elements(shown[flaky], "span", "role") == ["system", "user", "assistant", "user"]
    place, texts = asked[flaky]
    assert (place, texts[4:]) == (3, ["Yes: the switch is covered, for 2 years.", "No.", texts[4]])
    verdicts = elements(shown[flaky], "li", None)
    assert "✗not supportedThe warranty is 2 years.The passages say 6 months." in verdicts
    assert any(said.endswith("limit ≥ 0.70 · graded 0.000, 0.040") for said in elements(shown[flaky], "div", "score"))


def test_what_is_not_known_is_null_and_says_why(page):
    metrics = page.source.partition('aria-label="the metrics of rag-quality"')[2]
    faithfulness = metrics.partition("<bdi>faithfulness</bdi>")[2].partition("</tr>")[0]
    shown = re.findall(r">\s*([^<]*\S)\s*<", faithfulness)
    assert shown == ["skipped", "–", "≥ 0.80", "–", "not gated", "0/6", "no judge (--no-judge)"]
    baseline = page.source.partition('aria-label="the comparison with the baseline')[2]
    too_few = baseline.partition("<bdi>faithfulness</bdi>")[2].partition("</tr>")[0]
    assert re.findall(r">\s*([^<]*\S)\s*<", too_few)[:4] == ["0.900", "–", "–", "2"]
    unanswered = page.opened_samples()[5]
    assert facts_of(unanswered)[0] == {"latency": "–"}
    assert "Answerno usable reply" in elements(unanswered, "section", "block")
    assert "Retrieved" not in texts_of(unanswered)


@pytest.mark.parametrize(
    ("sample", "states"),
    [
        (SampleResult(id="s", status=SampleStatus.ANSWERED, scores={"m": Score.scored(0.9)}, pass_rate=1.0), "p"),
        (SampleResult(id="s", status=SampleStatus.ANSWERED, scores={"m": Score.scored(0.1)}, pass_rate=0.0), "b"),
        (SampleResult(id="s", status=SampleStatus.ANSWERED, scores={"m": Score.scored(0.4)}, pass_rate=0.5), "yb"),
        (SampleResult(id="s", status=SampleStatus.ANSWERED, scores={"m": Score.scored(0.6)}, pass_rate=0.5), "y"),
        (SampleResult(id="s", status=SampleStatus.ANSWERED, scores={"m": Score.failed("prose")}), "f"),
        (SampleResult(id="s", status=SampleStatus.FAILED, scores={"m": Score.failed("no reply")}, pass_rate=0.0), "f"),
        (SampleResult(id="s", status=SampleStatus.ANSWERED, scores={"m": Score.skipped("no judge")}), ""),
    ],
)
def test_the_states_of_a_sample(sample, states):
    run = run_of(0.5, status=PASS, min=0.5)
    dataset = replace(run.datasets[0], samples=(sample,))
    columns = Page(replace(run, datasets=(dataset,)), no_exchanges).unpacked("columns")[0]
    assert columns["states"] == [states]


def test_a_limit_on_a_slice_marks_its_members_only():
    run = run_of(0.1, 0.1, status=FAIL, slice="first", min=0.5)
    assert Page(run, no_exchanges).unpacked("columns")[0]["beyond"] == [[0]]


def hostile_run(text: str) -> Run:
    """run_full_of, with the pass rates that its two attempts would have."""
    run = run_full_of(text)
    dataset = run.datasets[0]
    repeats = replace(dataset.repeats, pass_at={1: 0.5, 2: 1.0}, pass_all={1: 0.5, 2: 0.0})
    return replace(run, datasets=(replace(dataset, repeats=repeats),))


FOREIGN = st.text(st.characters(codec=None, exclude_categories=()), min_size=1, max_size=30)
SEEN = FOREIGN.filter(lambda text: visible(text).strip())


@given(text=SEEN)
@example(text="1")
@example(text="</script><script>alert(1)</script>")
@example(text="<!--<script>")
@example(text="</style></title></pre></noscript><img src=x onerror=alert(1)>")
@example(text="\u2028\x00\ud800\u202e")
@example(text="$title ${script} $$")
@example(text=HOSTILE_TEXT)
def test_no_text_becomes_markup(text):
    page = Page(hostile_run(text), lambda: exchanges_full_of(text))
    assert_only_its_texts_differ(page, Page(hostile_run(MARKER), lambda: exchanges_full_of(MARKER)), text)
    page.source.encode()
    of_retriever = Page(retrieval_full_of(text), no_exchanges)
    assert_only_its_texts_differ(of_retriever, Page(retrieval_full_of(MARKER), no_exchanges), text)


@pytest.mark.parametrize("text", ["", " ", "\n\t\u3000"])
def test_a_text_of_which_nothing_is_seen_is_said_to_be_empty(text):
    run, exchanges = run_of(0.5, status=PASS, min=0.5), Exchange(Sample("s-0", text), AgentReply(text))
    (opened,) = Page(run, lambda: [StoredExchange("d", 1, exchanges, {})]).opened_samples()
    assert elements(opened, "p", "muted") == ["(empty)", "(empty)", "none given"]


def test_the_policy_allows_its_own_script_and_style_and_nothing_else(page):
    def hashed(name):
        return f"'sha256-{b64encode(sha256(page.blocks[name].encode()).digest()).decode()}'"

    assert page.policy == (
        f"default-src 'none'; script-src {hashed('script')}; style-src {hashed('style')}; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    attributes = {name for part in page.parts if isinstance(part, list) for name in part[1]}
    assert not [name for name in attributes if re.fullmatch(r"src|on\w+|style", name)]
    assert page.links
    assert all(link.startswith("#") for link in page.links)


def test_numbers_that_javascript_lacks_become_text():
    run = run_of(0.9, status=PASS, min=0.5)
    metadata = {"big": 2**60, "nan": float("nan"), "nested": [{"inf": float("inf")}], "fine": 1.5}
    sample = replace(run.datasets[0].samples[0], metadata=metadata)
    page = Page(replace(run, datasets=(replace(run.datasets[0], samples=(sample,)),)), no_exchanges)
    assert facts_of(page.opened_samples()[0])[-1] == {
        "big": str(2**60),
        "nan": "NaN",
        "nested": '[{"inf": Infinity}]',
        "fine": "1.5",
    }


def prose(chance: random.Random, length: int) -> str:
    return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz ", k=length))


def run_of_answers(lengths: list[int]) -> tuple[Run, list[StoredExchange]]:
    """A run whose answers are as long as that, of random letters."""
    chance = random.Random(1)
    run = run_of(*[0.5] * len(lengths), status=PASS, min=0.5)
    exchanges = [
        StoredExchange("d", 1, Exchange(Sample(f"s-{number}", "?"), AgentReply(prose(chance, length))), {})
        for number, length in enumerate(lengths)
    ]
    return run, exchanges


def answers(texts: Texts) -> list[str]:
    pieces = [json.loads(zlib.decompress(b64decode(piece))) for piece in texts.asked.pieces]
    return [item[1][1] for piece in pieces for item in piece]


@pytest.mark.parametrize("lengths", [[12_500] * 40, [250_000, *[200] * 125], [300] * 750, [100, 5_000] * 75])
def test_where_texts_have_no_room_the_longest_are_cut_and_marked(lengths):
    run, exchanges = run_of_answers(lengths)
    room = 100_000
    texts = pack_texts(run, lambda: exchanges, room)
    assert 0.5 * room < texts.size <= room
    assert texts.cut == sum(length > texts.longest for length in lengths)
    for answer, stored_exchange in zip(answers(texts), exchanges, strict=True):
        whole = stored_exchange.exchange.response
        if len(whole) <= texts.longest:
            assert answer == whole
        else:
            mark = f"… [truncated: {len(whole):,} characters in total, complete in the run folder]"
            assert answer == whole[: texts.longest] + mark


def test_texts_that_fit_are_whole():
    run, exchanges = run_of_answers([1_000_000, 5])
    texts = pack_texts(run, lambda: exchanges, 10_000_000)
    assert (texts.cut, texts.longest) == (0, None)
    assert answers(texts) == [stored_exchange.exchange.response for stored_exchange in exchanges]


def test_no_text_is_cut_below_what_can_be_read():
    run, exchanges = run_of_answers([500] * 100)
    texts = pack_texts(run, lambda: exchanges, 10)
    assert (texts.longest, len(answers(texts))) == (100, 100)


def test_the_page_says_that_texts_are_cut(monkeypatch):
    run, exchanges = run_of_answers([20_000] * 10)
    assert "Texts are truncated." not in Page(run, lambda: exchanges).source
    monkeypatch.setattr(evalspec.reports.html_report.page, "MOST_BYTES", 0)
    monkeypatch.setattr(evalspec.reports.html_report.page, "_LEAST_ROOM", 50_000)
    cut = Page(run, lambda: exchanges).source
    said = re.search(r"Texts are truncated\.</strong> 10 texts of more than ([\d,]+)", cut)
    assert int(said[1].replace(",", "")) < 20_000


@given(sizes=st.lists(st.integers(1, 400_000), max_size=8))
def test_each_item_is_in_the_piece_that_is_said_to_have_it(sizes):
    chunks = Chunks(None)
    for size in sizes:
        chunks.add("x" * size)
    chunks.close()
    pieces = [json.loads(zlib.decompress(b64decode(piece))) for piece in chunks.pieces]
    assert [len(item) for piece in pieces for item in piece] == sizes
    assert chunks.firsts == [sum(map(len, pieces[:number])) for number in range(len(pieces))]


@given(values=st.lists(st.floats(-1e6, 1e6), min_size=1), bounds=st.lists(st.floats(-1e6, 1e6), max_size=2))
def test_a_histogram_counts_every_value(values, bounds):
    histogram = compute_histogram(values, bounds)
    assert sum(histogram["counts"]) == len(values)
    assert histogram["low"] <= min([*values, *bounds])
    assert histogram["high"] >= max([*values, *bounds])


def test_a_histogram_of_what_has_no_scale():
    assert compute_histogram([]) is None
    assert compute_histogram([-1.7e308, 1.7e308]) is None
    assert compute_histogram([0.0, 0.05, 1.0])["counts"] == [1, 1, *[0] * 17, 1]


def test_a_run_of_nothing_and_one_without_texts():
    empty = Page(Run(id="r", verdict=FAIL, exit_code=2, datasets=()), no_exchanges)
    assert (empty.overview["datasets"], empty.overview["chunks"]) == ([], {"rows": [], "asked": [], "rest": []})
    withheld = Page(replace(sample_run(), has_texts=False))
    assert withheld.items("asked") == [[None, []]] * 20
    assert "30 days" not in json.dumps(withheld.items("rest"))
