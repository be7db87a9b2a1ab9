"""The report for test views of CI systems: JUnit XML with a case for each sample and metric, and one for each limit.

It contains failures or errors if and only if the exit code of the run is not 0. A score that exceeds a limit is a
failure only if the limit is broken for the whole dataset, because a mean that passes has samples below it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

from msgspec import Struct

from evalspec.base.foreign_text import cut, visible
from evalspec.base.text import one_line
from evalspec.model import DatasetResult, Run, SampleResult, Score, ScoreStatus, Threshold, VerdictStatus
from evalspec.reports.base import Reporter, StoredExchanges, no_exchanges
from evalspec.reports.findings import (
    OPINION,
    describe_beyond,
    describe_failure,
    describe_limit,
    describe_regression,
    describe_unscored,
    list_demonstrations,
    scores_beyond_limits,
)

_GATE = "gate"
_FAILURE, _ERROR, _SKIPPED = "failure", "error", "skipped"
_LONGEST_MESSAGE = 300
_LONGEST_NAME = 80
_HASH = re.compile(r"[0-9a-f]{12}")
_LONGEST_TEXT = 20_000
_OF_STATUS = {
    VerdictStatus.FAIL: _FAILURE,
    VerdictStatus.INCOMPLETE: _ERROR,
    VerdictStatus.NOT_GATED: _SKIPPED,
    VerdictStatus.SHARD: _SKIPPED,
}


class _Outcome(Struct, frozen=True):
    """The outcome of a case that did not pass. `tag`: failure, error or skipped. `kind`: its type attribute."""

    tag: str
    kind: str
    text: str


class _Case(Struct, frozen=True):
    """A case. `note`: what its output says beside the outcome."""

    classname: str
    name: str
    outcome: _Outcome | None
    file: str | None = None
    line: int | None = None
    seconds: float | None = None
    note: str | None = None


def render_junit(run: Run, exchanges: StoredExchanges = no_exchanges) -> bytes:
    """Return the run as an XML document in UTF-8. Characters that XML cannot represent are escaped.

    `exchanges`: have the questions, with which the names of samples without an id begin.
    """
    names = _name_samples(exchanges)
    suites = [(dataset.name, dataset.file, list(_cases(dataset, run, names))) for dataset in run.datasets]
    suites.append((_GATE, None, list(_gate_cases(run))))
    stream = BytesIO()
    xml = XMLGenerator(stream, "utf-8", short_empty_elements=True)
    xml.startDocument()
    everything = [case for _, _, cases in suites for case in cases]
    _open(xml, "testsuites", 0, {"name": "evalspec", **_counts(everything, with_skipped=False)})
    for name, file, cases in suites:
        _open(xml, "testsuite", 1, {"name": name, **_counts(cases), "file": file})
        if name == _GATE and file is None:
            _write_properties(xml, run)
        for case in cases:
            _write_case(xml, case)
        _close(xml, "testsuite", 1)
    _close(xml, "testsuites", 0)
    xml.ignorableWhitespace("\n")
    xml.endDocument()
    return stream.getvalue()


def _name_samples(exchanges: StoredExchanges) -> dict[tuple[str, str], str]:
    """Return the names of samples whose id is a hash: the beginning of the question, and the id, which is unique."""
    asked = ((one.dataset, one.exchange.sample) for one in exchanges())
    found = {(name, sample.id): one_line(sample.question) for name, sample in asked if _HASH.fullmatch(sample.id)}
    return {key: f"{cut(question, _LONGEST_NAME)} [{key[1]}]" for key, question in found.items() if question}


def _cases(dataset: DatasetResult, run: Run, names: Mapping[tuple[str, str], str]) -> Iterator[_Case]:
    """Yield the cases of a dataset. Only the first case of a sample has its latency, so that sums are correct."""
    beyond = scores_beyond_limits(dataset)
    for sample in dataset.samples:
        seconds = None if sample.latency_ms is None else sample.latency_ms / 1000
        for metric, score in sample.scores.items():
            outcome = _outcome(sample, score, beyond.get((sample.id, metric)))
            classname = f"{dataset.name}.{metric}"
            name = names.get((dataset.name, sample.id), sample.id)
            yield _Case(classname, name, _tolerated(outcome, run), dataset.file, sample.line, seconds)
            seconds = None


def _outcome(sample: SampleResult, score: Score, broken: Threshold | None) -> _Outcome | None:
    if score.status is ScoreStatus.FAILED:
        no_reply = f"no usable reply: {sample.error}" if sample.error else None
        return _Outcome(_ERROR, score.status, no_reply or describe_failure(score))
    if score.status is not ScoreStatus.SCORED:
        return _Outcome(_SKIPPED, score.status, describe_unscored(score))
    return _Outcome(_FAILURE, "threshold", describe_beyond(score, broken)) if broken else None


def _gate_cases(run: Run) -> Iterator[_Case]:
    """Yield the verdict, then each limit, then each regression."""
    verdict = run.verdict
    is_undecided = verdict in (VerdictStatus.NOT_GATED, VerdictStatus.SHARD) and run.exit_code
    status = VerdictStatus.INCOMPLETE if is_undecided else verdict
    yield _Case(_GATE, "verdict", _tolerated(_gate_outcome(status, "\n".join(run.reasons)), run))
    for dataset in run.datasets:
        for limit in dataset.thresholds:
            outcome = _tolerated(_gate_outcome(limit.status, limit.reason), run)
            note = OPINION if limit.is_opinion else None
            yield _Case(f"{_GATE}.{dataset.name}", describe_limit(limit), outcome, dataset.file, note=note)
    for regression in run.regressions:
        outcome = _tolerated(_gate_outcome(regression.status, regression.reason), run)
        suite = f"{_GATE}.{regression.dataset}" if regression.dataset else _GATE
        yield _Case(suite, describe_regression(regression), outcome)


def _gate_outcome(status: VerdictStatus, reason: str | None) -> _Outcome | None:
    return _Outcome(_OF_STATUS[status], status, reason or status) if status in _OF_STATUS else None


def _tolerated(outcome: _Outcome | None, run: Run) -> _Outcome | None:
    """Return the outcome, as skipped if the run exits with 0. Otherwise CI would fail although the run does not."""
    if outcome is None or outcome.tag == _SKIPPED or run.exit_code:
        return outcome
    return _Outcome(_SKIPPED, outcome.kind, f"tolerated, the verdict is {run.verdict_text}: {outcome.text}")


def _counts(cases: Sequence[_Case], *, with_skipped: bool = True) -> Mapping[str, str | None]:
    """Return the counts of a suite. In Jenkins' schema, the root element has no attribute for skipped cases."""
    tags = [case.outcome.tag for case in cases if case.outcome]
    seconds = [case.seconds for case in cases if case.seconds is not None]
    return {
        "tests": str(len(cases)),
        "failures": str(tags.count(_FAILURE)),
        "errors": str(tags.count(_ERROR)),
        "skipped": str(tags.count(_SKIPPED)) if with_skipped else None,
        "time": f"{sum(seconds):.3f}" if seconds else None,
    }


