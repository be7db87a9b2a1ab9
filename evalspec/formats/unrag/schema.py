"""The keys of an Unrag dataset, version 1, by Unrag's own names."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

OWN_KEY = "unrag"
"""The metadata key of samples and documents for what only Unrag has a place for."""

AS_LISTED = "relevant"
"""The key below it for the relevant ids of a sample as they were written, if some are repeated."""

DEFAULT_TOP_K = 10
"""Unrag's cut-off where the dataset names none."""

RANKING_LIMITS: Mapping[str, str] = {"hitAtK": "Success", "recallAtK": "Recall", "mrrAtK": "RR"}
"""Unrag's names of the metrics that may have a minimum, and ours."""

LATENCY = "latency_p95"
"""Our name of the one value that may have a maximum."""


def _refuse_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank; write something or leave the key out")
    return text


Text = Annotated[StrictStr, AfterValidator(_refuse_blank)]
Positive = Annotated[StrictInt, Field(ge=1)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Mode = Literal["retrieve", "retrieve+rerank"]


class UnragPart(BaseModel):
    """Unknown keys are errors, and so is null: Unrag knows absent keys only."""

    model_config = ConfigDict(extra="forbid", defer_build=True, alias_generator=to_camel, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_null(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("null is not accepted here; leave the key out")
        return value


class MinimumLimits(UnragPart):
    """The lowest means that pass."""

    hit_at_k: Share | None = None
    recall_at_k: Share | None = None
    mrr_at_k: Share | None = None


class MaximumLimits(UnragPart):
    """The highest latency that passes, in ms."""

    p95_total_ms: Annotated[float, Field(strict=True, gt=0)] | None = None


class UnragThresholds(UnragPart):
    """Limits of the whole dataset."""

    min: MinimumLimits = Field(default_factory=MinimumLimits)
    max: MaximumLimits = Field(default_factory=MaximumLimits)


class UnragDefaults(UnragPart):
    """How Unrag runs the dataset by default."""

    scope_prefix: Text
    top_k: Positive | None = None
    mode: Mode | None = None
    rerank_top_k: Positive | None = None
    thresholds: UnragThresholds = Field(default_factory=UnragThresholds)


class UnragFile(UnragPart):
    """The document as a whole; its documents and queries are validated one by one."""

    version: Literal["1"]
    id: Text
    description: Text | None = None
    defaults: UnragDefaults
    documents: list[Any] | None = None
    queries: list[Any] = Field(min_length=1)


class UnragSettings(UnragPart):
    """What the settings of a dataset may hold."""

    id: Text | None = None
    description: Text | None = None
    scope_prefix: Text | None = None
    mode: Mode | None = None
    rerank_top_k: Positive | None = None


class UnragSource(UnragPart):
    """How a document is loaded where its text is not in the file, and what belongs to it."""

    loader_ref: Text | None = None
    assets: list[JsonValue] | None = None


class UnragDocument(UnragSource):
    """One document of the corpus."""

    source_id: Text
    content: Text | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _can_be_loaded(self) -> "UnragDocument":
        if self.content is None and self.loader_ref is None:
            raise ValueError("a document needs content or loaderRef")
        if OWN_KEY in self.metadata:
            raise ValueError(f"metadata.{OWN_KEY} is evalspec's own place; rename the key")
        return self


class UnragRelevant(UnragPart):
    """The sources that answer a query; none where nothing does."""

    source_ids: list[Text]


class UnragOverrides(UnragPart):
    """What a query says for itself instead of the dataset's defaults."""

    notes: Text | None = None
    top_k: Positive | None = None
    scope_prefix: Text | None = None
    rerank_top_k: Positive | None = None


class UnragQuery(UnragOverrides):
    """One query."""

    id: Text
    query: Text
    relevant: UnragRelevant


class UnragExtras(UnragOverrides):
    """What `metadata["unrag"]` of a sample may hold; `relevant` is the list as written, where it has duplicates."""

    relevant: list[Text] | None = None
