"""Compare evaluations: a table of metrics with relative differences, as a view over a comparison of their runs."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from evalspec.base.errors import InvalidInput
from evalspec.model.base import Interval
from evalspec.model.comparisons import CandidateComparison, Change, Comparison, Delta, MetricChange
from evalspec.reports.view.parts import (
    Cell,
    Column,
    Line,
    Row,
    Section,
    Table,
    Tone,
    View,
    Words,
    Wrap,
    cell,
    name,
    names,
    numbers,
    prose,
    quiet,
)
from evalspec.service.evaluations import (
    CUT,
    UNCUT,
    EvaluationRequest,
    EvaluationResult,
    find_of_means,
    list_measures,
)
from evalspec.service.examples import DATASET, EVALUATION_ID, RETRIEVER
from evalspec.verdict.comparison.comparability import list_column_mismatches
from evalspec.verdict.comparison.wording import describe_common, render_p, render_relative, render_statement
from evalspec.verdict.wording import render_delta, render_known

NOT_COMPARABLE = "not comparable"
NO_DIFFERENCE = "no difference shown"

_LABELS = {"precision": "Precision", "recall": "Recall", "f1": "F1", "f2": "F2", "ndcg": "NDCG"}
_LABELS |= {"map": "MAP", "mrr": "MRR"}
_OF_MEANS = "F of the means has no value per query, which a test would need"

_Texts = tuple[str, ...]


class CompletedEvaluation(Struct, frozen=True):
    """An evaluation with results."""

    id: str
    request: EvaluationRequest
    result: EvaluationResult


class ComparedEvaluation(Struct, frozen=True):
    """An evaluation of a comparison."""

    evaluation_id: str
    retriever_id: str
    dataset_name: str
    dataset_version: int
    ranking_depth: int


class CandidateOfTable(ComparedEvaluation, frozen=True):
    """A candidate, and whether its numbers may be compared with the baseline's."""

    is_comparable: bool
    mismatches: Annotated[_Texts, Meta(description="Why it is not comparable.")]
    differences: Annotated[_Texts, Meta(description="What else differs, which may be the purpose of the comparison.")]
    notes: _Texts


class RowOfTable(Struct, frozen=True, kw_only=True):
    """A metric of a candidate and the baseline, over the queries that both answered."""

    metric: str
    key: Annotated[str, Meta(description="The metric's key in the results of an evaluation.")]
    evaluation_id: str
    baseline: float | None
    candidate: float | None
    delta: Annotated[float | None, Meta(description="Candidate minus baseline.")] = None
    relative_delta: Annotated[float | None, Meta(description="The delta as a share of the baseline.")] = None
    no_relative_delta: Annotated[str | None, Meta(description="Why there is none.")] = None
    interval: Annotated[Interval | None, Meta(description="95 % interval of the delta.")] = None
    p_value: Annotated[float | None, Meta(description="Paired test, adjusted for all tests of the comparison.")] = None
    pairs: int = 0
    change: Annotated[
        str,
        Meta(description="improved, degraded, no difference shown, too few samples, not tested or not comparable."),
    ]
    statement: Annotated[str, Meta(description="The evidence for the conclusion.")]


class EvaluationTable(Struct, frozen=True):
    """A comparison of evaluations."""

    baseline: ComparedEvaluation
    candidates: tuple[CandidateOfTable, ...]
    rows: tuple[RowOfTable, ...]
    not_compared: Annotated[_Texts, Meta(description="Metrics that some evaluation does not have.")]
    alpha: float
    tests: int


def list_compared_measures(evaluations: Sequence[CompletedEvaluation]) -> list[str]:
    """Return evalspec's names of the metrics that all evaluations have.

    Raises:
        InvalidInput: The evaluations have no metric in common.
    """
    keys = _list_common_keys(evaluations)
    if not keys:
        raise InvalidInput("the evaluations have no metric at the same k in common", "evaluate with the same k_values")
    return [_find_measure(key) for key in keys]


