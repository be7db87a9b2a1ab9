"""The Markdown report as GitHub's own parser (cmark-gfm) reads it."""

from html.parser import HTMLParser

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from evalspec.model import SliceResult
from evalspec.model.fingerprints import RetrieverMode
from evalspec.reports.markdown import MOST_BYTES, render_fields, render_markdown
from evalspec.verdict.wording import is_latency
from reporters.sample_run import sample_run
from reporters.sample_texts import HOSTILE_TEXT
from reporters.small_runs import FAIL, retrieval_full_of, run_full_of, run_of


class Skeleton(HTMLParser):
    """A page without what stands in its code spans: tags with their attributes, and the text outside."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.code: list[str] = []
        self.in_code = False
        self.feed(cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE))
        self.close()

    def handle_starttag(self, tag, attrs):
        self.parts.append(f"<{tag} {attrs}>")
        self.in_code = self.in_code or tag == "code"
        self.code += [""] * (tag == "code")

    def handle_endtag(self, tag):
        self.parts.append(f"</{tag}>")
        self.in_code = self.in_code and tag != "code"

    def handle_data(self, data):
        if self.in_code:
            self.code[-1] += data
        else:
            self.parts.append(data)

    def handle_comment(self, data):
        self.parts.append(f"<!--{data}")


def test_it_reads_as_tables_and_folded_parts():
    page = Skeleton(render_markdown(sample_run()))
    tags = [part for part in page.parts if part.startswith("<")]
    assert tags.count("<table []>") == 10
    assert tags.count("<details []>") == tags.count("</details>") == 4
    assert not {"a", "img", "script", "em"} & {tag.strip("</>").split()[0] for tag in tags}
    assert {"q-6", "c-2", "20261121T061500Z-0a1b2c3d", "[advanced]"} <= set(page.code)


def test_fields_have_verdict_names_and_numbers_and_no_free_text():
    """A job of a fork wrote the report: reasons, notes, errors and ids of samples are its author's."""
    run, shown = sample_run(), render_fields(sample_run())
    assert shown.startswith("## ✗ FAIL ·")
    assert "| `string_match` |" in shown
    texts = [*run.reasons, *run.notes, *(sample.error for dataset in run.datasets for sample in dataset.samples)]
    texts += [sample.id for dataset in run.datasets for sample in dataset.samples]
    assert not [text for text in filter(None, texts) if text in shown]


FOREIGN = st.text(st.characters(codec=None, exclude_categories=()), min_size=1, max_size=30)


def has_no_meaning(text: str) -> bool:
    """As the name of a metric: it is neither in ms nor of a stage of reranking."""
    return not is_latency(text) and not text.startswith(("retrieved.", "gain."))


@given(text=FOREIGN.filter(lambda text: text.split() and has_no_meaning(text)))
@example(text="@team")
@example(text="`")
@example(text="``a` |\\|` b")
@example(text="\\")
@example(text="</details></summary>")
@example(text="https://x.invalid www.x.com #12 ![x](y) <b>")
@example(text=HOSTILE_TEXT)
def test_no_text_reaches_the_page_but_as_code(text):
    harmless = Skeleton(render_markdown(run_full_of("x")))
    hostile = Skeleton(render_markdown(run_full_of(text)))
    assert hostile.parts == harmless.parts
    of_retriever = Skeleton(render_markdown(retrieval_full_of(text)))
    assert of_retriever.parts == Skeleton(render_markdown(retrieval_full_of("x"))).parts


@given(text=st.text(st.sampled_from("a`|\\ &<*é"), min_size=1, max_size=12).map(lambda text: " ".join(text.split())))
@example(text="a\\|b")
def test_code_shows_the_text_as_it_is(text):
    if text:
        page = Skeleton(render_markdown(run_full_of(text)))
        assert set(page.code) <= {text, f"{text}2", f"{text}3", f"[{text}]"}
        assert set(Skeleton(render_markdown(retrieval_full_of(text))).code) == {text, RetrieverMode.RERANK}


def test_a_long_report_keeps_the_verdict_and_says_what_is_left_out():
    run = sample_run()
    datasets = tuple(
        replace(dataset, name=f"{dataset.name}-{number} " + "長" * 60)
        for number in range(100)
        for dataset in run.datasets
    )
    text = render_markdown(replace(run, datasets=datasets))
    assert 40_000 < len(text.encode()) <= MOST_BYTES
    assert text.startswith("## ✗ FAIL")
    parts = 1 + len(datasets) + 100 * (2 + 1 + 1)
    shown = text.count("\n### ") + text.count("<details>")
    assert f" and {parts - shown - 5:,} more. Other reports have all." in text
    assert "> **Left out**, as a comment has room for 60,000 bytes: the worst samples of `rag-quality-0 " in text
    assert text.rstrip().endswith("run `20261121T061500Z-0a1b2c3d`, exit code 1")
    assert "Left out" not in render_markdown(run)


@pytest.mark.parametrize("size", [10, 100_000])
def test_one_huge_text_leaves_room_for_the_rest(size):
    text = render_markdown(run_full_of("`| 長" * size))
    assert len(text.encode()) < MOST_BYTES
    assert "Left out" not in text


def test_many_rows_are_cut_and_counted():
    run = run_of(*[0.1] * 30, status=FAIL, min=0.5)
    dataset = run.datasets[0]
    slices = tuple(SliceResult(name=f"t{number}", selected=1, metrics=dataset.metrics) for number in range(45))
    text = render_markdown(replace(run, datasets=(replace(dataset, slices=slices),)))
    assert "Worst samples (30)" in text
    assert "… and 20 more\n" in text
    assert "… and 25 more\n" in text


def test_a_run_without_texts_says_so():
    assert "omitted (--no-content)" in render_markdown(replace(sample_run(), has_texts=False))
