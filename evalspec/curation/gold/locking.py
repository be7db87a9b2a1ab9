"""The lock of a gold set, held while a command replaces the content of a triple."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.layout import OWN_FOLDER

_SECONDS = 30


@contextmanager
def hold(root: Path) -> Iterator[None]:
    """Hold the lock of a set, so that of two edits at once the second one sees the first. Git ignores its folder.

    Raises:
        InvalidInput: Another command has held it for 30 seconds, or the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    folder = root / OWN_FOLDER
    try:
        folder.mkdir(exist_ok=True)
        with suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as ignore:
            ignore.write("*\n")
        lock = FileLock(folder / "lock", timeout=_SECONDS)
        lock.acquire()
    except Timeout as error:
        raise InvalidInput(Problem("another command is changing the set", "run this again later", str(root))) from error
    except OSError as error:
        raise InvalidInput(Problem(f"cannot be written: {error.strerror}", "check the folder", str(root))) from error
    try:
        yield
    finally:
        lock.release()
