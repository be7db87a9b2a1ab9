"""Several retrievers on the same datasets: a run each, one comparison, and the best of them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalspec.cli.compare import name_stored, tell_comparison
from evalspec.cli.run_session import complete_session, open_session
from evalspec.cli.streams import emit_line, notify, notify_github
from evalspec.compare.compare_runs import compare_runs
from evalspec.compare.drops import find_metric
from evalspec.compare.view import build_comparison_view
from evalspec.errors import ExitCode, InvalidInput, Problem
from evalspec.manifest.loader import LoadedManifest
from evalspec.plan.build import Plan
from evalspec.records import TOTAL, DatasetResult, Direction, Run
from evalspec.registry import near_miss
from evalspec.reporters.github import write_summary
from evalspec.reporters.markdown import render_view_markdown
from evalspec.runner.session import gathering
from evalspec.store.run_store import STORE, RunStore
from evalspec.store.stored_run import open_run
from evalspec.validity.changes import Rules

_SAMPLES_SHOWN = 3
_SEVERITY = (ExitCode.OK, ExitCode.UNMEASURED, ExitCode.GATE_FAILED)


@dataclass(frozen=True, slots=True)
class BestBy:
    """What makes a retriever the best: a metric, among those whose p95 latency in ms is within the limit."""

    metric: str
    max_latency: float | None = None


@dataclass(frozen=True, slots=True)
class Best:
    """The best retriever of one dataset; `retriever` None where none is within the limit or has a value."""

    dataset: str
    metric: str
    retriever: str | None
    value: float | None
    p95_ms: float | None


def find_best_by(plans: Iterable[Plan], metric: str | None, max_latency: float | None) -> BestBy | None:
    """What the best is chosen by, in the name that reports print.

    Raises:
        InvalidInput: a run does not compute the metric, or there is a limit and no metric.
    """
    if metric is None:
        if max_latency is not None:
            raise InvalidInput(Problem("it limits a choice by a metric", "add --best-by METRIC", field="--max-latency"))
        return None
    known = [m.name for plan in plans for dataset in plan.datasets for m in dataset.metrics]
    name = find_metric(metric, known)
    if name is None:
        raise InvalidInput(Problem(f"no dataset computes '{metric}'", near_miss(metric, known), field="--best-by"))
    return BestBy(name, max_latency)


def run_retrievers(
    plans: Mapping[str, Plan],
    loaded: LoadedManifest,
    best_by: BestBy | None,
    *,
    as_json: bool,
    outputs: Sequence[Path],
) -> ExitCode:
    """Run every plan, hold all against the first, and name the best.

    The exit code is the gate's of the best where one is chosen, else the worst of all; 1 where none is within the
    limit.

    Raises:
        CommandFailed: a run was interrupted or could not go on.
    """
    runs = {name: _run(name, plan, loaded) for name, plan in plans.items()}
    named = [name_stored(open_run(RunStore(STORE).find(run.id)), name) for name, run in runs.items()]
    comparison = compare_runs(named[0], named[1:], Rules())
    best = [] if best_by is None else [_choose(dataset.name, best_by, runs) for dataset in named[0].run.datasets]
    code = _exit_code(runs, best)
    more = {"runs": [_describe(name, run) for name, run in runs.items()], "best": [_document(one) for one in best]}
    code = tell_comparison(comparison, _SAMPLES_SHOWN, code, as_json=as_json, outputs=outputs, more=more)
    for one in best:
        words = _in_words(one, best_by)
        notify(words) if as_json else emit_line(words)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        view = build_comparison_view(comparison, {}, 0)
        said = [render_view_markdown(view), *(_in_words(one, best_by) for one in best)]
        for line in write_summary("\n\n".join(said), os.environ):
            notify_github(line)
    return code


def _run(name: str, plan: Plan, loaded: LoadedManifest) -> Run:
    with gathering():
        session = open_session(plan)
    run = complete_session(session, loaded)
    notify(f"{name}: {run.verdict.replace('_', ' ')}, run {run.id}")
    for note in run.notes:
        notify(f"{name}: {note}")
    return run


def _choose(dataset: str, best_by: BestBy, runs: Mapping[str, Run]) -> Best:
    """The highest value, or the lowest where lower is better; among equal ones the fastest, then the first."""
    found = []
    for name, run in runs.items():
        result = next(one for one in run.datasets if one.name == dataset)
        value, p95 = _measured(result, best_by.metric)
        within = best_by.max_latency is None or (p95 is not None and p95 <= best_by.max_latency)
        if value is not None and within:
            sign = -1 if result.metrics[best_by.metric].direction is Direction.HIGHER else 1
            found.append((sign * value, p95 or 0.0, Best(dataset, best_by.metric, name, value, p95)))
    if not found:
        return Best(dataset, best_by.metric, None, None, None)
    return min(found, key=lambda one: one[:2])[2]


def _measured(result: DatasetResult, metric: str) -> tuple[float | None, float | None]:
    summary = result.metrics.get(metric)
    total = next((stage for stage in result.stages if stage.stage == TOTAL), None)
    return summary.value if summary else None, total.p95 if total else None


def _exit_code(runs: Mapping[str, Run], best: Sequence[Best]) -> ExitCode:
    if any(one.retriever is None for one in best):
        return ExitCode.GATE_FAILED
    counting = [runs[one.retriever] for one in best if one.retriever] or list(runs.values())
    return max((ExitCode(run.exit_code) for run in counting), key=_SEVERITY.index)


def _in_words(one: Best, best_by: BestBy | None) -> str:
    limit = best_by.max_latency if best_by else None
    within = "" if limit is None else f" within {limit:g} ms (p95)"
    if one.retriever is None or one.value is None:
        return f"{one.dataset}: no retriever has {one.metric}{within}"
    took = "" if one.p95_ms is None else f", p95 {one.p95_ms:,.1f} ms"
    return f"{one.dataset}: best by {one.metric}{within}: {one.retriever} ({one.value:.4f}{took})"


def _describe(name: str, run: Run) -> dict[str, Any]:
    return {"name": name, "runId": run.id, "verdict": str(run.verdict), "exitCode": run.exit_code}


def _document(one: Best) -> dict[str, Any]:
    return {
        "dataset": one.dataset,
        "metric": one.metric,
        "retriever": one.retriever,
        "value": one.value,
        "p95Ms": one.p95_ms,
    }
