"""The structured input of a query: an object with the question and whatever else a retriever takes."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from evalspec.model import Sample
from evalspec.model.exchanges import QUERY_INPUT


class QueryInput(Struct, frozen=True):
    """The input of one query.

    `question_key`: the field that is the question; None if no field is, because one of the two was edited. `place`: the
    field of the dataset, for messages. `is_text`: whether the dataset has only the question, as a text.
    """

    fields: Mapping[str, Any]
    question_key: str | None
    place: str
    is_text: bool = False


class QueryInputForm(Struct, frozen=True):
    """How a format represents structured inputs.

    `question_keys`: the fields that may be the question, the preferred one first. An object with only this one is not
    kept. `metadata_key`: the metadata key under which a sample keeps any other object, as `query_input`.
    """

    question_keys: tuple[str, ...]
    metadata_key: str

    def find_question_key(self, fields: Mapping[str, Any]) -> str | None:
        """Return the first field with a question, None if there is none."""
        return next((key for key in self.question_keys if isinstance(fields.get(key), str) and fields[key]), None)

    def keep(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata that keeps an input, empty if it is only a question."""
        preferred = self.question_keys[0]
        is_plain = fields.keys() == {preferred} and isinstance(fields[preferred], str)
        return {} if is_plain else {self.metadata_key: {QUERY_INPUT: fields}}

    def find_kept(self, sample: Sample) -> QueryInput | None:
        """Return the input that a sample keeps, None if there is none."""
        kept = sample.metadata.get(self.metadata_key)
        fields = kept.get(QUERY_INPUT) if isinstance(kept, Mapping) else None
        if not isinstance(fields, Mapping):
            return None
        key = self.find_question_key(fields)
        is_asked = key is not None and fields[key] == sample.question
        return QueryInput(fields, key if is_asked else None, f"metadata.{self.metadata_key}.{QUERY_INPUT}")


def describe_question(sample: Sample, key: str = "query") -> QueryInput:
    """Return the input of a query that is only a question. `key`: its field."""
    return QueryInput({key: sample.question}, key, "input", is_text=True)
