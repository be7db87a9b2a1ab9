"""Ranking metrics of run files against files of ground truth, as trec_eval computes them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.foreign_text import inert
from evalspec.base.jsonl import read_head
from evalspec.inputs.manifest.metric_spec import parse_metric_spec
from evalspec.inputs.ranking_files import GroundTruth, looks_like_qrels, read_qrels
from evalspec.model.conventions import EmptyQrels
from evalspec.scoring.ranking.engine import Measured, MeasureSpec, compute_measures
from evalspec.scoring.ranking.measures import MEASURES, parse_beta
from evalspec.scoring.ranking.run_files import check_overlap, measure_run_file

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
"""trec_eval's names that differ from ours. `_10` or `.10` may follow."""
CUTOFF = r"0*[1-9][0-9]{0,8}"  # no ranking is longer than nine digits, and int() rejects huge numbers
_CUT_NAME = r"(.+?)[_.](\d+)"

_DATASET_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml", ".parquet")
_DATASET_STARTS = (b"{", b"[", b"PAR1")
_RUN_FIELDS = 6
_GZIP_MAGIC = b"\x1f\x8b"

NO_ANSWER = "no_answer"
JUDGED = "Judged"

_IDS_SHOWN = 3
MEAN = "mean"
SHARES = (0.0, 1.0)
"""The range of every measure."""


class Scored(Struct, frozen=True, dict=True):
    """Measured values. `empty_qrels`: how queries without a relevant document enter the means.

    `left_out`: number of queries that do not meet the conditions.
    """

    measured: Measured
    empty_qrels: EmptyQrels
    min_grade: int = 1
    left_out: int = 0

    @property
    def is_measured(self) -> bool:
        """Whether any of the requested metrics has a value."""
        asked = map(str, self.measured.values)
        return any(value is not None for name in asked for value in self.columns[name])

    @cached_property
    def columns(self) -> Mapping[str, Sequence[float | None]]:
        """The values by metric: one for each query, None where the metric is undefined.

        If a query has no relevant document, `no_answer` is added, as in `evaluate`. It is 1 if nothing was retrieved
        for the query, 0 otherwise, and None if the run lacks the query.
        """
        measured, zero = self.measured, self.empty_qrels == EmptyQrels.ZERO
        columns: dict[str, Sequence[float | None]] = {
            str(spec): values if zero and spec.measure != JUDGED else measured.defined(spec)
            for spec, values in measured.values.items()
        }
        if 0 in measured.relevant and not zero:
            counts = zip(measured.queries, measured.relevant, measured.retrieved, strict=True)
            columns[NO_ANSWER] = [
                None if relevant or query in measured.missing else float(not retrieved)
                for query, relevant, retrieved in counts
            ]
        return columns


def list_notes(scored: Scored, run: str) -> Iterator[str]:
    """Yield notes that readers need to interpret the means."""
    measured = scored.measured
    total = len(measured.queries)
    missing = [query for query in measured.queries if query in measured.missing]
    if missing:
        yield f"queries missing from {run}, counted as 0: {len(missing):,} of {total:,} ({name_some(missing)})"
    if scored.left_out:
        yield f"queries that --where leaves out: {scored.left_out:,} of {scored.left_out + total:,}"
    if measured.ignored:
        why = "without judgements, or left out by --where" if scored.left_out else "without judgements, left out"
        yield f"queries of {run} {why}: {measured.ignored:,}"
    if empty := measured.relevant.count(0):
        zero = scored.empty_qrels == EmptyQrels.ZERO
        what = "counted as 0" if zero else "not in the means (trec_eval counts them as 0)"
        yield f"queries without a relevant document, {what}: {empty:,} of {total:,}"


def name_some(names: Sequence[str]) -> str:
    """Return the first few ids, and the number of the others."""
    more = f" and {len(names) - _IDS_SHOWN:,} more" if len(names) > _IDS_SHOWN else ""
    return ", ".join(map(show, names[:_IDS_SHOWN])) + more


def measure(
    qrels: Path,
    run: Path,
    metrics: Sequence[str],
    cutoffs: Sequence[int],
    min_grade: int,
    empty_qrels: EmptyQrels,
    warnings: list[Problem],
    where: Sequence[str] = (),
) -> Scored:
    """Return the metrics of a run against ground truth. Append warnings to `warnings`.

    `where`: conditions on the queries, which only a dataset with metadata can answer.

    Raises:
        InvalidInput: A metric is unknown, or a file is invalid. Lists all problems.
    """
    problems: list[Problem] = []
    specs = _find_specs(metrics, cutoffs, problems)
    problems += _find_misuse(qrels, run)
    if problems:
        raise InvalidInput(problems)
    truth = _read_truth(qrels, problems, warnings, where)
    measured = _measure(run, truth, specs, min_grade, problems, warnings)
    if problems or measured is None:
        raise InvalidInput(problems)
    return Scored(measured, empty_qrels, min_grade, truth.left_out)


