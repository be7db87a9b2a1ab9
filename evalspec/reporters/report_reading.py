"""A JSON report read back as the run that it was made of: all of it but the evidence, which only the run log keeps.

What was not there in earlier releases has its default, keys that a later one adds are passed over, and anything else
must be as the document promises.
"""

from pathlib import Path
from typing import Any

import msgspec

from evalspec.model import Run
from evalspec.model.fingerprints import Described, check_fingerprint
from evalspec.typed_json import check_version, convert, growing, parse_document, read_bytes


class _Head(msgspec.Struct, rename="camel"):
    schema_version: Any = None


def read_report(path: Path) -> Run:
    """The run of a report file.

    Raises:
        InvalidInput: the file cannot be read, or is no report that this version understands.
    """
    return parse_report(read_bytes(path), str(path))


def parse_report(content: str | bytes, shown_as: str = "report") -> Run:
    """The run of a report; `shown_as` names it in errors.

    Raises:
        InvalidInput: it is no report that this version understands.
    """
    try:
        if type(msgspec.json.decode(content, type=_Head).schema_version) is int:
            with growing():
                run = msgspec.json.decode(content, type=Run)
            if check_fingerprint(run.fingerprint) is None:
                return run
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        pass  # half a surrogate pair, or something wrong: what follows reads the one and says what the other is
    return build_run(parse_document(content, shown_as), shown_as)


def build_run(document: dict[str, Any], shown_as: str) -> Run:
    """The run of a report that is parsed already.

    Raises:
        InvalidInput: it is no report that this version understands.
    """
    check_version(document, shown_as)
    if "fingerprint" in document:
        convert(document, Described, shown_as)
    return convert(document, Run, shown_as)
