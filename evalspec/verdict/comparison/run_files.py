"""Read a run from a report, a promoted baseline or another tool's report. Formats are detected from content.

Information that another tool omits is not invented: notes list what is missing.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from evalspec.base.errors import InvalidInput, Problem
from evalspec.inputs.datasets.base import DATASETS, ForeignMetric, ForeignReport, ForeignRun, Malformed
from evalspec.inputs.logs import LOGS, find_log, read_log
from evalspec.model import Attempt, Cause, DatasetResult, Direction, Run, SampleResult, Score, StoredExchange
from evalspec.model.log import to_attempt
from evalspec.model.report_reading import build_run
from evalspec.model.typed_json import convert, malformed, parse_document, read_bytes
from evalspec.verdict.attempts import combine_attempts
from evalspec.verdict.comparison.baseline import KIND, Baseline, build_baseline, refuse_missing
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.outline import DatasetOutline, MetricOutline
from evalspec.verdict.summary import add_slices, limited_slices, reply_limits, summarise

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
    log = find_log(path)
    if log is not None:
        return _build(log.title, read_log(log, path, shown_as), shown_as)
    document = parse_document(read_bytes(path), shown_as)
    if document.get("kind") == KIND:
        baseline = build_baseline(document, shown_as)
        return NamedRun(shown_as, baseline.run, BASELINE, anchor=baseline.anchor, people=baseline.people)
    if "schemaVersion" in document and "runId" in document:
        run = build_run(document, shown_as)
        bare = any(not dataset.samples for dataset in run.datasets)
        return NamedRun(shown_as, run, REPORT, (f"{shown_as}: {_NO_SAMPLES}",) if bare else ())
    foreign = _read_foreign(document, shown_as)
    if foreign is not None:
        return foreign
    titles = [*(known.report.title for known in DATASETS if known.report is not None), *(log.title for log in LOGS)]
    others = ", ".join(titles)
    message = f"not a report of evalspec, a baseline or a report of another tool ({others})"
    raise InvalidInput(Problem(message, "use a file written by `evalspec evaluate -o PATH.json`", shown_as))


def read_baseline(path: Path) -> Baseline:
    """Return the baseline of a gate: a promoted baseline, or any file that `read_run_file` reads.

    Raises:
        InvalidInput: the file is missing or cannot be read.
    """
    if not path.exists():
        raise refuse_missing(path)
    if find_log(path) is None:
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
                return _build(known.report.title, _parse(known.report, document, shown_as), shown_as)
    return None


def _parse(report: ForeignReport, document: Mapping[str, Any], shown_as: str) -> ForeignRun:
    parsed = convert(document, report.schema, shown_as)
    try:
        return report.build(parsed)
    except Malformed as error:
        raise malformed(str(error), shown_as, error.field) from error


def _build(title: str, found: ForeignRun, shown_as: str) -> NamedRun:
    has_digests = any(one.exchange.sample.digest for one in found.exchanges)
    missing = [_NO_SAMPLES] if found.summaries else [] if has_digests else [_NO_HASH]
    notes = [*([found.unfinished] if found.unfinished else []), *missing, *found.notes]
    named = tuple(f"{title}: {note}" for note in notes)
    if found.summaries:
        dataset = DatasetResult(name=found.dataset, metrics=found.summaries, samples=())
        run = Run(id=shown_as, datasets=(dataset,), has_texts=False)
        return NamedRun(shown_as, run, title, named)
    outline = outline_dataset(found)
    samples = combine_samples(found, outline, shown_as)
    dataset = DatasetResult(name=found.dataset, metrics=summarise(samples, outline.metrics), samples=samples)
    run = Run(id=shown_as, datasets=(dataset,), fingerprint=found.fingerprint)

    def read(wanted: Collection[tuple[str, str]]) -> Iterator[StoredExchange]:
        return (one for one in found.exchanges if (one.dataset, one.exchange.sample.id) in wanted)

    return NamedRun(shown_as, run, title, named, texts=read)


def outline_dataset(found: ForeignRun) -> DatasetOutline:
    """Return the dataset of another tool's run with its metrics, without thresholds."""
    names = dict.fromkeys(metric for stored_exchange in found.exchanges for metric in stored_exchange.scores)
    return DatasetOutline(
        name=found.dataset,
        metrics=tuple(_outline(name, found.metrics.get(name, ForeignMetric())) for name in names),
        slices=None,
    )


def _outline(name: str, metric: ForeignMetric) -> MetricOutline:
    if name == _LATENCY:
        return MetricOutline(name, "p95", Direction.LOWER, (0.0, None))
    return MetricOutline(name, "mean", metric.direction, metric.bounds, judged=metric.judged)


def combine_samples(found: ForeignRun, outline: DatasetOutline, shown_as: str) -> tuple[SampleResult, ...]:
    """Return the samples of another tool's run, each with all its attempts.

    Raises:
        InvalidInput: An attempt occurs twice.
    """
    by_sample: dict[str, list[StoredExchange]] = {}
    for one in found.exchanges:
        by_sample.setdefault(one.exchange.sample.id, []).append(one)
    _refuse_twins(by_sample, shown_as)
    limited = limited_slices(outline.thresholds)
    limits = reply_limits(outline.thresholds, {metric.name: metric.statistic for metric in outline.metrics})
    return tuple(
        combine_attempts(
            add_slices(attempts[0].exchange.sample, limited), [_to_attempt(one, outline) for one in attempts], limits
        )
        for attempts in by_sample.values()
    )


def _to_attempt(one: StoredExchange, outline: DatasetOutline) -> Attempt:
    missing = Score.not_applicable("not in the report", Cause.OTHER)
    scores = {metric.name: one.scores.get(metric.name, missing) for metric in outline.metrics}
    return to_attempt(one.exchange, scores)


def _refuse_twins(by_sample: Mapping[str, list[StoredExchange]], shown_as: str) -> None:
    for name, attempts in by_sample.items():
        attempts.sort(key=lambda one: one.attempt)
        if len(attempts) > len({one.attempt for one in attempts}):
            message = f"sample id '{name}' occurs {len(attempts)} times, so the sample cannot be paired"
            raise InvalidInput(Problem(message, "give each sample a unique id and run it again", shown_as))
