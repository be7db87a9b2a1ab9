"""Fingerprints from what a document says."""

from collections.abc import Mapping
from typing import Any

from msgspec import convert

from evalspec.model.base import built
from evalspec.model.fingerprints import Fingerprint


def as_fingerprint(document: Mapping[str, Any]) -> Fingerprint:
    return convert(document, built(Fingerprint))
