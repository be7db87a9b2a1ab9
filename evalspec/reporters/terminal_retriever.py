"""What the terminal report tells of asking a retriever."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from evalspec.foreign_text import inert
from evalspec.records import DatasetResult, Diagnosis, StageLatency
from evalspec.reporters.diagnosis import render_diagnosis
from evalspec.reporters.retrieval import (
    INTERVAL,
    RERANKING_TITLES,
    STAGE_TITLES,
    describe_settings,
    find_rerankings,
    reranking_cells,
    stage_cells,
)
from evalspec.reporters.terminal_tables import dim

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_MISSING_SHOWN = 5
_NARROWEST_NAME = 9


def render_asked(dataset: DatasetResult) -> Iterator["RenderableType"]:
    """Who was asked, and how; nothing where it was no retriever."""
    if dataset.retriever:
        yield dim(f"asked of {describe_settings(dataset.retriever)}")


def render_rerankings(dataset: DatasetResult) -> Iterator["RenderableType"]:
    """What reranking gained, where there was any."""
    if rerankings := find_rerankings(dataset):
        rows = [[inert(found.metric), *reranking_cells(found)] for found in rerankings]
        yield _table(["metric", *RERANKING_TITLES], rows)


def render_stages(stages: Sequence[StageLatency]) -> Iterator["RenderableType"]:
    """What the stages took, where that is known."""
    if stages:
        yield _table(["stage", *STAGE_TITLES], [[inert(stage.stage), *stage_cells(stage)] for stage in stages])


def render_missing(diagnosis: Diagnosis | None) -> Iterator["RenderableType"]:
    """The diagnosis, where some query misses something; a line that is too long goes on where it began."""
    from rich.padding import Padding
    from rich.text import Text

    if diagnosis is None or not diagnosis.queries:
        return
    yield dim("what is missing")
    for line in render_diagnosis(diagnosis, _MISSING_SHOWN):
        text = line.lstrip()
        yield Padding(Text(text), (0, 0, 0, 2 + len(line) - len(text)))


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    """The first column is of names, all others are of numbers; where there is no room the interval is broken first."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    first, *others = titles
    table.add_column(first, overflow="fold", min_width=_NARROWEST_NAME)
    for title in others:
        table.add_column(title, justify="right", no_wrap=title != INTERVAL)
    for row in rows:
        table.add_row(*row)
    return table
