"""Where the pages of a run get their data: its content and its tags, from the index of its samples."""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from evalspec.reports.markup.run_content import RunContent
from evalspec.reports.markup.sample_content import Limits, ShownSample, show_sample
from evalspec.reports.markup.views import LONGEST
from evalspec.reports.view.parts import Line, Role, Words
from evalspec.runs.store.files import store_errors
from evalspec.service.access import Access
from evalspec.service.kept_json import decode_kept
from evalspec.service.pages.visits import Visit
from evalspec.service.places import hide_folder, show_place
from evalspec.service.problems import busy
from evalspec.service.sample_index import index_path, open_sample_index
from evalspec.service.sample_pages import SampleDetails

_MOST_TAGS = 100
_LONGEST_TAG = 100


class RunLinks(Struct, frozen=True):
    """The addresses that the parts of a run's view link to."""

    visit: Visit
    run_id: str

    @property
    def longest(self) -> Mapping[Role, int]:
        """How many characters of an untrusted text are shown."""
        return LONGEST

    def sample(self, dataset: str, id: str) -> str | None:
        """Return the address of a sample. None: its id is too long for one."""
        return self.visit.link_sample(self.run_id, dataset, id)

    def section(self, at: str, page: int | None = None) -> str:
        """Return the address of a section with all its rows."""
        return self.visit.link_run(self.run_id, "/part", at=at, page=page)


def show_details(found: SampleDetails, limits: Limits) -> ShownSample:
    """Return what pages show of a sample. `limits`: the metrics of its dataset with their thresholds."""
    sample = None if found.row.question is None else found.sample
    return show_sample(found.row.dataset, found.row.result, sample, found.attempts, limits)


def read_content(access: Access, run_id: str) -> RunContent:
    """Return what the page of a run shows.

    Raises:
        ApiProblem: 404: There is no such run. 409: It is in progress or damaged. 503: It is being prepared.
        StoreError: The index cannot be read.
    """
    folder = access.find_indexed(run_id)
    try:
        return _read_content(folder, access.project.folder, _sign_index(folder))
    except ValueError as error:
        index_path(folder).unlink(missing_ok=True)  # of another version: the next request writes it again
        raise busy("the page of the run is being prepared; try again soon") from error


@lru_cache(maxsize=4)
def _read_content(folder: Path, project: Path, _signature: tuple[int, ...]) -> RunContent:
    with open_sample_index(folder) as database:
        (content,) = database.execute("SELECT content FROM run").fetchone()
    return _hide_places(decode_kept(content, RunContent), project)


def _sign_index(folder: Path) -> tuple[int, ...]:
    path = index_path(folder)
    with store_errors(path):
        found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _hide_places(content: RunContent, folder: Path) -> RunContent:
    """Return the content without the place where the server keeps the project."""

    def hide(words: Words) -> Words:
        return tuple(
            hide_folder(piece, folder)
            if isinstance(piece, str)
            else replace(piece, text=hide_folder(piece.text, folder))
            for piece in words
        )

    def hide_lines(lines: tuple[Line, ...]) -> tuple[Line, ...]:
        return tuple(replace(one, words=hide(one.words), items=tuple(map(hide, one.items))) for one in lines)

    view = content.view
    return replace(
        content,
        view=replace(
            view,
            lead=hide_lines(view.lead),
            reasons=tuple(map(hide, view.reasons)),
            notes=hide_lines(view.notes),
        ),
        facts=tuple((name, hide_folder(value, folder)) for name, value in content.facts),
        charts=tuple(
            one if one.file is None else replace(one, file=show_place(one.file, folder)) for one in content.charts
        ),
    )


def list_tags(folder: Path) -> list[tuple[str, int]]:
    """Return the tags of a run's samples with their counts, the most frequent first. Its index must be current."""
    asked = (
        "SELECT name, samples FROM mark_names WHERE name LIKE '[\"tag\",%' AND length(name) <= ? "
        "ORDER BY samples DESC, name LIMIT ?"
    )
    with open_sample_index(folder) as database:
        return [(json.loads(name)[1], count) for name, count in database.execute(asked, (_LONGEST_TAG, _MOST_TAGS))]
