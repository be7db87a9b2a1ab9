"""Read a run from a report, a promoted baseline or another tool's report. Formats are detected from content.

Information that another tool omits is not invented: notes list what is missing.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalspec.base.errors import InvalidInput, Problem
from evalspec.inputs.datasets.base import DATASETS, ForeignReport, ForeignRun, Malformed
from evalspec.model import (
    Cause,
    DatasetResult,
    Direction,
    Run,
    SampleResult,
    SampleStatus,
    Score,
    StoredExchange,
)
from evalspec.model.report_reading import build_run
from evalspec.model.typed_json import convert, malformed, parse_document, read_bytes
from evalspec.verdict.comparison.baseline import KIND, Baseline, build_baseline, refuse_missing
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.outline import MetricOutline
from evalspec.verdict.summary import summarise

REPORT, BASELINE = "report", "baseline"

_NO_SAMPLES = "no scores per sample, so nothing can be tested"
_NO_HASH = "has no hash of its dataset: samples are compared by id only"
_LATENCY = "latency_p95"


def read_run_file(path: Path, name: str | None = None) -> NamedRun:
    """Return the run of a file. `name`: the name to show, by default the path.

    Raises:
        InvalidInput: the file cannot be read, or has none of these formats.
    """
    shown_as = name or str(path)
    document = parse_document(read_bytes(path), shown_as)
    if document.get("kind") == KIND:
        baseline = build_baseline(document, shown_as)
        return NamedRun(shown_as, baseline.run, BASELINE, anchor=baseline.anchor)
    if "schemaVersion" in document and "runId" in document:
        run = build_run(document, shown_as)
        bare = any(not dataset.samples for dataset in run.datasets)
        return NamedRun(shown_as, run, REPORT, (f"{shown_as}: {_NO_SAMPLES}",) if bare else ())
    foreign = _read_foreign(document, shown_as)
    if foreign is not None:
        return foreign
    others = ", ".join(known.report.title for known in DATASETS if known.report is not None)
    message = f"not a report of evalspec, a baseline or a report of another tool ({others})"
    raise InvalidInput(Problem(message, "use a file written by `evalspec evaluate -o PATH.json`", shown_as))


def read_baseline(path: Path) -> Baseline:
    """Return the baseline of a gate: a promoted baseline, or any file that `read_run_file` reads.

    Raises:
        InvalidInput: the file is missing or cannot be read.
    """
    if not path.exists():
        raise refuse_missing(path)
    document = parse_document(read_bytes(path), str(path))
    if document.get("kind") == KIND:
        return build_baseline(document, str(path))
    return Baseline(read_run_file(path).run)


def _read_foreign(document: Mapping[str, Any], shown_as: str) -> NamedRun | None:
    """Return the run of another tool's report, or None if no format matches.

    Raises:
        InvalidInput: the tool does not write such a report, or two samples share an id.
    """
    for known in DATASETS:
        if known.report is None:
            continue
        with DATASETS.attribute_errors(known.name):
            if known.report.recognises(document):
                return _build(known.report, _parse(known.report, document, shown_as), shown_as)
    return None


def _parse(report: ForeignReport, document: Mapping[str, Any], shown_as: str) -> ForeignRun:
    parsed = convert(document, report.schema, shown_as)
    try:
        return report.build(parsed)
    except Malformed as error:
        raise malformed(str(error), shown_as, error.field) from error


def _build(report: ForeignReport, found: ForeignRun, shown_as: str) -> NamedRun:
    notes = [*([_NO_SAMPLES] if found.summaries else [_NO_HASH]), *found.notes]
    named = tuple(f"{report.title}: {note}" for note in notes)
    if found.summaries:
        dataset = DatasetResult(name=found.dataset, metrics=found.summaries, samples=())
        run = Run(id=shown_as, datasets=(dataset,), has_texts=False)
        return NamedRun(shown_as, run, report.title, named)
    _refuse_twins(found.exchanges, shown_as)
    metrics = dict.fromkeys(metric for stored_exchange in found.exchanges for metric in stored_exchange.scores)
    samples = tuple(_result(stored_exchange, metrics) for stored_exchange in found.exchanges)
    summaries = summarise(samples, map(_outline, metrics))
    dataset = DatasetResult(name=found.dataset, metrics=summaries, samples=samples)
    run = Run(id=shown_as, datasets=(dataset,), fingerprint=found.fingerprint)

    def read(wanted: Collection[tuple[str, str]]) -> Iterator[StoredExchange]:
        return (one for one in found.exchanges if (one.dataset, one.exchange.sample.id) in wanted)

    return NamedRun(shown_as, run, report.title, named, texts=read)


def _refuse_twins(exchanges: Sequence[StoredExchange], shown_as: str) -> None:
    ids = Counter(stored_exchange.exchange.sample.id for stored_exchange in exchanges)
    twice = next((found for found, times in ids.items() if times > 1), None)
    if twice is not None:
        message = f"sample id '{twice}' occurs {ids[twice]} times, so the sample cannot be paired"
        raise InvalidInput(Problem(message, "give each sample a unique id and run it again", shown_as))


def _outline(metric: str) -> MetricOutline:
    if metric == _LATENCY:
        return MetricOutline(metric, "p95", Direction.LOWER, (0.0, None))
    return MetricOutline(metric, "mean", Direction.HIGHER, (0.0, 1.0))


def _result(stored_exchange: StoredExchange, metrics: Mapping[str, None]) -> SampleResult:
    exchange = stored_exchange.exchange
    missing = Score.not_applicable("not in the report", Cause.OTHER)
    return SampleResult(
        id=exchange.sample.id,
        status=SampleStatus.ANSWERED if exchange.reply else SampleStatus.FAILED,
        latency_ms=exchange.reply.latency_ms if exchange.reply else None,
        error=exchange.error,
        scores={metric: stored_exchange.scores.get(metric, missing) for metric in metrics},
    )
