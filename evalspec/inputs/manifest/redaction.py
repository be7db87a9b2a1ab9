"""Replace secret values by placeholders in all output, and restore them exactly when a stored reply is scored again.

A placeholder names the reference and the value's encoding: `[redacted:env:TOKEN]`, `[redacted:env:TOKEN:url]`. For a
text in other case it says which letters differ (`:case1f`, a bit mask), for the beginning of a value how long it is.
Text that looks like the start of a placeholder is escaped as `[redacted:]`, so that restoring is exact.
"""

import hashlib
import hmac
import json
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property, lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from evalspec.inputs.manifest.credentials import mask_keys, may_have_keys
from evalspec.inputs.manifest.encodings import encode, is_long, list_forms, to_bytes

_OPENING = "[redacted:"
_OPENING_BYTES = _OPENING.encode()
_ESCAPED = "[redacted:]"
_PLACEHOLDER = re.compile(
    r"\[redacted:(?:((?:env|secret|literal):[^\]:]+)(?::([a-z0-9-]+?))??(?::case([0-9a-f]+))?(?::first([0-9]+))?)?\]"
)
_CUTS = re.compile(r"…|\.\.\.")
_CAPITALS = re.compile("[A-Z]+")
_SHORTEST = 4
"""Shorter values are not redacted: they are easy to guess, and would match parts of ordinary text."""

_SHORTEST_CUT = 8
"""Shorter beginnings of a truncated value are not redacted: they only name the kind of a key (`sk-proj…`)."""

_SCRYPT = {"n": 2**14, "r": 8, "p": 1}


class MissingValue(Exception):
    """The text contains a placeholder of `reference`, whose value is not known."""

    def __init__(self, reference: str) -> None:
        super().__init__(reference)
        self.reference = reference


class _Needle(NamedTuple):
    """A text to find. `searched`: the text, in small letters if it is found in `any_case`."""

    text: str
    searched: str
    any_case: bool
    reference: str
    form: str

    def to_placeholder(self, found: str) -> str:
        """Return the placeholder of what was found: the text in any case, or its beginning."""
        form = "" if self.form == "plain" else f":{self.form}"
        mask = sum(1 << place for place, letter in enumerate(found) if letter != self.text[place])
        case = f":case{mask:x}" if mask else ""
        first = f":first{len(found)}" if len(found) < len(self.text) else ""
        return f"{_OPENING}{_quoted(self.reference)}{form}{case}{first}]"


class _Text(NamedTuple):
    """A text to search in, as it is and in small letters."""

    given: str
    folded: str

    def choose(self, needle: _Needle) -> str:
        """Return the text to search for a needle."""
        return self.folded if needle.any_case else self.given


class _Span(NamedTuple):
    begin: int
    end: int
    placeholder: str


class _Encoded(NamedTuple):
    """The needles as they are in JSON, in small letters.

    `by_mark`: those to search in a line that contains a mark, without those that contain another needle. `joined`: all.
    """

    by_mark: Mapping[bytes, Sequence[bytes]]
    joined: bytes


