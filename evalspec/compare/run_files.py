"""A file that holds a run: a report, a promoted baseline, or the report of another tool; told by what is in it."""

from pathlib import Path

from evalspec.compare.baseline import KIND, build_baseline, refuse_missing
from evalspec.compare.comparison import NamedRun
from evalspec.compare.foreign import build_agentspec, build_unrag, is_agentspec, is_unrag
from evalspec.errors import InvalidInput, Problem
from evalspec.records import Run
from evalspec.reporters.checked_json import parse_document, read_bytes
from evalspec.reporters.report_reading import build_run

REPORT, BASELINE = "report", "baseline"

_NO_SAMPLES = "no scores of single samples, so nothing can be tested"


def read_run_file(path: Path, name: str | None = None) -> NamedRun:
    """The run of a file. `name`: what it is called, its path where not given.

    Raises:
        InvalidInput: it cannot be read, or is none of these.
    """
    shown_as = name or str(path)
    document = parse_document(read_bytes(path), shown_as)
    if document.get("kind") == KIND:
        return NamedRun(shown_as, build_baseline(document, shown_as), BASELINE)
    if "schemaVersion" in document and "runId" in document:
        run = build_run(document, shown_as)
        bare = any(not dataset.samples for dataset in run.datasets)
        return NamedRun(shown_as, run, REPORT, (f"{shown_as}: {_NO_SAMPLES}",) if bare else ())
    if is_unrag(document):
        return build_unrag(document, shown_as)
    if is_agentspec(document):
        return build_agentspec(document, shown_as)
    message = "neither a report of evalspec nor a baseline, nor a report of Unrag or AgentSpec"
    raise InvalidInput(Problem(message, "name a file written by `evalspec evaluate -o PATH.json`", shown_as))


def read_baseline(path: Path) -> Run:
    """The run that a gate holds others against: a promoted baseline, or any file that `read_run_file` reads.

    Raises:
        InvalidInput: there is none, or it cannot be read.
    """
    if not path.exists():
        raise refuse_missing(path)
    return read_run_file(path).run
