"""The encodings in which a secret value may appear in a text."""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from urllib.parse import quote, quote_plus


def _within_base64(value: str, offset: int, altchars: bytes = b"+/") -> str:
    """Return the base64 of a value that starts `offset` bytes into a group of three.

    Characters that also encode the neighbouring bytes are left out.
    """
    raw = to_bytes(value)
    encoded = base64.b64encode(b"\0" * offset + raw, altchars).decode().rstrip("=")
    begin = (0, 2, 3)[offset]
    return encoded[begin : (offset + len(raw)) * 8 // 6]


_ENCODINGS: Mapping[str, Callable[[str], str]] = {
    "plain": lambda value: value,
    "line": lambda value: " ".join(value.split()),
    "json": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "ascii": lambda value: json.dumps(value)[1:-1],
    "repr": lambda value: repr(value)[1:-1],
    "url": lambda value: quote(to_bytes(value), safe=""),
    "path": lambda value: quote(to_bytes(value)),
    "lower": lambda value: re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quote(to_bytes(value), safe="")),
    "form": lambda value: quote_plus(to_bytes(value)),
    "base64": lambda value: base64.b64encode(to_bytes(value)).decode(),
    "urlsafe": lambda value: base64.urlsafe_b64encode(to_bytes(value)).decode(),
    "in0": lambda value: _within_base64(value, 0),
    "in1": lambda value: _within_base64(value, 1),
    "in2": lambda value: _within_base64(value, 2),
    "urlsafe0": lambda value: _within_base64(value, 0, b"-_"),
    "urlsafe1": lambda value: _within_base64(value, 1, b"-_"),
    "urlsafe2": lambda value: _within_base64(value, 2, b"-_"),
}
"""Encodings that a value may appear in. The last six: inside the base64 of a longer text, such as `user:password`."""


def _per_byte(form: str) -> Callable[[str], str]:
    return lambda value: "".join(form.format(byte) for byte in to_bytes(value))


def _per_character(form: str) -> Callable[[str], str]:
    return lambda value: "".join(form.format(ord(character)) for character in value)


def _in_json(plain: int, in_ascii: int, value: str) -> str:
    """Return the value as a string of JSON within JSON: escaped so many times, then so many times in ASCII alone."""
    for number in range(plain + in_ascii):
        value = json.dumps(value, ensure_ascii=number >= plain)[1:-1]
    return value


def _escape(value: str, *, quote: bool = True) -> str:
    import html  # with a table of two thousand names

    return html.escape(value, quote=quote)


_MORE_ENCODINGS: Mapping[str, Callable[[str], str]] = {
    "capitals": str.upper,
    "small": str.lower,
    "hex": lambda value: to_bytes(value).hex(),
    **{f"hex{ord(mark)}": partial(lambda mark, value: to_bytes(value).hex(mark), mark) for mark in ":- "},
    "hexescape": _per_byte(r"\x{:02x}"),
    "bytes": _per_byte("%{:02x}"),
    "component": lambda value: quote(to_bytes(value), safe="!'()*"),
    "uri": lambda value: quote(to_bytes(value), safe=";,/?:@&=+$!*'()#"),
    "unicode": _per_character(r"\u{:04x}"),
    "decimal": _per_character("&#{};"),
    "hexadecimal": _per_character("&#x{:x};"),
    "markup": lambda value: _escape(value, quote=False),
    "html": _escape,
    "html39": lambda value: _escape(value).replace("&#x27;", "&#39;"),
    "html34": lambda value: _escape(value).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    "apos": lambda value: _escape(value).replace("&#x27;", "&apos;"),
    "slash": lambda value: _in_json(0, 1, value).replace("/", "\\/"),
    **{f"json{plain}ascii{depth - plain}": partial(_in_json, plain, depth - plain)
       for depth in (2, 3) for plain in range(depth + 1)},
}  # fmt: skip
"""Further encodings of long values."""

_ALL_ENCODINGS = {**_ENCODINGS, **_MORE_ENCODINGS}
_STRIPPED = "stripped-"
_LONG = 12


def encode(value: str, form: str) -> str:
    """Return the encoded value, for forms with `stripped-` without outer white space.

    Raises:
        KeyError: There is no such form.
    """
    name = form.removeprefix(_STRIPPED)
    return _ALL_ENCODINGS[name](value if name == form else value.strip())


def is_long(value: str) -> bool:
    """Return whether a value is also found in other case and in more encodings. A short one is by chance."""
    return len(value.strip()) >= _LONG


def list_forms(value: str) -> Iterator[str]:
    """Yield the forms that a value is searched in."""
    names = _ALL_ENCODINGS if is_long(value) else _ENCODINGS
    yield from names
    if value != value.strip():
        yield from (f"{_STRIPPED}{name}" for name in names)


def to_bytes(value: str) -> bytes:
    """Return the value's bytes. Environment variables may contain bytes that are not UTF-8."""
    return value.encode(errors="surrogatepass")