def _write_properties(xml: XMLGenerator, run: Run) -> None:
    demonstrations = list_demonstrations(run)
    properties = {
        "runId": run.id,
        "verdict": run.verdict,
        "exitCode": str(int(run.exit_code)),
        "partial": str(run.partial).lower(),
        "texts": "kept" if run.has_texts else "left out (--no-content)",
        **({"demonstration": "; ".join(demonstrations)} if demonstrations else {}),
        **({"measurement": "; ".join(change.render() for change in run.measurement)} if run.measurement else {}),
    }
    _open(xml, "properties", 2, {})
    for name, value in properties.items():
        _open(xml, "property", 3, {"name": name, "value": value})
        xml.endElement("property")
    _close(xml, "properties", 2)


def _write_case(xml: XMLGenerator, case: _Case) -> None:
    attributes = {
        "classname": case.classname,
        "name": case.name,
        "time": None if case.seconds is None else f"{case.seconds:.3f}",
        "file": case.file,
        "line": None if case.line is None else str(case.line),
    }
    _open(xml, "testcase", 2, attributes)
    if outcome := case.outcome:
        message = cut(" ".join(outcome.text.split()), _LONGEST_MESSAGE)
        _open(xml, outcome.tag, 3, {"type": outcome.kind, "message": message})
        if message != outcome.text:
            xml.characters(visible(cut(outcome.text, _LONGEST_TEXT)))
        xml.endElement(outcome.tag)
    elif case.note:
        _open(xml, "system-out", 3, {})
        xml.characters(case.note)
        xml.endElement("system-out")
    else:
        xml.endElement("testcase")
        return
    _close(xml, "testcase", 2)


def _open(xml: XMLGenerator, name: str, depth: int, attributes: Mapping[str, str | None]) -> None:
    """Write a start tag on its own line. Attributes that are None are omitted."""
    xml.ignorableWhitespace("\n" * (depth > 0) + "  " * depth)
    known = {key: visible(value) for key, value in attributes.items() if value is not None}
    xml.startElement(name, AttributesImpl(known))


def _close(xml: XMLGenerator, name: str, depth: int) -> None:
    xml.ignorableWhitespace("\n" + "  " * depth)
    xml.endElement(name)


JUNIT = Reporter("junit", (".junit.xml",), render_junit)
