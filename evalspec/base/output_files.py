"""All writing of output files: reports, datasets, baselines, scaffolds, GitHub's files.

Regular files are written to a temporary file in the same folder and then renamed, so no partial file is ever visible.
Symbolic links are kept, and their target is replaced. Pipes, devices and open descriptors (/dev/stdout, /dev/fd/63) are
written to directly. All failures to write are OSErrors, which the caller explains.
"""

import errno
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from evalspec.base.descriptors import MOVED
from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.foreign_text import normalize
from evalspec.base.trust import Act, explain, require

_MOST_LINKS = 40
_DESCRIPTORS = r"/dev/fd|/proc/(\d+)(?:/task/\d+)?/fd"
_CHUNK = 1 << 20
_BINARY: int = getattr(os, "O_BINARY", 0)
"""Without it, Windows writes a line break as two characters."""
_NEW_FILE: int = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | _BINARY
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
"""Linux constants for renameat2: relative to the working directory, and exchange the two paths."""
_REPORT = (
    rb"(?s)\A(?:"
    rb'\{\s*"schemaVersion": \d+,\s*"(?:runId": "|kind": "evalspec comparison")|\{"run_id": "[^"]*", "has_texts": '
    rb'|run_id,has_texts,|<\?xml [^>]*>\s*<testsuites name="evalspec"'
    rb'|\{\s*"\$schema.{,400}"driver": \{\s*"name": "evalspec"'
    rb'|<!doctype html>(?:(?!<!--|</head>).)*<meta name="generator" content="evalspec">|PAR1.*evalspec report'
    rb"|## .*\n(?:run `[^`]+`, exit code \d|alpha [^\n]+, seed \d+ *)(?:\nnote: [^\n]+)*\s*\Z)"
)
"""What a report begins with. One in Markdown also ends so, or a person has written below it."""
_SEEN = 65_536
"""Bytes at each end of a file that are searched for what marks it as evalspec's own."""


class Input(Struct, frozen=True):
    """A file or folder that a command reads. `role`: its description for the user, as in "the manifest of this run"."""

    path: Path
    role: str


class _Target(Struct, frozen=True):
    """The target of a path. `descriptor`: the open descriptor of this process that the path names, if any."""

    path: Path
    descriptor: int | None = None


def is_stream(path: Path) -> bool:
    """Return whether a path is a pipe, a device or an open descriptor. Those are written to, never replaced."""
    with suppress(OSError):
        target = _find_target(path)
        if target.descriptor is not None:
            return True
        mode = target.path.stat().st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


def is_standard_output(path: Path) -> bool:
    """Return whether a path is standard output."""
    with suppress(OSError):
        return _find_target(path).descriptor == 1
    return False


def resolve_place(path: Path) -> Path:
    """Return the location of a file, existing or not, with all symbolic links followed.

    Raises:
        OSError: The symbolic links form a loop.
    """
    return _find_target(path).path


def find_input(path: Path, inputs: Iterable[Input]) -> Input | None:
    """Return the input that writing to a path would change, or None.

    Symbolic links, hard links, `..` and differences in case do not hide an input. A folder is an input with all its
    content. Writing to a folder would replace every input in it.
    """
    if is_stream(path):
        return None
    try:
        place = resolve_place(path)
    except OSError:
        return None  # a path that cannot be resolved cannot be written
    own, identity = _spell(place), _identify(place)
    for one in inputs:
        try:
            other = _spell(Path(os.path.realpath(one.path)))
        except ValueError:
            continue  # not a valid file name
        if own == other or _is_inside(own, other, one.path) or _is_inside(other, own, place):
            return one
        if identity is not None and identity in _identities(one.path):
            return one
    return None


def write_file(path: Path, parts: Iterable[bytes]) -> None:
    """Write a whole file from its parts. The mode of an existing file is kept.

    Raises:
        OSError: The file cannot be written. An existing regular file is unchanged.
        Refused: The path is a link in an untrusted project.
    """
    if is_stream(path):
        _write_stream(path, parts)
        return
    require(Act.WRITE_FILE, str(path))
    replace_file(resolve_place(path), parts)


def replace_file(path: Path, parts: Iterable[bytes], *, temporary: Path | None = None, mode: int = 0o666) -> None:
    """Write a whole file from its parts, and replace a file or a symbolic link at its path.

    `temporary`: path of the temporary file, which nothing else may write to. The default is a random name in the same
    folder. `mode`: mode of a new file, before the umask.

    Raises:
        OSError: The file cannot be written. The path is unchanged.
    """
    beside = temporary or path.with_name(f".evalspec-{os.urandom(8).hex()}.tmp")
    if temporary is not None:
        temporary.unlink(missing_ok=True)
    _refuse_unwritable(path)
    with _removing(beside):
        first = 0o600 if path.exists() else mode  # until it has the mode of the file that it replaces
        descriptor = os.open(beside, _NEW_FILE, first)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        put_in_place(beside, path)


def put_in_place(written: Path, path: Path) -> None:
    """Rename a complete file to its final path on the same file system. Keep the mode and owner of an existing file.

    Raises:
        OSError: The file cannot be renamed.
    """
    _refuse_unwritable(path)
    with suppress(FileNotFoundError):
        old = path.lstat()
        if stat.S_ISREG(old.st_mode):
            if sys.platform != "win32":  # a file has no owner to keep there
                with suppress(OSError):  # changing the owner may need privileges
                    os.chown(written, old.st_uid, old.st_gid)
            written.chmod(stat.S_IMODE(old.st_mode))
    written.replace(path)
    sync_folder(path.parent)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders of one file system atomically, so that neither path is ever missing.

    Return False if the system does not support this. Nothing is changed then.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    failed: int = rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return not failed


