"""The page of a run, with its samples and their texts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from evalspec.base.plural import counted
from evalspec.model import DatasetResult, Run, Sample, SampleResult, SampleStatus, Score, ScoreStatus, VerdictStatus
from evalspec.reports.affected_samples import AffectedSamples, find_affected, find_failure_causes
from evalspec.reports.base import StoredExchanges
from evalspec.reports.findings import is_beyond, limits_of, metrics_of
from evalspec.reports.html_report.document import (
    ReportLinks,
    read_report_script,
    read_report_style,
    render_block,
    render_document,
)
from evalspec.reports.html_report.page_data import Chunks, PageData, pack, to_json, to_script
from evalspec.reports.markup.elements import Element, about, chip, el, group, name, render
from evalspec.reports.markup.run import (
    draw_headline,
    draw_navigation,
    draw_reasons,
    draw_remarks,
    draw_run,
    draw_sections,
)
from evalspec.reports.markup.run_content import BASELINE, RunContent, build_whole_content
from evalspec.reports.markup.sample_content import Limits, show_sample
from evalspec.reports.markup.samples import draw_cells, draw_columns, draw_place, draw_sample
from evalspec.reports.markup.shown import lay_out_whole
from evalspec.reports.markup.text_budget import TextBudget
from evalspec.reports.markup.views import draw_panel
from evalspec.reports.rows import AttemptRow, read_attempts
from evalspec.reports.view.parts import TONES
from evalspec.reports.view.run import build_view
from evalspec.reports.worst import list_worst
from evalspec.verdict.wording import MARKS, UNKNOWN

MOST_BYTES = 24_000_000
"""Maximum size of the page before texts are cut. Browsers open it immediately, and CI artifacts can store it."""

_LEAST_ROOM = 1_000_000
_AGAINST = " against the baseline"
_LONGEST_NAME = 2_000
_LINKED_AT_ONCE = 3
_SCRIPTS = ("payload", "drawn", "dialog", "samples", "page")
_SHORTEST_CUT = 100
"""Texts are never cut to fewer characters, however large the page becomes."""
_MARGIN = 0.95


class Texts(Struct, frozen=True):
    """The packed texts, an item per sample. `rows`: of the table. `asked`: questions and answers. `rest`: all elements.

    `longest`: maximum characters of a text, None if nothing is cut. `cut`: the number of cut texts.
    """

    rows: Chunks
    asked: Chunks
    rest: Chunks
    longest: int | None
    cut: int

    @property
    def packed(self) -> Mapping[str, Chunks]:
        """The chunks by their names on the page."""
        return {"rows": self.rows, "asked": self.asked, "rest": self.rest}

    @property
    def size(self) -> int:
        """The size of all pieces."""
        return sum(chunks.size for chunks in self.packed.values())


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
        len(columns)
        + len(to_script(overview))
        + len(render(drawn))
        + len(read_report_style())
        + len(read_report_script(_SCRIPTS))
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


def describe_dataset(dataset: DatasetResult, room: TextBudget, foreign: PageData) -> dict[str, Any]:
    """Return what the table of the samples of a dataset needs at first: its titles, as elements."""
    metrics = metrics_of(dataset)
    return {
        "name": foreign.show(dataset.name),
        "samples": len(dataset.samples),
        "metrics": foreign.show(metrics),
        "head": foreign.show_element(group(draw_columns(metrics, room))),
    }


def describe_samples(
    run: Run, number: int, concerned: Sequence[AffectedSamples | None], foreign: PageData
) -> dict[str, Any]:
    """Return the columns of a dataset, with an entry per sample. `foreign` prepares ids and tags for the page.

    `values` are by metric. `beyond` lists the samples whose score fails a
    threshold. `rank` is the position of a sample among the failures, worst first. `concerned` has the samples that a
    reason of the verdict is about, by the number of the reason.
    """
    dataset = run.datasets[number]
    samples = dataset.samples
    metrics = metrics_of(dataset)
    limits = limits_of(dataset)
    ranks = {trouble.id: rank for rank, trouble in enumerate(list_worst(dataset, find_failure_causes(run)[number]))}
    beyond = [
        [n for n, sample in enumerate(samples) if is_beyond(sample, metric, sample.scores.get(metric), limits)]
        for metric in metrics
    ]
    broken = {number for numbers in beyond for number in numbers}
    tags = {tag: number for number, tag in enumerate(dict.fromkeys(tag for s in samples for tag in s.tags))}
    return {
        "ids": [foreign.show(sample.id) for sample in samples],
        "states": [_states(sample, number in broken) for number, sample in enumerate(samples)],
        "rank": [ranks.get(sample.id) for sample in samples],
        "latency": [_short(sample.latency_ms) for sample in samples],
        "tagNames": foreign.show(list(tags)),
        "tags": [[tags[tag] for tag in sample.tags] for sample in samples],
        "values": [[_value(sample.scores.get(metric)) for sample in samples] for metric in metrics],
        "beyond": beyond,
        "concerned": {
            reason: found.places for reason, found in enumerate(concerned) if found and found.dataset == number
        },
    }


def _states(sample: SampleResult, is_beyond: bool) -> str:
    """Return the letters of a sample's states, most severe first: failed, flaky, beyond limit, passed."""
    failed = sample.status is SampleStatus.FAILED or any(
        score.status is ScoreStatus.FAILED for score in sample.scores.values()
    )
    rate = sample.pass_rate
    below = is_beyond or (rate == 0.0 and not failed)
    told = {"f": failed, "y": rate is not None and 0.0 < rate < 1.0, "b": below, "p": rate == 1.0}
    return "".join(letter for letter, holds in told.items() if holds)


