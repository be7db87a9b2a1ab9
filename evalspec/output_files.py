"""The one place that writes a command's files: reports, datasets, baselines, scaffolds, GitHub's files.

A regular file is written beside its place and renamed into it, so there is never half of it. A symbolic link stays, and
the file that it leads to is replaced. Pipes, devices and open descriptors (/dev/stdout, /dev/fd/63) are written to.
All failures to write are OSErrors, which the caller explains.
"""

import errno
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from evalspec.errors import InvalidInput, Problem
from evalspec.trust import Act, explain, require

_MOST_LINKS = 40
_DESCRIPTORS = re.compile(r"/dev/fd|/proc/(\d+)(?:/task/\d+)?/fd")
_CHUNK = 1 << 20
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
"""Of Linux: relative to the working directory; trade places."""
_MOVED: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class Input:
    """A file or folder that a command reads. `role`: what it is to the user, as in "the manifest of this run"."""

    path: Path
    role: str


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a path leads. `descriptor`: the open descriptor of this process that it names, if it names one."""

    path: Path
    descriptor: int | None = None


def move_descriptor(old: int, new: int) -> None:
    """Have what is written to the path of one open descriptor go to another, because `old` now leads elsewhere."""
    _MOVED[old] = new


def is_stream(path: Path) -> bool:
    """Whether a path names a pipe, a device or an open descriptor, which is written to and never replaced."""
    with suppress(OSError):
        target = _find_target(path)
        if target.descriptor is not None:
            return True
        mode = target.path.stat().st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


def is_standard_output(path: Path) -> bool:
    """Whether a path names standard output."""
    with suppress(OSError):
        return _find_target(path).descriptor == 1
    return False


def resolve_place(path: Path) -> Path:
    """Where the file of a path is, or will be, with all symbolic links followed.

    Raises:
        OSError: the links go round in a circle.
    """
    return _find_target(path).path


def find_input(path: Path, inputs: Iterable[Input]) -> Input | None:
    """The input that writing to a path would replace or change; None if there is none.

    Found through symbolic and hard links, `..` and another case of the letters. A folder is an input with all that is
    in it; a path that is a folder would replace every input in it.
    """
    if is_stream(path):
        return None
    try:
        place = resolve_place(path)
    except OSError:
        return None  # it cannot be written either
    own, identity = _spell(place), _identify(place)
    for one in inputs:
        try:
            other = _spell(Path(os.path.realpath(one.path)))
        except ValueError:
            continue  # no name that a file can have
        if own == other or _is_inside(own, other, one.path) or _is_inside(other, own, place):
            return one
        if identity is not None and identity in _identities(one.path):
            return one
    return None


def write_file(path: Path, parts: Iterable[bytes]) -> None:
    """Write a whole file from its parts, with the folders that it is in. The mode of an existing file stays.

    Raises:
        OSError: it cannot be written; a regular file is as it was.
        Refused: it is a link of an untrusted project.
    """
    if is_stream(path):
        _write_stream(path, parts)
        return
    require(Act.WRITE_FILE, str(path))
    place = resolve_place(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    replace_file(place, parts)


def replace_file(path: Path, parts: Iterable[bytes], *, temporary: Path | None = None, mode: int = 0o666) -> None:
    """Put a whole file at a path from its parts, in place of a file or of a symbolic link there.

    `temporary`: where it is written first, if nobody else writes there; else a name of its own beside it. `mode`: of a
    new file, less what the umask takes away.

    Raises:
        OSError: it cannot be written; what was at the path is as it was.
    """
    beside = temporary or path.with_name(f".evalspec-{os.urandom(8).hex()}.tmp")
    if temporary is not None:
        temporary.unlink(missing_ok=True)
    _refuse_unwritable(path)
    with _removing(beside):
        first = 0o600 if path.exists() else mode  # of an existing file, the new content is not readable by more
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), first)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        put_in_place(beside, path)


def put_in_place(written: Path, path: Path) -> None:
    """Rename a finished file of the same file system to its place; the mode and owner of an existing file stay.

    Raises:
        OSError: it cannot be put there.
    """
    _refuse_unwritable(path)
    with suppress(FileNotFoundError):
        old = path.lstat()
        if stat.S_ISREG(old.st_mode):
            with suppress(OSError):  # the owner is kept where the system allows it
                os.chown(written, old.st_uid, old.st_gid)
            written.chmod(stat.S_IMODE(old.st_mode))
    written.replace(path)
    sync_folder(path.parent)


def exchange(one: Path, other: Path) -> bool:
    """Let two folders of one file system trade places in one step: neither name is missing at any moment.

    False where the system cannot; nothing is changed then.
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
        OSError: it cannot be written.
    """
    with source.open("rb") as file:
        _write_stream(path, iter(lambda: file.read(_CHUNK), b""))


def append_file(path: Path, content: bytes) -> None:
    """Add to the end of a file that others add to as well; nothing is added if not all can be.

    Raises:
        OSError: it cannot be written.
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
    """Make the names in a folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _find_target(path: Path) -> _Target:
    """Follow the links of a path one by one: those of open descriptors lead nowhere that has a name."""
    current = path.absolute()
    for _ in range(_MOST_LINKS):
        if current.name == "..":
            return _Target(Path(os.path.realpath(current)))
        folder = os.path.realpath(current.parent)
        current = Path(folder, current.name)
        among = _DESCRIPTORS.fullmatch(folder)
        if among and among[1] in (None, str(os.getpid())) and current.name.isascii() and current.name.isdigit():
            return _Target(current, int(current.name))
        if not current.is_symlink():
            return _Target(current)
        current = Path(folder, current.readlink())
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _write_stream(path: Path, chunks: Iterable[bytes]) -> None:
    descriptor = _find_target(path).descriptor
    opened = os.open(path, os.O_WRONLY) if descriptor is None else os.dup(_MOVED.get(descriptor, descriptor))
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
    """Raise what writing into an existing file would: renaming over it would ask nobody."""
    if path.is_symlink() or not path.exists():
        return
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


@contextmanager
def _removing(temporary: Path) -> Iterator[None]:
    """Remove a temporary file if what is done with it fails."""
    try:
        yield
    except BaseException:
        with suppress(OSError):  # the failure that leads here is the one to tell
            temporary.unlink(missing_ok=True)
        raise


def _spell(path: Path) -> str:
    """One spelling of all those that some file system takes for the same name."""
    return unicodedata.normalize("NFC", str(path)).casefold()


def _is_inside(own: str, other: str, folder: Path) -> bool:
    return _is_folder(folder) and own.startswith(other.rstrip(os.sep) + os.sep)


def _is_folder(path: Path) -> bool:
    """As Path.is_dir, also of a name that is too long for a file."""
    with suppress(OSError, ValueError):
        return path.is_dir()
    return False


def _identify(path: Path) -> tuple[int, int] | None:
    """What two names of one file share; None if there is no such file."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino)


def _identities(path: Path) -> Iterator[tuple[int, int]]:
    """Of a file, or of all files in a folder."""
    for file in (path, *(path.rglob("*") if _is_folder(path) else ())):
        identity = _identify(file)
        if identity is not None:
            yield identity


def refuse_inputs(targets: Sequence[Path], inputs: Sequence[Input], field: str = "-o") -> None:
    """See that nothing is written over what a command reads.

    Raises:
        InvalidInput: a target is one of its inputs, or in one, or a link of an untrusted project.
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
