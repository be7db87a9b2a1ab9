"""The texts of all samples in chunks. Texts for search are separate from those that only an opened sample shows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from evalspec.model import DatasetResult, Run, Sample
from evalspec.reports.base import StoredExchanges
from evalspec.reports.findings import limits_of, metrics_of
from evalspec.reports.html_report.document import ReportLinks
from evalspec.reports.html_report.page_data import Chunks, PageData
from evalspec.reports.markup.elements import Element, chip, el, group, name
from evalspec.reports.markup.sample_content import Limits, show_sample
from evalspec.reports.markup.samples import draw_cells, draw_place, draw_sample
from evalspec.reports.markup.text_budget import TextBudget
from evalspec.reports.rows import AttemptRow, read_attempts

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
        row, place, content = _draw(rows, sample, limits[rows[0].dataset.name], links)
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
    answers = [row.exchange.answer for row in rows if row.exchange and row.exchange.answer is not None]
    return [*(text for _, text in turns), *answers], of_user[-1] if of_user else len(turns) - 1


def _draw(
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
