"""What may stand in a Mixpeek ground truth, as the service's API has it."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictInt, StrictStr, field_validator

OWN_KEY = "mixpeek"
"""Where a sample keeps in its metadata the `query_input` of which the question is only a part."""

HIGHEST_SCORE = 5
_QUESTION_KEYS = ("text", "query")
"""Mixpeek's SDK documents the first, its guide the second."""

Text = Annotated[StrictStr, Field(min_length=1)]


class MixpeekQuery(BaseModel):
    """One query, as Mixpeek's API has it; `query_input` may also be the question itself."""

    model_config = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)
    query_id: Text
    query_input: dict[str, JsonValue]
    relevant_documents: list[Text]
    relevance_scores: dict[Text, Annotated[StrictInt, Field(ge=0, le=HIGHEST_SCORE)]] | None = None

    @field_validator("query_input", mode="before")
    @classmethod
    def _holds_afind_question(cls, value: Any) -> Any:
        given = {"text": value} if isinstance(value, str) else value
        if isinstance(given, dict) and find_question(given) is None:
            raise ValueError('there is no question in it; write {"text": "…"}')
        return given

    @property
    def question(self) -> str:
        """What is asked, in words."""
        return find_question(self.query_input) or ""


class MixpeekFile(BaseModel):
    """The document: what its author writes and, where it was fetched from Mixpeek, what the service adds."""

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
"""What of the document is kept as the settings of the dataset."""


def find_question(query_input: Mapping[str, Any]) -> str | None:
    """The words in a `query_input`, or None where it has none."""
    found = (query_input.get(key) for key in _QUESTION_KEYS)
    return next((text for text in found if isinstance(text, str) and text), None)
