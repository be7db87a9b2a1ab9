"""Reporters, one module each. A reporter is a function from a Run to text or bytes."""

from importlib.metadata import EntryPoint
from typing import Any

from evalspec.registry import Registry

_FORMS = (
    "csv_report:CSV",
    "html:HTML",
    "json_report:JSON",
    "jsonl_report:JSONL",
    "junit:JUNIT",
    "markdown:MARKDOWN",
    "parquet:PARQUET",
    "sarif:SARIF",
)


def register_reporters(registry: Registry[Any]) -> None:
    """Register evalspec's own reporters, in the way that entry points of other packages do."""
    for form in _FORMS:
        EntryPoint("evalspec", f"{__name__}.{form}.register", registry.group).load()(registry)