def _value(score: Score | None) -> float | None:
    return _short(score.value) if score else None


def _short(value: float | None) -> float | None:
    """Round to seven digits, more than a table shows. Thresholds were checked with the exact value."""
    return None if value is None else float(f"{value:.7g}")


def pack_texts(run: Run, exchanges: StoredExchanges, room: int) -> Texts:
    """Return all texts in at most about `room` bytes. If they do not fit, the longest are cut to the same length.

    Texts of up to _SHORTEST_CUT characters are never cut. `room`: more than 0.

    Raises:
        ValueError: the texts are not in the order of the samples.
    """
    whole = PageData()
    texts = _pack(run, exchanges, room, whole)
    longest = max(whole.lengths, default=0)
    while not _fits(texts, room):
        per_byte = sum(chunks.characters for chunks in texts.packed.values()) / texts.size
        estimate = _find_longest(whole.lengths, int(room * per_byte * _MARGIN))
        longest = max(_SHORTEST_CUT, min(estimate, longest * 3 // 4))
        if longest == _SHORTEST_CUT:
            return _pack(run, exchanges, None, PageData(longest))
        texts = _pack(run, exchanges, room, PageData(longest))
    return texts


def _fits(texts: Texts, room: int) -> bool:
    return all(chunks.complete for chunks in texts.packed.values()) and texts.size <= room


def _find_longest(lengths: Counter[int], characters: int) -> int:
    """Return the length to which texts must be cut to have at most `characters` in total."""
    shorter, count = 0, lengths.total()
    for length in sorted(lengths):
        if shorter + length * count > characters:
            return max(characters - shorter, 0) // count
        shorter += length * lengths[length]
        count -= lengths[length]
    return max(lengths, default=0)


def _pack(run: Run, exchanges: StoredExchanges, room: int | None, foreign: PageData) -> Texts:
    row_chunks, asked, rest = Chunks(room), Chunks(room), Chunks(room)
    limits = {dataset.name: _list_limits(dataset) for dataset in run.datasets}
    links = ReportLinks(len(run.datasets) > 1)
    attempts = read_attempts(run, exchanges)
    for _, found in groupby(attempts, key=lambda one: (one.dataset.name, one.sample.id)):
        rows = list(found)
        sample = next((row.exchange.sample for row in rows if row.exchange), None)
        texts, question = _list_texts(sample, rows)
        asked.add(foreign.show([question, texts]))
        row, place, content = _draw_sample(rows, sample, limits[rows[0].dataset.name], links)
        row_chunks.add(foreign.show_element(row))
        rest.add([foreign.show_element(place), foreign.show_element(content, texts)])
    for chunks in (row_chunks, asked, rest):
        chunks.close()
    return Texts(row_chunks, asked, rest, foreign.longest, foreign.cut)


def _list_limits(dataset: DatasetResult) -> Limits:
    limits = limits_of(dataset)
    return {metric: limits.get(metric, []) for metric in metrics_of(dataset)}


def _list_texts(sample: Sample | None, rows: Sequence[AttemptRow]) -> tuple[list[str], int | None]:
    """Return messages and answers, in which the page searches, and the place of the question among them."""
    if sample is None:
        return [], None
    asked = sample.user_input
    turns = [("user", asked)] if isinstance(asked, str) else [(turn.role, turn.content) for turn in asked]
    of_user = [place for place, (role, _) in enumerate(turns) if role == "user"]
    exchanges = [row.exchange for row in rows if row.exchange and row.exchange.reply]
    answers = [exchange.answer for exchange in exchanges if exchange.answer is not None]
    replies = [turn for exchange in exchanges if exchange.reply for turn in exchange.reply.turns]
    said = [text for turn in replies for text in (turn.user, turn.reply.response)]
    return [*(text for _, text in turns), *answers, *said], of_user[-1] if of_user else len(turns) - 1


def _draw_sample(
    rows: Sequence[AttemptRow], sample: Sample | None, limits: Limits, links: ReportLinks
) -> tuple[Element, Element, Element]:
    """Return what is shown of a sample as elements: its row of the table, what is beside its title, its content."""
    dataset, result, room = rows[0].dataset, rows[0].sample, TextBudget(None)
    shown = show_sample(dataset.name, result, sample, rows, limits, is_marked=False)
    rate = result.pass_rate if dataset.repeats is not None else None
    state = [chip(*shown.state), el("small", f"passes {rate * 100:,.0f} %") if rate is not None else None]
    link = el("a", name(result.id), href=links.sample(dataset.name, result.id))
    link_and_question = [link, el("span", class_="question", dir="auto")]
    has_limits = any(limits.values())
    row = draw_cells(link_and_question, state, shown.scores, shown.latency, result.tags, room, is_short=has_limits)
    return row, draw_place(shown, dataset.file, room), group(draw_sample(shown, room))
