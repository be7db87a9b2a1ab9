"""A dataset onto disk: what its format cannot hold is told first, and it stands there whole or not at all."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evalspec.datasets.base import DATASETS, DatasetContent, DatasetFormat, Written
from evalspec.errors import InvalidInput, Problem
from evalspec.output_files import copy_to_stream, exchange, is_stream, put_in_place, resolve_place

_FILE_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml", ".parquet", ".tsv", ".txt", ".gz")


def choose_format(name: str, field: str) -> DatasetFormat:
    """The format of that name. `field`: where the name was given.

    Raises:
        InvalidInput: there is none, with the likeliest meant one.
    """
    target = DATASETS.find(name)
    if target is None:
        raise InvalidInput(Problem(f"unknown dataset format '{name}'", DATASETS.hint(name), field=field))
    return target


def list_losses(target: DatasetFormat, content: DatasetContent, source: Path) -> list[Problem]:
    """What of a content, read from `source`, the format cannot hold."""
    with _unencodable_text_told(source), DATASETS.blaming(target.name):
        return [Problem(f"{target.name} cannot hold {loss}", file=str(source)) for loss in target.list_losses(content)]


def write_dataset(target: DatasetFormat, content: DatasetContent, destination: Path, source: Path) -> Written:
    """Write beside the destination and put it in place whole; what stood there before stays until then.

    A pipe, a device or an open descriptor is written to.

    Raises:
        InvalidInput: it cannot be written there, or a text of `source` is none that a file can hold.
    """
    try:
        streamed, place = is_stream(destination), resolve_place(destination)
        with (
            _unencodable_text_told(source),
            tempfile.TemporaryDirectory(dir=None if streamed else place.parent, prefix=".evalspec-") as folder,
        ):
            written = Path(folder) / "new" / destination.name
            written.parent.mkdir()
            with DATASETS.blaming(target.name):
                counts = target.write(content, written)
            if streamed and not written.is_dir():
                copy_to_stream(written, destination)
            else:
                _refuse_misplaced(target, written, destination)
                _put_in_place(written, place, aside=Path(folder) / "old")
    except OSError as error:
        fix = "create its folder first" if isinstance(error, FileNotFoundError) else ""
        raise InvalidInput(Problem(f"cannot be written: {error.strerror}", fix, str(destination))) from error
    return counts


def _refuse_misplaced(target: DatasetFormat, written: Path, destination: Path) -> None:
    """A folder called like a file is a slip, and what stands in an old folder may be more than what replaces it."""
    is_no_folder = destination.suffix in _FILE_SUFFIXES or (destination.exists() and not destination.is_dir())
    if written.is_dir() and is_no_folder:
        fix = f"name a folder, for example {destination.with_suffix('')}" if destination.suffix else "name a folder"
        raise InvalidInput(Problem(f"{target.name} is a folder of several files", fix, str(destination)))
    if destination.is_dir():
        others = sorted(_names_in(destination) - (_names_in(written) if written.is_dir() else set()))
        if others:
            message = f"--force would delete {', '.join(others[:5])}{' …' if others[5:] else ''}"
            raise InvalidInput(Problem(message, "name another folder, or move them away", str(destination)))


def _put_in_place(written: Path, destination: Path, aside: Path) -> None:
    """Rename into place; a folder cannot be renamed over, so the two trade places, or the old one steps aside first."""
    if not written.is_dir():
        put_in_place(written, destination)
        return
    if not destination.is_dir():
        written.replace(destination)
        return
    if exchange(written, destination):
        return
    destination.rename(aside)
    try:
        written.rename(destination)
    except OSError:
        aside.rename(destination)
        raise


def _names_in(folder: Path) -> set[str]:
    found = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    return {str(path.relative_to(folder)) for path in found}


@contextmanager
def _unencodable_text_told(source: Path) -> Iterator[None]:
    """JSON can name half a character ("\\ud83d"), which no other file can hold."""
    try:
        yield
    except UnicodeEncodeError as error:
        message = f"a text holds half of a character pair (\\u{ord(error.object[error.start]):04x})"
        raise InvalidInput(Problem(message, "mend the text", str(source))) from error
