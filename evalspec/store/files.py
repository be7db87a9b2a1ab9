"""Files of a run written so that a crash leaves the old one or the new one, and failures told in one line."""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO

from evalspec.errors import StoreError
from evalspec.output_files import replace_file

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
_CHUNK = 65_536
_ELSEWHERE = "make it writable for this user, or run in another folder"
_FIXES = {
    errno.ENOSPC: "free some disk space",
    errno.EDQUOT: "free some of your disk quota",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
    errno.EACCES: _ELSEWHERE,
    errno.EPERM: _ELSEWHERE,
    errno.EROFS: _ELSEWHERE,
}


def store_error(path: Path, error: OSError) -> StoreError:
    """One line for the user: which file, what the system says, and what to do."""
    fix = _FIXES.get(error.errno or 0, "check the path")
    return StoreError(f"{path}: {error.strerror or error}. {fix}; what was stored before is kept")


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turn every failure of the system within into a StoreError about `path`."""
    try:
        yield
    except OSError as error:
        raise store_error(path, error) from error


def write_atomically(path: Path, parts: Iterable[bytes]) -> None:
    """Put a whole file of a run, given in parts, in place of the old one.

    The caller holds the run's lock, so the temporary name is nobody else's.

    Raises:
        StoreError: it cannot be written; the old file, if any, is untouched.
    """
    with store_errors(path):
        replace_file(path, parts, temporary=path.with_name(f".{path.name}.tmp"), mode=PRIVATE_FILE)


def replace_symlink(link: Path, target: str) -> None:
    """Point `link` at `target`, relative to its own folder, without a moment in which it does not exist.

    Raises:
        StoreError: the link cannot be made; `link` is as it was.
    """
    temporary = link.with_name(f".{link.name}-{Path(target).name}")
    with store_errors(link):
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(link)


def read_last_line(file: BinaryIO) -> bytes:
    """The last whole line of a file that ends with one; empty where there is none."""
    end = start = file.seek(0, os.SEEK_END)
    tail = b""
    while start and tail.count(b"\n") < 2:
        start = max(0, start - _CHUNK)
        file.seek(start)
        tail = file.read(end - start)
    return tail.splitlines(keepends=True)[-1] if tail else b""


def cut_torn_line(file: BinaryIO) -> None:
    """Cut off what follows the last newline of a line log: a line counts only once its newline is written."""
    end = whole = file.seek(0, os.SEEK_END)
    while whole:
        start = max(0, whole - _CHUNK)
        file.seek(start)
        newline = file.read(whole - start).rfind(b"\n")
        if newline >= 0:
            whole = start + newline + 1
            break
        whole = start
    if whole != end:
        file.truncate(whole)


def digest_file(path: Path) -> str:
    """The SHA-256 of a file's content.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
