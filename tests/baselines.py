"""Baseline files that a test changes on purpose."""

from collections.abc import Mapping
from typing import Any

from evalspec.base.json_text import compute_digest


def seal(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a baseline with the digest of its content, as if evalspec had written it."""
    bare = {key: value for key, value in document.items() if key != "sha256"}
    return {**bare, "sha256": compute_digest(bare)}
