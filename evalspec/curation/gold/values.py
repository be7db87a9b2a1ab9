"""Types of the values in a gold set's files: names, days, hashes."""

import re
import unicodedata
from datetime import UTC, date, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictStr

from evalspec.base.errors import InvalidInput, Problem, split_fix

MAX_NAME = 100
_MARKS = "._@+-"


def _is_letter(letter: str) -> bool:
    """Return whether a character is a letter, a digit, or a mark that some scripts put on letters."""
    return letter.isalnum() or unicodedata.category(letter).startswith("M")


def check_name(name: str) -> str:
    """Return a name that is part of file names: an id, a person, a slice or a customer.

    Raises:
        ValueError: A file system could not hold it, or could confuse it with another name.
    """
    if unicodedata.normalize("NFC", name) != name:
        raise ValueError(f"{name!r} is not in Unicode's normal form NFC; type it again")
    inside = all(letter in _MARKS or _is_letter(letter) for letter in name)
    if not name or not inside or name[0] in _MARKS or name[-1] in _MARKS:
        raise ValueError(f"{name!r} cannot be a file name; use letters, digits and . _ @ + - between them")
    if len(name.encode()) > MAX_NAME:
        raise ValueError(f"the name is longer than {MAX_NAME} bytes; shorten it")
    return name


def require_name(name: str, field: str) -> None:
    """Raise InvalidInput for a name that `check_name` refuses. `field`: where the user wrote it."""
    try:
        check_name(name)
    except ValueError as error:
        message, fix = split_fix(str(error))
        raise InvalidInput(Problem(message, fix, field=field)) from error


def render_now() -> str:
    """Return the time in UTC as the files of a set have it, such as `2027-06-30T12:00:00Z`."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


Text = Annotated[StrictStr, Field(min_length=1)]
FileName = Annotated[StrictStr, AfterValidator(check_name)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]


def of_form(pattern: str, form: str) -> AfterValidator:
    """Return a check of a text that explains the form in words."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(f"{text!r} is not {form}")
        return text

    return AfterValidator(check)


_HASH = r"^[0-9a-f]{32}$"
Hash = Annotated[StrictStr, of_form(_HASH, "a hash of 32 hex digits"), Field(json_schema_extra={"pattern": _HASH})]


def _check_day(text: str) -> str:
    try:
        date.fromisoformat(text[:10])
    except ValueError as error:
        raise ValueError(f"{text!r} is not in the calendar; write a day as 2027-06-30") from error
    return text


_DATE = r"^\d{4}-\d{2}-\d{2}(?:[T ][\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?$"
_AS_A_DATE = "a date; write it as 2027-06-30 or 2027-06-30T12:00:00Z"
Date = Annotated[StrictStr, of_form(_DATE, _AS_A_DATE), Field(json_schema_extra={"pattern": _DATE})]
"""A day, perhaps with a time, as ISO 8601. Clocks may be wrong, so the day need not exist."""
Day = Annotated[Date, AfterValidator(_check_day)]
"""A day that exists, because a permission depends on it."""


class Strict(BaseModel):
    """A part of a file. Unknown keys are errors, keys are snake_case."""

    model_config = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False, frozen=True)
