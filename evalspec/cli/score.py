"""`evalspec score`: retrieval metrics from ground truth and run files, like trec_eval; no manifest, no gate."""

import re
from collections.abc import Sequence
from pathlib import Path

import click

from evalspec.api.scoring import CUTOFF, MEAN, SHARES, Scored, list_notes, measure, show
from evalspec.base.errors import ExitCode, Problem
from evalspec.cli.options import EnumChoice, json_option, option, warn_all, where_option
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.streams import emit, notify
from evalspec.cli.trust_options import trust_options
from evalspec.model.conventions import EmptyQrels

_FILE = click.Path(path_type=Path)


def _parse_cutoffs(_context: click.Context, _parameter: click.Parameter, texts: Sequence[str]) -> tuple[int, ...]:
    """Parse `1,5,10`, once or several times."""
    parts = [part for text in texts if text for part in text.split(",")]
    if not all(re.fullmatch(CUTOFF, part.strip()) for part in parts):
        raise click.BadParameter(f"'{' '.join(texts)}' is not a list of positive integers like 1,5,10")
    return tuple(int(part) for part in parts)


@click.command("score", cls=OrderedCommand)
@click.argument("qrels", type=_FILE)
@click.argument("run", type=_FILE)
@option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="For example nDCG@10, AP, map or F0.5@5; repeatable.",
)
@option(
    "--k",
    "cutoffs",
    multiple=True,
    metavar="K,…",
    callback=_parse_cutoffs,
    help="Cutoffs for metrics given without one; repeatable.",
)
@option("--min-grade", type=click.IntRange(min=1), default=1, metavar="N", help="Lowest relevant grade.")
@option(
    "--empty-qrels",
    type=EnumChoice(EmptyQrels),
    default=EmptyQrels.NOT_APPLICABLE,
    help="Skip queries without a relevant document, or count them as 0 like trec_eval.",
)
@where_option
@option("--per-query", is_flag=True, help="Also print the values of each query.")
@option("--interval", is_flag=True, help="Add 95 % confidence intervals; always in --json.")
@trust_options("qrels", "run")
@json_option
def command(
    qrels: Path,
    run: Path,
    metrics: tuple[str, ...],
    cutoffs: tuple[int, ...],
    min_grade: int,
    empty_qrels: EmptyQrels,
    where: tuple[str, ...],
    per_query: bool,
    interval: bool,
    as_json: bool,
) -> ExitCode:
    """Compute retrieval metrics of RUN against the ground truth QRELS.

    QRELS: TREC or BEIR judgements, also gzipped, or any dataset with relevant documents. RUN: a TREC run, also
    gzipped, or recorded replies (JSONL with id and retrieved_context_ids).

    The default metrics are nDCG@10 Recall@100 Precision@10 AP RR; --k replaces the cutoffs of the first three. A query
    that is missing from RUN counts 0. A query without a relevant document is not in the means; no_answer reports
    whether nothing was retrieved for it. The table omits intervals by default because they take most of the time.

    \b
    Examples:
      evalspec score qrels.txt run.txt
      evalspec score qrels/test.tsv run.txt.gz -m nDCG@10 -m Recall --k 5,10,100
      evalspec score evals/rag.jsonl replies.jsonl --per-query --json
      evalspec score evals/rag.jsonl replies.jsonl --where difficulty=hard
    """
    warnings: list[Problem] = []
    try:
        scored = measure(qrels, run, metrics, cutoffs, min_grade, empty_qrels, warnings, where)
    finally:
        warn_all(warnings)
    notes = list(list_notes(scored, str(run)))
    for note in notes:
        notify(f"note: {note}")
    exit_code = ExitCode.OK if scored.is_measured else ExitCode.UNMEASURED
    if as_json:
        from evalspec.api.score_run import build_run  # imports the report records, which the tables do not need
        from evalspec.reports.json_report import render_json

        emit(render_json(build_run(scored, qrels, run, notes, per_query=per_query)), nl=False)
        return exit_code
    if per_query:
        emit(render_queries(scored))
    emit(render_summary(scored, with_interval=interval))
    return exit_code


def render_queries(scored: Scored) -> str:
    """Return a table with a row per query and a column per metric."""
    names = [show(query) for query in scored.measured.queries]
    width = max(map(len, ["query", *names]))
    widths = [max(8, len(metric)) for metric in scored.columns]
    head = [f"{metric:>{size}}" for metric, size in zip(scored.columns, widths, strict=True)]
    lines = ["  ".join([f"{'query':<{width}}", *head])]
    for name, row in zip(names, zip(*scored.columns.values(), strict=True), strict=True):
        lines.append("  ".join([f"{name:<{width}}", *map(_cell, row, widths)]))
    return "\n".join([*lines, ""])


def render_summary(scored: Scored, *, with_interval: bool) -> str:
    """Return a table with the mean of each metric and its number of queries."""
    from evalspec.verdict.stats import compute_statistic

    if with_interval:
        from evalspec.verdict.validity.estimates import estimate

    width = max(map(len, ["metric", *scored.columns]))
    lines = [f"{'metric':<{width}}   value{'     95 % interval' if with_interval else ''}  queries"]
    for metric, column in scored.columns.items():
        values = [value for value in column if value is not None]
        mean = compute_statistic(values, MEAN) if values else None
        interval = estimate(values, MEAN, SHARES).interval if with_interval else None
        shown = f"  {_cell(interval[0], 6)} – {_cell(interval[1], 6)}" if interval else " " * 17 * with_interval
        lines.append(f"{metric:<{width}}  {_cell(mean, 6)}{shown}  {len(values):>7,}")
    return "\n".join(lines)


def _cell(value: float | None, width: int) -> str:
    return f"{'–' if value is None else f'{value:.4f}':>{width}}"
