"""The answer of a comparison of evaluations: a table as JSON."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from evalspec.service.evaluation_comparison import ComparedCandidate, CompletedEvaluation, MetricTable, TableRow
from evalspec.service.examples import DATASET, EVALUATION_ID, RETRIEVER

_EVALUATION: dict[str, Any] = {
    "evaluation_id": EVALUATION_ID,
    "retriever_id": RETRIEVER,
    "dataset_name": DATASET,
    "dataset_version": 2,
    "ranking_depth": 100,
}
_CANDIDATE_NAMES = {"evaluation_id": "eval_ba9876543210", "retriever_id": f"{RETRIEVER}_v2"}
_EXAMPLE: dict[str, Any] = {
    "baseline": _EVALUATION,
    "candidates": [
        {
            **_EVALUATION,
            **_CANDIDATE_NAMES,
            "is_comparable": True,
            "mismatches": [],
            "differences": [f"retriever of {DATASET}: {RETRIEVER} and {RETRIEVER}_v2"],
            "notes": [],
        }
    ],
    "rows": [
        {
            "metric": "NDCG@10",
            "key": "ndcg_at_10",
            "evaluation_id": _CANDIDATE_NAMES["evaluation_id"],
            "baseline": 0.4949,
            "candidate": 0.703,
            "delta": 0.2081,
            "relative_delta": 0.4205,
            "no_relative_delta": None,
            "interval": [0.1314, 0.2703],
            "p_value": 0.0001,
            "pairs": 60,
            "change": "improved",
            "statement": "p < 0.001",
        }
    ],
    "not_compared": ["mrr"],
    "alpha": 0.05,
    "tests": 1,
}


class ComparedEvaluation(BaseModel):
    """An evaluation of a comparison."""

    evaluation_id: str
    retriever_id: str
    dataset_name: str
    dataset_version: int
    ranking_depth: int


class CandidateOfTable(ComparedEvaluation):
    """A candidate, and whether its numbers may be compared with the baseline's."""

    is_comparable: bool
    mismatches: list[str] = Field(description="Why it is not comparable.")
    differences: list[str] = Field(description="What else differs, which may be the purpose of the comparison.")
    notes: list[str]


class RowOfTable(BaseModel):
    """A metric of a candidate and the baseline, over the queries that both answered."""

    metric: str
    key: str = Field(description="The metric's key in the results of an evaluation.")
    evaluation_id: str
    baseline: float | None
    candidate: float | None
    delta: float | None = Field(description="Candidate minus baseline.")
    relative_delta: float | None = Field(description="The delta as a share of the baseline.")
    no_relative_delta: str | None = Field(description="Why there is none.")
    interval: tuple[float, float] | None = Field(description="95 % interval of the delta.")
    p_value: float | None = Field(description="Paired test, adjusted for all tests of the comparison.")
    pairs: int
    change: str = Field(
        description="improved, degraded, no difference shown, too few samples, not tested or not comparable."
    )
    statement: str = Field(description="The evidence for the conclusion.")


class EvaluationTable(BaseModel):
    """A comparison of evaluations."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})
    baseline: ComparedEvaluation
    candidates: list[CandidateOfTable]
    rows: list[RowOfTable]
    not_compared: list[str] = Field(description="Metrics that some evaluation does not have.")
    alpha: float
    tests: int


def describe_table(table: MetricTable) -> EvaluationTable:
    """Return the table as the API shows it."""
    return EvaluationTable(
        baseline=ComparedEvaluation(**_describe_evaluation(table.baseline)),
        candidates=[_describe_candidate(one) for one in table.candidates],
        rows=[_describe_row(row) for row in table.rows],
        not_compared=list(table.left_out),
        alpha=table.alpha,
        tests=table.tests,
    )


def _describe_evaluation(one: CompletedEvaluation) -> dict[str, Any]:
    return {
        "evaluation_id": one.id,
        "retriever_id": one.request.retriever,
        "dataset_name": one.request.dataset,
        "dataset_version": one.request.version,
        "ranking_depth": one.result.depth,
    }


def _describe_candidate(one: ComparedCandidate) -> CandidateOfTable:
    return CandidateOfTable(
        **_describe_evaluation(one.evaluation),
        is_comparable=not one.mismatches,
        mismatches=list(one.mismatches),
        differences=list(one.differences),
        notes=list(one.notes),
    )


def _describe_row(row: TableRow) -> RowOfTable:
    return RowOfTable(
        metric=row.label,
        key=row.key,
        evaluation_id=row.candidate.id,
        baseline=row.found.baseline,
        candidate=row.found.candidate,
        delta=row.found.delta,
        relative_delta=row.found.relative,
        no_relative_delta=row.no_relative,
        interval=row.found.interval,
        p_value=row.p_value,
        pairs=row.found.pairs,
        change=row.change,
        statement=row.statement,
    )
