"""Command lines in processes of their own, without the second that a start takes.

with WarmCommand(folder) as evalspec:
    ended = evalspec(project, "validate", "agent.yaml", "--json")
    ended.code, ended.out, ended.err, ended.cpu_seconds, ended.peak_mib
    evalspec(project, "evaluate", "agent.yaml", kill_at=7)       # kill -9 before the seventh change of a file
    evalspec(project, "evaluate", "agent.yaml", seconds=0.1)     # or after a time
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).parents[1]
LIBRARIES = (
    *("anyio._backends._asyncio", "httpcore", "httpx", "jsonpath_rfc9535", "numpy.random", "pyarrow.parquet"),
    *("pydantic.dataclasses", "rapidfuzz", "rich.live", "sacrebleu", "sqlite3"),
)
JUDGED = (*LIBRARIES, "ragas.metrics.collections", "evalspec.scoring.judge.ragas_adapter")
_PASSED_ON = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR")
_AFTER_ALL = 120.0


@dataclass(frozen=True)
class Ended:
    """How one command line ended. `code` is negative after a signal; `is_late`: it had to be killed."""

    code: int
    is_late: bool
    cpu_seconds: float
    peak_mib: float
    seconds: float
    out: bytes
    err: bytes
    changes: int


class WarmCommand:
    """See the module. `folder` is for the output; `home` is an empty home directory."""

    def __init__(self, folder: Path, modules: Sequence[str] = LIBRARIES, home: Path | None = None) -> None:
        self._out, self._err, self._counts = (folder / f"{id(self)}.{name}" for name in ("out", "err", "changes"))
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        paths = [str(_TESTS), str(_TESTS.parent), *kept.pop("PYTHONPATH", "").split(os.pathsep)]
        own = {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "EVALSPEC_DEBUG": "1",
            "HOME": str(home or folder),
            "COLUMNS": "120",
        }
        command = [sys.executable, "-m", "warm.forks", *modules]
        self._process = subprocess.Popen(
            command, env=kept | own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True
        )
        self._read()

    def __call__(
        self,
        folder: Path,
        *arguments: str,
        environment: Mapping[str, str] = {},
        seconds: float = _AFTER_ALL,
        kill_at: int | None = None,
        is_counted: bool = False,
    ) -> Ended:
        """Run `evalspec` in a folder until it ends, or until it is killed."""
        counts = str(self._counts) if is_counted or kill_at is not None else ""
        job = {
            "arguments": arguments,
            "folder": str(folder),
            "environment": dict(environment),
            "out": str(self._out),
            "err": str(self._err),
            "counts": counts,
            "kill_at": kill_at,
            "seconds": seconds,
        }
        assert self._process.stdin is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        ended = self._read()
        changes = int.from_bytes(self._counts.read_bytes(), "big") if counts else 0
        return Ended(**ended, out=self._out.read_bytes(), err=self._err.read_bytes(), changes=changes)

    def __enter__(self) -> "WarmCommand":
        return self

    def __exit__(self, *_exception: object) -> None:
        self._process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the warm process is gone")
        read: dict[str, Any] = json.loads(line)
        return read
