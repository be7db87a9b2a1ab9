"""What keeps the code of namespaces apart from each other and from the service: a user of its own, or bubblewrap."""

import errno
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sqlalchemy.engine import make_url

import evalspec
from evalspec.base.errors import InvalidInput, Problem
from evalspec.runs.store.files import PRIVATE_FOLDER, store_errors
from evalspec.service.settings import Isolation, Project, ServiceSettings

FIRST_UID = 0x7000_0000
"""The first user id of namespaces. systemd leaves it and those after it unassigned."""
_UIDS = 2**28
_KEPT = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "SYSTEMROOT")
"""Variables of the worker that the code of every namespace gets."""
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SETTINGS = ("alternatives", "ca-certificates", "crypto-policies", "group", "hosts", "ld.so.cache", "ld.so.conf",
             "ld.so.conf.d", "localtime", "nsswitch.conf", "passwd", "pki", "resolv.conf", "ssl")  # fmt: skip
"""What bubblewrap shows of / and of /etc."""
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_FILE_EVENTS = frozenset(
    {"open", "os.chmod", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir", "shutil.rmtree"}
    | {"sqlite3.connect"}
)
_ANYBODY = stat.S_IRWXG | stat.S_IRWXO
_FIELD = "--isolation"


def find_uid(namespace: str) -> int:
    """Return the user and group id of a namespace's code. It follows from the name, so every worker uses the same."""
    return FIRST_UID + int.from_bytes(hashlib.sha256(namespace.encode()).digest()[:8]) % _UIDS


def choose_isolation(asked: Isolation | None, projects: Mapping[str, Project]) -> Isolation:
    """Return how namespaces are isolated. `asked`: None for the best that this system has; one namespace needs none.

    Raises:
        InvalidInput: There are several namespaces, and the system has nothing.
    """
    if asked is not None:
        return asked
    if len(projects) == 1:
        return Isolation.OFF
    if sys.platform != "win32" and os.geteuid() == 0:
        return Isolation.UID
    if shutil.which("bwrap"):
        return Isolation.BUBBLEWRAP
    message = "the code of one namespace could read the files and variables of the others"
    fix = f"start it as root, install bubblewrap, or pass {_FIELD} off if the namespaces trust each other"
    raise InvalidInput(Problem(message, fix, field=_FIELD))


def check_isolation(settings: ServiceSettings) -> None:
    """Check that the namespaces of a server or worker can be isolated as its settings say.

    Raises:
        InvalidInput: They cannot. It has every problem.
    """
    if settings.isolation is Isolation.OFF:
        return
    problems = [*_list_exposed(settings)]
    if settings.isolation is Isolation.UID:
        problems += _list_uid_problems(settings)
    problems = problems or [*_try_isolation(settings.isolation, next(iter(settings.projects.values())))]
    if problems:
        raise InvalidInput(problems)


def _list_exposed(settings: ServiceSettings) -> Iterator[Problem]:
    """Yield how the code of a namespace could reach the database: by its file, or by a password that `ps` shows."""
    url, field = make_url(settings.database), "--database"
    if url.password and any(str(url.password) in argument for argument in sys.argv):
        fix = "set EVALSPEC_DATABASE or PGPASSWORD instead"
        yield Problem("every process on this machine can read a password on the command line", fix, field=field)
    if url.host or not url.database:
        return
    file = Path(url.database).resolve()
    if any(file.is_relative_to(project.folder) for project in settings.projects.values()):
        yield Problem(f"{file} is in the folder of a namespace", "keep it outside of all of them", field=field)
    if file.exists() and file.stat().st_mode & _ANYBODY:
        yield Problem(f"others may read {file}", f"chmod 600 {file}", field=field)


def _list_uid_problems(settings: ServiceSettings) -> Iterator[Problem]:
    if sys.platform == "win32" or os.geteuid() != 0:
        yield Problem("only root can run code as other users", "start it as root, or omit the option", field=_FIELD)
        return
    users: dict[int, str] = {}
    for namespace, project in settings.projects.items():
        other = users.setdefault(find_uid(namespace), namespace)
        if other != namespace:
            yield Problem(f"{namespace} and {other} have the same user id", "rename one", field="--project")
        for folder in project.folder.parents:
            if not folder.stat().st_mode & stat.S_IXOTH:
                message = f"{folder}: the code of {namespace} cannot enter this folder as another user"
                yield Problem(message, f"chmod o+x {folder}, or move the project", field="--project")


def _try_isolation(isolation: Isolation, project: Project) -> Iterator[Problem]:
    """Yield why Python cannot be started as for a namespace."""
    wrapper, options = _find_means(isolation, project, project.folder)
    try:
        command = [*wrapper, sys.executable, "-P", "-c", "import evalspec"]
        tried = subprocess.run(command, cwd="/", capture_output=True, text=True, errors="replace", **options)
        said = tried.stderr.strip().rpartition("\n")[2] if tried.returncode else ""
    except (OSError, OverflowError) as error:
        said = str(error)
    if said:
        fix = f"let every user read Python, or pass {_FIELD} off if the namespaces trust each other"
        if isolation is Isolation.BUBBLEWRAP:
            fix = f"allow user namespaces, start it as root, or pass {_FIELD} off if the namespaces trust each other"
        yield Problem(f"Python does not start isolated ({isolation}): {said}", fix, field=_FIELD)


def find_environment(isolation: Isolation, project: Project, scratch: Path) -> dict[str, str]:
    """Return the variables of a namespace's code: those declared for it, and if it is isolated, few others."""
    if isolation is Isolation.OFF:
        return {**os.environ, **project.find_variables(os.environ)}
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "HOME": str(scratch), "TMPDIR": str(scratch), **project.find_variables(os.environ)}


