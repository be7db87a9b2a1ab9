"""JSON of what the service keeps, and of what it sends to its processes."""

import json
from typing import TypeVar

import msgspec

from evalspec.model.base import built

Kept = TypeVar("Kept", bound=msgspec.Struct)


def encode_kept(value: msgspec.Struct) -> bytes:
    """Return a struct as JSON. Its texts may have lone surrogates, which msgspec rejects."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError):
        return json.dumps(msgspec.to_builtins(value)).encode()


def decode_kept(content: bytes, kind: type[Kept]) -> Kept:
    """Return the struct that was encoded.

    Raises:
        ValueError: Another version of evalspec encoded it.
    """
    try:
        return msgspec.json.decode(content, type=built(kind))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return msgspec.convert(json.loads(content), built(kind))


def encode_line(value: msgspec.Struct) -> bytes:
    """Return a struct, which may have paths, as one line of JSON for another process."""
    return msgspec.json.encode(value, enc_hook=str) + b"\n"


def decode_line(line: bytes, kind: type[Kept]) -> Kept:
    """Return the struct of `encode_line`."""
    return msgspec.json.decode(line, type=built(kind), dec_hook=lambda inner, value: inner(value))