def build_evaluation_table(comparison: Comparison, evaluations: Sequence[CompletedEvaluation]) -> EvaluationTable:
    """Return the table of a comparison of the runs of evaluations, the baseline first."""
    baseline, *candidates = evaluations
    keys = _list_common_keys(evaluations)
    pairs = list(zip(candidates, comparison.candidates, strict=True))
    found = [_describe_candidate(baseline, one, part) for one, part in pairs]
    rows = [
        row
        for key in keys
        for (one, part), told in zip(pairs, found, strict=True)
        for row in _build_rows(key, baseline, one, part, told.mismatches)
    ]
    left_out = {key for one in evaluations for key in one.result.overall_metrics if key not in keys}
    shown = ComparedEvaluation(*_identify(baseline))
    return EvaluationTable(
        shown, tuple(found), tuple(rows), tuple(sorted(left_out)), comparison.alpha, comparison.tests
    )


def _list_common_keys(evaluations: Sequence[CompletedEvaluation]) -> list[str]:
    first, *others = (one.result.overall_metrics for one in evaluations)
    return [key for key in first if all(key in metrics for metrics in others)]


def _find_measure(key: str) -> str:
    """Return evalspec's name of a metric in the results."""
    metric, _, k = key.partition("_at_")
    return f"{CUT[metric]}@{k}" if k else UNCUT[metric]


def _identify(one: CompletedEvaluation) -> tuple[str, str, str, int, int]:
    asked = one.request
    return one.id, asked.retriever_id, asked.dataset_name, asked.dataset_version, one.result.ranking_depth


def _describe_candidate(
    baseline: CompletedEvaluation, one: CompletedEvaluation, part: CandidateComparison
) -> CandidateOfTable:
    before, after = baseline.request, one.request
    # the table has only metrics with common cutoffs
    cutoffs = set(list_column_mismatches(before.dataset_name, list_measures(before), list_measures(after)))
    mismatches = [mismatch for mismatch in part.mismatches if mismatch not in cutoffs]
    if before.dataset_name != after.dataset_name:
        mismatches.insert(0, f"the datasets differ: {before.dataset_name} and {after.dataset_name}")
    common = [said for one in part.datasets if not mismatches and (said := describe_common(one))]
    notes = [*part.notes, *(f"every row is {said}" for said in common)]
    if baseline.result.ranking_depth != one.result.ranking_depth:
        depths = f"{baseline.result.ranking_depth} and {one.result.ranking_depth} documents"
        notes.append(f"full rankings have {depths}, which MAP and MRR depend on")
    return CandidateOfTable(*_identify(one), not mismatches, tuple(mismatches), part.differences, tuple(notes))


def _build_rows(
    key: str,
    baseline: CompletedEvaluation,
    one: CompletedEvaluation,
    part: CandidateComparison,
    mismatches: Sequence[str],
) -> Iterator[RowOfTable]:
    measure, (metric, _, k) = _find_measure(key), key.partition("_at_")
    label = f"{_LABELS[metric]}@{k}" if k else _LABELS[metric]
    before, after = baseline.result.overall_metrics[key], one.result.overall_metrics[key]
    of_means = [CUT.get(metric) in find_of_means(side.request) for side in (baseline, one)]
    reasons = list(mismatches)
    if len(set(of_means)) > 1:
        reasons.append(f"{label} is computed by other formulas (compat)")
    if reasons:
        yield RowOfTable(
            metric=label,
            key=key,
            evaluation_id=one.id,
            baseline=before,
            candidate=after,
            no_relative_delta=NOT_COMPARABLE,
            change=NOT_COMPARABLE,
            statement="; ".join(reasons),
        )
    elif any(of_means):
        delta = Delta(before, after, None if before is None or after is None else after - before, None, 0)
        yield _to_row(label, key, one, delta, Change.NOT_TESTED, _OF_MEANS)
    else:
        for change in (change for change in part.changes if change.metric == measure):
            yield _to_row(label, key, one, change, _conclude(change), _state(change), change.p_adjusted)


def _conclude(change: MetricChange) -> str:
    return NO_DIFFERENCE if change.verdict is Change.UNDECIDED else str(change.verdict)


def _state(change: MetricChange) -> str:
    decided = change.verdict in (Change.IMPROVED, Change.DEGRADED)
    return ", ".join(filter(None, [render_p(change.p_adjusted) if decided else "", render_statement(change)]))


