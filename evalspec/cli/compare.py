"""`evalspec compare`: compare runs with a baseline."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from evalspec.base.collector import long_lived
from evalspec.base.errors import ExitCode, InvalidInput, Problem, StoreError
from evalspec.base.output_files import Input, refuse_inputs
from evalspec.cli.documents import problem_document
from evalspec.cli.name_completion import complete_run
from evalspec.cli.options import dataset_option, option
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.pushing import server_options
from evalspec.cli.run_output import (
    Shape,
    decide_exit_code,
    is_nameless,
    output_options,
    print_failures,
    shape_options,
    write_output,
)
from evalspec.cli.streams import emit
from evalspec.cli.terminal_size import detect_terminal
from evalspec.runs.store.run_store import OWN_INPUTS, STORE, RunStore
from evalspec.runs.store.stored_run import open_run

if TYPE_CHECKING:
    from evalspec.model.comparisons import Comparison
    from evalspec.reports.view.parts import View

_FORMS = (".html", ".json", ".md")
_SAMPLES_SHOWN = 10


@click.command("compare", cls=OrderedCommand)
@click.argument("baseline", shell_complete=complete_run)
@click.argument("candidates", shell_complete=complete_run, nargs=-1, required=True, metavar="CANDIDATE...")
@dataset_option
@option("-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Compare only this metric; repeatable.")
@option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Significance level.",
)
@option(
    "--resamples",
    type=click.IntRange(100),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Number of resamples per test.",
)
@option("--seed", type=click.IntRange(0), default=0, show_default=True, metavar="N", help="Seed of the resampling.")
@option("--allow-mismatch", is_flag=True, help="Compare runs even if they are not comparable; the report says so.")
@option(
    "--samples",
    type=click.IntRange(0),
    default=_SAMPLES_SHOWN,
    show_default=True,
    metavar="N",
    help="Changed samples to show per dataset, worst first.",
)
@option(
    "--fail-on",
    type=click.Choice(["degraded"]),
    help="Exit with 1 if a metric is degraded, and with 2 if more samples than ciGate.maxRemoved are gone or edited.",
)
@server_options
@shape_options
@output_options("Also write the comparison to a .html, .json or .md file; repeatable.")
def command(
    baseline: str,
    candidates: Sequence[str],
    datasets: Sequence[str],
    metrics: Sequence[str],
    alpha: float,
    resamples: int,
    seed: int,
    allow_mismatch: bool,
    samples: int,
    fail_on: str | None,
    to: str | None,
    allow_http: bool,
    shape: Shape,
    outputs: Sequence[Path],
) -> ExitCode:
    """Compare each CANDIDATE with BASELINE, sample by sample, and test whether the differences exceed noise.

    Each argument is a stored run (an id, its prefix, a label, `latest`, or `latest~1` for the run before), the name of
    a promoted baseline (of a server: server:NAME), a report or baseline file, or a report of Unrag or AgentSpec.

    \b
    Examples:
      evalspec compare main latest
      evalspec compare latest~1 latest
      evalspec compare bm25 dense hybrid --metric nDCG@10
      evalspec compare evals/baselines/main.json latest --fail-on degraded
      evalspec compare server:main latest --to https://evals.example.com
    """  # fmt: skip
    from evalspec.api.runs import read_named
    from evalspec.api.server_baselines import ServerChoice
    from evalspec.verdict.comparison.compare_runs import Choice, compare_runs
    from evalspec.verdict.comparison.sample_changes import add_texts
    from evalspec.verdict.validity.changes import SignificanceRules

    check_forms(outputs)
    store = RunStore(STORE)
    if outputs:
        refuse_inputs(outputs, [*OWN_INPUTS, *_list_inputs((baseline, *candidates), store)])
    with long_lived():
        server = ServerChoice(to, allow_http)
        named = [read_named(name, store, server) for name in (baseline, *candidates)]
    rules = SignificanceRules(alpha, resamples=resamples, seed=seed)
    choice = Choice(datasets, metrics, allow_mismatch, is_gate=fail_on is not None)
    comparison = compare_runs(named[0], named[1:], rules, choice)
    code = ExitCode.GATE_FAILED if fail_on and comparison.degraded else ExitCode.OK
    return print_comparison(add_texts(comparison, named, samples), samples, code, shape=shape, outputs=outputs)


def print_comparison(
    comparison: "Comparison",
    samples: int,
    code: ExitCode,
    *,
    shape: Shape,
    outputs: Sequence[Path],
    more: Mapping[str, Any] | None = None,
    failures: Sequence[Problem] = (),
    answer: "View | None" = None,
) -> ExitCode:
    """Write a comparison to `outputs` and print it. Return the final exit code.

    `samples`: how many changed samples to show in full. `more`: additional keys of the JSON document. `answer`: to
    print before the details. The exit code is `code`, but a pass becomes UNMEASURED if a file could not be written, or
    with other `failures`.
    """
    from evalspec.reports.json_report import render_comparison_json
    from evalspec.reports.markdown import render_view_markdown
    from evalspec.reports.terminal import Amount, render_view_terminal
    from evalspec.reports.view.comparison import build_comparison_view
    from evalspec.reports.view.parts import Cell, View
    from evalspec.verdict.comparison.wording import render_tally

    def build() -> View:
        view = build_comparison_view(comparison, samples)
        return view if answer is None else introduce_comparison(view, answer)

    def render(path: Path) -> str:
        suffix = path.suffix.casefold()
        if suffix == ".md":
            return render_view_markdown(build())
        if suffix == ".html":
            from evalspec.reports.html_report.document import render_view_html

            return render_view_html(build(), render_tally(comparison))
        return render_comparison_json(comparison, code, more)

    written = [write_output(path, partial(render, path)) for path in outputs]
    failures = [*failures, *(failure for failure in written if failure is not None)]
    final = decide_exit_code(code, failures)
    if shape.as_json:
        errors = {"errors": [*map(problem_document, failures)]} if failures else {}
        emit(render_comparison_json(comparison, final, {**(more or {}), **errors}), nl=False)
    else:
        width, color = detect_terminal()
        view = build()
        chosen = () if answer is None else (Cell(line.words, line.tone) for line in answer.lead)
        shown = View((*view.headline, *chosen)) if shape.quiet else view
        amount = Amount.FULL if shape.verbose else Amount.NORMAL
        emit(render_view_terminal(shown, width=width, color=color, amount=amount), nl=False, color=color)
    print_failures(failures)
    return final


def introduce_comparison(view: "View", answer: "View") -> "View":
    """Return the view of a comparison with the answer before its details."""
    return replace(
        view,
        headline=(*answer.headline, *view.headline),
        lead=(*answer.lead, *view.lead),
        sections=(*answer.sections, *view.sections),
    )


def check_forms(outputs: Iterable[Path]) -> None:
    """Check that comparisons can be written to every path.

    Raises:
        InvalidInput: the suffix of a path is none of _FORMS.
    """
    for path in outputs:
        if path.suffix.casefold() not in _FORMS and not is_nameless(path):
            message = f"'{path}' has no suffix of a comparison format"
            raise InvalidInput(Problem(message, f"use {', '.join(_FORMS[:-1])} or {_FORMS[-1]}", field="-o"))


def _list_inputs(names: Iterable[str], store: RunStore) -> Iterator[Input]:
    """Yield the files of the compared runs, and the inputs of those in the store."""
    from evalspec.runs.planning.inputs import list_stored_inputs

    for name in names:
        if Path(name).exists():
            yield Input(Path(name), "a run that is compared")
        with suppress(InvalidInput, StoreError):  # reading the run later reports the error
            yield from list_stored_inputs(open_run(store.find(name)).fingerprint)
