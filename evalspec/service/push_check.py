"""Check a pushed run in a process of its own: its content is foreign, and may be made to use up memory or time.

    python -m evalspec.service.push_check FOLDER RESULT

writes why the run cannot be stored to the file RESULT, as a JSON list of lines.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from evalspec import __version__
from evalspec.base.errors import EvalspecError
from evalspec.base.foreign_text import inert
from evalspec.model import DatasetResult, Run, Summary
from evalspec.model.base import built
from evalspec.model.listed_runs import RunStatus
from evalspec.model.log import LOG_RECORD, ReplyRecord, TextRecord
from evalspec.runs.store.damage import list_damage
from evalspec.runs.store.log_records import read_log
from evalspec.runs.store.run_log import BASELINE_NAME, LOG_NAME, REPORT_NAME
from evalspec.runs.store.stored_run import StoredRun, open_run
from evalspec.service.run_heads import read_entry
from evalspec.service.run_records import RunHead
from evalspec.service.settings import Project

MOST_UNFOLDED = 2 * 1024**3
"""Largest size of all replies with their retrieved texts, in characters. The log has each text once, so a small log
could say that every reply retrieved a huge one a thousand times."""
_MOST_MEMORY = 4 * 1024**3
_FAULTS_SHOWN = 20
_ROUNDING = 1e-9


def list_faults(folder: Path) -> list[str]:
    """Return why a pushed run cannot be stored, one line per fault. Empty: it is finished, intact and readable."""
    try:
        faults = list_damage(folder)
        if not faults:
            faults = list(_list_oddities(folder))
    except EvalspecError as error:
        faults = [str(error)]
    except RecursionError:
        faults = ["its files are nested too deeply"]
    except MemoryError:
        faults = ["its check needs too much memory"]
    except Exception as error:  # whatever a foreign file provokes is the fault of the file
        faults = [f"cannot be read: {type(error).__name__}"]
    return [inert(fault) for fault in faults[:_FAULTS_SHOWN]]


def _list_oddities(folder: Path) -> Iterator[str]:
    """Yield what is wrong with a run whose checksums are right."""
    entry, _ = read_entry(Project("", folder.parent), folder)
    if entry.status is not RunStatus.FINISHED:
        yield entry.error or "the run is not finished"
        return
    stored = open_run(folder)
    if stored.baseline.exists() and not stored.fingerprint.baseline_sha256:
        yield f"{BASELINE_NAME}: the run has no baseline"
        return
    yield from _list_miscounts(stored)
    if count_unfolded(folder) > MOST_UNFOLDED:
        yield f"{LOG_NAME}: its replies have more than {MOST_UNFOLDED:,} characters with their retrieved texts"
        return
    from evalspec.runs.runner.reread import conclude_stored

    yield from _list_contradictions(stored, conclude_stored(stored))


def _list_contradictions(stored: StoredRun, concluded: Run) -> Iterator[str]:
    """Yield what the report of a run says and its log does not: lists show the report, and pages of samples the log.

    Another version of evalspec may have computed other values from the same log.
    """
    report: Any = msgspec.json.decode(stored.report.read_bytes(), type=built(RunHead))
    if report.id != stored.id:
        yield f"{REPORT_NAME}: this is the report of another run"
    elif [one.name for one in report.datasets] != [one.name for one in concluded.datasets]:
        yield f"{REPORT_NAME}: its datasets are not those of run.json"
    elif stored.fingerprint.versions.get("evalspec") == __version__:
        verdict = replace(concluded, verdict=report.verdict, partial=report.partial).verdict_text
        if verdict != concluded.verdict_text:
            yield f"{REPORT_NAME}: the verdict is {verdict}, and {concluded.verdict_text} by the samples"
        for said, found in zip(report.datasets, concluded.datasets, strict=True):
            yield from _list_other_values(said.metrics, found)


def _list_other_values(said: Mapping[str, Summary], found: DatasetResult) -> Iterator[str]:
    for name in sorted(said.keys() | found.metrics.keys()):
        values = [metrics[name].value if name in metrics else None for metrics in (said, found.metrics)]
        if not _are_equal(*values):
            yield f"{REPORT_NAME}: dataset {found.name}: {name} is {values[0]}, and {values[1]} by the samples"


def _are_equal(first: float | None, second: float | None) -> bool:
    return first == second if first is None or second is None else math.isclose(first, second, abs_tol=_ROUNDING)


def _list_miscounts(stored: StoredRun) -> Iterator[str]:
    """Yield each dataset whose number of samples is not the number that it says."""
    counts = {dataset.name: 0 for dataset in stored.outline.datasets}
    for dataset, _ in stored.read_samples():
        counts[dataset] += 1
    said = {one.name: one.selected for one in stored.fingerprint.datasets}
    for name in sorted(counts.keys() | said.keys()):
        if counts.get(name) != said.get(name):
            yield f"dataset {name}: {counts.get(name)} samples, and run.json says {said.get(name)}"


def count_unfolded(folder: Path) -> int:
    """Return the number of characters of all replies with their retrieved texts."""
    sizes: dict[str, int] = {}
    total = 0
    for _, record in read_log(folder / LOG_NAME, LOG_RECORD):
        if isinstance(record, TextRecord):
            sizes[record.digest] = len(record.text)
        elif isinstance(record, ReplyRecord):
            total += sum(sizes.get(digest, 0) for digest in record.retrieved_texts or ())
    return total


def _limit_memory() -> None:
    """Limit the memory of this process, where the system has such limits."""
    if sys.platform == "win32":
        return
    import resource

    with suppress(ValueError, OSError):  # macOS refuses a limit below what it has reserved
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))


def main() -> int:
    """Write the faults of the run in the first argument to the file of the second."""
    _limit_memory()
    Path(sys.argv[2]).write_text(json.dumps(list_faults(Path(sys.argv[1]))), encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
