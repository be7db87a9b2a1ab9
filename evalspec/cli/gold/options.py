"""Options and output that the subcommands of `evalspec gold` share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from evalspec.base.errors import ExitCode
from evalspec.base.foreign_text import inert
from evalspec.cli.documents import emit_document
from evalspec.cli.options import Command, json_option, option, person_option
from evalspec.cli.streams import emit
from evalspec.curation.gold.describing import describe_entry
from evalspec.curation.gold.gold_set import TripleEntry, find_set, read_config
from evalspec.curation.gold.identity import find_person
from evalspec.curation.gold.schema import TripleSource
from evalspec.curation.gold.viewer import Viewer

set_option = option("--set", "folder", type=click.Path(path_type=Path), metavar="FOLDER", help="The gold set.")
corpus_option = option("--corpus", type=click.Path(path_type=Path), metavar="FILE", help="The documents of the blocks.")
source_option = click.option(
    "--source", type=click.Choice(list(map(str, TripleSource))), help="Where the question comes from."
)
note_option = option("--note", metavar="TEXT", help="Reason or comment.")


def open_as(folder: Path | None, person: str | None) -> tuple[Path, str]:
    """Return the folder of the set and the acting person.

    Raises:
        InvalidInput: There is no such set, or the person is unknown.
    """
    root = find_set(folder)
    return root, find_person(root, read_config(root), person)


def set_options(command: Command) -> Command:
    """Add --as, --set and --json."""
    return person_option(set_option(json_option(command)))


def acting(command: Callable[..., ExitCode]) -> Callable[..., ExitCode]:
    """Add --as, --set and --json. The command receives the folder of the set as `root`, the acting person as `by`."""

    @set_options
    @wraps(command)
    def opened(*, person: str | None, folder: Path | None, **given: Any) -> ExitCode:
        root, by = open_as(folder, person)
        return command(root=root, by=by, **given)

    return opened


def print_entries(
    entries: Sequence[TripleEntry], as_json: bool, who: str, *, more: Mapping[str, Any] | None = None
) -> ExitCode:
    """Print what became of triples: a line each, or a document. `who`: who acted, and sees what they may see.

    `more`: other keys of the document.
    """
    if as_json:
        emit_document({"triples": [describe_entry(entry, Viewer(who)) for entry in entries], **(more or {})})
        return ExitCode.OK
    for line in render_states(entries, who):
        emit(line)
    return ExitCode.OK


def render_states(entries: Iterable[TripleEntry], who: str | None = None) -> list[str]:
    """Return a line for each triple, in aligned columns: id and revision, state, what it needs next.

    `who`: who looks; sees no state while their own review is wanted.
    """
    rows = [[inert(cell) for cell in _list_cells(entry, who)] for entry in entries]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width).rstrip() for row in rows
    ]


def _list_cells(entry: TripleEntry, who: str | None) -> list[str]:
    described = describe_entry(entry, Viewer(who))
    state = entry.review_status.describe() if described["resolution"] else described["state"]
    return [entry.reference, state, described["next"], "written by a model" if entry.is_stress else ""]


def render_columns(parts: Iterable[str]) -> str:
    """Return the parts that are not empty on one line, with two blanks between them."""
    return "  ".join(inert(part) for part in parts if part)
