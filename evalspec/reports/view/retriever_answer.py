"""The answer to a comparison of retrievers, before its details: a row for each retriever, the best ones first."""

from collections.abc import Iterator, Mapping, Sequence

from evalspec.model import TOTAL, DatasetResult, Direction, Run, VerdictStatus
from evalspec.reports.view.parts import (
    TONES,
    Cell,
    Column,
    Foreign,
    Line,
    Row,
    Section,
    Table,
    Tone,
    Wrap,
    cell,
    name,
    names,
    numbers,
)
from evalspec.verdict.wording import MARKS, UNKNOWN, render_known

_METRICS = 6
"""Maximum number of metrics in the table."""
_WORST_FIRST = (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE, VerdictStatus.PASS)


def build_answer(runs: Mapping[str, Run], metric: str | None, best: Mapping[str, str | None]) -> Iterator[Section]:
    """Yield a table for each dataset, with a row for each retriever.

    `runs`: by retriever. `metric`: the one that retrievers are ordered by; None: their given order. `best`: the chosen
    retriever by dataset.
    """
    first = next(iter(runs.values()))
    for dataset in first.datasets:
        found = {retriever: _find(run, dataset.name) for retriever, run in runs.items()}
        metrics = _list_metrics(dataset, metric)
        columns = (
            names("retriever"),
            Column(),
            *(Column(Foreign(one), right=True, wrap=Wrap.WORDS, extra=True) for one in metrics),
            *numbers("scored", "p95"),
        )
        chosen = best.get(dataset.name)
        ranks = {one: (one != chosen, *(_badness(result, metric) if metric else ())) for one, result in found.items()}
        ordered = sorted(found, key=lambda one: ranks[one])
        rows = tuple(_row(one, runs[one], found[one], metrics, chosen) for one in ordered)
        title = ("Retrievers on ", *name(dataset.name))
        yield Section("retrievers", title, (Table(columns, rows),), "the retrievers", rank=0)


def build_headline(verdict: VerdictStatus, *, partial: bool) -> tuple[Cell, ...]:
    """Return the verdict over all retrievers, as the beginning of the headline."""
    left_out = (cell("PARTIAL", tone=Tone.WARN),) if partial else ()
    return cell(verdict.replace("_", " "), tone=TONES[verdict]), *left_out


def render_answers_lead(answers: Sequence[str]) -> tuple[Line, ...]:
    """Return the chosen retrievers as lines."""
    return tuple(Line((Foreign(answer),), tone=Tone.PASS) for answer in answers)


def _find(run: Run, dataset: str) -> DatasetResult:
    return next(one for one in run.datasets if one.name == dataset)


def _list_metrics(dataset: DatasetResult, metric: str | None) -> list[str]:
    limited = {threshold.metric for threshold in dataset.thresholds}
    scored = [one for one, summary in dataset.metrics.items() if summary.scored]
    return sorted(scored, key=lambda one: (one != metric, one not in limited))[:_METRICS]


def _badness(dataset: DatasetResult, metric: str) -> tuple[bool, float]:
    """Return a sort key: retrievers that are not scored on every sample come last."""
    summary = dataset.metrics.get(metric)
    if summary is None or summary.value is None:
        return True, 0.0
    partial = summary.scored < summary.expected
    return partial, -summary.value if summary.direction is Direction.HIGHER else summary.value


def _find_verdict(run: Run, dataset: DatasetResult) -> VerdictStatus:
    """Return the verdict of a run on one of its datasets: the worst status of its thresholds."""
    if len(run.datasets) == 1 or run.verdict is VerdictStatus.NOT_GATED:
        return run.verdict
    statuses = {threshold.status for threshold in dataset.thresholds}
    return next((status for status in _WORST_FIRST if status in statuses), VerdictStatus.NOT_GATED)


def _row(retriever: str, run: Run, dataset: DatasetResult, metrics: Sequence[str], best: str | None) -> Row:
    tone = Tone.PASS if retriever == best else Tone.PLAIN
    values = (dataset.metrics.get(metric) for metric in metrics)
    total = next((stage.p95 for stage in dataset.stages if stage.stage == TOTAL), None)
    verdict = _find_verdict(run, dataset)
    return Row(
        (
            cell(*name(retriever), " (best)" if retriever == best else "", tone=tone),
            cell(verdict.replace("_", " "), mark=MARKS[verdict], tone=TONES[verdict]),
            *(
                cell(render_known(metric, summary.value if summary else None), tone=tone)
                for metric, summary in zip(metrics, values, strict=True)
            ),
            _scored_cell(dataset, metrics),
            cell(render_known("latency", total), tone=tone),
        )
    )


def _scored_cell(dataset: DatasetResult, metrics: Sequence[str]) -> Cell:
    """Return how many samples the first metric of the table is scored on."""
    summary = dataset.metrics.get(metrics[0]) if metrics else None
    if summary is None:
        return cell(UNKNOWN)
    tone = Tone.WARN if summary.scored < summary.expected else Tone.PLAIN
    return cell(f"{summary.scored:,}/{summary.expected:,}", tone=tone)
