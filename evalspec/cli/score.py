"""`evalspec score`: trec_eval's work. Ground truth and a run, both from files, to numbers; no manifest, no gate."""

import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from evalspec.cli.options import json_option, option, warn
from evalspec.cli.score_report import (
    EMPTY_QRELS,
    Scored,
    find_notes,
    name_some,
    render_queries,
    render_summary,
)
from evalspec.cli.streams import emit, notify
from evalspec.cli.trust_options import trust_options
from evalspec.errors import ExitCode, InvalidInput, Problem
from evalspec.jsonl import open_unpacked
from evalspec.manifest.metric_spec import parse_metric_spec
from evalspec.ranking.engine import Measured, MeasureSpec, compute_measures
from evalspec.ranking.measures import MEASURES, parse_beta
from evalspec.ranking.overlap import find_mismatch
from evalspec.ranking.run_files import GroundTruth, measure_run_file
from evalspec.ranking.trec_files import looks_like_qrels, read_qrels

CUT_BY_DEFAULT = {"nDCG": 10, "Recall": 100, "Precision": 10}
UNCUT_BY_DEFAULT = ("AP", "RR")

_TREC_EVAL_NAMES: Mapping[str, str] = {
    "P": "Precision",
    "set_P": "Precision",
    "set_recall": "Recall",
    "set_F": "F1",
    "ndcg_cut": "nDCG",
    "map_cut": "AP",
    "recip_rank": "RR",
}
"""trec_eval's names of our measures, as far as they are not accepted as they are; `_10` or `.10` may follow."""
_CUTOFF = re.compile(r"0*[1-9][0-9]{0,8}")  # so long that no ranking is longer, and that int() still reads it
_CUT_NAME = re.compile(r"(.+?)[_.](\d+)")

_DATASET_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml", ".parquet")
_DATASET_STARTS = (b"{", b"[", b"PAR1")
_HEAD_BYTES = 4096
_RUN_FIELDS = 6
_GZIP_MAGIC = b"\x1f\x8b"
_FILE = click.Path(path_type=Path)


def _parse_cutoffs(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, ...]:
    """`1,5,10` as numbers."""
    parts = text.split(",") if text else []
    if not all(_CUTOFF.fullmatch(part.strip()) for part in parts):
        raise click.BadParameter(f"'{text}' is not a list of whole numbers from 1 like 1,5,10")
    return tuple(int(part) for part in parts)


@click.command("score")
@click.argument("qrels", type=_FILE)
@click.argument("run", type=_FILE)
@option("-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Like nDCG@10, AP, map or F0.5@5; repeatable.")
@option("--k", "cutoffs", metavar="K,…", callback=_parse_cutoffs, help="Cut-offs for metrics named without one.")
@option("--min-grade", type=click.IntRange(min=1), default=1, metavar="N", help="Lowest grade that is relevant.")
@option(
    "--empty-qrels",
    type=click.Choice(EMPTY_QRELS),
    default=EMPTY_QRELS[0],
    help="What a query without a relevant document is to the means; zero is trec_eval's way.",
)
@option("--per-query", is_flag=True, help="Give the values of every query too.")
@option("--interval", is_flag=True, help="Add the 95 % interval; --json always has it.")
@trust_options("qrels", "run")
@json_option
def command(
    qrels: Path,
    run: Path,
    metrics: tuple[str, ...],
    cutoffs: tuple[int, ...],
    min_grade: int,
    empty_qrels: str,
    per_query: bool,
    interval: bool,
    as_json: bool,
) -> ExitCode:
    """Hold a RUN against the ground truth QRELS.

    QRELS: TREC or BEIR judgements, gz too, or any dataset that says which documents are relevant. RUN: a TREC run,
    gz too, or recorded replies (JSONL with id and retrieved_context_ids).

    Without -m: nDCG@10 Recall@100 Precision@10 AP RR; --k then gives the first three their cut-offs. A query that is
    missing from RUN counts 0; one without a relevant document is not in the means, and no_answer says whether
    nothing was retrieved for it. Intervals are left out of the table because they take longer than all else together.

    \b
    Examples:
      evalspec score qrels.txt run.txt
      evalspec score qrels/test.tsv run.txt.gz -m nDCG@10 -m Recall --k 5,10,100
      evalspec score evals/rag.jsonl replies.jsonl --per-query --json
    """
    problems: list[Problem] = []
    warnings: list[Problem] = []
    specs = _find_specs(metrics, cutoffs, problems)
    problems += _find_misuse(qrels, run)
    if problems:
        raise InvalidInput(problems)
    truth = _read_truth(qrels, problems, warnings)
    measured = _measure(run, truth, specs, min_grade, problems, warnings)
    for warning in warnings:
        warn(warning)
    if problems or measured is None:
        raise InvalidInput(problems)
    scored = Scored(measured, empty_qrels)
    notes = list(find_notes(scored, str(run)))
    for note in notes:
        notify(f"note: {note}")
    exit_code = ExitCode.OK if scored.is_measured else ExitCode.UNMEASURED
    if as_json:
        facts = {"qrels": str(qrels), "run": str(run), "minGrade": min_grade, "emptyQrels": empty_qrels}
        from evalspec.cli.score_document import render_report  # with the records, which the tables do without

        emit(render_report(scored, _name_dataset(qrels), facts, notes, exit_code, per_query=per_query), nl=False)
        return exit_code
    if per_query:
        emit(render_queries(scored))
    emit(render_summary(scored, with_interval=interval))
    return exit_code


