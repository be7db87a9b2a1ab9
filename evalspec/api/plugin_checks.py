"""Checks of plug-ins for their own tests: what all checks share, and those of reporters and exporters."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from evalspec.base.foreign_text import without_control_codes
from evalspec.inputs.manifest.export_schema import ExportConfig
from evalspec.inputs.user_code.calls import describe_exception, describe_value
from evalspec.model import (
    DatasetResult,
    Run,
    SampleResult,
    SampleStatus,
    Score,
    Summary,
    Threshold,
    VerdictStatus,
)
from evalspec.reports.base import Reporter, no_exchanges
from evalspec.reports.exports.base import Exporter

T = TypeVar("T")

_HOSTILE = "\x1b[2J\u202e\ud800::error::\r\nPASS"
"""Steers a terminal, reorders a line, is no UTF-8, and begins a line of its own."""


_NOBODY = "http://127.0.0.1:9"
"""Nothing listens there."""


def require(condition: object, message: str) -> None:
    """Raise an AssertionError with the message unless the condition is true."""
    if not condition:
        raise AssertionError(message)


def require_type(value: Any, kind: type[T], what: str) -> T:
    """Return a value, which must have the type. `what`: names what returned it."""
    require(isinstance(value, kind), f"{what} returned {describe_value(value)}; return a {kind.__name__}")
    found: T = value
    return found


@contextmanager
def attribute_errors(what: str, *permitted: type[Exception]) -> Iterator[None]:
    """Report an exception as a broken contract, unless it is a permitted one."""
    passing: tuple[type[Exception], ...] = (AssertionError, *permitted)
    try:
        yield
    except passing:
        raise
    except Exception as error:
        raise AssertionError(f"{what} raised {describe_exception(error)}") from error


def check_reporter(reporter: Reporter) -> str | bytes:
    """Return the report of a failed run whose names and reasons steer terminals.

    Text must not contain a sign that does, and equal runs must have equal reports.

    Raises:
        AssertionError: the reporter breaks its contract.
    """
    name = reporter.name
    require(reporter.suffixes, f"{name} has no suffix")
    require(all(one.startswith(".") for one in reporter.suffixes), f"a suffix of {name} does not begin with a dot")
    failed, empty = _make_run(_HOSTILE), Run(id="r", verdict=VerdictStatus.NOT_GATED, exit_code=0, datasets=())
    with attribute_errors(f"{name}.render"):
        contents = [reporter.render(run, lambda: ()) for run in (empty, failed, failed)]
    for content in contents:
        require(isinstance(content, str | bytes), f"{name}.render returned {describe_value(content)}; return a str")
    _, content, again = contents
    require(content == again, f"{name}.render gives one run two reports")
    is_clean = isinstance(content, bytes) or without_control_codes(content) == content
    require(is_clean, f"{name}.render passes on control characters")
    return content


def _make_run(text: str) -> Run:
    limit = Threshold(text, min=0.5, status=VerdictStatus.FAIL, value=0.1, scored=1, expected=2, reason=text)
    samples = (
        SampleResult(id=text, status=SampleStatus.ANSWERED, scores={text: Score.scored(0.1, text)}, line=1),
        SampleResult(id=f"{text}2", status=SampleStatus.FAILED, scores={text: Score.failed(text)}, error=text),
    )
    summaries = {text: Summary(value=0.1, scored=1, failed=1)}
    dataset = DatasetResult(name=text, samples=samples, metrics=summaries, thresholds=(limit,), file=text)
    return Run(id="r", verdict=VerdictStatus.FAIL, reasons=(text,), exit_code=1, datasets=(dataset.with_limits(),))


def check_exporter(exporter: Exporter, to: ExportConfig) -> str:
    """Return what the exporter says of a failed run whose names and reasons steer terminals.

    `to`: a server of your test, which gets this run and one without datasets. If no server answers, it must raise.

    Raises:
        AssertionError: the exporter breaks its contract.
    """
    what, failed = f"{exporter.name}.send", _make_run(_HOSTILE)
    raised = None
    try:
        asyncio.run(exporter.send(failed, no_exchanges, to.model_copy(update={"url": _NOBODY})))
    except Exception as error:
        raised = error
    require(raised, f"{what} raises nothing if no server answers")
    with attribute_errors(what):
        for run in (Run(id="r", verdict=VerdictStatus.NOT_GATED, exit_code=0, datasets=()), failed):
            said = require_type(asyncio.run(exporter.send(run, no_exchanges, to)), str, what)
    return str(said)
