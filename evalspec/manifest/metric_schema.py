"""The parts of a manifest about metrics and their thresholds, which a dataset and the whole evaluation may have."""

from typing import Annotated, Any, Literal

from pydantic import Field, StrictStr, field_validator, model_validator

from evalspec.manifest.fields import Confidence, Name, Number, Strict


class MetricEntry(Strict):
    """One metric of a dataset: a name, or an object with options.

    `reference: expected` (context_recall) uses the gold answer instead of the gold passages. `match: substring`
    (string_match) also accepts an expected text inside a longer word. `rubric` with `labels` defines a judged metric,
    and `scorer: module:function` a metric in Python.
    """

    name: Name
    reference: Literal["expected", "reference_contexts"] | None = None
    match: Literal["word", "substring"] = "word"
    rubric: Name | None = None
    labels: dict[StrictStr, Number] | None = Field(None, min_length=2)
    scorer: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] | None = None
    direction: Literal["higher", "lower"] | None = None
    range: tuple[Number, Number] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_kind(self) -> "MetricEntry":
        if self.rubric and self.scorer:
            raise ValueError("a metric has either a rubric or a scorer; remove one of them")
        if bool(self.rubric) != bool(self.labels):
            raise ValueError("rubric and labels need each other; add the missing one, as in labels: {good: 1, bad: 0}")
        if self.range and self.range[0] >= self.range[1]:
            raise ValueError("range must be [lowest, highest]")
        if (self.range or self.direction) and not (self.rubric or self.scorer):
            raise ValueError("direction and range need a rubric or a scorer; add one, or remove them")
        return self


class Limit(Strict):
    """One limit on one metric. `bound` is a bare number: a minimum or maximum, depending on the metric's direction."""

    bound: Number | None = None
    min: Number | None = None
    max: Number | None = None
    slice: Name | None = None
    stat: Literal["mean", "median", "min", "max", "p50", "p90", "p95", "p99"] | None = None
    confidence: Confidence | None = Field(
        None, description="Overrides the gate's confidence for this limit; null: compare the value."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"bound": value}
        if not isinstance(value, dict):
            raise ValueError(f"{value!r} is not a threshold; write a number, {{min: 0.8}} or {{max: 0.1}}")  # noqa: TRY004
        empty = [key for key in ("min", "max", "slice", "stat") if key in value and value[key] is None]
        if empty:
            raise ValueError(f"{' and '.join(empty)} has no value; add one, or remove the key")
        return value

    @model_validator(mode="after")
    def _says_something(self) -> "Limit":
        if self.bound is None and self.min is None and self.max is None:
            raise ValueError("a threshold needs min or max; add one")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min is above max, so nothing can pass; swap or correct them")
        return self


class WithThresholds(Strict):
    """Metrics and thresholds, which both a dataset and the whole evaluation may have."""

    metrics: list[MetricEntry] | None = Field(None, min_length=1)
    thresholds: dict[StrictStr, Annotated[list[Limit], Field(min_length=1)]] = Field(default_factory=dict)

    @field_validator("thresholds", mode="before")
    @classmethod
    def _each_a_list(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {metric: given if isinstance(given, list) else [given] for metric, given in value.items()}
