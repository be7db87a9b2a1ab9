"""`evalspec score`: trec_eval's work. Ground truth and a run, both from files, to numbers; no manifest, no gate."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from evalspec.cli.options import json_option, option, warn
from evalspec.errors import ExitCode, InvalidInput, Problem
from evalspec.manifest.metric_spec import parse_metric_spec
from evalspec.ranking.engine import Measured, MeasureSpec, compute_measures
from evalspec.ranking.measures import MEASURES, parse_beta
from evalspec.ranking.overlap import find_mismatch
from evalspec.ranking.run_files import GroundTruth, measure_run_file
from evalspec.ranking.trec_files import open_trec, read_qrels
from evalspec.stats import bootstrap_interval, compute_statistic

CUT_BY_DEFAULT = {"nDCG": 10, "Recall": 100, "Precision": 10}
UNCUT_BY_DEFAULT = ("AP", "RR")

_DATASET_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml", ".parquet")
_DATASET_STARTS = (b"{", b"[", b"PAR1")
_IDS_SHOWN = 3
_FILE = click.Path(path_type=Path)


def _parse_cutoffs(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, ...]:
    """`1,5,10` as numbers."""
    parts = text.split(",") if text else []
    if not all(part.strip().isascii() and part.strip().isdigit() and int(part) for part in parts):
        raise click.BadParameter(f"'{text}' is not a list of whole numbers from 1 like 1,5,10")
    return tuple(int(part) for part in parts)


@click.command("score")
@click.argument("qrels", type=_FILE)
@click.argument("run", type=_FILE)
@option("-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Like nDCG@10, AP, map or F0.5@5; repeatable.")
@option("--k", "cutoffs", metavar="K,…", callback=_parse_cutoffs, help="Cut-offs for metrics named without one.")
@option("--min-grade", type=click.IntRange(min=1), default=1, metavar="N", help="Lowest grade that is relevant.")
@option("--per-query", is_flag=True, help="Give the values of every query too.")
@option("--interval", is_flag=True, help="Add the bootstrap 95 % interval; --json always has it.")
@json_option
def command(
    qrels: Path,
    run: Path,
    metrics: tuple[str, ...],
    cutoffs: tuple[int, ...],
    min_grade: int,
    per_query: bool,
    interval: bool,
    as_json: bool,
) -> ExitCode:
    """Hold a RUN against the ground truth QRELS.

    QRELS: TREC or BEIR judgements, gz too, or any dataset that says which documents are relevant. RUN: a TREC run,
    gz too, or recorded replies (JSONL with id and retrieved_context_ids).

    Without -m: nDCG@10 Recall@100 Precision@10 AP RR; --k then gives the first three their cut-offs. A query that is
    missing from RUN counts 0; one without a relevant document is not in the means. Intervals are left out of the table
    because they take longer than all else together.

    \b
    Examples:
      evalspec score qrels.txt run.txt
      evalspec score qrels/test.tsv run.txt.gz -m nDCG@10 -m Recall --k 5,10,100
      evalspec score evals/rag.jsonl replies.jsonl --per-query --json
    """
    specs = _find_specs(metrics, cutoffs)
    problems: list[Problem] = []
    warnings: list[Problem] = []
    truth = _read_truth(qrels, problems, warnings)
    measured = None if problems else _measure(run, truth, specs, min_grade, problems, warnings)
    if measured is None:
        raise InvalidInput(problems)
    for warning in warnings:
        warn(warning)
    notes = list(_find_notes(measured, str(run)))
    exit_code = ExitCode.OK if any(measured.relevant) else ExitCode.UNMEASURED
    for note in notes:
        click.echo(f"note: {note}", err=True)
    if as_json:
        from evalspec.cli.score_report import render_report

        facts = {"qrels": str(qrels), "run": str(run), "minGrade": min_grade}
        click.echo(render_report(measured, facts, notes, exit_code, per_query=per_query), nl=False)
        return exit_code
    if per_query:
        click.echo("\n".join(_query_lines(measured)) + "\n")
    click.echo("\n".join(_summary_lines(measured, interval)))
    return exit_code


def _find_specs(names: Sequence[str], cutoffs: Sequence[int]) -> list[MeasureSpec]:
    """The measures asked for, each once."""
    if not names:
        cut = [MeasureSpec(name, k) for name, own in CUT_BY_DEFAULT.items() for k in cutoffs or (own,)]
        return [*cut, *map(MeasureSpec, UNCUT_BY_DEFAULT)]
    specs: list[MeasureSpec] = []
    problems = []
    for name in names:
        try:
            parsed = parse_metric_spec(name)
            measure = _find_measure(parsed.base)
        except ValueError as error:
            message, *fix = error.args
            problems.append(Problem(message, "".join(fix), field="--metric"))
            continue
        ks = [parsed.cutoff] if parsed.cutoff or not cutoffs else cutoffs
        specs += [MeasureSpec(measure, k) for k in ks]
    if problems:
        raise InvalidInput(problems)
    return list(dict.fromkeys(specs))


def _find_measure(name: str) -> str:
    """The canonical name. The registry of all metrics, which is slow to import, is asked for other names only."""
    canonical = {measure.casefold(): measure for measure in MEASURES}.get(name.casefold())
    if canonical:
        return canonical
    if beta := parse_beta(name):
        return f"F{beta:g}"
    import evalspec.metrics  # noqa: F401 - registers every metric
    from evalspec.metrics.base import METRICS
    from evalspec.registry import near_miss

    known = METRICS.find(name)
    if known is None:
        raise ValueError(f"unknown metric '{name}'", near_miss(name, MEASURES))
    if known.name not in MEASURES:
        raise ValueError(f"{known.name} is no measure of a ranking", f"score knows {', '.join(MEASURES)}")
    return known.name


def _read_truth(path: Path, problems: list[Problem], warnings: list[Problem]) -> GroundTruth:
    if not _is_dataset(path):
        return GroundTruth(read_qrels(path, str(path), problems, warnings), str(path))
    import evalspec.datasets  # noqa: F401 - registers every format
    from evalspec.datasets.base import Source
    from evalspec.datasets.load import load_dataset

    data = load_dataset(Source(path, str(path)))
    problems.extend(data.problems)
    warnings.extend(data.warnings)
    judged = [sample for sample in data.samples if sample.qrels is not None]
    if data.samples and not judged:
        problems.append(Problem("no sample says which documents are relevant", "add `relevant`", str(path)))
    elif len(judged) < len(data.samples):
        left_out = len(data.samples) - len(judged)
        message = f"samples that do not say which documents are relevant, left out: {left_out:,}"
        warnings.append(Problem(message, file=str(path)))
    return GroundTruth(
        qrels={sample.id: sample.qrels for sample in judged if sample.qrels is not None},
        shown_as=str(path),
        groups={sample.id: sample.groups for sample in judged if sample.groups is not None},
    )


def _is_dataset(path: Path) -> bool:
    return path.is_dir() or path.suffix.casefold() in _DATASET_SUFFIXES or _starts_with(path, _DATASET_STARTS)


def _starts_with(path: Path, starts: tuple[bytes, ...]) -> bool:
    """Whether the first bytes of a file that are not blank are one of these; False where it cannot be read."""
    try:
        with open_trec(path) as stream:
            return stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(starts)
    except (OSError, EOFError):
        return False


def _measure(
    path: Path,
    truth: GroundTruth,
    specs: Sequence[MeasureSpec],
    min_grade: int,
    problems: list[Problem],
    warnings: list[Problem],
) -> Measured | None:
    if not _starts_with(path, (b"{",)):
        return measure_run_file(path, str(path), truth, specs, min_grade, problems, warnings)
    from evalspec.agents.replay import load_replies

    rankings = {name: reply.retrieved_context_ids for name, reply in load_replies(path, str(path)).items()}
    given = {name: ranking for name, ranking in rankings.items() if ranking is not None}
    unknown = [name for name in rankings if name not in given]
    if unknown:
        message = f"replies that do not say what was retrieved: {len(unknown):,} ({_name_some(unknown)})"
        problems.append(Problem(message, 'add "retrieved_context_ids", [] where nothing was', str(path)))
        return None
    mismatch = find_mismatch(truth.qrels, given, truth.shown_as, str(path))
    if mismatch:
        problems.append(mismatch)
        return None
    repeated = sum(len(ranking) - len(set(ranking)) for ranking in given.values())
    if repeated:
        warnings.append(Problem(f"repeated ids, which count where they stand first: {repeated:,}", file=str(path)))
    return compute_measures(truth.qrels, given, specs, min_grade=min_grade, groups=truth.groups)


def _find_notes(measured: Measured, run: str) -> Iterator[str]:
    """What a reader of the means has to know."""
    total = len(measured.queries)
    missing = [query for query in measured.queries if query in measured.missing]
    if missing:
        yield f"queries missing from {run}, which count 0: {len(missing):,} of {total:,} ({_name_some(missing)})"
    if measured.ignored:
        yield f"queries of {run} without judgements, left out: {measured.ignored:,}"
    if empty := measured.relevant.count(0):
        what = "queries without a relevant document, not in the means (trec_eval counts them as 0)"
        yield f"{what}: {empty:,} of {total:,}"


def _name_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _IDS_SHOWN:,} more" if len(names) > _IDS_SHOWN else ""
    return ", ".join(names[:_IDS_SHOWN]) + more


def _query_lines(measured: Measured) -> Iterator[str]:
    from evalspec.reporters.wording import inert

    values = [measured.defined(spec) for spec in measured.values]
    names = ["query", *map(inert, measured.queries)]
    width = max(map(len, names))
    yield "  ".join([f"{'query':<{width}}", *(f"{spec!s:>8}" for spec in measured.values)])
    for name, row in zip(names[1:], zip(*values, strict=True), strict=True):
        cells = (_cell(value, max(8, len(str(spec)))) for value, spec in zip(row, measured.values, strict=True))
        yield "  ".join([f"{name:<{width}}", *cells])


def _summary_lines(measured: Measured, with_interval: bool) -> Iterator[str]:
    width = max(len(str(spec)) for spec in measured.values)
    yield f"{'metric':<{width}}   value{'     95 % interval' if with_interval else ''}  queries"
    for spec in measured.values:
        values = [value for value in measured.defined(spec) if value is not None]
        mean = compute_statistic(values, "mean") if values else None
        interval = bootstrap_interval(values) if with_interval else None
        shown = f"  {_cell(interval[0], 0)} – {_cell(interval[1], 0)}" if interval else " " * 17 * with_interval
        yield f"{spec!s:<{width}}  {_cell(mean, 6)}{shown}  {len(values):>7,}"


def _cell(value: float | None, width: int) -> str:
    return f"{'–' if value is None else f'{value:.4f}':>{width}}"
