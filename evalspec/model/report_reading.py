"""Reader of JSON reports. It returns the complete run except evidence, which only the run log keeps.

Keys that earlier releases lack get their defaults. Unknown keys are ignored. All other deviations are errors.
"""

from pathlib import Path
from typing import Any

import msgspec

from evalspec.base.collector import growing
from evalspec.model import Run
from evalspec.model.base import built
from evalspec.model.typed_json import check_version, convert, parse_document, read_bytes


class _Head(msgspec.Struct, rename="camel"):
    schema_version: Any = None


def read_report(path: Path) -> Run:
    """Return the run in a report file.

    Raises:
        InvalidInput: The file cannot be read, or is not a report that this version supports.
    """
    return parse_report(read_bytes(path), str(path))


def parse_report(content: str | bytes, shown_as: str = "report") -> Run:
    """Return the run in a report. `shown_as`: its name in errors.

    Raises:
        InvalidInput: The content is not a report that this version supports.
    """
    try:
        if type(msgspec.json.decode(content, type=built(_Head)).schema_version) is int:
            with growing():
                return msgspec.json.decode(content, type=built(Run))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        pass  # the slower path below accepts lone surrogates, and has better error messages
    return build_run(parse_document(content, shown_as), shown_as)


def build_run(document: dict[str, Any], shown_as: str) -> Run:
    """Return the run in a parsed report.

    Raises:
        InvalidInput: The document is not a report that this version supports.
    """
    check_version(document, shown_as)
    return convert(document, Run, shown_as)