def _find_specs(names: Sequence[str], cutoffs: Sequence[int], problems: list[Problem]) -> list[MeasureSpec]:
    """Return the requested measures without duplicates."""
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
    """Return the canonical name of a measure. Imports the registry of all metrics, which is slow, only if needed."""
    canonical = {measure.casefold(): measure for measure in MEASURES}.get(name.casefold())
    if canonical:
        return canonical
    if beta := parse_beta(name):
        return f"F{beta:g}"
    from evalspec.base.registry import near_miss
    from evalspec.scoring.metrics.base import METRICS

    known = METRICS.find(name)
    if known is None:
        ours = _translate(name)
        raise ValueError(f"unknown metric '{name}'", f"it is '{ours}' here" if ours else near_miss(name, MEASURES))
    if known.name not in MEASURES:
        raise ValueError(f"{known.name} is not a ranking metric", f"score computes {', '.join(MEASURES)}")
    return known.name


def _translate(name: str) -> str | None:
    """Return our name for a name of trec_eval, or None. `P_5` is Precision@5."""
    cut = re.fullmatch(_CUT_NAME, name)
    theirs, cutoff = (cut[1], int(cut[2])) if cut else (name, None)
    ours = {key.casefold(): value for key, value in _TREC_EVAL_NAMES.items()}.get(theirs.casefold())
    return str(MeasureSpec(ours, cutoff)) if ours else None


def _find_misuse(qrels: Path, run: Path) -> list[Problem]:
    """Return problems with the kinds of the two files, before either is read: pipes, and swapped arguments."""
    pipes = [path for path in (qrels, run) if path.exists() and not path.is_file() and not path.is_dir()]
    if pipes:
        message, fix = "this is a pipe, and the file has to be read twice", "write it to a file first"
        return [Problem(message, fix, str(path)) for path in pipes]
    first, second = _read_head(qrels), _read_head(run)
    if looks_like_qrels(second) and len(first.partition(b"\n")[0].split()) == _RUN_FIELDS:
        fix = "name the judgements first: evalspec score QRELS RUN"
        return [Problem(f"this is a run, and {run} contains judgements", fix, str(qrels))]
    return []


def _read_head(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed and without leading whitespace.

    Empty if the file cannot be read. The function that reads all of it reports why.
    """
    return read_head(path).removeprefix(b"\xef\xbb\xbf").lstrip()


def _read_truth(path: Path, problems: list[Problem], warnings: list[Problem], where: Sequence[str] = ()) -> GroundTruth:
    """Return the judgements. Imports the dataset formats, which is slow, only if the file is not TREC's or BEIR's."""
    head = _read_head(path)
    holds_data = head.startswith(_DATASET_STARTS) and not looks_like_qrels(head)
    if path.is_dir() or path.suffix.casefold() in _DATASET_SUFFIXES or holds_data:
        from evalspec.inputs.datasets.load import load_ground_truth
        from evalspec.inputs.datasets.selection import parse_selection

        selection = parse_selection(where=where) if where else None
        return load_ground_truth(path, str(path), problems, warnings, selection)
    if where:
        fix = "give a dataset with metadata as QRELS"
        raise InvalidInput(Problem("judgements have no metadata to filter by", fix, str(path), field="--where"))
    return GroundTruth(read_qrels(path, str(path), problems, warnings), str(path))


def _measure(
    path: Path,
    truth: GroundTruth,
    specs: Sequence[MeasureSpec],
    min_grade: int,
    problems: list[Problem],
    warnings: list[Problem],
) -> Measured | None:
    """Return the measures, or None if the run or the ground truth is invalid. Append problems to `problems`."""
    if not _read_head(path).startswith(b"{"):
        return measure_run_file(path, str(path), truth, specs, min_grade, problems, warnings)
    given = _read_replies(path, problems)
    mismatch = None if problems else check_overlap(truth.qrels, given, truth.shown_as, str(path))
    if mismatch:
        problems.append(mismatch)
    if problems:
        return None
    repeated = sum(len(ranking) - len(set(ranking)) for ranking in given.values())
    if repeated:
        warnings.append(Problem(f"duplicate ids, counted at their first rank: {repeated:,}", file=str(path)))
    distinct = not repeated
    return compute_measures(truth.qrels, given, specs, min_grade=min_grade, groups=truth.groups, distinct=distinct)


def _read_replies(path: Path, problems: list[Problem]) -> dict[str, Sequence[str]]:
    """Return the retrieved ids of recorded replies by sample id."""
    from evalspec.model import AgentReply
    from evalspec.targets.agents.replay import load_replies

    with path.open("rb") as stream:
        if stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC:
            problems.append(Problem("compressed replies are not supported", "decompress the file", str(path)))
            return {}
    try:
        found = load_replies(path, str(path))
    except InvalidInput as error:
        problems.extend(error.problems)
        return {}
    replies = {name: one.reply or AgentReply("") for (_dataset, name), one in found.items()}
    if len(replies) < len(found):
        problems.append(Problem("replies of several datasets share ids", "keep one dataset in the file", str(path)))
    unknown = [name for name, reply in replies.items() if reply.retrieved_context_ids is None]
    if unknown:
        message = f"replies without retrieved_context_ids: {len(unknown):,} ({name_some(unknown)})"
        problems.append(Problem(message, 'add "retrieved_context_ids", [] if nothing was retrieved', str(path)))
    return {name: reply.retrieved_context_ids or () for name, reply in replies.items()}


def show(name: str) -> str:
    """Return an id that cannot control a terminal."""
    return inert(name)
