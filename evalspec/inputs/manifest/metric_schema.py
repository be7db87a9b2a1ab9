"""The parts of a manifest about metrics and their thresholds, which a dataset and the whole evaluation may have."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictStr, field_validator, model_validator

from evalspec.inputs.manifest.fields import Confidence, ManifestModel, ModuleObject, Name, Number
from evalspec.model.summaries import Direction


class MetricEntry(ManifestModel):
    """One metric: a name, or a mapping with parameters. `rubric` or `scorer` defines a metric of your own.

    Other keys are parameters, which planning checks: only the metric knows which it has.
    """

    model_config = ConfigDict(extra="allow")

    name: Name = Field(
        description="A built-in metric in any case, with a cut-off if it takes one (Recall@5), or a new name for "
        "your own.",
        examples=["string_match"],
    )
    rubric: Name | None = Field(
        None,
        description="Prompt for the judge, with {input}, {response}, {expected} and {contexts}. Without any of them, "
        "input and response are appended.",
    )
    labels: dict[StrictStr, Number] | None = Field(
        None,
        min_length=2,
        description="The labels that the judge chooses from, each with its score; required by `rubric`.",
    )
    scorer: ModuleObject | None = Field(
        None, description="Your own function that scores a reply, module:function, next to the manifest."
    )
    direction: Direction | None = Field(
        None, description="For a rubric or scorer: which values are better. Default: higher."
    )
    range: tuple[Number, Number] | None = Field(
        None,
        description="[lowest, highest] value; others fail. Intervals of a mean need one. Default: the metric's own, or "
        "that of the labels; for a scorer, any value.",
    )

    @field_validator("range", mode="before")
    @classmethod
    def _has_two_ends(cls, value: Any) -> Any:
        if value is not None and not (isinstance(value, list | tuple) and len(value) == 2):
            raise ValueError("range must be [lowest, highest], such as [0, 10]")
        return value

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
            raise ValueError("range must be [lowest, highest], such as [0, 10]")
        if self.direction and not (self.rubric or self.scorer):
            raise ValueError("direction needs a rubric or a scorer; add one, or remove it")
        return self


class Limit(ManifestModel):
    """One limit on one metric. A bare number is a minimum if higher is better, and a maximum if lower is better."""

    bound: Number | None = None  # the bare number
    min: Number | None = Field(None, description="The lowest value that passes.")
    max: Number | None = Field(None, description="The highest value that passes.")
    slice: Name | None = Field(
        None, description="Only samples with this tag, or with this key=value in their metadata. Default: all."
    )
    of: Name | None = Field(
        None,
        description="For pass^K and pass@K: the metric whose limits a successful attempt meets. Default: every metric.",
    )
    stat: Literal["mean", "median", "min", "max", "p50", "p90", "p95", "p99"] | None = Field(
        None,
        description="Statistic over the samples. Default: the metric's own, which is the mean for all but "
        "percentiles of latencies.",
    )
    confidence: Confidence | None = Field(
        None, description="Overrides the gate's confidence for this limit; null: compare only the value."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return {"bound": value}
        if not isinstance(value, dict):
            raise ValueError(f"{value!r} is not a threshold; write a number, {{min: 0.8}} or {{max: 0.1}}")  # noqa: TRY004
        lifts = {value.get("min"), value.get("max")} == {None} and not {"min", "max"}.isdisjoint(value)
        keys = ("slice", "stat", "of") if lifts else ("min", "max", "slice", "stat", "of")
        empty = [key for key in keys if key in value and value[key] is None]
        if empty:
            raise ValueError(f"{' and '.join(empty)} has no value; add one, or remove the key")
        return value

    @property
    def lifts(self) -> bool:
        """Return whether this is no limit, but lifts one of the evaluation or of the dataset's file."""
        return self.bound is None and self.min is None and self.max is None

    @model_validator(mode="after")
    def _says_something(self) -> "Limit":
        if self.lifts and self.model_fields_set.isdisjoint({"bound", "min", "max"}):
            raise ValueError("a threshold needs min or max; add one")
        if self.lifts and self.confidence is not None:
            raise ValueError("confidence has no effect beside null, which lifts a threshold; remove it")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min is above max, so nothing can pass; swap or correct them")
        return self


class WithThresholds(ManifestModel):
    """Metrics and thresholds, which both a dataset and the whole evaluation may have."""

    metrics: list[MetricEntry] | None = Field(
        None,
        min_length=1,
        description="What to compute. A dataset's list replaces the evaluation's. Default, with a warning: "
        "string_match for answers, and Recall, nDCG and others if documents are judged.",
    )
    thresholds: dict[StrictStr, Annotated[list[Limit], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Limits by metric: a number, a mapping, or a list of them. A dataset's limit overrides the "
        "evaluation's on the same metric, statistic and slice; null lifts it.",
    )

    @field_validator("thresholds", mode="before")
    @classmethod
    def _each_a_list(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {metric: given if isinstance(given, list) else [given] for metric, given in value.items()}
