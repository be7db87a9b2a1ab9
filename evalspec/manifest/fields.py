"""What the models of the manifest are made of: kinds of values, and how strict a section is."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictStr
from pydantic.alias_generators import to_camel

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Drop = Annotated[float, Field(strict=True, ge=0)]
Confidence = Annotated[float, Field(strict=True, gt=0, lt=1)]
Count = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]
Seconds = Annotated[float, Field(strict=True, gt=0)]
Name = Annotated[StrictStr, Field(min_length=1)]
_MODULE_OBJECT = r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"


def _name_something(text: str) -> str:
    if re.match(_MODULE_OBJECT, text) is None:
        raise ValueError(f"'{text}' names nothing in a module; write module:name")
    return text


ModuleObject = Annotated[
    StrictStr, AfterValidator(_name_something), Field(json_schema_extra={"pattern": _MODULE_OBJECT})
]
Mode = Literal["retrieve", "retrieve+rerank"]


class Strict(BaseModel):
    """Unknown keys are errors; keys are camelCase in YAML and snake_case in Python."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True)


class Lenient(Strict):
    """Other tools' keys are accepted and ignored."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True, frozen=True)
