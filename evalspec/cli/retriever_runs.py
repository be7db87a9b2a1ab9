"""Evaluate several retrievers on the same datasets: a run per retriever, one comparison, and the best retriever."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from evalspec.api.evaluation import Evaluation
from evalspec.api.retrievers import Best, BestBy, choose_best, decide_outcome
from evalspec.api.runs import name_stored
from evalspec.base.collector import long_lived
from evalspec.base.errors import ExitCode
from evalspec.cli.compare import introduce_comparison, print_comparison
from evalspec.cli.exporting import export_finished
from evalspec.cli.pushing import push_finished
from evalspec.cli.run_output import Shape
from evalspec.cli.run_session import complete_session
from evalspec.cli.streams import notify, notify_github
from evalspec.model import Run
from evalspec.model.comparisons import Comparison
from evalspec.reports.github import write_summary
from evalspec.reports.markdown import render_view_markdown
from evalspec.reports.view.comparison import build_comparison_view
from evalspec.reports.view.parts import View
from evalspec.reports.view.retriever import build_answer, build_headline, render_answers_lead
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.runs.store.stored_run import open_run
from evalspec.verdict.comparison.compare_runs import compare_runs
from evalspec.verdict.comparison.sample_changes import add_texts
from evalspec.verdict.validity.changes import SignificanceRules

if TYPE_CHECKING:
    from evalspec.api.exporting import PlannedExport
    from evalspec.api.server import PushServer

_SAMPLES_SHOWN = 3


def run_retrievers(
    evaluations: Mapping[str, Evaluation],
    best_by: BestBy | None,
    *,
    shape: Shape,
    outputs: Sequence[Path],
    server: "PushServer | None" = None,
    exports: "Sequence[PlannedExport]" = (),
) -> ExitCode:
    """Run every evaluation, compare all runs with the first, and print the best retriever.

    Return the exit code of the best runs if `best_by` is given, otherwise the worst of all runs. It is 1 if no
    retriever meets the latency limit, and 3 if none was measured completely. `server`, `exports`: where the runs are
    sent to; a pass becomes 3 if that fails.

    Raises:
        CommandFailed: a run was interrupted or failed.
    """
    runs = {name: _run(name, evaluation) for name, evaluation in evaluations.items()}
    _notify_notes(runs)
    folders = {name: RunStore(STORE).find(run.id) for name, run in runs.items()}
    failures = [failure for folder in folders.values() for failure in push_finished(folder, server)]
    for name, run in runs.items():
        failures += export_finished(run, open_run(folders[name]).read_exchanges, exports)
    named = [name_stored(open_run(folder), name) for name, folder in folders.items()]
    comparison = compare_runs(named[0], named[1:], SignificanceRules())
    best = [] if best_by is None else [choose_best(dataset.name, best_by, runs) for dataset in named[0].run.datasets]
    outcome = decide_outcome(runs, best)
    more = {
        "verdict": str(outcome.verdict),
        "partial": outcome.partial,
        "runs": [_describe(name, run) for name, run in runs.items()],
        "best": [{**to_builtins(one), "notDistinguishableFrom": _list_equals(one, comparison)} for one in best],
    }
    answers = [_in_words(one, best_by, comparison) for one in best]
    chosen = {one.dataset: one.retriever for one in best}
    sections = tuple(build_answer(runs, best_by.metric if best_by else None, chosen))
    headline = build_headline(outcome.verdict, partial=outcome.partial)
    answer = View(headline, lead=render_answers_lead(answers), sections=sections)
    code = print_comparison(
        add_texts(comparison, named, _SAMPLES_SHOWN),
        _SAMPLES_SHOWN,
        outcome.exit_code,
        shape=shape,
        outputs=outputs,
        more=more,
        failures=failures,
        answer=answer,
    )
    for words in answers if shape.as_json else ():
        notify(words)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        view = introduce_comparison(build_comparison_view(comparison, 0), answer)
        for line in write_summary(render_view_markdown(view), os.environ):
            notify_github(line)
    return code


def _run(name: str, evaluation: Evaluation) -> Run:
    with long_lived():
        session = evaluation.begin()
    run = complete_session(session)
    notify(f"{name}: {run.verdict_text}, run {run.id}")
    return run


def _notify_notes(runs: Mapping[str, Run]) -> None:
    """Print the notes of all runs. A note that several runs have is one line with their names."""
    found: dict[str, list[str]] = {}
    for name, run in runs.items():
        for note in run.notes:
            found.setdefault(note, []).append(name)
    for note, names in found.items():
        notify(f"{', '.join(names)}: {note}")


def _in_words(one: Best, best_by: BestBy | None, comparison: Comparison) -> str:
    limit = best_by.max_latency if best_by else None
    within = "" if limit is None else f" within {limit:g} ms (p95)"
    if one.retriever is None or one.value is None:
        return f"{one.dataset}: no retriever has {one.metric}{within}{_say_incomplete(one)}"
    took = "" if one.p95_ms is None else f", p95 {one.p95_ms:,.1f} ms"
    equals = _list_equals(one, comparison)
    doubt = f", not distinguishable from {', '.join(equals)}" if equals else ""
    chosen = f"{one.retriever} ({one.value:.4f}{took}){doubt}"
    return f"{one.dataset}: best by {one.metric}{within}: {chosen}{_say_incomplete(one)}"


def _list_equals(one: Best, comparison: Comparison) -> list[str] | None:
    """Return the retrievers that may be better than the chosen one. None: another retriever is significantly better.

    It is None as well if the metric is not tested, so that nothing is known.
    """
    for best in comparison.best_runs:
        if (best.dataset, best.metric) == (one.dataset, one.metric) and one.retriever in best.possible:
            return [retriever for retriever in best.possible if retriever != one.retriever]
    return None


def _say_incomplete(one: Best) -> str:
    """Return which retrievers could not be chosen, or nothing."""
    if not one.incomplete:
        return ""
    counts = (f"{lacking.retriever} {lacking.scored:,}/{lacking.expected:,} scored" for lacking in one.incomplete)
    return f"; not measured completely: {', '.join(counts)}"


def _describe(name: str, run: Run) -> dict[str, Any]:
    verdict = {"verdict": str(run.verdict), "partial": run.partial, "exitCode": run.exit_code}
    return {"name": name, "runId": run.id, **verdict}