@contextmanager
def open_confined(
    isolation: Isolation, project: Project, module: str, *, is_only: bool
) -> "Iterator[subprocess.Popen[bytes]]":
    """Yield a process of `python -m module` in a project's folder, with pipes to it.

    In the end, its session is killed, and its temporary folder is deleted. `is_only`: this process starts no others for
    the namespace meanwhile, so that what has left the session is killed too.

    Raises:
        OSError: The folder is gone, or the process cannot be started.
        StoreError: The folder cannot be given to the namespace's user.
    """
    scratch = Path(tempfile.mkdtemp(prefix="evalspec-"))
    try:
        close_folder(isolation, project)
        if isolation is Isolation.UID and sys.platform != "win32":
            os.chown(scratch, find_uid(project.namespace), -1)
        wrapper, options = _find_means(isolation, project, scratch)
        with subprocess.Popen(
            [*wrapper, sys.executable, "-P", "-m", module],
            cwd=project.folder,
            env=find_environment(isolation, project, scratch),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches the worker, which stops its job in order
            **options,
        ) as process:
            try:
                yield process
            finally:
                _end_session(process)
                with suppress(BrokenPipeError):  # it has not read all
                    if process.stdin is not None:
                        process.stdin.close()
                if is_only and isolation is Isolation.UID:
                    _end_children(find_uid(project.namespace))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _find_means(isolation: Isolation, project: Project, scratch: Path) -> tuple[list[str], dict[str, Any]]:
    """Return what goes before a command of a namespace's code, and options of its process."""
    if isolation is Isolation.UID:
        uid = find_uid(project.namespace)
        return [], {"user": uid, "group": uid, "extra_groups": [], "umask": 0o077}
    return (_wrap(project.folder, scratch), {}) if isolation is Isolation.BUBBLEWRAP else ([], {})


def close_folder(isolation: Isolation, project: Project) -> None:
    """Give a namespace's folder to its user, if it has one, with everything in it that belongs to this process.

    No link is followed: the namespace's code may be running, and could put one in the place of a folder.

    Raises:
        StoreError: The folder cannot be given away.
    """
    if sys.platform == "win32" or isolation is not Isolation.UID:
        return
    uid, own = find_uid(project.namespace), os.geteuid()
    with store_errors(project.folder):
        os.chown(project.folder, uid, uid)
        project.folder.chmod(PRIVATE_FOLDER)
        for _, folders, files, place in os.fwalk(project.folder):
            for name in (*folders, *files):
                with suppress(FileNotFoundError):
                    entry = os.stat(name, dir_fd=place, follow_symlinks=False)
                    has_other_names = entry.st_nlink > 1 and not stat.S_ISDIR(entry.st_mode)
                    if entry.st_uid == own and not has_other_names:
                        os.chown(name, uid, uid, dir_fd=place, follow_symlinks=False)


def _list_python() -> list[Path]:
    """Return the folders of Python, of installed packages and of evalspec.

    Other folders of sys.path, such as that of a checkout, may have projects in them.
    """
    packages = [one for one in sys.path if Path(one).name in ("site-packages", "dist-packages")]
    found = [Path(one) for one in (sys.prefix, sys.base_prefix, *packages, *evalspec.__path__)]
    return list(dict.fromkeys([*found, *(one.resolve() for one in found)]))


def _wrap(folder: Path, scratch: Path) -> list[str]:
    """Return the command of bubblewrap: it shows the system, Python and one folder, and only processes inside."""
    command = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    command += ["--die-with-parent", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    command += ["--tmpfs", tempfile.gettempdir()]
    for name in _SYSTEM:
        place = Path("/", name)
        is_link = place.is_symlink()
        command += ["--symlink", str(place.readlink()), str(place)] if is_link else _show(place)
    for place in (*(Path("/etc", name) for name in _SETTINGS), *_list_python()):
        command += _show(place)
    for own in (folder, scratch):
        command += ["--bind", str(own), str(own)]
    return [*command, "--chdir", str(folder), "--"]


def _show(place: Path) -> list[str]:
    return ["--ro-bind-try", str(place), str(place)]


def adopt_orphans() -> None:
    """Become the parent of what jobs start and leave, so that nothing of a job outlives it."""
    _control(_PR_SET_CHILD_SUBREAPER)


def forbid_privileges() -> None:
    """Let no program that this process starts have more rights than the process, such as setuid programs have."""
    _control(_PR_SET_NO_NEW_PRIVS)


def _control(option: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, 1, 0, 0, 0)


def refuse_links(projects: Iterable[Project]) -> None:
    """Let this process open nothing through a link out of a namespace's folder: the namespace's code may have made it.

    This cannot be undone.
    """
    folders = tuple(f"{project.folder}{os.sep}" for project in projects)

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        for path in arguments[:2] if event in _FILE_EVENTS else ():
            text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
            text = unquote(urlsplit(text).path) if text.startswith("file:") else text
            folder = next(filter(text.startswith, folders), "")
            if not f"{os.path.realpath(text)}{os.sep}".startswith(folder):
                raise PermissionError(errno.EACCES, "a link leads out of the folder of the namespace", text)

    sys.addaudithook(check)


def _end_session(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _end_children(uid: int) -> None:
    if sys.platform == "win32":
        return
    while left := _list_children(uid):
        for child in left:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _list_children(uid: int) -> list[int]:
    """Return the children of this process that run as a user. Those whose parent has ended are its children too."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            if (int(fields["PPid"]), int(fields["Uid"].split()[0])) == (os.getpid(), uid):
                found.append(int(status.parent.name))
    return found
