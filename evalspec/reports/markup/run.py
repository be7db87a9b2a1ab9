"""The parts of a run as elements: reasons, remarks, its sections with distributions, notes and metadata."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from evalspec.base.foreign_text import cut
from evalspec.base.plural import counted
from evalspec.reports.markup.charts import draw_histogram
from evalspec.reports.markup.elements import Element, Nodes, chip, definitions, el, folded, group, name
from evalspec.reports.markup.run_content import BASELINE, DatasetCharts, RunContent
from evalspec.reports.markup.shown import ShownSection
from evalspec.reports.markup.views import (
    Links,
    draw_about,
    draw_inner,
    draw_line_words,
    draw_notes,
    draw_panel,
    draw_shown,
    draw_words,
)
from evalspec.reports.view.parts import Role, Tone, View, Words

_REASONS_AT_ONCE = 8
_OUTCOMES = {Tone.FAIL: "fail", Tone.WARN: "incomplete", Tone.PASS: "pass"}
"""What the limits of a dataset amount to, worst first."""


def draw_headline(tone: str, mark: str, outcome: Nodes, title: Nodes, *content: Nodes) -> Element:
    """Return the top of a page: the outcome, what it is about, and content."""
    said = el("p", mark and el("span", f"{mark} ", aria_hidden="true"), outcome, class_="verdict")
    return el("header", said, el("h1", title), content, class_=f"headline {tone or 'none'}")


def draw_reasons(reasons: Sequence[Words], link: Callable[[int], Nodes], links: Links | None = None) -> Iterator[Nodes]:
    """Yield the reasons of a verdict. The later ones are folded. `link`: to what the reason of this number is about."""
    items = [
        el("li", el("span", draw_words(reason, links), data_reason=number), link(number), dir="auto")
        for number, reason in enumerate(reasons)
    ]
    if items:
        yield el("ul", items[:_REASONS_AT_ONCE], class_="reasons")
    if rest := items[_REASONS_AT_ONCE:]:
        yield folded(counted(len(rest), "further reason"), el("ul", rest, class_="reasons"))


def draw_remarks(content: RunContent, links: Links | None = None) -> Iterator[Element]:
    """Yield notes that apply to the whole page."""
    for line in content.view.lead:
        yield el("p", draw_line_words(line, links), class_="remark")
    if content.partial:
        said = "Some declared samples or metrics were deselected and not measured."
        yield el("p", el("strong", "Partial."), f" {said}", class_="remark")
    if not content.has_texts:
        said = "Questions, answers, contexts and reasons are not in it (--no-content)."
        yield el("p", el("strong", "Without texts."), f" {said}", class_="remark")


def name_parts(shown: Sequence[ShownSection]) -> list[str]:
    """Return the ids of sections on a page: `dataset-0`, `dataset-1`, `gold-0`."""
    keys = [one.section.key for one in shown]
    return [f"{key}-{keys[:place].count(key)}" for place, key in enumerate(keys)]


def draw_navigation(
    shown: Sequence[ShownSection], links: Links, *others: tuple[str, str], with_keys: bool = False
) -> Element:
    """Return links to the parts of a page. `others`: ids and titles of further parts. `with_keys`: and to its keys."""
    parts = [
        el("a", draw_words(one.section.title, links), href=f"#{id}")
        for id, one in zip(name_parts(shown), shown, strict=True)
    ]
    more = [el("a", title, href=f"#{id}") for id, title in others]
    keys = el("button", "?", type="button", class_="keys", aria_label="Keys", data_help=True, hidden=True)
    return el("nav", parts, more, with_keys and keys, class_="parts", aria_label="Parts of this page")


def draw_keys(keys: Iterable[tuple[str, str]]) -> Element:
    """Return the dialog that explains the keys of a page: each or several with a blank between them, and what they do.

    The keys of every page are added: `?`, which opens it, and `Esc`.
    """
    rows = [
        el("div", el("dt", [(el("kbd", key), " ") for key in names.split()]), el("dd", said))
        for names, said in (*keys, ("?", "these keys"), ("Esc", "close"))
    ]
    return el(
        "dialog",
        el("h2", "Keys", id="help-title"),
        el("dl", rows, class_="definitions"),
        el("form", el("button", "Close"), method="dialog"),
        class_="help",
        aria_labelledby="help-title",
    )


def draw_sections(
    shown: Sequence[ShownSection],
    links: Links,
    charts: Mapping[str, DatasetCharts],
    after: Callable[[ShownSection], Nodes] | None = None,
) -> Iterator[Element]:
    """Yield the sections of a run. `charts`: of each dataset. `after`: what else is in a section.

    On a phone, the comparison with the baseline and the first dataset with something wrong are unfolded at first.
    """
    opened = _find_first_broken(shown)
    for place, (id, one) in enumerate(zip(name_parts(shown), shown, strict=True)):
        is_dataset = one.section.key == "dataset"
        found = charts.get(one.dataset or "") if is_dataset else None
        outcome = _find_outcome(one) if is_dataset else None
        title = [group(draw_words(one.section.title, links))]
        title += [chip(outcome, "", _OUTCOMES[outcome])] if outcome else []
        file = found.file and name(cut(found.file, links.longest[Role.NAME])) if found else None
        inner = one.sections
        yield draw_panel(
            id,
            title,
            draw_about(one.section.about, file, links=links),
            draw_shown(one, links),
            [draw_inner(each, links) for each in inner if not each.section.folded],
            _draw_charts(found) if found else None,
            [draw_inner(each, links) for each in inner if each.section.folded],
            after and after(one),
            is_open=place == opened or one.section.key == BASELINE,
        )


def _find_outcome(shown: ShownSection) -> Tone | None:
    """Return the worst outcome of the limits in the tables of a section."""
    tones = {
        cell.tone for one in shown.section.parts for row in getattr(one, "rows", ()) for cell in row.cells if cell.mark
    }
    return next((tone for tone in _OUTCOMES if tone in tones), None)


def _find_first_broken(shown: Sequence[ShownSection]) -> int:
    """Return the place of the first dataset with something wrong; else of the first section."""
    datasets = [place for place, one in enumerate(shown) if one.section.key == "dataset"]
    broken = (place for place in datasets if _find_outcome(shown[place]) in (Tone.FAIL, Tone.WARN))
    return next(broken, 0)


def _draw_charts(found: DatasetCharts) -> Element | None:
    figures = [draw_histogram(chart["name"], chart) for chart in found.charts]
    figures += [draw_histogram("latency", found.latencies)] if found.latencies else []
    more = el("p", f"… and {found.more:,} more", class_="muted") if found.more else None
    return folded("Distributions", el("div", figures, class_="charts"), more, is_open=True) if figures else None


def draw_run(content: RunContent, links: Links | None = None) -> Element:
    """Return the end of a page of a run: notes, use of the judge, and metadata."""
    usages = definitions((metric, usage) for metric, usage in content.usages)
    facts = definitions((key, name(cut(value, 2000))) for key, value in content.facts)
    return draw_panel(
        "run",
        "Run",
        None,
        draw_notes(content.view.notes, links),
        folded("Judge by metric", usages) if len(content.usages) > 1 else None,
        folded("Run metadata", facts) if content.facts else None,
    )


def draw_comparison(view: View, shown: Sequence[ShownSection], links: Links) -> Iterator[Element]:
    """Yield the sections of a comparison, and its notes."""
    yield from draw_sections(shown, links, {})
    if view.notes:
        yield draw_panel("notes", "Notes", None, draw_notes(view.notes, links))
