"""Output for GitHub Actions: a step summary, outputs for later steps, annotations of dataset files and lines.

Annotations are workflow commands. The runner reads them from standard output and standard error. They go to standard
error, because with `--json` standard output is one document.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import starmap
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evalspec.base.foreign_text import cut, encodable, inert, visible
from evalspec.base.json_text import render_lines
from evalspec.base.output_files import append_file
from evalspec.model import Run, VerdictStatus
from evalspec.reports.base import Reporter
from evalspec.reports.findings import VERDICT, Finding, Level, list_findings
from evalspec.reports.markdown import render_markdown

_MOST_ANNOTATIONS = 10
"""The number of annotations that GitHub shows of each kind in a step."""
_MOST_OF_CHECK = 50
"""The number of annotations that GitHub takes in a request."""
_LONGEST_MESSAGE = 1_000
_LONGEST_TITLE = 255
_URL = ":/?#[]@!$&'()*+,;=%"
_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def write_github(run: Run, environment: Mapping[str, str]) -> list[str]:
    """Append to the files of a GitHub Actions step, and return the lines to print on standard error.

    `environment`: os.environ of the step, with the paths of the files. A file that cannot be written adds a warning.
    """
    warnings = [
        *_append("step summary", environment.get("GITHUB_STEP_SUMMARY"), lambda: f"{render_markdown(run)}\n"),
        *_append("outputs", environment.get("GITHUB_OUTPUT"), lambda: "".join(_outputs(run))),
    ]
    limits = (finding for finding in list_findings(run) if finding.rule != VERDICT)
    return [*warnings, *_annotations([*_verdict(run), *limits])]


def write_summary(markdown: str, environment: Mapping[str, str]) -> list[str]:
    """Append text to the step summary, and return the lines to print on standard error, like `write_github`."""
    return list(_append("step summary", environment.get("GITHUB_STEP_SUMMARY"), lambda: f"{markdown}\n"))


def write_run_url(page: str, environment: Mapping[str, str]) -> list[str]:
    """Append the address of the run on a server to the files of a step. Return lines like `write_github`."""
    return [
        *write_summary(f"[The run on the server](<{quote(page, safe=_URL)}>)\n", environment),
        *_append("outputs", environment.get("GITHUB_OUTPUT"), lambda: _output("run-url", page)),
    ]


def render_check_run(run: Run) -> str:
    """Return the body of a request that creates a check run, without the commit: GitHub's REST API adds it by name.

    Only a run that exits with 0 can succeed. Findings without a line are in the summary, as GitHub needs one.
    """
    passed = "success" if run.verdict is VerdictStatus.PASS else "neutral"
    located = [finding for finding in list_findings(run) if finding.file and finding.sample and finding.sample.line]
    left_out = len(located) - _MOST_OF_CHECK
    more = f"\n{left_out:,} more annotations have no room.\n" if left_out > 0 else ""
    document = {
        "name": "evalspec",
        "status": "completed",
        "conclusion": "failure" if run.exit_code else passed,
        "output": {
            "title": run.verdict_text,
            "summary": render_markdown(run) + more,
            "annotations": [*map(_annotate_check, located[:_MOST_OF_CHECK])],
        },
    }
    return render_lines(document) + "\n"


def _annotate_check(finding: Finding) -> dict[str, Any]:
    line = finding.sample and finding.sample.line
    return {
        "path": encodable(finding.file or ""),
        "start_line": line,
        "end_line": line,
        "annotation_level": _COMMANDS[finding.level].replace("error", "failure"),
        "title": cut(inert(finding.title), _LONGEST_TITLE),
        "message": cut(inert(finding.message), _LONGEST_MESSAGE),
    }


def _verdict(run: Run) -> Iterator[Finding]:
    """Yield the verdict with all its reasons, unless the run passes."""
    if run.exit_code:
        level = Level.ERROR if run.verdict is VerdictStatus.FAIL else Level.WARNING
        yield Finding(level, VERDICT, "", None, "\n".join([run.verdict_text, *run.reasons]))


def _append(what: str, path: str | None, render: Callable[[], str]) -> Iterator[str]:
    if not path:
        return
    try:
        append_file(Path(path), render().encode())
    except OSError as error:
        message = f"cannot write the {what} of this run to {path}: {error.strerror}"
        yield _command("warning", message, title="evalspec")


def _outputs(run: Run) -> Iterator[str]:
    """Return each output between random delimiters, so that no value can inject another output."""
    values = {
        "verdict": str(run.verdict),
        "partial": str(run.partial).lower(),
        "exit-code": str(int(run.exit_code)),
        "run-id": run.id,
        "metrics": json.dumps(
            {
                dataset.name: {metric: summary.value for metric, summary in dataset.metrics.items()}
                for dataset in run.datasets
            },
            allow_nan=False,
        ),
    }
    return starmap(_output, values.items())


def _output(name: str, value: str) -> str:
    delimiter = f"evalspec_{secrets.token_hex(16)}"
    return f"{name}<<{delimiter}\n{encodable(value)}\n{delimiter}\n"


def _annotations(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield at most ten annotations of each kind. If there are more, the last one has the number of the others."""
    by_level: dict[Level, list[Finding]] = {level: [] for level in Level}
    for finding in findings:
        by_level[finding.level].append(finding)
    for level, found in by_level.items():
        fits = len(found) <= _MOST_ANNOTATIONS
        shown = found if fits else found[: _MOST_ANNOTATIONS - 1]
        for finding in shown:
            line = finding.sample.line if finding.sample else None
            yield _command(_COMMANDS[level], finding.message, file=finding.file, line=line, title=finding.title)
        if not fits:
            rest = f"and {len(found) - len(shown):,} more; reports (-o) list all of them"
            yield _command(_COMMANDS[level], rest, title="evalspec")


def _command(name: str, message: str, **properties: str | int | None) -> str:
    """Return a workflow command on one line, with its texts escaped."""
    given = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items() if value is not None)
    return f"::{name} {given}::{_data(cut(message, _LONGEST_MESSAGE))}"


def _data(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


CHECK_RUN = Reporter("check run", (".check.json",), lambda run, _exchanges: render_check_run(run))
