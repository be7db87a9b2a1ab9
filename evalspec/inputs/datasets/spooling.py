"""Keep samples on disk during a run. A million samples would take gigabytes of memory."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice, starmap
from operator import attrgetter
from typing import BinaryIO, cast, overload
from weakref import finalize

from msgspec.structs import fields

from evalspec.base.errors import InvalidInput, Problem
from evalspec.model import Sample

_PART = 100
"""Number of samples in memory at a time. Smaller datasets are not written to disk."""


_read_fields = attrgetter(*(field.name for field in fields(Sample)))
"""Samples are pickled as tuples of their fields, which load five times as fast as frozen records."""


class SpooledSamples(Sequence[Sample]):
    """A sequence of samples in an unnamed temporary file, which is deleted with it. Every iteration reads the file.

    Raises:
        InvalidInput: The file cannot be written.
    """

    def __init__(self, samples: Iterable[Sample]) -> None:
        with _telling_failures():
            self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - closed with the last reference
        finalize(self, _close, self._file)
        self._places: list[int] = []
        self._count = 0
        self._latest: tuple[int, list[Sample]] = (-1, [])
        rest = iter(samples)
        while part := list(islice(rest, _PART)):
            self._places.append(self._file.tell())
            self._keep(part)
            self._count += len(part)

    def _keep(self, part: list[Sample]) -> None:
        import pickle

        with _telling_failures():
            pickle.dump([*map(_read_fields, part)], self._file, pickle.HIGHEST_PROTOCOL)
            self._file.flush()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        for number in range(len(self._places)):
            yield from self._load(number)

    @overload
    def __getitem__(self, place: int) -> Sample: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Sample]: ...
    def __getitem__(self, place: int | slice) -> Sample | Sequence[Sample]:
        if isinstance(place, slice):
            return [self[position] for position in range(*place.indices(self._count))]
        position = range(self._count)[place]
        number = position // _PART
        if self._latest[0] != number:  # lookups are mostly in order, so one part is cached
            self._latest = number, self._load(number)
        return self._latest[1][position % _PART]

    def _load(self, number: int) -> list[Sample]:
        import pickle

        self._file.seek(self._places[number])
        return [*starmap(Sample, pickle.load(self._file))]  # noqa: S301 - written by this process


def spool(samples: Iterable[Sample]) -> Sequence[Sample]:
    """Return the samples as a sequence, on disk if there are many.

    Raises:
        InvalidInput: The file cannot be written.
    """
    rest = iter(samples)
    few = tuple(islice(rest, _PART))
    return few if len(few) < _PART else SpooledSamples(chain(few, rest))


@contextmanager
def _telling_failures() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"cannot write samples to a temporary file: {error.strerror or error}"
        fix = "free space, or set TMPDIR to another folder"
        raise InvalidInput(Problem(message, fix, tempfile.gettempdir())) from error


def _close(file: BinaryIO) -> None:
    with suppress(OSError):  # closing retries a failed write, which has been reported
        file.close()