class Redaction:
    """The values to redact, by the names of their references, such as `env:TOKEN`.

    `too_short`: references whose values are too short to be redacted.
    """

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._ambient: set[str] = set()
        self._hidden: set[str] = set()
        self.too_short: set[str] = set()

    @property
    def names(self) -> frozenset[str]:
        """The references whose values are redacted."""
        return frozenset(self._values)

    def add(self, reference: str, value: str, *, is_ambient: bool = False) -> None:
        """Redact this value from now on, unless it has fewer than four characters.

        `is_ambient`: nothing refers to the value; it is described only once it was hidden.
        """
        if len(value.strip()) < _SHORTEST:
            self.too_short.add(reference)
            return
        (self._ambient.add if is_ambient else self._ambient.discard)(reference)
        self._values[reference] = value
        self._forget_needles()

    def add_printed(self, value: str) -> None:
        """Redact a key that a command has printed. Nothing can look it up later, so nothing refers to it."""
        if value not in self._values.values():
            self.add(f"literal:printed-{len(self._values)}", value, is_ambient=True)

    def drop_ambient(self, reference: str) -> None:
        """Redact a value no longer, unless something refers to it."""
        if reference in self._ambient:
            self._ambient.discard(reference)
            del self._values[reference]
            self._forget_needles()

    def _forget_needles(self) -> None:
        for name in ("_needles", "_encoded"):
            self.__dict__.pop(name, None)

    def hide(self, text: str) -> str:
        """Return the text with every value replaced, in any encoding. `restore` reverses it exactly.

        Longer values are replaced first. Values truncated by `…` or `...` are replaced too.
        """
        parts = self._replace(text)
        self._hidden.update(unquote(found[1]) for part in parts[1::2] if (found := _PLACEHOLDER.match(part)))
        return "".join(part if place % 2 else _escape(part) for place, part in enumerate(parts))

    def mask(self, text: str) -> str:
        """Return the text with every value replaced, for readers.

        Well-known kinds of keys are masked too, and text that looks like a placeholder is not escaped.
        """
        return "".join(part if place % 2 else mask_keys(part) for place, part in enumerate(self._replace(text)))

    def blank(self, text: str) -> str:
        """Return the text with `[redacted]` for every value."""
        return "[redacted]".join(self._replace(text)[::2])

    def _replace(self, text: str) -> list[str]:
        """Return texts and placeholders alternately. The first and the last are texts."""
        if not self._values:
            return [text]
        searched = _Text(text, _fold(text))
        parts = self._replace_cut(searched) if _CUTS.search(text) else [text]
        for needle in self._needles:
            if needle.searched in searched.choose(needle):
                parts = list(_split(parts, needle))
        return parts

    def _replace_cut(self, text: _Text) -> list[str]:
        """Return texts and placeholders of truncated values. Of overlapping values, the first is replaced."""
        spans = [span for needle in self._needles for span in _find_whole_with_cut(text, needle)]
        cuts = [found.start() for found in _CUTS.finditer(text.given)]
        spans += [span for needle in self._needles for span in _find_cut(text, needle, cuts)]
        parts, end = [], 0
        for span in sorted(spans, key=lambda span: (span.begin, -span.end)):
            if span.begin >= end:
                parts += [text.given[end : span.begin], span.placeholder]
                end = span.end
        return [*parts, text.given[end:]]

    def hide_data(self, value: Any) -> Any:
        """Apply `hide` to every string in a JSON value, including keys."""
        return _map_texts(value, self.hide)

    def is_clean(self, line: bytes) -> bool:
        """Whether `hide_data` leaves a value as it is, by its JSON on one line. False where that cannot be said."""
        if _OPENING in line.decode("latin-1"):  # finding a text in a text takes a fifth of the time
            return False
        if not self._values:
            return True
        folded, encoded = line.lower(), self._encoded
        for mark, needles in encoded.by_mark.items():
            if mark in folded and any(needle in folded for needle in needles):
                return False
        ends = {folded[max(0, cut.start() - _SHORTEST_CUT) : cut.start()] for cut in _ENCODED_CUTS.finditer(folded)}
        return not any(len(end) == _SHORTEST_CUT and end in encoded.joined for end in ends)

    def mask_data(self, value: Any) -> Any:
        """Apply `mask` to every string in a JSON value, including keys."""
        return _map_texts(value, self.mask)

    def is_readable(self, line: bytes) -> bool:
        """Whether `mask_data` leaves a value as it is, by its JSON on one line. False where that cannot be said."""
        return self.is_clean(line) and not may_have_keys(line)

    def restore(self, text: str) -> str:
        """Return the text that `hide` was given.

        Raises:
            MissingValue: a placeholder's value is not known.
        """
        return _PLACEHOLDER.sub(self._restore_one, text) if _OPENING in text else text

    def restore_known(self, value: Any) -> Any:
        """Apply `restore` to every string in a JSON value, except strings with placeholders of unknown values."""
        return _map_texts(value, self._restore_if_known)

    def _restore_if_known(self, text: str) -> str:
        try:
            return self.restore(text)
        except MissingValue:
            return text

    @property
    def described(self) -> Set[str]:
        """The references that `describe` has a digest of: ambient values that were never hidden are left out."""
        return self._values.keys() - (self._ambient - self._hidden)

    def describe(self) -> dict[str, str]:
        """Return a salted digest of each value, by its reference, so that a changed value is noticed."""
        return {reference: _digest_afresh(self._values[reference]) for reference in sorted(self.described)}

    def list_changed(self, described: Mapping[str, str]) -> set[str]:
        """Return the references of a description whose value has changed or is not known."""
        return {
            reference
            for reference, known in described.items()
            if reference not in self._values
            or not hmac.compare_digest(_digest(self._values[reference], bytes.fromhex(known[:32])), known)
        }

    @cached_property
    def _needles(self) -> list[_Needle]:
        found: dict[str, _Needle] = {}
        for reference in sorted(self._values, key=self._ambient.__contains__):  # a name of the manifest is preferred
            value = self._values[reference]
            for form in list_forms(value):
                text = encode(value, form)
                searched = _fold(text) if is_long(value) else text
                if len(text) >= _SHORTEST:
                    found.setdefault(searched, _Needle(text, searched, is_long(value), reference, form))
        return [found[text] for text in sorted(found, key=len, reverse=True)]

    @cached_property
    def _encoded(self) -> "_Encoded":
        needles = {part.lower() for needle in self._needles for part in _encode_in_json(needle.searched)}
        least: list[bytes] = []
        for needle in sorted(needles, key=len):
            if not any(other in needle for other in least):
                least.append(needle)
        by_mark: dict[bytes, list[bytes]] = {mark: [] for mark in _MARKS}
        for needle in least:
            by_mark[next(mark for mark in _MARKS if mark in needle)].append(needle)
        return _Encoded(by_mark, b"\0".join(needles))

    def _restore_one(self, found: re.Match[str]) -> str:
        if found[1] is None:
            return _OPENING
        reference, form = found[1], found[2] or "plain"
        value = self._values.get(unquote(reference))
        if value is None:
            raise MissingValue(unquote(reference))
        try:
            text = encode(value, form)[: int(found[4]) if found[4] else None]
        except KeyError:
            return found[0]
        mask = int(found[3] or "0", 16)
        return "".join(c.swapcase() if mask >> place & 1 else c for place, c in enumerate(text)) if mask else text


