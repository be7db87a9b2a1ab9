"""The warm process: it has imported evalspec once, and runs each command line in a child that it forks.

`python -m warm.forks MODULE…` imports evalspec and the modules, and then reads jobs from standard input, one JSON
object a line: `arguments`, `folder`, `environment`, `out` and `err` (files for the output), `seconds` (after which it
is killed), `counts` (a file for the number of changes to files) and `kill_at` (the change before which it is killed).
The answer is one JSON object a line.

A child is what the installed script would be: a process of its own, in a process group of its own, that begins at
`evalspec.__main__.main` and ends as Python ends. Linux only.
"""

import atexit
import gc
import json
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import evalspec

END = os._exit
"""As it is before a command replaces it."""

_LEFT_OUT = ("evalspec.scoring.judge.ragas_adapter", "evalspec.service.")
"""Needs ragas or a web framework, which take longer to import than the rest."""
_CPU_SECONDS = 20
_ADDRESS_BYTES = 6 << 30
_FILE_BYTES = 1 << 30
"""Limits that protect the machine; what the rules allow is less, and measured."""
_CHANGES = frozenset(
    {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.symlink", "os.link", "os.chmod"}
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def _become(job: dict[str, Any], own: tuple[int, int]) -> None:
    """Make this child the process of a command line."""
    os.setpgid(0, 0)
    os.chdir(job["folder"])
    os.environ |= job["environment"]
    for descriptor in own:
        os.close(descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for target, path in ((1, job["out"]), (2, job["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), target)
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_BYTES, _ADDRESS_BYTES))
    sys.dont_write_bytecode = True  # what is cut at the limit could not be imported again
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.argv = ["evalspec", *job["arguments"]]
    if job["counts"]:
        _count_changes(job["counts"], job["kill_at"])


def _count_changes(path: str, kill_at: int | None) -> None:
    """Count what changes files, in a file of eight bytes; before change `kill_at` the process group is killed."""
    counter = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    count = 0

    def change() -> None:
        nonlocal count
        count += 1
        if count == kill_at:
            os.killpg(0, signal.SIGKILL)
        os.pwrite(counter, count.to_bytes(8, "big"), 0)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
        if event in _CHANGES or writes:
            change()

    sys.addaudithook(watch)
    os.fsync = _after(change, os.fsync)
    os.write = _after(change, os.write)


def _after(change: Callable[[], None], call: Callable[..., Any]) -> Callable[..., Any]:
    def changed(*arguments: Any) -> Any:
        change()
        return call(*arguments)

    return changed


def _wait(child: int, seconds: float) -> dict[str, Any]:
    """Wait until a child ends, or kill its process group."""
    started = time.monotonic()
    watched = os.pidfd_open(child)
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    ended = bool(poll.poll(seconds * 1000))
    if not ended:
        os.killpg(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    os.close(watched)
    with suppress(ProcessLookupError):  # what it started and left running
        os.killpg(child, signal.SIGKILL)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "is_late": not ended,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mib": used.ru_maxrss / 1024,
        "seconds": time.monotonic() - started,
    }


def _serve() -> None:
    requests, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    own = (requests.fileno(), answers.fileno())
    gc.collect()
    gc.freeze()
    print("{}", file=answers, flush=True)
    for line in iter(requests.readline, ""):
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(job, own)
            return
        with suppress(PermissionError):  # the child did it, and has gone on
            os.setpgid(child, child)
        print(json.dumps(_wait(child, job["seconds"])), file=answers, flush=True)
    END(0)


def _import_all(modules: Iterable[str]) -> None:
    """Import evalspec, except for what few commands need, and the given modules."""
    found = (module.name for module in walk_packages(evalspec.__path__, "evalspec."))
    own = [name for name in found if not name.startswith(_LEFT_OUT) and not name.endswith("__main__")]
    for name in (*own, *modules):
        import_module(name)


def _run() -> int:
    """The exit code of the command line, as Python makes it of what leaves `main`."""
    from evalspec.__main__ import main

    try:
        return main()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else bool(error.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1


def _end(code: int) -> None:
    """End as Python does, but for taking apart what was imported: that would cost more than the command."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stderr.flush()
    sys.stdout.flush()
    END(code)


if __name__ == "__main__":
    _import_all(sys.argv[1:])
    _serve()
    _end(_run())
