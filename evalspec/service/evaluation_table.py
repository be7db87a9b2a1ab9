"""The answer of a comparison of evaluations: a table as JSON."""

from typing import Any

from pydantic import AliasPath, BaseModel, ConfigDict, Field

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


class _Part(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class ComparedEvaluation(_Part):
    """An evaluation of a comparison."""

    evaluation_id: str = Field(validation_alias="id")
    retriever_id: str = Field(validation_alias=AliasPath("request", "retriever_id"))
    dataset_name: str = Field(validation_alias=AliasPath("request", "dataset_name"))
    dataset_version: int = Field(validation_alias=AliasPath("request", "dataset_version"))
    ranking_depth: int = Field(validation_alias=AliasPath("result", "ranking_depth"))


class CandidateOfTable(ComparedEvaluation):
    """A candidate, and whether its numbers may be compared with the baseline's."""

    is_comparable: bool
    mismatches: list[str] = Field(description="Why it is not comparable.")
    differences: list[str] = Field(description="What else differs, which may be the purpose of the comparison.")
    notes: list[str]


class RowOfTable(_Part):
    """A metric of a candidate and the baseline, over the queries that both answered."""

    metric: str = Field(validation_alias="label")
    key: str = Field(description="The metric's key in the results of an evaluation.")
    evaluation_id: str = Field(validation_alias=AliasPath("candidate", "id"))
    baseline: float | None = Field(validation_alias=AliasPath("found", "baseline"))
    candidate: float | None = Field(validation_alias=AliasPath("found", "candidate"))
    delta: float | None = Field(validation_alias=AliasPath("found", "delta"), description="Candidate minus baseline.")
    relative_delta: float | None = Field(
        validation_alias=AliasPath("found", "relative"), description="The delta as a share of the baseline."
    )
    no_relative_delta: str | None = Field(validation_alias="no_relative", description="Why there is none.")
    interval: tuple[float, float] | None = Field(
        validation_alias=AliasPath("found", "interval"), description="95 % interval of the delta."
    )
    p_value: float | None = Field(description="Paired test, adjusted for all tests of the comparison.")
    pairs: int = Field(validation_alias=AliasPath("found", "pairs"))
    change: str = Field(
        description="improved, degraded, no difference shown, too few samples, not tested or not comparable."
    )
    statement: str = Field(description="The evidence for the conclusion.")


class EvaluationTable(_Part):
    """A comparison of evaluations, made of a MetricTable."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})
    baseline: ComparedEvaluation
    candidates: list[CandidateOfTable]
    rows: list[RowOfTable]
    not_compared: list[str] = Field(
        validation_alias="left_out", description="Metrics that some evaluation does not have."
    )
    alpha: float
    tests: int