def copy_to_stream(source: Path, path: Path) -> None:
    """Write the content of a file to a pipe, a device or an open descriptor.

    Raises:
        OSError: The content cannot be written.
    """
    with source.open("rb") as file:
        _write_stream(path, iter(lambda: file.read(_CHUNK), b""))


def append_file(path: Path, content: bytes) -> None:
    """Append to a file that other programs append to as well. Append all or nothing.

    Raises:
        OSError: The content cannot be written.
    """
    if is_stream(path):
        _write_stream(path, [content])
        return
    with path.open("ab", buffering=0) as file:
        before = os.fstat(file.fileno()).st_size
        try:
            _write_all(file.fileno(), content)
        except OSError:
            with suppress(OSError):
                file.truncate(before)
            raise


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to disk, so that renamed files survive a power failure.

    Windows cannot open a folder as a file, and its file system logs renames itself.
    """
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _find_target(path: Path) -> _Target:
    """Follow the links of a path one by one, because the links of open descriptors have no path as their target."""
    current = path.absolute()
    for _ in range(_MOST_LINKS):
        if current.name == "..":
            return _Target(Path(os.path.realpath(current)))
        folder = os.path.realpath(current.parent)
        current = Path(folder, current.name)
        among = re.fullmatch(_DESCRIPTORS, folder)
        if among and among[1] in (None, str(os.getpid())) and current.name.isascii() and current.name.isdigit():
            return _Target(current, int(current.name))
        if not current.is_symlink():
            return _Target(current)
        current = Path(folder, current.readlink())
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _write_stream(path: Path, chunks: Iterable[bytes]) -> None:
    descriptor = _find_target(path).descriptor
    opened = os.open(path, os.O_WRONLY | _BINARY) if descriptor is None else os.dup(MOVED.get(descriptor, descriptor))
    try:
        for chunk in chunks:
            _write_all(opened, chunk)
    finally:
        os.close(opened)


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _refuse_unwritable(path: Path) -> None:
    """Raise the error that writing to an existing file would raise. A rename ignores the permissions of the file."""
    if path.is_symlink() or not path.exists():
        return
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


@contextmanager
def _removing(temporary: Path) -> Iterator[None]:
    """Remove a temporary file if the block fails."""
    try:
        yield
    except BaseException:  # Ctrl-C leaves no file either
        with suppress(OSError):  # the original error matters more
            temporary.unlink(missing_ok=True)
        raise


def _spell(path: Path) -> str:
    """Return a normal form that is equal for all names that some file system treats as the same."""
    return normalize("NFC", str(path)).casefold()


def _is_inside(own: str, other: str, folder: Path) -> bool:
    return _is_folder(folder) and own.startswith(other.rstrip(os.sep) + os.sep)


def _is_folder(path: Path) -> bool:
    """Return whether a path is a folder. Unlike Path.is_dir, return False for invalid and overlong names."""
    with suppress(OSError, ValueError):
        return path.is_dir()
    return False


def _identify(path: Path) -> tuple[int, int] | None:
    """Return (device, inode), which is equal for all names of one file. None if the file does not exist."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino)


def _identities(path: Path) -> Iterator[tuple[int, int]]:
    """Yield the identity of a file, or of a folder and everything in it."""
    for file in (path, *(path.rglob("*") if _is_folder(path) else ())):
        identity = _identify(file)
        if identity is not None:
            yield identity


def refuse_inputs(targets: Sequence[Path], inputs: Sequence[Input], field: str = "-o") -> None:
    """Check that a command does not write over its own inputs.

    Raises:
        InvalidInput: A target is an input, is inside one, or is a link in an untrusted project.
    """
    found = [(target, find_input(target, inputs)) for target in targets]
    problems = [
        Problem(
            f"writing here would change {clash.role} ({clash.path})", "choose another place", str(target), field=field
        )
        for target, clash in found
        if clash is not None
    ]
    refused = [(target, explain(Act.WRITE_FILE, str(target))) for target in targets if not is_stream(target)]
    problems += [Problem(*reason, file=str(target), field=field) for target, reason in refused if reason is not None]
    if problems:
        raise InvalidInput(problems)


def refuse_others(targets: Iterable[Path], *, force: bool, own: bytes = _REPORT) -> None:
    """Check that files can be created, and replace only files that evalspec wrote, unless that is forced.

    `own`: the pattern of what marks such a file near its beginning or its end. An empty file may be replaced too.

    Raises:
        InvalidInput: A target is a folder or in none, or is another file.
    """
    problems = []
    for target in targets:
        if is_stream(target):
            continue
        place = Path(os.path.realpath(target))
        if not place.parent.is_dir():
            fix = "create it first, or choose another place"
            problems.append(Problem(f"there is no folder {place.parent.name}", fix, str(target), field="-o"))
        elif place.is_dir():
            problems.append(Problem("this is a folder", "name a file in it", str(target), field="-o"))
        elif not force and place.is_file() and not _is_marked(place, own):
            message = "this file exists, and evalspec did not write it"
            problems.append(Problem(message, "choose another name, or pass --force", str(target), field="-o"))
    if problems:
        raise InvalidInput(problems)


def _is_marked(path: Path, own: bytes) -> bool:
    with path.open("rb") as file:
        content = file.read(_SEEN)
        file.seek(max(_SEEN, path.stat().st_size - _SEEN))
        return not content or re.search(own, content + file.read()) is not None
