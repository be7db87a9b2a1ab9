"""The CI build of a run, cleaned: whoever names a branch or starts a build chooses these texts."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from evalspec.base.foreign_text import encodable
from evalspec.model.fingerprints import CiBuild

_LONGEST_TEXT = 300
"""Longest name of a branch and so on, in characters. Longer ones are unknown, because a part would be another name."""
_LONGEST_URL = 2000


def clean_ci_build(values: Mapping[str, Any]) -> CiBuild | None:
    """Return a build from values by field name, without those that no CI service has. None without a service."""
    texts = {name: _clean_text(values.get(name)) for name in ("branch", "commit", "pull_request")}
    service = _clean_text(values.get("service"))
    return None if service is None else CiBuild(service=service, url=clean_url(values.get("url")), **texts)


def _clean_text(value: Any) -> str | None:
    """Return a short text of one line as UTF-8 can represent it, otherwise None."""
    text = encodable(value).strip() if isinstance(value, str) else ""
    return text if text and text.isprintable() and len(text) <= _LONGEST_TEXT else None


def clean_url(value: Any) -> str | None:
    """Return an http(s) address without user, password and fragment, which may be secrets. None: it is none."""
    text = encodable(value).strip() if isinstance(value, str) else ""
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return None
    if not is_address or len(text) > _LONGEST_URL or not text.isprintable() or " " in text:
        return None
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
