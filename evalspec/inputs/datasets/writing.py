"""Write a dataset atomically, after listing what its format cannot represent."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.output_files import copy_to_stream, exchange, is_stream, put_in_place, resolve_place
from evalspec.base.registry import returned
from evalspec.inputs.datasets.base import DATASETS, DatasetContent, DatasetFormat, Written

_FILE_SUFFIXES = (".json", ".jsonl", ".csv", ".yaml", ".yml", ".parquet", ".tsv", ".txt", ".gz")


def choose_format(name: str, field: str) -> DatasetFormat:
    """Return the format of a name. `field`: where the name was given.

    Raises:
        InvalidInput: the name is unknown, and the fix suggests the closest one; or evalspec only reads the format.
    """
    target = DATASETS.find(name)
    if target is None:
        raise InvalidInput(Problem(f"unknown dataset format '{name}'", DATASETS.hint(name), field=field))
    if target.write is None:
        writable = ", ".join(sorted(known.name for known in DATASETS if known.write is not None))
        raise InvalidInput(Problem(f"evalspec reads {name}, but does not write it", f"write {writable}", field=field))
    return target


def refuse_existing(destination: Path, *, force: bool) -> None:
    """Check that a dataset replaces nothing by accident. Pipes and devices are never replaced.

    Raises:
        InvalidInput: the destination exists.
    """
    if destination.exists() and not force and not is_stream(destination):
        raise InvalidInput(Problem("already exists", "choose another name, or pass --force", str(destination)))


def accept_losses(target: DatasetFormat, content: DatasetContent, source: Path, *, lossy: bool) -> list[Problem]:
    """Return what the format cannot represent of a content that was read from `source`.

    Raises:
        InvalidInput: there is something, and `lossy` is not given.
    """
    losses = list_losses(target, content, source)
    if losses and not lossy:
        raise InvalidInput([replace(loss, fix="pass --lossy to write the rest") for loss in losses])
    return losses


def list_losses(target: DatasetFormat, content: DatasetContent, source: Path) -> list[Problem]:
    """Return what the format cannot represent of a content that was read from `source`."""
    with _unencodable_text_told(source), DATASETS.attribute_errors(target.name):
        lost = target.list_losses(content)
        lost += ["the recorded replies"] if content.replies and not target.takes_replies else []
        return [Problem(f"{target.name} cannot hold {loss}", file=str(source)) for loss in lost]


def write_dataset(target: DatasetFormat, content: DatasetContent, destination: Path, source: Path) -> Written:
    """Write a dataset beside the destination and move it into place; an existing one remains until then.

    Pipes, devices and open descriptors are written to directly.

    Raises:
        InvalidInput: the destination cannot be written, or a text of `source` cannot be encoded.
    """
    write = target.write
    if write is None:
        raise InvalidInput(Problem(f"evalspec reads {target.name}, but does not write it", file=str(destination)))
    try:
        streamed, place = is_stream(destination), resolve_place(destination)
        with (
            _unencodable_text_told(source),
            tempfile.TemporaryDirectory(dir=None if streamed else place.parent, prefix=".evalspec-") as folder,
        ):
            written = Path(folder) / "new" / destination.name
            written.parent.mkdir()
            with DATASETS.attribute_errors(target.name):
                counts = returned(write(content, written), Written)
            if streamed and not written.is_dir():
                copy_to_stream(written, destination)
            else:
                _refuse_misplaced(target, written, destination)
                put_written_in_place(written, place, aside=Path(folder) / "old")
    except OSError as error:
        fix = "create its folder first" if isinstance(error, FileNotFoundError) else ""
        raise InvalidInput(Problem(f"cannot be written: {error.strerror}", fix, str(destination))) from error
    return counts


def _refuse_misplaced(target: DatasetFormat, written: Path, destination: Path) -> None:
    """Refuse a folder named like a file, and the replacement of a folder with files that would be lost."""
    is_no_folder = destination.suffix in _FILE_SUFFIXES or (destination.exists() and not destination.is_dir())
    if written.is_dir() and is_no_folder:
        fix = f"use a folder, for example {destination.with_suffix('')}" if destination.suffix else "use a folder"
        raise InvalidInput(Problem(f"{target.name} is a folder of several files", fix, str(destination)))
    if destination.is_dir():
        others = sorted(_names_in(destination) - (_names_in(written) if written.is_dir() else set()))
        if others:
            message = f"--force would delete {', '.join(others[:5])}{' …' if others[5:] else ''}"
            raise InvalidInput(Problem(message, "choose another folder, or move them away", str(destination)))


def put_written_in_place(written: Path, destination: Path, aside: Path) -> None:
    """Rename into place. A folder cannot be overwritten by renaming, so the two are swapped or the old one is moved."""
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
    """Raise InvalidInput for a lone surrogate, which JSON can escape ("\\ud83d") but other files cannot encode."""
    try:
        yield
    except UnicodeEncodeError as error:
        message = f"a text has a lone surrogate (\\u{ord(error.object[error.start]):04x})"
        raise InvalidInput(Problem(message, "fix the text", str(source))) from error
