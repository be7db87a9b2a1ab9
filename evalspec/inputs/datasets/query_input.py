"""The structured input of a query: an object with the question and whatever else a retriever takes.

A text `file:PATH` in it refers to a file beside the dataset. A sample has the hash and the size of the file, never its
content.
"""

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct

from evalspec.base.errors import RetrieverError
from evalspec.base.json_text import change_values
from evalspec.base.trust import require_file
from evalspec.model import Sample
from evalspec.model.exchanges import INPUT_FILES, QUERY_INPUT

FILE_SCHEME = "file:"
LARGEST_BYTES = 20_000_000
_SPELLED = "image/avif image/bmp image/gif image/heic image/jpeg image/png image/tiff image/webp"
_SPELLED += " audio/aac audio/flac audio/ogg audio/wav video/mp4 video/webm application/pdf"
MEDIA_TYPES: Mapping[str, str] = {
    **{f".{one.partition('/')[2]}": one for one in _SPELLED.split()},
    ".jpg": "image/jpeg",
    ".m4a": "audio/mp4",
    ".mov": "video/quicktime",
    ".mp3": "audio/mpeg",
}
"""The media types of the files that are sent, by suffix. No other file is, so a dataset cannot send a file of keys."""


class QueryInput(Struct, frozen=True):
    """The input of one query.

    `question_key`: the field that is the question; None if no field is: the input has no words (`has_words`), or one of
    the two was edited. `place`: the field of the dataset, for messages. `is_text`: whether the dataset has only the
    question, as a text. `kept_under`: the metadata key that keeps the input; empty if nothing does. `files`: by
    reference, hash and size of the files in it.
    """

    fields: Mapping[str, Any]
    question_key: str | None
    place: str
    is_text: bool = False
    has_words: bool = True
    kept_under: str = ""
    files: Mapping[str, Mapping[str, Any]] = {}


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

    def find_question(self, fields: Mapping[str, Any]) -> str:
        """Return the question of an input, or a description if it has no words.

        Raises:
            ValueError: there is neither a question nor another field.
        """
        key = self.find_question_key(fields)
        if key is None and not fields.keys() - set(self.question_keys):
            raise ValueError(f'it has no question; write {{"{self.question_keys[0]}": "…"}}')
        return _describe_fields(fields) if key is None else str(fields[key])

    def keep(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata that keeps an input, empty if it is only a question."""
        preferred = self.question_keys[0]
        is_plain = fields.keys() == {preferred} and isinstance(fields[preferred], str)
        return {} if is_plain else {self.metadata_key: {QUERY_INPUT: fields}}

    def find_kept(self, sample: Sample) -> QueryInput | None:
        """Return the input that a sample keeps, None if there is none."""
        kept = sample.metadata.get(self.metadata_key)
        fields = kept.get(QUERY_INPUT) if isinstance(kept, Mapping) else None
        if not isinstance(kept, Mapping) or not isinstance(fields, Mapping):
            return None
        key = self.find_question_key(fields)
        asked = key if key is not None and fields[key] == sample.question else None
        place, files = f"metadata.{self.metadata_key}.{QUERY_INPUT}", kept.get(INPUT_FILES, {})
        return QueryInput(fields, asked, place, has_words=key is not None, kept_under=self.metadata_key, files=files)


def _describe_fields(fields: Mapping[str, Any], above: str = "") -> str:
    """Return an input without words as one line: `image: https://…, price.max: 30`."""
    return ", ".join(
        _describe_fields(value, f"{above}{key}.")
        if isinstance(value, Mapping) and value
        else f"{above}{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in fields.items()
    )


def describe_question(sample: Sample, key: str = "query") -> QueryInput:
    """Return the input of a query that is only a question. `key`: its field."""
    return QueryInput({key: sample.question}, key, "input", is_text=True)


def locate_beside(folder: Path, name: str) -> Path:
    """Return the absolute path of a file in a dataset's folder, which is resolved.

    Raises:
        ValueError: the path leads out of the folder. The text has a fix.
        Refused: the policy forbids to read the file.
    """
    if "\0" in name:
        raise ValueError("the path contains a NUL character; remove it")
    path = Path(os.path.realpath(folder / name))  # does not raise if links form a loop
    if not path.is_relative_to(folder):
        raise ValueError("it is outside the dataset's folder; move the file into that folder")
    require_file(path)
    return path


def read_input_file(folder: Path, reference: str) -> tuple[Path, dict[str, Any]]:
    """Return the absolute path of a file `file:PATH` in the dataset's folder, with its SHA-256 and its size in bytes.

    Raises:
        ValueError: it is not such a file. The text has a fix.
        Refused: the policy forbids to read the file.
    """
    name = Path(reference.removeprefix(FILE_SCHEME))
    if name.is_absolute() or ".." in name.parts:
        raise ValueError("the path is absolute or has ..; write it relative to the dataset, within its folder")
    path = locate_beside(folder.resolve(), str(name))
    if path.suffix.lower() not in MEDIA_TYPES:
        raise ValueError(f"files of this type are not sent; use one of {', '.join(sorted(MEDIA_TYPES))}")
    if not path.is_file():
        raise ValueError("there is no such file; add it, or correct the path")
    if (size := path.stat().st_size) > LARGEST_BYTES:
        raise ValueError(f"the file has {size / 1e6:,.1f} MB, and the limit is 20 MB; make it smaller, or write a URL")
    try:
        return path, {"sha256": sha256(path.read_bytes()).hexdigest(), "size": size}
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}; correct that") from error


def open_files(given: QueryInput, folder: Path) -> Any:
    """Return the fields of an input with the absolute path of a file in place of each reference to one.

    Raises:
        RetrieverError: a file has changed since the dataset was read.
    """

    def open_file(value: Any) -> Any:
        if not isinstance(value, str) or value not in given.files:
            return value
        try:
            path, found = read_input_file(folder, value)
        except ValueError as error:
            raise RetrieverError(f"{value}: {error}") from error
        if found != given.files[value]:
            raise RetrieverError(f"{value} has changed since the dataset was read; start another run")
        return path

    return change_values(given.fields, open_file) if given.files else given.fields
