"""What keeps the code of namespaces apart from each other and from the service: a user of its own, or bubblewrap."""

import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

import evalspec
from evalspec.base.errors import InvalidInput, Problem
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
_ANYBODY = stat.S_IRWXG | stat.S_IRWXO
_FIELD = "--isolation"


def find_uid(namespace: str) -> int:
    """Return the user and group id of a namespace's code. It follows from the name, so every worker uses the same."""
    return FIRST_UID + int.from_bytes(hashlib.sha256(namespace.encode()).digest()[:8]) % _UIDS


def choose_isolation(asked: Isolation | None, projects: Mapping[str, Project]) -> Isolation:
    """Return how namespaces are kept apart. `asked`: None for the best that this system has; one namespace needs none.

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
    """Check that the namespaces of a server or worker can be kept apart as its settings say.

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
    declared = {name: os.environ[own] for name, own in project.variables.items() if own in os.environ}
    if isolation is Isolation.OFF:
        return os.environ | declared
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | {"HOME": str(scratch), "TMPDIR": str(scratch)} | declared


@contextmanager
def open_confined(isolation: Isolation, project: Project, module: str) -> "Iterator[subprocess.Popen[bytes]]":
    """Yield a process of `python -m module` in a project's folder, with pipes to it.

    In the end, everything that it has started and left is killed, and its temporary folder is deleted.

    Raises:
        OSError: The folder is gone, or the process cannot be started.
    """
    scratch = Path(tempfile.mkdtemp(prefix="evalspec-"))
    try:
        if isolation is Isolation.UID:
            uid = find_uid(project.namespace)
            give_folder(project.folder, uid)
            os.chown(scratch, uid, uid)
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
                _end_left(process, isolation, project)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _find_means(isolation: Isolation, project: Project, scratch: Path) -> tuple[list[str], dict[str, Any]]:
    """Return what goes before a command of a namespace's code, and options of its process."""
    if isolation is Isolation.UID:
        uid = find_uid(project.namespace)
        return [], {"user": uid, "group": uid, "extra_groups": [], "umask": 0o077}
    return (_wrap(project.folder, scratch), {}) if isolation is Isolation.BUBBLEWRAP else ([], {})


def give_folder(folder: Path, uid: int) -> None:
    """Give a namespace's folder to its user, and to nobody else, with everything in it that belongs to this process.

    No link is followed: the namespace's code may be running, and could put one in the place of a folder.
    """
    os.chown(folder, uid, uid)
    folder.chmod(0o700)
    own = os.geteuid()
    for _, folders, files, place in os.fwalk(folder):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                entry = os.stat(name, dir_fd=place, follow_symlinks=False)
                has_other_names = entry.st_nlink > 1 and not stat.S_ISDIR(entry.st_mode)
                if entry.st_uid == own and not has_other_names:
                    os.chown(name, uid, uid, dir_fd=place, follow_symlinks=False)


def _list_python() -> list[Path]:
    """Return the folders of Python, of the installed packages and of evalspec."""
    found = [sys.prefix, sys.base_prefix, *map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))]
    return list(dict.fromkeys(Path(one).resolve() for one in (*found, *evalspec.__path__)))


def _wrap(folder: Path, scratch: Path) -> list[str]:
    """Return the command of bubblewrap: it shows the system, Python and one folder, and only processes inside."""
    command = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    command += [
        "--die-with-parent",
        "--cap-drop",
        "ALL",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        tempfile.gettempdir(),
    ]
    for name in _SYSTEM:
        place = Path("/", name)
        command += ["--symlink", str(place.readlink()), str(place)] if place.is_symlink() else []
        command += ["--ro-bind-try", str(place), str(place)] if not place.is_symlink() else []
    for shown in (*(Path("/etc", name) for name in _SETTINGS), *_list_python(), Path(sys.prefix)):
        command += ["--ro-bind-try", str(shown), str(shown)]
    for own in (folder, scratch):
        command += ["--bind", str(own), str(own)]
    return [*command, "--chdir", str(folder), "--"]


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


def _end_left(process: "subprocess.Popen[bytes]", isolation: Isolation, project: Project) -> None:
    """Kill a process and what it has started: its session, and as another user also what has left the session."""
    process.kill()
    process.wait()
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    while isolation is Isolation.UID and (left := _list_children(find_uid(project.namespace))):
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
