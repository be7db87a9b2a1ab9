"""A run file and judgements to values, the large and the small file each in the way that is quickest for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evalspec.errors import Problem
from evalspec.ranking.engine import Measured, MeasureSpec, compute_measures, measure_hits
from evalspec.ranking.measures import Groups
from evalspec.ranking.overlap import check_overlap
from evalspec.ranking.trec_files import read_run

_LARGE_BYTES = 2_000_000
"""From here on importing numpy costs less than it saves."""


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
