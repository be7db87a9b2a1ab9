"""The types of Mixpeek's ground truth."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictInt, StrictStr, field_validator

from evalspec.inputs.formats.mixpeek import INPUT

HIGHEST_SCORE = 5

Text = Annotated[StrictStr, Field(min_length=1)]


class MixpeekQuery(BaseModel):
    """One query of Mixpeek's API. `query_input` may also be the question as a string."""

    model_config = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)
    query_id: Text
    query_input: dict[str, JsonValue]
    relevant_documents: list[Text]
    relevance_scores: dict[Text, Annotated[StrictInt, Field(ge=0, le=HIGHEST_SCORE)]] | None = None

    @field_validator("query_input", mode="before")
    @classmethod
    def _holds_a_question(cls, value: Any) -> Any:
        given = {"text": value} if isinstance(value, str) else value
        if isinstance(given, dict):
            INPUT.find_question(given)
        return given

    @property
    def question(self) -> str:
        """The question as text, or a description of an input without words."""
        return INPUT.find_question(self.query_input)


class MixpeekFile(BaseModel):
    """The document: the keys of its author, and the keys that Mixpeek adds."""

    model_config = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)
    dataset_name: StrictStr | None = None
    description: StrictStr | None = None
    metadata: dict[str, JsonValue] | None = None
    dataset_id: StrictStr | None = None
    created_at: StrictStr | None = None
    updated_at: StrictStr | None = None
    namespace_id: StrictStr | None = None
    internal_id: StrictStr | None = None
    query_count: StrictInt | None = None
    queries: list[Any] = Field(min_length=1)


SETTINGS = frozenset(MixpeekFile.model_fields) - {"queries", "query_count"}
"""The keys of the document that become settings of the dataset."""
