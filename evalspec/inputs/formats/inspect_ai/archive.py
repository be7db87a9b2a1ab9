"""The members of a `.eval` file, unpacked within limits. Newer releases of Inspect pack them with zstd."""

import zipfile
import zlib
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Any

from evalspec.base.errors import InvalidInput, MissingPackage, Problem

_MOST_BYTES = 64 * 1_048_576
_ZSTD = 93
_WINDOW = 128 * 1_048_576
"""How much memory zstd may take to unpack a member."""
_DAMAGES = (zipfile.BadZipFile, OSError, RuntimeError, ValueError)
"""What zipfile raises for files that are damaged, encrypted or packed in an unknown way."""
_FIX = "the file is damaged, or is not from Inspect"


class Archive:
    """An open `.eval` file. `members`: also those that share a name. `shown_as`: its path in messages."""

    def __init__(self, file: zipfile.ZipFile, shown_as: str) -> None:
        self.members = file.infolist()
        self._file = file
        self._shown_as = shown_as

    def read(self, member: zipfile.ZipInfo) -> bytes:
        """Return the content of a member. Memory stays bounded, whatever the file says of its sizes.

        Raises:
            InvalidInput: It is larger than the limit, or damaged.
            MissingPackage: It is packed with zstd, and zstandard is not installed.
        """
        unpack = _unpack_zstd if member.compress_type == _ZSTD else _unpack
        try:
            content = unpack(self._file, member, _MOST_BYTES + 1)
        except (*_DAMAGES, zlib.error, EOFError) as error:
            raise self._refuse(member, f"cannot be unpacked: {error}") from error
        if len(content) > _MOST_BYTES:
            raise self._refuse(member, f"unpacks to more than {_MOST_BYTES:,} bytes, the most that evalspec reads")
        if zlib.crc32(content) != member.CRC:
            raise self._refuse(member, "its checksum is wrong")
        return content

    def _refuse(self, member: zipfile.ZipInfo, message: str) -> InvalidInput:
        return InvalidInput(Problem(message, _FIX, self._shown_as, field=member.filename))


def _unpack(file: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> bytes:
    with file.open(member) as stream:
        return stream.read(size)


def _unpack_zstd(file: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> bytes:
    try:
        zstandard: Any = import_module("zstandard")
    except ImportError as error:
        raise MissingPackage("a log of Inspect that is packed with zstd", "zstandard", "inspect") from error
    packed = copy(member)
    packed.compress_type, packed.file_size = zipfile.ZIP_STORED, member.compress_size
    del packed.CRC  # of what is packed
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(file.open(packed))
        return bytes(reader.read(min(size, member.file_size + 1)))  # it allocates what it may return
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def open_archive(path: Path, shown_as: str) -> zipfile.ZipFile:
    """Open a `.eval` file.

    Raises:
        InvalidInput: It cannot be read.
    """
    try:
        return zipfile.ZipFile(path)
    except _DAMAGES as error:
        raise InvalidInput(Problem(f"cannot be read: {error}", _FIX, shown_as)) from error