def _fold(text: str) -> str:
    """Return the text with A to Z in small letters, so that its length stays the same."""
    return text.lower() if text.isascii() else _CAPITALS.sub(lambda found: found[0].lower(), text)


def hide_all(values: Iterable[str]) -> Callable[[str], str]:
    """Return a function that replaces the values in a text, in any encoding, longest first, by `[redacted]`."""
    redaction = Redaction()
    for number, value in enumerate(values):
        redaction.add(str(number), value)
    return redaction.blank


FOR_READERS = Redaction()
"""Masks well-known kinds of keys only."""


def _encode_in_json(text: str) -> tuple[bytes, bytes]:
    """How a text stands within a string of JSON: in UTF-8, and in ASCII alone."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="surrogatepass"), json.dumps(text)[1:-1].encode()


_ENCODED_CUTS = re.compile(b"|".join(map(re.escape, (b"...", *_encode_in_json("…")))))
_MARKS = (b"%", b"&#", b"\\\\", b"")
"""Most lines contain none of the first three, so they need no search for the encodings that have them."""


def has_placeholders(line: bytes) -> bool:
    """Return whether a line of a stored file may contain a placeholder or an escaped one."""
    return _OPENING_BYTES in line


def list_references(line: bytes) -> frozenset[str]:
    """Return the references whose placeholders occur in a line of a stored file."""
    if not has_placeholders(line):
        return frozenset()
    return frozenset(unquote(found[1]) for found in _PLACEHOLDER.finditer(line.decode(errors="replace")) if found[1])


def _find_whole_with_cut(text: _Text, needle: _Needle) -> Iterable[_Span]:
    """Yield complete occurrences of a value that itself contains `…` or `...`."""
    searched = text.choose(needle)
    begin = searched.find(needle.searched) if _CUTS.search(needle.text) else -1
    while begin >= 0:
        end = begin + len(needle.text)
        yield _Span(begin, end, needle.to_placeholder(text.given[begin:end]))
        begin = searched.find(needle.searched, end)


def _find_cut(text: _Text, needle: _Needle, cuts: Sequence[int]) -> Iterable[_Span]:
    """Yield occurrences of the needle truncated by `…` or `...`.

    Time grows with the length of the text, not with the number of `…` in it.
    """
    searched, head, begin = text.choose(needle), needle.searched[:_SHORTEST_CUT], -1
    while len(head) == _SHORTEST_CUT and (begin := searched.find(head, begin + 1)) >= 0:
        first = bisect_left(cuts, begin + _SHORTEST_CUT)
        last = bisect_left(cuts, begin + len(needle.text))
        for cut in reversed(cuts[first:last]):
            if searched.startswith(needle.searched[: cut - begin], begin):
                yield _Span(begin, cut, needle.to_placeholder(text.given[begin:cut]))
                begin = cut - 1
                break


def _split(parts: list[str], needle: _Needle) -> Iterable[str]:
    """Yield texts and placeholders alternately, with one more value replaced in the texts."""
    for place, part in enumerate(parts):
        if place % 2:
            yield part
            continue
        searched, begin = _fold(part) if needle.any_case else part, 0
        while (found := searched.find(needle.searched, begin)) >= 0:
            end = found + len(needle.text)
            yield part[begin:found]
            yield needle.to_placeholder(part[found:end])
            begin = end
        yield part[begin:]


def _escape(text: str) -> str:
    return text.replace(_OPENING, _ESCAPED)


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {change(str(key)): _map_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_map_texts(item, change) for item in value]
    return value


@lru_cache(maxsize=64)  # a digest is slow on purpose, and the runs of a process mostly have the same keys
def _digest(value: str, salt: bytes) -> str:
    return (salt + hashlib.scrypt(to_bytes(value), salt=salt, **_SCRYPT)).hex()


@lru_cache(maxsize=64)
def _digest_afresh(value: str) -> str:
    return _digest(value, os.urandom(16))


def _quoted(reference: str) -> str:
    kind, _, name = reference.partition(":")
    return f"{kind}:{quote(name, safe='')}"
