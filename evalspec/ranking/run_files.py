"""A run file and judgements to values, the large and the small file each in the way that is quickest for it.

Where no query or document of one occurs in the other, what may be the matter is said instead.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evalspec.errors import Problem
from evalspec.ranking.engine import Measured, MeasureSpec, compute_measures, measure_hits
from evalspec.ranking.measures import Groups
from evalspec.ranking.trec_files import read_run

_LARGE_BYTES = 2_000_000
"""From here on importing numpy costs less than it saves."""
_SAME_BUT_FOR: Mapping[str, Callable[[str], str]] = {
    "quotes": lambda text: text.strip("\"'"),
    "'.0' at the end": lambda text: text.removesuffix(".0"),
    "leading zeros": lambda text: text.lstrip("0"),
    "upper and lower case": str.casefold,
    "a file suffix": lambda text: text.rpartition(".")[0] or text,
    "a path before it": lambda text: text.rpartition("/")[2],
}


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """Judgements by query, and where they come from. `groups`: AND/OR ground truth of the queries that have such."""

    qrels: Mapping[str, Mapping[str, int]]
    shown_as: str
    groups: Mapping[str, Groups] = field(default_factory=dict)


def measure_run_file(
    path: Path,
    shown_as: str,
    truth: GroundTruth,
    specs: Sequence[MeasureSpec],
    min_grade: int,
    problems: list[Problem],
    warnings: list[Problem],
) -> Measured | None:
    """Compute measures of a TREC run file; None where something is wrong with it, which goes to `problems`."""
    if not truth.groups and path.is_file() and path.stat().st_size >= _LARGE_BYTES:
        from evalspec.ranking.run_scan import scan_run

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
    """What is wrong where no query, or no retrieved document, is known to the judgements: every value would be 0."""
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
    """One id of each side, if it can be two that would be the same but for their writing."""
    if not found or not known:
        return None
    for difference, simplify in _SAME_BUT_FOR.items():
        simplified = {simplify(text): text for text in known}
        twin = next((text for text in found if simplify(text) in simplified), None)
        if twin is not None:
            shown = f"{message}: '{twin}' against '{simplified[simplify(twin)]}' of {qrels_file}"
            return Problem(shown, f"they are the same but for {difference}: write the ids alike", run_file)
    shown = f"{message}: for example '{found[0]}' against '{known[0]}' of {qrels_file}"
    return Problem(shown, "use the ids of the same collection in both files", run_file)
