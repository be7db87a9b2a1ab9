"""Compare evaluations: a table of metrics with relative differences, and what may be said about each of them."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from evalspec.api.runs import name_stored
from evalspec.base.errors import InvalidInput
from evalspec.model import DatasetResult
from evalspec.model.comparisons import CandidateComparison, Change, Delta, MetricChange
from evalspec.runs.store.stored_run import open_run
from evalspec.service.evaluations import (
    CUT,
    UNCUT,
    EvaluationRequest,
    EvaluationResult,
    find_of_means,
)
from evalspec.service.settings import Project
from evalspec.verdict.comparison.comparability import list_column_mismatches
from evalspec.verdict.comparison.compare_runs import Choice, compare_runs
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.wording import render_p, render_statement
from evalspec.verdict.validity.changes import RESAMPLES, SignificanceRules

NOT_COMPARABLE = "not comparable"
NO_DIFFERENCE = "no difference shown"

_LABELS = {"precision": "Precision", "recall": "Recall", "f1": "F1", "f2": "F2", "ndcg": "NDCG"}
_LABELS |= {"map": "MAP", "mrr": "MRR"}
_OF_MEANS = "F of the means has no value per query, which a test would need"


class CompletedEvaluation(Struct, frozen=True):
    """An evaluation with results."""

    id: str
    request: EvaluationRequest
    result: EvaluationResult


class TableRow(Struct, frozen=True):
    """A metric of a candidate and the baseline, over the queries that both have answered.

    `key`: as in the results. `p_value`: adjusted over all tests. `change`: the conclusion. `statement`: its evidence.
    """

    candidate: CompletedEvaluation
    key: str
    label: str
    found: Delta
    change: str
    statement: str
    p_value: float | None = None

    @property
    def no_relative(self) -> str | None:
        """Why the difference is no share of the baseline; None if it is."""
        if self.change == NOT_COMPARABLE:
            return NOT_COMPARABLE
        if self.found.delta is None:
            return "a value is unknown"
        return None if self.found.baseline else "the baseline is 0"


class ComparedCandidate(CompletedEvaluation, frozen=True):
    """A candidate. `mismatches`: why it is not comparable. `notes`: what else a reader has to know."""

    mismatches: tuple[str, ...]
    differences: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def is_comparable(self) -> bool:
        """Whether its numbers may be compared with the baseline's."""
        return not self.mismatches


class MetricTable(Struct, frozen=True):
    """The comparison of candidates with a baseline. `left_out`: metrics that some evaluation does not have."""

    baseline: CompletedEvaluation
    candidates: tuple[ComparedCandidate, ...]
    rows: tuple[TableRow, ...]
    left_out: tuple[str, ...]
    alpha: float
    tests: int


def compare_evaluations(
    project: Project, baseline: CompletedEvaluation, candidates: Sequence[CompletedEvaluation]
) -> MetricTable:
    """Return the table of candidates and a baseline.

    Raises:
        InvalidInput: The evaluations have no metric in common.
        StoreError: A run cannot be read.
    """
    every = (baseline, *candidates)
    keys = [
        key for key in baseline.result.overall_metrics if all(key in one.result.overall_metrics for one in candidates)
    ]
    if not keys:
        raise InvalidInput("the evaluations have no metric at the same k in common", "evaluate with the same k_values")
    named = [_name(project, one) for one in every]
    rules = SignificanceRules(0.05, resamples=RESAMPLES, seed=0)
    measures = [_find_measure(key) for key in keys]
    compared = compare_runs(named[0], named[1:], rules, Choice(metrics=measures, allow_mismatch=True))
    found = [
        _describe(baseline, one, part, [run.run.datasets[0] for run in (named[0], own)])
        for one, part, own in zip(candidates, compared.candidates, named[1:], strict=True)
    ]
    rows = [
        row
        for key in keys
        for one, part in zip(found, compared.candidates, strict=True)
        for row in _build_rows(key, baseline, one, part)
    ]
    left_out = {key for one in every for key in one.result.overall_metrics if key not in keys}
    return MetricTable(baseline, tuple(found), tuple(rows), tuple(sorted(left_out)), compared.alpha, compared.tests)


def _name(project: Project, one: CompletedEvaluation) -> NamedRun:
    return name_stored(open_run(project.store.runs / one.result.run_id), one.id)


def _find_measure(key: str) -> str:
    """Return evalspec's name of a metric in the results."""
    metric, _, k = key.partition("_at_")
    return f"{CUT[metric]}@{k}" if k else UNCUT[metric]


def _describe(
    baseline: CompletedEvaluation,
    one: CompletedEvaluation,
    part: CandidateComparison,
    datasets: Sequence[DatasetResult],
) -> ComparedCandidate:
    before, after = datasets
    cutoffs = set(list_column_mismatches(before.name, before.metrics, after.metrics))  # the table has common ones only
    mismatches = [mismatch for mismatch in part.mismatches if mismatch not in cutoffs]
    if baseline.request.dataset_name != one.request.dataset_name:
        mismatches.insert(0, f"the datasets differ: {baseline.request.dataset_name} and {one.request.dataset_name}")
    notes = list(part.notes)
    if baseline.result.ranking_depth != one.result.ranking_depth:
        depths = f"{baseline.result.ranking_depth} and {one.result.ranking_depth} documents"
        notes.append(f"full rankings have {depths}, which MAP and MRR depend on")
    return ComparedCandidate(one.id, one.request, one.result, tuple(mismatches), part.differences, tuple(notes))


def _build_rows(
    key: str, baseline: CompletedEvaluation, one: ComparedCandidate, part: CandidateComparison
) -> Iterator[TableRow]:
    measure, (metric, _, k) = _find_measure(key), key.partition("_at_")
    label = f"{_LABELS[metric]}@{k}" if k else _LABELS[metric]
    before, after = baseline.result.overall_metrics[key], one.result.overall_metrics[key]
    of_means = [CUT.get(metric) in find_of_means(side.request) for side in (baseline, one)]
    reasons = list(one.mismatches)
    if len(set(of_means)) > 1:
        reasons.append(f"{label} is computed by other formulas (compat)")
    if reasons:
        apart = Delta(before, after, None, None, 0)
        yield TableRow(one, key, label, apart, NOT_COMPARABLE, "; ".join(reasons))
    elif any(of_means):
        delta = None if before is None or after is None else after - before
        yield TableRow(one, key, label, Delta(before, after, delta, None, 0), Change.NOT_TESTED, _OF_MEANS)
    else:
        yield from (_to_row(change, one, key, label) for change in part.changes if change.metric == measure)


def _to_row(change: MetricChange, candidate: CompletedEvaluation, key: str, label: str) -> TableRow:
    decided = change.verdict in (Change.IMPROVED, Change.DEGRADED)
    conclusion = NO_DIFFERENCE if change.verdict is Change.UNDECIDED else str(change.verdict)
    statement = ", ".join(filter(None, [render_p(change.p_adjusted) if decided else "", render_statement(change)]))
    return TableRow(candidate, key, label, change, conclusion, statement, change.p_adjusted)
