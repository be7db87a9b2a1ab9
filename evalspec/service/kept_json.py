"""JSON of what the service keeps to show it again. Its texts may have lone surrogates, which msgspec rejects."""

import json
from typing import TypeVar

import msgspec

from evalspec.model.base import built

Kept = TypeVar("Kept", bound=msgspec.Struct)


def encode_kept(value: msgspec.Struct) -> bytes:
    """Return a struct as JSON."""
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
