"""Recognise credentials by their looks: well-known keys in texts, literals in a manifest, values of variables."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from evalspec.inputs.manifest.yaml_source import Place, find_texts

_KEY = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"sk-(?=[\w-]*\d)[\w-]{16,}"
    r"|gh[opsur]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{20,}"
    r"|A[KS]IA[0-9A-Z]{16}(?![0-9A-Za-z])|AIza[\w-]{30,}|xox[abeprs]-[\w-]{10,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))",
    re.ASCII | re.DOTALL,
)
_STARTS = ("sk-", "github_pat_", "glpat-", "hf_", "KIA", "SIA", "AIza", "xox", "eyJ", "-----BEGIN ")
_OF_GITHUB = re.compile("gh[opsur]_")
"""What each such key contains. Most texts contain none, which is quick to see; but many contain `gh`."""
_SECRET_VARIABLE = re.compile(r".*(?:_KEY|TOKEN|SECRET|PASSWORD)", re.IGNORECASE)
SECRET_SETTING = re.compile(r".*(?:authorization|api[-_]?key|cookie|token|secret|password)", re.IGNORECASE)
_NO_SECRET = re.compile(
    r"(?:[A-Z]?[a-z]{1,20}|[A-Z]{1,20})(?:[-_. ](?:[A-Z]?[a-z]{1,20}|[A-Z]{1,20}))*"  # words
    r"|[-+]?[\d.,:]+"
    r"|(?:~|\.{1,2}/|[A-Za-z]:\\"
    r"|/(?:app|data|dev|etc|home|mnt|opt|private|root|run|srv|tmp|Users|usr|var|work)/)[\w@. /\\-]*"
    r"|[a-z][a-z0-9+.-]*://\S*",
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S*")
_REFERENCE = re.compile(r"^\$(?:env|secret|file|func):|\$\{(?:env|secret):")
_SHORTEST = 8


def mask_keys(text: str) -> str:
    """Return the text with every well-known kind of key masked, for readers, as in `[masked:sk-a…]`."""
    return _KEY.sub(lambda found: f"[masked:{found[0][:4]}…]", text) if _may_have_keys(text) else text


def may_have_keys(line: bytes) -> bool:
    """Return whether a text in a line of JSON may change in `mask_keys`."""
    return _may_have_keys(line.decode("latin-1"))  # finding a text in a text takes a fifth of the time


def _may_have_keys(text: str) -> bool:
    return any(map(text.__contains__, _STARTS)) or ("gh" in text and _OF_GITHUB.search(text) is not None)


def find_secrets(name: str, value: str) -> Sequence[str]:
    """Return what is secret in a variable of the environment, by its name and looks: all, or the password of a url."""
    if not _SECRET_VARIABLE.fullmatch(name):
        return ()
    secrets = _find_passwords(value) if _URL.fullmatch(value) else (value,)
    return [secret for secret in secrets if len(secret) >= _SHORTEST and not _NO_SECRET.fullmatch(secret)]


def find_literals(value: Any) -> Iterator[tuple[Place, str]]:
    """Yield the credentials that are written in a manifest itself, each with its place.

    These are values of settings and headers named like `apiKey` or `Authorization`, passwords in urls, and well-known
    kinds of keys. Single words, such as the `unused` of a server without keys, are none.
    """
    for place, text in find_texts(value):
        if not _REFERENCE.search(text):
            name = next((step for step in reversed(place) if isinstance(step, str)), "")
            yield from ((place, found) for found in _list_credentials(text, name))


def _list_credentials(value: str, name: str) -> Iterator[str]:
    scheme, space, rest = value.strip().partition(" ")
    credential = rest if space and scheme.isalpha() else value.strip()
    if SECRET_SETTING.fullmatch(name) and len(credential) >= _SHORTEST and not credential.isalpha():
        yield credential
    elif "@" in value and (passwords := _find_passwords(value)):
        yield from passwords
    elif "?" in value and "=" in value:
        for key, text in parse_qsl(value.partition("?")[2]):
            yield from _list_credentials(text, key)
    else:
        yield from (found[0] for found in _KEY.finditer(value))


def _find_passwords(url: str) -> Sequence[str]:
    """Return the password in a url, as it is written and as it is meant. Empty: there is none."""
    with suppress(ValueError):
        password = urlsplit(url).password or ""
        return [one for one in dict.fromkeys((password, unquote(password))) if one]
    return ()
