"""Replace secret values by placeholders in all output, and restore them exactly when a stored reply is scored again.

A placeholder names the reference and the value's encoding: `[redacted:env:TOKEN]`, `[redacted:env:TOKEN:url]`.
Text that looks like the start of a placeholder is escaped as `[redacted:]`, so that restoring is exact.
"""

import base64
import hashlib
import hmac
import json
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus, unquote

_OPENING = "[redacted:"
_OPENING_BYTES = _OPENING.encode()
_ESCAPED = "[redacted:]"
_PLACEHOLDER = re.compile(r"\[redacted:(?:((?:env|secret):[^\]:]+)(?::([a-z0-9-]+))?)?\]")
_FIRST = re.compile(r"(?:([a-z0-9-]+)-)?first([0-9]+)")
_CUT = "…"
_SHORTEST = 4
"""Shorter values are not redacted: they are easy to guess, and would match parts of ordinary text."""

_SHORTEST_CUT = 8
"""Shorter beginnings of a truncated value are not redacted: they only name the kind of a key (`sk-proj…`)."""

_SCRYPT = {"n": 2**14, "r": 8, "p": 1}


def _within_base64(value: str, offset: int, altchars: bytes = b"+/") -> str:
    """Return the base64 of a value that starts `offset` bytes into a group of three.

    Characters that also encode the neighbouring bytes are left out.
    """
    raw = _to_bytes(value)
    encoded = base64.b64encode(b"\0" * offset + raw, altchars).decode().rstrip("=")
    begin = (0, 2, 3)[offset]
    return encoded[begin : (offset + len(raw)) * 8 // 6]


_ENCODINGS: Mapping[str, Callable[[str], str]] = {
    "plain": lambda value: value,
    "line": lambda value: " ".join(value.split()),
    "json": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "ascii": lambda value: json.dumps(value)[1:-1],
    "repr": lambda value: repr(value)[1:-1],
    "url": lambda value: quote(_to_bytes(value), safe=""),
    "path": lambda value: quote(_to_bytes(value)),
    "lower": lambda value: re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quote(_to_bytes(value), safe="")),
    "form": lambda value: quote_plus(_to_bytes(value)),
    "base64": lambda value: base64.b64encode(_to_bytes(value)).decode(),
    "urlsafe": lambda value: base64.urlsafe_b64encode(_to_bytes(value)).decode(),
    "in0": lambda value: _within_base64(value, 0),
    "in1": lambda value: _within_base64(value, 1),
    "in2": lambda value: _within_base64(value, 2),
    "urlsafe0": lambda value: _within_base64(value, 0, b"-_"),
    "urlsafe1": lambda value: _within_base64(value, 1, b"-_"),
    "urlsafe2": lambda value: _within_base64(value, 2, b"-_"),
}
"""Encodings that a value may appear in. The last six: inside the base64 of a longer text, such as `user:password`."""


def _encode(value: str, form: str) -> str:
    """Return the encoded value, for forms with `stripped-` without outer white space."""
    name = form.removeprefix(_STRIPPED)
    return _ENCODINGS[name](value if name == form else value.strip())


_STRIPPED = "stripped-"
_FORMS = (*_ENCODINGS, *(f"{_STRIPPED}{name}" for name in _ENCODINGS))


class MissingValue(Exception):
    """The text contains a placeholder of `reference`, whose value is not known."""

    def __init__(self, reference: str) -> None:
        super().__init__(reference)
        self.reference = reference


class _Needle(NamedTuple):
    text: str
    reference: str
    form: str

    def to_placeholder(self, length: int | None = None) -> str:
        """Return the placeholder of the value, or of its first `length` characters."""
        plain = self.form == "plain"
        form = self.form if length is None else f"{'' if plain else f'{self.form}-'}first{length}"
        suffix = "" if form == "plain" else f":{form}"
        return f"{_OPENING}{_quoted(self.reference)}{suffix}]"


class _Span(NamedTuple):
    begin: int
    end: int
    placeholder: str


