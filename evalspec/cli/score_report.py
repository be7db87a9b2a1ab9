"""What `evalspec score` measured as the report document of `evaluate`: one dataset, no thresholds."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalspec import __version__
from evalspec.errors import ExitCode
from evalspec.ranking.engine import Measured, MeasureSpec
from evalspec.records import (
    DatasetResult,
    Direction,
    Run,
    SampleResult,
    SampleStatus,
    Score,
    Summary,
    Verdict,
    VerdictStatus,
)
from evalspec.reporters.document import build_report
from evalspec.reporters.json_report import render_json
from evalspec.stats import bootstrap_interval, compute_statistic

_MISSING = "the run has no results for this query"
_UNDEFINED = {"Judged": "nothing was retrieved, so there is nothing to be judged"}
_NOTHING_RELEVANT = "no document is judged relevant"


def render_report(
    measured: Measured, facts: Mapping[str, Any], notes: Sequence[str], exit_code: ExitCode, *, per_query: bool
) -> str:
    """The document as text. `facts`: what was measured, for the fingerprint. Queries are listed for `per_query`."""
    dataset = DatasetResult(
        name=Path(facts["qrels"]).stem,
        direction={str(spec): Direction.HIGHER for spec in measured.values},
        samples=tuple(_samples(measured)) if per_query else (),
        summaries={str(spec): _summarise(spec, measured) for spec in measured.values},
        outcomes=(),
    )
    run = Run(
        id="score",
        verdict=Verdict(VerdictStatus.NOT_GATED, ("score has no thresholds",)),
        exit_code=exit_code,
        datasets=(dataset,),
        notes=tuple(notes),
        fingerprint={"evalspec": __version__, **facts},
    )
    if per_query:
        return render_json(run)
    report = build_report(run)
    total = len(measured.queries)
    counts = {"selected": total, "answered": total - len(measured.missing)}
    counted = report.model_copy(update={"datasets": (report.datasets[0].model_copy(update=counts),)})
    return json.dumps(counted.model_dump(by_alias=True), indent=2) + "\n"


def _summarise(spec: MeasureSpec, measured: Measured) -> Summary:
    values = [value for value in measured.defined(spec) if value is not None]
    return Summary(
        metric=str(spec),
        statistic="mean",
        value=compute_statistic(values, "mean") if values else None,
        interval=bootstrap_interval(values),
        scored=len(values),
        not_applicable=len(measured.queries) - len(values),
        median=compute_statistic(values, "median") if values else None,
    )


def _samples(measured: Measured) -> Iterator[SampleResult]:
    columns = {str(spec): (spec.measure, measured.defined(spec)) for spec in measured.values}
    for place, query in enumerate(measured.queries):
        missing = query in measured.missing
        yield SampleResult(
            id=query,
            status=SampleStatus.FAILED if missing else SampleStatus.ANSWERED,
            error=_MISSING if missing else None,
            scores={name: _score(measure, values[place], missing) for name, (measure, values) in columns.items()},
        )


def _score(measure: str, value: float | None, missing: bool) -> Score:
    if value is None:
        return Score.not_applicable(_UNDEFINED.get(measure, _NOTHING_RELEVANT))
    return Score.scored(value, _MISSING if missing else None)
