"""Find texts of a set in files of any form: YAML, JSON, HTML, gzip, the packed texts of an HTML report."""

import binascii
import codecs
import gzip
import html
import json
import os
import re
import zlib
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from evalspec.curation.gold.folding import flatten

SHORTEST = 12
"""Texts with fewer characters are not searched for: they would be found in files that do not quote them."""

MAX_BYTES = 64 * 1_048_576
"""Larger files are reported, not searched."""
_GZIP = b"\x1f\x8b"
_SKIPPED = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".hypothesis"})
_ESCAPED_SPACE = re.compile(r"(?<!\\)\\[nrt]")
_ESCAPED_LETTERS = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")
_QUOTE_MARKS = re.compile(r"\n[ \t]*>[> \t]*")
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PLACES_OF_IDS = (
    rb"""(?:(?<![A-Za-z])q?id|[a-z]Id)["']?\s*[:=]\s*["']?(?:%b)["']?(?=[\s,}\]]|$)""",
    rb"""^["']?(?:%b)["']?[,\t]""",
)
_PACKED = re.compile(rb"[A-Za-z0-9+/]{64,}={0,2}")


class Quotes:
    """Whether bytes contain one of some texts, however it is escaped or cased and wherever its lines break.

    `shortest`: number of characters of the shortest text that is searched for.
    """

    def __init__(self, texts: Iterable[str], shortest: int = SHORTEST) -> None:
        flat = {form(text) for text in texts for form in (_flatten, flatten)}
        self._forms = sorted({form for text in flat if len(text) >= shortest for form in _list_forms(text)})

    @property
    def is_possible(self) -> bool:
        """Whether there is a text to search for."""
        return bool(self._forms)

    def __call__(self, content: bytes) -> bool:
        """Return whether the bytes contain one of the texts."""
        if not self._forms:
            return False
        encoding = "utf-16" if content.startswith(_UTF16_MARKS) else "utf-8"
        flat = _flatten(content.decode(encoding, errors="replace"))
        return any(form in flat for form in self._forms)


def _flatten(text: str) -> str:
    """Return a text for the search: folded, on one line, without escapes of letters and marks of quoted lines."""
    plain = html.unescape(_ESCAPED_LETTERS.sub(_unescape, text))
    return flatten(_QUOTE_MARKS.sub("\n", _ESCAPED_SPACE.sub("\n", plain))).replace("''", "'")  # as in YAML


def _unescape(escaped: re.Match[str]) -> str:
    return bytes.fromhex(escaped[0].replace("\\u", "")).decode("utf-16-be", errors="replace")


class Ids:
    """Whether bytes have one of some ids where records have theirs: after a key as `id` or `sampleId`, or in a row."""

    def __init__(self, names: Collection[str]) -> None:
        forms = sorted({re.escape(form.encode()) for name in names for form in (name, json.dumps(name)[1:-1])})
        self._patterns = [re.compile(form % b"|".join(forms), re.MULTILINE) for form in _PLACES_OF_IDS] if forms else []

    @property
    def is_possible(self) -> bool:
        """Whether there is an id to search for."""
        return bool(self._patterns)

    def __call__(self, content: bytes) -> bool:
        """Return whether the bytes have one of the ids."""
        return any(pattern.search(content) for pattern in self._patterns)


def find_quoting(folder: Path, *tests: Quotes | Ids) -> tuple[dict[Path, int], list[Path]]:
    """Return the files below a folder that pass a test, with the number of the first test that they pass.

    Packed files are unpacked. Then follow the files that cannot be read.
    """
    quoting: dict[Path, int] = {}
    unread: list[Path] = []
    possible = [number for number, test in enumerate(tests) if test.is_possible]
    for path in walk_files(folder) if possible else ():
        try:
            if path.stat().st_size > MAX_BYTES:
                unread.append(path)
                continue
            parts = list(_unpack(path.read_bytes()))
        except OSError:
            unread.append(path)
            continue
        passed = next((number for number in possible if any(map(tests[number], parts))), None)
        if passed is not None:
            quoting[path] = passed
    return quoting, unread


def walk_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, without symbolic links and the folders of git and of virtual environments."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _list_forms(text: str) -> Iterator[str]:
    yield text
    yield json.dumps(text, ensure_ascii=False)[1:-1]


def _unpack(content: bytes) -> Iterator[bytes]:
    yield content
    if content.startswith(_GZIP):
        try:
            yield gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            return
    if b"<html" in content[:4096].lower():
        for packed in _PACKED.finditer(content):
            try:
                yield zlib.decompress(b64decode(packed[0]))
            except (binascii.Error, zlib.error):
                continue