def _to_row(
    label: str,
    key: str,
    one: CompletedEvaluation,
    found: Delta,
    change: str,
    statement: str,
    p_value: float | None = None,
) -> RowOfTable:
    no_relative = "a value is unknown" if found.delta is None else None if found.baseline else "the baseline is 0"
    return RowOfTable(
        metric=label,
        key=key,
        evaluation_id=one.id,
        baseline=found.baseline,
        candidate=found.candidate,
        delta=found.delta,
        relative_delta=found.relative,
        no_relative_delta=no_relative,
        interval=found.interval,
        p_value=p_value,
        pairs=found.pairs,
        change=change,
        statement=statement,
    )


def build_table_view(table: EvaluationTable) -> View:
    """Return the table of a comparison with the evaluations and the method, which Markdown shows."""
    return View(
        (cell("Comparison of retrievers"),),
        lead=tuple(_lead(table)),
        sections=tuple(_build_section(table, one) for one in table.candidates),
        notes=tuple(_notes(table)),
    )


def _lead(table: EvaluationTable) -> Iterator[Line]:
    yield Line(("baseline: ", *_say(table.baseline)))
    for one in table.candidates:
        yield Line(("candidate: ", *_say(one)))
        for mismatch in one.mismatches:
            yield Line((f"{NOT_COMPARABLE}: ", *prose(mismatch)), tone=Tone.WARN)


def _say(one: ComparedEvaluation) -> Words:
    dataset = (*name(one.dataset_name), f" version {one.dataset_version}")
    return (*name(one.retriever_id), ", dataset ", *dataset, ", evaluation ", *name(one.evaluation_id))


def _build_section(table: EvaluationTable, candidate: CandidateOfTable) -> Section:
    columns = (
        names("Metric"),
        *numbers("Baseline", "Candidate", "Delta", "Relative"),
        Column("Conclusion", wrap=Wrap.WORDS),
        Column("Evidence", wrap=Wrap.WORDS),
    )
    own = (row for row in table.rows if row.evaluation_id == candidate.evaluation_id)
    rows = tuple(Row(tuple(_build_cells(row))) for row in own)
    return Section("metrics", name(candidate.retriever_id), (Table(columns, rows),), "the metrics")


def _build_cells(row: RowOfTable) -> Iterator[Cell]:
    yield cell(row.metric)
    yield cell(render_known(row.metric, row.baseline))
    yield cell(render_known(row.metric, row.candidate))
    yield cell(render_delta(row.metric, row.delta))
    yield cell(render_relative(row.relative_delta))
    yield cell(row.change)
    yield cell(*prose(row.statement))


def _notes(table: EvaluationTable) -> Iterator[Line]:
    yield quiet(f"alpha {table.alpha:g}, p adjusted for {table.tests} tests; each row is over the queries of both")
    if table.not_compared:
        yield quiet("not compared, because some evaluation does not have them", items=map(name, table.not_compared))
    for one in table.candidates:
        yield from (quiet(*name(one.retriever_id), ": ", *prose(note)) for note in one.notes)


_BASELINE = (EVALUATION_ID, RETRIEVER, DATASET, 2, 100)
_CANDIDATE = ("eval_ba9876543210", f"{RETRIEVER}_v2", DATASET, 2, 100)
_DIFFERENCES = (f"retriever of {DATASET}: {RETRIEVER} and {RETRIEVER}_v2",)
TABLE = EvaluationTable(
    ComparedEvaluation(*_BASELINE),
    (CandidateOfTable(*_CANDIDATE, True, (), _DIFFERENCES, ()),),
    (
        RowOfTable(
            metric="NDCG@10",
            key="ndcg_at_10",
            evaluation_id="eval_ba9876543210",
            baseline=0.4949,
            candidate=0.703,
            delta=0.2081,
            relative_delta=0.4205,
            interval=(0.1314, 0.2703),
            p_value=0.0001,
            pairs=60,
            change="improved",
            statement="p < 0.001",
        ),
    ),
    ("mrr",),
    0.05,
    1,
)
"""The example of a table in the OpenAPI document."""
