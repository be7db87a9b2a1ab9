"""The page of a run."""

from collections.abc import Iterator
from typing import Any

from evalspec.base.plural import counted
from evalspec.model import Run, VerdictStatus
from evalspec.reports.affected_samples import find_affected
from evalspec.reports.base import StoredExchanges
from evalspec.reports.html_report.document import (
    ReportLinks,
    read_script,
    read_style,
    render_block,
    render_document,
)
from evalspec.reports.html_report.page_data import Chunks, PageData, pack, to_json, to_script
from evalspec.reports.html_report.samples import describe_dataset, describe_samples
from evalspec.reports.html_report.texts import Texts, pack_texts
from evalspec.reports.markup.elements import Element, about, el, group, name, render
from evalspec.reports.markup.run import (
    draw_headline,
    draw_navigation,
    draw_reasons,
    draw_remarks,
    draw_run,
    draw_sections,
)
from evalspec.reports.markup.run_content import BASELINE, RunContent, build_whole_content
from evalspec.reports.markup.shown import lay_out_whole
from evalspec.reports.markup.text_budget import TextBudget
from evalspec.reports.markup.views import draw_panel
from evalspec.reports.view.parts import TONES
from evalspec.reports.view.run import build_view
from evalspec.verdict.wording import MARKS, UNKNOWN

MOST_BYTES = 24_000_000
"""Maximum size of the page before texts are cut. Browsers open it immediately, and CI artifacts can store it."""

_LEAST_ROOM = 1_000_000
_AGAINST = " against the baseline"
_LONGEST_NAME = 2_000
_LINKED_AT_ONCE = 3
_SCRIPTS = ("elements", "keys", "folds", "payload", "dialog", "table", "page")


def render_page(run: Run, exchanges: StoredExchanges) -> str:
    """Return the whole page as text that can be encoded as UTF-8.

    Raises:
        ValueError: the texts are not in the order of the samples.
    """
    foreign, room = PageData(_LONGEST_NAME), TextBudget(None)
    concerned = find_affected(run)
    numbers = range(len(run.datasets))
    columns = pack(to_json([describe_samples(run, number, concerned, foreign) for number in numbers]))
    content = build_whole_content(run, build_view(run), concerned)
    overview: dict[str, Any] = {"datasets": [describe_dataset(dataset, room, foreign) for dataset in run.datasets]}
    drawn = _draw(run, content, None)
    fixed = (
        len(columns) + len(to_script(overview)) + len(render(drawn)) + len(read_style()) + len(read_script(_SCRIPTS))
    )
    texts = pack_texts(run, exchanges, max(MOST_BYTES - fixed, _LEAST_ROOM))
    overview |= {"chunks": {kind: chunks.firsts for kind, chunks in texts.packed.items()}}
    return render_document(
        f"{content.agent or 'evalspec'}: {run.verdict_text}",
        _draw(run, content, texts),
        _SCRIPTS,
        overview,
        before=[render_block("columns", columns)],
        after=[block for kind, chunks in texts.packed.items() for block in _blocks(kind, chunks)],
    )


def _draw(run: Run, content: RunContent, texts: Texts | None) -> Element:
    """Return everything but the samples. `texts`: as packed; None: not yet."""
    links = ReportLinks(len(run.datasets) > 1)
    shown = lay_out_whole(content.view)
    charts = {one.dataset: one for one in content.charts}
    return group(
        _draw_header(run, content, texts, links),
        draw_navigation(shown, links, ("samples", "Samples"), ("run", "Run"), with_keys=True),
        draw_sections(shown, links, charts),
        draw_panel("samples", "Samples", None, el("noscript", el("p", "The samples need JavaScript."))),
        draw_run(content, links),
    )


def _draw_header(run: Run, content: RunContent, texts: Texts | None, links: ReportLinks) -> Element:
    verdict = VerdictStatus(content.verdict)
    facts = [
        _render_time(content.started_at) if content.started_at else None,
        name(run.id),
        counted(content.samples, "sample"),
        f"exit code {content.exit_code}",
    ]
    return draw_headline(
        TONES[verdict],
        MARKS[verdict].replace(UNKNOWN, ""),
        verdict.replace("_", " "),
        name(content.agent or "evalspec"),
        about(facts),
        draw_reasons(content.view.reasons, lambda number: _link_reason(run, content, number, links), links),
        draw_remarks(content, links),
        _draw_cut(texts) if texts and texts.cut else None,
    )


def _render_time(time: str) -> str:
    return time.replace("T", " ").removesuffix("Z").removesuffix("+00:00") + " UTC"


def _draw_cut(texts: Texts) -> Element:
    said = (
        f" {counted(texts.cut, 'text')} of more than {texts.longest:,} characters, to keep this page fast. "
        "The run folder has the complete texts."
    )
    return el("p", el("strong", "Texts are truncated."), said, class_="remark")


def _link_reason(run: Run, content: RunContent, number: int, links: ReportLinks) -> Element | None:
    """Return links to what a reason is about: a few samples, a table of many, or the comparison with the baseline."""
    found = content.concerned[number] if number < len(content.concerned) else None
    if found is None:
        is_about_baseline = bool(run.regressions) and _AGAINST in run.reasons[number]
        return (
            el("span", el("a", "comparison", href=f"#{BASELINE}-0"), class_="concerned") if is_about_baseline else None
        )
    is_short = found.complete and found.count <= _LINKED_AT_ONCE
    ids = found.first if is_short else found.first[:1]
    all_of_them = f"{'all' if found.complete else 'first'} {counted(found.count, 'sample')}"
    return el(
        "span",
        [el("a", name(id), href=links.sample(found.dataset, id)) for id in ids],
        None if is_short else el("a", all_of_them, href=f"#reason={number}"),
        class_="concerned",
    )


def _blocks(kind: str, chunks: Chunks) -> Iterator[str]:
    """Yield a data block per piece."""
    for number, piece in enumerate(chunks.pieces):
        yield render_block(f"{kind}-{number}", piece)
