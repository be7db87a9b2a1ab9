"""What every part of the JSON report is made of."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, SkipValidation
from pydantic.alias_generators import to_camel

Text = Annotated[str, SkipValidation]
"""Any text. Half a surrogate pair, which a dataset may hold, is refused by pydantic and written as an escape by us."""


class Part(BaseModel):
    """A part of the document: snake_case here, camelCase in JSON, only finite numbers."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, allow_inf_nan=False)

    @classmethod
    def of(cls, record: object) -> Self:
        """The part that has the fields of a record, and of the records in it."""
        return cls.model_validate(record, from_attributes=True)
