"""promptfoo: test cases in YAML, JSON, JSON Lines or CSV. Asserts with a counterpart give the right answers."""

import re
from pathlib import Path

from evalspec.inputs.datasets.base import DatasetFormat, when_used
from evalspec.inputs.datasets.json_document import keys_at
from evalspec.inputs.datasets.record_files import Container, probe

_LISTS = frozenset({"tests", "scenarios"})
_OTHERS = frozenset({"prompts", "providers", "targets", "defaultTest"})
_TEST_KEY = re.compile(rb"^[ \t-]*+(?:tests|scenarios|vars)\s*:", re.MULTILINE)
_VARS = re.compile(rb"^[ \t-]*+vars\s*:\s*(?:\{|\[|$|file://)", re.MULTILINE)
_OTHER_KEY = re.compile(rb"^(?:prompts|providers|targets|defaultTest)\s*:", re.MULTILINE)
_CONFIG_KEY = re.compile(rb"^(?:tests|scenarios)\s*:", re.MULTILINE)
_EXPECTED = "__expected"


def recognises(path: Path, head: bytes) -> bool:
    """Return whether a file is promptfoo's, from its path and its first bytes."""
    if not head:
        return False
    found = probe(path, head)
    if found.container is Container.CELLS:
        return any(name.startswith(_EXPECTED) for name in found.columns)
    if found.container is Container.OTHER:
        marks = _VARS.search(head) or (_OTHER_KEY.search(head) and _CONFIG_KEY.search(head))
        return _TEST_KEY.search(head) is not None and marks is not None
    keys = keys_at(head)
    return "vars" in found.columns or not (keys.isdisjoint(_LISTS) or keys.isdisjoint(_OTHERS))


def is_document(path: Path, head: bytes) -> bool:
    """Return whether a file is YAML, or a configuration in JSON. Other files have a record for each test."""
    if probe(path, head).container is Container.OTHER:
        return True
    return path.suffix == ".json" and not keys_at(head).isdisjoint(_LISTS)


PROMPTFOO = DatasetFormat(
    name="promptfoo",
    summary="promptfoo's tests: vars and asserts (YAML, JSON or CSV)",
    read=when_used("evalspec.inputs.formats.promptfoo.cases", "read_promptfoo"),
    recognises=recognises,
    list_losses=when_used("evalspec.inputs.formats.promptfoo.cases", "list_losses"),
    write=when_used("evalspec.inputs.formats.promptfoo.cases", "write_promptfoo"),
    takes_fields=True,
)