def _find_specs(names: Sequence[str], cutoffs: Sequence[int], problems: list[Problem]) -> list[MeasureSpec]:
    """The measures asked for, each once."""
    if not names:
        cut = [MeasureSpec(name, k) for name, own in CUT_BY_DEFAULT.items() for k in cutoffs or (own,)]
        return [*cut, *map(MeasureSpec, UNCUT_BY_DEFAULT)]
    specs: list[MeasureSpec] = []
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
        ours = _translate(name)
        raise ValueError(f"unknown metric '{name}'", f"it is '{ours}' here" if ours else near_miss(name, MEASURES))
    if known.name not in MEASURES:
        raise ValueError(f"{known.name} is no measure of a ranking", f"score knows {', '.join(MEASURES)}")
    return known.name


def _translate(name: str) -> str | None:
    """Our name for one of trec_eval's, or None: `P_5` is Precision@5."""
    cut = _CUT_NAME.fullmatch(name)
    theirs, cutoff = (cut[1], int(cut[2])) if cut else (name, None)
    ours = {key.casefold(): value for key, value in _TREC_EVAL_NAMES.items()}.get(theirs.casefold())
    return str(MeasureSpec(ours, cutoff)) if ours else None


def _find_misuse(qrels: Path, run: Path) -> list[Problem]:
    """Files that cannot be what they are said to be, found before either is read."""
    pipes = [path for path in (qrels, run) if path.exists() and not path.is_file() and not path.is_dir()]
    if pipes:
        message, fix = "this is no file but a pipe, and it has to be read twice", "write it to a file first"
        return [Problem(message, fix, str(path)) for path in pipes]
    first, second = _read_head(qrels), _read_head(run)
    if looks_like_qrels(second) and len(first.partition(b"\n")[0].split()) == _RUN_FIELDS:
        fix = "name the judgements first: evalspec score QRELS RUN"
        return [Problem(f"this is a run, and {run} holds judgements", fix, str(qrels))]
    return []


def _read_head(path: Path) -> bytes:
    """The first bytes of a file, unpacked and from the first that is not blank; none where it cannot be read.

    Why it cannot is told by whoever reads all of it.
    """
    try:
        with open_unpacked(path) as stream:
            return stream.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    except (OSError, EOFError, zlib.error):
        return b""


def _name_dataset(qrels: Path) -> str:
    """What the report calls the ground truth: its file or folder, without suffixes that say how it is written."""
    path = qrels.resolve()
    return path.name if path.is_dir() else Path(path.name.removesuffix(".gz")).stem


def _read_truth(path: Path, problems: list[Problem], warnings: list[Problem]) -> GroundTruth:
    """The judgements. What is not plainly TREC's or BEIR's is left to the dataset formats, which are slow to import."""
    head = _read_head(path)
    holds_data = head.startswith(_DATASET_STARTS) and not looks_like_qrels(head)
    if path.is_dir() or path.suffix.casefold() in _DATASET_SUFFIXES or holds_data:
        from evalspec.datasets.load import load_ground_truth

        return load_ground_truth(path, str(path), problems, warnings)
    return GroundTruth(read_qrels(path, str(path), problems, warnings), str(path))


def _measure(
    path: Path,
    truth: GroundTruth,
    specs: Sequence[MeasureSpec],
    min_grade: int,
    problems: list[Problem],
    warnings: list[Problem],
) -> Measured | None:
    """The measures, or None where something is wrong with the run or was with the ground truth, told in `problems`."""
    if not _read_head(path).startswith(b"{"):
        return measure_run_file(path, str(path), truth, specs, min_grade, problems, warnings)
    given = _read_replies(path, problems)
    mismatch = None if problems else find_mismatch(truth.qrels, given, truth.shown_as, str(path))
    if mismatch:
        problems.append(mismatch)
    if problems:
        return None
    repeated = sum(len(ranking) - len(set(ranking)) for ranking in given.values())
    if repeated:
        warnings.append(Problem(f"repeated ids, which count where they stand first: {repeated:,}", file=str(path)))
    distinct = not repeated
    return compute_measures(truth.qrels, given, specs, min_grade=min_grade, groups=truth.groups, distinct=distinct)


def _read_replies(path: Path, problems: list[Problem]) -> dict[str, Sequence[str]]:
    """What recorded replies say was retrieved, by sample id."""
    from evalspec.agents.replay import load_replies

    with path.open("rb") as stream:
        if stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC:
            problems.append(Problem("of gz files only TREC runs are read", "unpack the recorded replies", str(path)))
            return {}
    try:
        replies = load_replies(path, str(path))
    except InvalidInput as error:
        problems.extend(error.problems)
        return {}
    unknown = [name for name, reply in replies.items() if reply.retrieved_context_ids is None]
    if unknown:
        message = f"replies that do not say what was retrieved: {len(unknown):,} ({name_some(unknown)})"
        problems.append(Problem(message, 'add "retrieved_context_ids", [] where nothing was', str(path)))
    return {name: reply.retrieved_context_ids or () for name, reply in replies.items()}
