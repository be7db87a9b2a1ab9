"""The page of a run."""

from collections.abc import Iterator

from evalspec.model import Run
from evalspec.reports.base import StoredExchanges
from evalspec.reports.concerned import find_concerned
from evalspec.reports.html_report.document import read_script, read_style, render_block, render_document
from evalspec.reports.html_report.overview import describe_run
from evalspec.reports.html_report.page_data import Chunks, PageData, pack, to_json, to_script
from evalspec.reports.html_report.samples import describe_samples
from evalspec.reports.html_report.texts import pack_texts
from evalspec.reports.view.run import build_view

MOST_BYTES = 24_000_000
"""Maximum size of the page before texts are cut. Browsers open it immediately, and CI artifacts can store it."""

_LEAST_ROOM = 1_000_000
_LONGEST_NAME = 2_000
_SCRIPTS = (
    "elements",
    "numbers",
    "payload",
    "charts",
    "keys",
    "view",
    "overview",
    "evidence",
    "sample",
    "dialog",
    "table",
    "page",
)


def render_page(run: Run, exchanges: StoredExchanges) -> str:
    """Return the whole page as text that can be encoded as UTF-8.

    Raises:
        ValueError: the texts are not in the order of the samples.
    """
    foreign = PageData(_LONGEST_NAME)
    concerned = find_concerned(run)
    columns = pack(to_json([describe_samples(run, number, concerned, foreign) for number in range(len(run.datasets))]))
    view = build_view(run)
    overview = foreign.show(describe_run(run, view, concerned))
    fixed = len(columns) + len(to_script(overview)) + len(read_style()) + len(read_script(_SCRIPTS))
    texts = pack_texts(run, exchanges, max(MOST_BYTES - fixed, _LEAST_ROOM))
    overview |= {
        "chunks": {"asked": texts.asked.firsts, "rest": texts.rest.firsts},
        "cut": {"texts": texts.cut, "longest": texts.longest} if texts.cut else None,
    }
    return render_document(
        f"{overview['agent'] or 'evalspec'}: {run.verdict_text}",
        view,
        overview,
        _SCRIPTS,
        before=[render_block("columns", columns)],
        after=[*_blocks("asked", texts.asked), *_blocks("rest", texts.rest)],
    )


def _blocks(kind: str, chunks: Chunks) -> Iterator[str]:
    """Yield a data block per piece."""
    for number, piece in enumerate(chunks.pieces):
        yield render_block(f"{kind}-{number}", piece)
