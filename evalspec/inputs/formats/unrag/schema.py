"""The schema of an Unrag dataset, version 1, with Unrag's names."""

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

from evalspec.inputs.formats.unrag.compat import OWN_KEY
from evalspec.model.fingerprints import RetrieverMode


def _refuse_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank; add text or remove the key")
    return text


Text = Annotated[StrictStr, AfterValidator(_refuse_blank)]
Positive = Annotated[StrictInt, Field(ge=1)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]


class UnragPart(BaseModel):
    """Base class. Unknown keys are errors, and so is null, because Unrag only allows absent keys."""

    model_config = ConfigDict(extra="forbid", defer_build=True, alias_generator=to_camel, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_null(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("null is not accepted here; remove the key")
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
    mode: RetrieverMode | None = None
    rerank_top_k: Positive | None = None
    thresholds: UnragThresholds = Field(default_factory=UnragThresholds)


class UnragFile(UnragPart):
    """The whole file. Its documents and queries are validated one by one."""

    version: Literal["1"]
    id: Text
    description: Text | None = None
    defaults: UnragDefaults
    documents: list[Any] | None = None
    queries: list[Any] = Field(min_length=1)


class UnragSettings(UnragPart):
    """The valid settings of a dataset."""

    id: Text | None = None
    description: Text | None = None
    scope_prefix: Text | None = None
    mode: RetrieverMode | None = None
    rerank_top_k: Positive | None = None


class UnragSource(UnragPart):
    """How to load a document whose text is not in the file, and its assets."""

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
            raise ValueError(f"metadata.{OWN_KEY} is reserved for evalspec; rename the key")
        return self


class UnragRelevant(UnragPart):
    """The sources that answer a query. Empty if nothing does."""

    source_ids: list[Text]


class UnragOverrides(UnragPart):
    """Settings of a query that override the dataset's defaults."""

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
    """The valid content of `metadata["unrag"]` of a sample. `relevant`: the original list, if it has duplicates."""

    relevant: list[Text] | None = None