class Redaction:
    """The values to redact, by the names of their references, such as `env:TOKEN`.

    `too_short`: references whose values are too short to be redacted.
    """

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self.too_short: set[str] = set()

    @property
    def names(self) -> frozenset[str]:
        """The references whose values are redacted."""
        return frozenset(self._values)

    def add(self, reference: str, value: str) -> None:
        """Redact this value from now on, unless it has fewer than four characters."""
        if len(value.strip()) < _SHORTEST:
            self.too_short.add(reference)
        elif self._values.get(reference) != value:
            self._values[reference] = value
            self.__dict__.pop("_needles", None)
            self.__dict__.pop("_encoded_needles", None)

    def hide(self, text: str) -> str:
        """Return the text with every value replaced, in any encoding. `restore` reverses it exactly.

        Longer values are replaced first. Values truncated by `…` are replaced too.
        """
        parts = self._replace(text)
        return "".join(part if place % 2 else _escape(part) for place, part in enumerate(parts))

    def mask(self, text: str) -> str:
        """Return the text with every value replaced, for readers: text that looks like a placeholder is not escaped."""
        return "".join(self._replace(text))

    def _replace(self, text: str) -> list[str]:
        """Return texts and placeholders alternately. The first and the last are texts."""
        parts = self._replace_cut(text) if _CUT in text else [text]
        for needle in self._needles:
            if needle.text in text:
                parts = list(_split(parts, needle))
        return parts

    def _replace_cut(self, text: str) -> list[str]:
        """Return texts and placeholders of values truncated by `…`. Of overlapping values, the first is replaced."""
        spans = [span for needle in self._needles for span in _find_whole_with_cut(text, needle)]
        cuts = [found.start() for found in re.finditer(_CUT, text)]
        spans += [span for needle in self._needles for span in _find_cut(text, needle, cuts)]
        parts, end = [], 0
        for span in sorted(spans, key=lambda span: (span.begin, -span.end)):
            if span.begin >= end:
                parts += [text[end : span.begin], span.placeholder]
                end = span.end
        return [*parts, text[end:]]

    def hide_data(self, value: Any) -> Any:
        """Apply `hide` to every string in a JSON value, including keys."""
        return _map_texts(value, self.hide if self._values else _escape)

    def is_clean(self, line: bytes) -> bool:
        """Whether `hide_data` leaves a value as it is, by its JSON on one line. False where that cannot be said."""
        if _OPENING_BYTES in line:
            return False
        return not self._values or not any(mark in line for mark in (*_ENCODED_CUTS, *self._encoded_needles))

    def mask_data(self, value: Any) -> Any:
        """Apply `mask` to every string in a JSON value, including keys."""
        return _map_texts(value, self.mask) if self._values else value

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

    def describe(self) -> dict[str, str]:
        """Return a salted digest of each value, by its reference, so that a changed value is noticed."""
        return {reference: _digest(value, os.urandom(16)) for reference, value in self._values.items()}

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
        for reference, value in self._values.items():
            for form in _FORMS:
                text = _encode(value, form)
                if len(text) >= _SHORTEST:
                    found.setdefault(text, _Needle(text, reference, form))
        return [found[text] for text in sorted(found, key=len, reverse=True)]

    @cached_property
    def _encoded_needles(self) -> list[bytes]:
        return [encoded for needle in self._needles for encoded in _encode_in_json(needle.text)]

    def _restore_one(self, found: re.Match[str]) -> str:
        if found[1] is None:
            return _OPENING
        reference, form = found[1], found[2] or "plain"
        value = self._values.get(unquote(reference))
        if value is None:
            raise MissingValue(unquote(reference))
        cut = _FIRST.fullmatch(form)
        whole, length = (form, None) if cut is None else (cut[1] or "plain", int(cut[2]))
        return _encode(value, whole)[:length] if whole in _FORMS else found[0]


def _encode_in_json(text: str) -> tuple[bytes, bytes]:
    """How a text stands within a string of JSON: in UTF-8, and in ASCII alone."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="surrogatepass"), json.dumps(text)[1:-1].encode()


_ENCODED_CUTS = _encode_in_json(_CUT)


def has_placeholders(line: bytes) -> bool:
    """Return whether a line of a stored file may contain a placeholder or an escaped one."""
    return _OPENING_BYTES in line


def list_references(line: bytes) -> frozenset[str]:
    """Return the references whose placeholders occur in a line of a stored file."""
    if not has_placeholders(line):
        return frozenset()
    return frozenset(unquote(found[1]) for found in _PLACEHOLDER.finditer(line.decode(errors="replace")) if found[1])


def _find_whole_with_cut(text: str, needle: _Needle) -> Iterable[_Span]:
    """Yield complete occurrences of a value that itself contains `…`."""
    begin = text.find(needle.text) if _CUT in needle.text else -1
    while begin >= 0:
        end = begin + len(needle.text)
        yield _Span(begin, end, needle.to_placeholder())
        begin = text.find(needle.text, end)


def _find_cut(text: str, needle: _Needle, cuts: Sequence[int]) -> Iterable[_Span]:
    """Yield occurrences of the needle truncated by `…`.

    Time grows with the length of the text, not with the number of `…` in it.
    """
    head, begin = needle.text[:_SHORTEST_CUT], -1
    while len(head) == _SHORTEST_CUT and (begin := text.find(head, begin + 1)) >= 0:
        first = bisect_left(cuts, begin + _SHORTEST_CUT)
        last = bisect_left(cuts, begin + len(needle.text))
        for cut in reversed(cuts[first:last]):
            if text.startswith(needle.text[: cut - begin], begin):
                yield _Span(begin, cut, needle.to_placeholder(cut - begin))
                begin = cut - 1
                break


def _split(parts: list[str], needle: _Needle) -> Iterable[str]:
    """Yield texts and placeholders alternately, with one more value replaced in the texts."""
    for place, part in enumerate(parts):
        if place % 2:
            yield part
            continue
        first, *rest = part.split(needle.text)
        yield first
        for piece in rest:
            yield needle.to_placeholder()
            yield piece


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


def _digest(value: str, salt: bytes) -> str:
    return (salt + hashlib.scrypt(_to_bytes(value), salt=salt, **_SCRYPT)).hex()


def _quoted(reference: str) -> str:
    kind, _, name = reference.partition(":")
    return f"{kind}:{quote(name, safe='')}"


def _to_bytes(value: str) -> bytes:
    """Return the value's bytes. Environment variables may contain bytes that are not UTF-8."""
    return value.encode(errors="surrogatepass")
