"""Compute measures from a run file and judgements, with separate code paths for small and large files.

If the two have no query or no document in common, the problem names a likely reason.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from evalspec.base.errors import Problem
from evalspec.inputs.ranking_files import GroundTruth, read_run
from evalspec.scoring.ranking.engine import Measured, MeasureSpec, compute_measures, measure_hits

_LARGE_BYTES = 2_000_000
"""From this size, importing numpy costs less than it saves."""
_SAME_BUT_FOR: Mapping[str, Callable[[str], str]] = {
    "quotes": lambda text: text.strip("\"'"),
    "'.0' at the end": lambda text: text.removesuffix(".0"),
    "leading zeros": lambda text: text.lstrip("0"),
    "upper and lower case": str.casefold,
    "a file suffix": lambda text: text.rpartition(".")[0] or text,
    "a path before it": lambda text: text.rpartition("/")[2],
}


def measure_run_file(
    path: Path,
    shown_as: str,
    truth: GroundTruth,
    specs: Sequence[MeasureSpec],
    min_grade: int,
    problems: list[Problem],
    warnings: list[Problem],
) -> Measured | None:
    """Return the measures of a TREC run file; None if it has errors, which are appended to `problems`."""
    if not truth.groups and path.is_file() and path.stat().st_size >= _LARGE_BYTES:
        from evalspec.scoring.ranking.run_scan import scan_run

        scanned = scan_run(path, shown_as, truth.qrels)
        if scanned is not None and scanned.hits.ranks:
            warnings.extend(scanned.warnings)
            return measure_hits(truth.qrels, scanned.hits, specs, min_grade, scanned.queries)
    run = read_run(path, shown_as, problems, warnings)
    mismatch = None if problems else check_overlap(truth.qrels, run, truth.shown_as, shown_as)
    if mismatch is not None:
        problems.append(mismatch)
    if problems:
        return None
    return compute_measures(truth.qrels, run, specs, min_grade=min_grade, groups=truth.groups)


def check_overlap(
    qrels: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Iterable[str]], qrels_file: str, run_file: str
) -> Problem | None:
    """Return a problem if no query, or no retrieved document, occurs in the judgements, as every value would be 0."""
    if not any(map(rankings.__contains__, qrels)):
        message = "no query of the run occurs in the ground truth"
        return _explain(message, list(rankings), list(qrels), qrels_file, run_file)
    judged = {document: None for grades in qrels.values() for document in grades}
    retrieved = [ranking for query, ranking in rankings.items() if query in qrels]
    if not any(retrieved) or any(document in judged for ranking in retrieved for document in ranking):
        return None
    documents = [document for ranking in retrieved for document in ranking]
    return _explain("no retrieved id occurs in the ground truth", documents, list(judged), qrels_file, run_file)


def _explain(message: str, found: list[str], known: list[str], qrels_file: str, run_file: str) -> Problem | None:
    """Return the problem with one id of each side, preferably two that differ only in their spelling."""
    if not found or not known:
        return None
    for difference, simplify in _SAME_BUT_FOR.items():
        simplified = {simplify(text): text for text in known}
        twin = next((text for text in found if simplify(text) in simplified), None)
        if twin is not None:
            shown = f"{message}: '{twin}', but '{simplified[simplify(twin)]}' in {qrels_file}"
            return Problem(shown, f"they differ only in {difference}; use the same spelling in both files", run_file)
    shown = f"{message}: for example '{found[0]}', but '{known[0]}' in {qrels_file}"
    return Problem(shown, "use the ids of the same collection in both files", run_file)
