"""Split lines of a run file into columns of byte positions with numpy, as long as every line is plain.

A plain line has six fields of UTF-8 text without control characters, separated by single spaces and ended by a newline.
`run_scan` says why lines are read in this way, and how it is proved.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Places = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_SPACE, _NEWLINE = 32, 10
_ENDS_OF_A_LINE = np.array([_SPACE] * 5 + [_NEWLINE], dtype=np.uint8)
_WORD = 8
_LONGEST_FIELD = 512
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], dtype=np.uint64)
_MULTIPLIER = 0x9E3779B97F4A7C15
_MINUS, _POINT = b"-."
_NUMBER_BYTES = b"0123456789+-.eE "
_POWERS = np.array([10**size for size in range(_WORD + 1)], dtype=np.uint64)
_EXACT = np.uint64(1 << 53)
"""Integers below this are exact doubles, and the quotient of two doubles is the double nearest to the exact one."""

_DIGITS, _NOT_DIGITS, _HIGH_BITS = (np.uint64(int(byte * _WORD, 16)) for byte in ("30", "76", "80"))
_PAIRINGS = tuple(
    (np.uint64(factor), np.uint64(shift), np.uint64(mask))
    for factor, shift, mask in (
        (0xA01, 8, 0x00FF00FF00FF00FF),
        (0x640001, 16, 0x0000FFFF0000FFFF),
        (0x271000000001, 32, 0x00000000FFFFFFFF),
    )
)
"""Steps that combine eight digits, one per byte, into four numbers of two digits, two of four, and one of eight."""


class NotPlain(Exception):
    """The text must be read by the strict reader."""


class Text:
    """Bytes whose fields are read as little-endian numbers of eight bytes each, for any length of a field.

    `_words[place]` is the number of the eight bytes from a place. The views overlap, so any place is valid.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        padded = data + bytes(_WORD)
        self._words: Words = np.ndarray((len(data) + 1,), dtype="<u8", buffer=padded, strides=(1,))

    def words(self, starts: Places, ends: Places) -> list[Words]:
        """Return the first eight bytes of each field, the next eight, and so on, with zeros after its end.

        Raises:
            NotPlain: a field is too long.
        """
        longest = int((ends - starts).max(initial=0))
        if longest > _LONGEST_FIELD:
            raise NotPlain
        columns = []
        for skipped in range(0, longest, _WORD):
            places = np.minimum(starts + skipped, len(self.data))
            columns.append(self._words[places] & _MASKS[np.clip(ends - places, 0, _WORD)])
        return columns

    def keys(self, starts: Places, ends: Places) -> Words:
        """Return a number for each field, equal for equal texts. Texts of up to eight bytes differ in their numbers."""
        keys = np.zeros(len(starts), dtype=np.uint64)
        for place, word in enumerate(self.words(starts, ends)):
            keys += word * np.uint64(pow(_MULTIPLIER, place + 1, 1 << 64))
        return keys

    def parse_digits(self, starts: Places, ends: Places) -> tuple[Words, Flags]:
        """Return the number in each field, and whether it is one: only one to eight digits are.

        A field is shifted to the upper end of its eight bytes, so that zeros precede its digits. Exclusive or subtracts
        "0" from each byte. A byte that is not a digit is then 10 or more, and adding 118 sets its high bit.
        """
        sizes = ends - starts
        known = np.clip(sizes, 1, _WORD)
        empty = (8 * (_WORD - known)).astype(np.uint64)
        digits = (self._words[starts] << empty) ^ (_DIGITS << empty)
        are_numbers = (sizes == known) & (((digits | (digits + _NOT_DIGITS)) & _HIGH_BITS) == 0)
        for factor, shift, mask in _PAIRINGS:
            digits = ((digits * factor) >> shift) & mask
        return digits, are_numbers


class Lines(Struct, frozen=True):
    """The starts and ends of the fields of each line: query, document, rank and score."""

    text: Text
    queries: tuple[Places, Places]
    documents: tuple[Places, Places]
    ranks: tuple[Places, Places]
    scores: tuple[Places, Places]

    def __len__(self) -> int:
        return len(self.queries[0])

    def first(self, count: int) -> "Lines":
        """Return the first `count` lines."""
        fields = (self.queries, self.documents, self.ranks, self.scores)
        return Lines(self.text, *((starts[:count], ends[:count]) for starts, ends in fields))

    def document(self, line: int) -> bytes:
        """Return the document id of one line."""
        return self.text.data[self.documents[0][line] : self.documents[1][line]]

    def mark_queries(self) -> Places:
        """Return the lines with another query than the line before."""
        changed = np.zeros(len(self), dtype=np.bool_)
        changed[0] = True
        for words in self.text.words(*self.queries):
            changed[1:] |= words[1:] != words[:-1]
        return np.flatnonzero(changed)

    def query_names(self, lines: Places) -> list[str]:
        """Return the query ids of some lines."""
        starts, ends = (places[lines].tolist() for places in self.queries)
        return [self.text.data[start:end].decode() for start, end in zip(starts, ends, strict=True)]

    def parse_ranks(self) -> Words:
        """Return the ranks as numbers.

        Raises:
            NotPlain: a rank does not have one to eight digits.
        """
        ranks, are_numbers = self.text.parse_digits(*self.ranks)
        if not are_numbers.all():
            raise NotPlain
        return ranks

    def parse_scores(self) -> Floats:
        """Return the scores, each as the double nearest to the text.

        Raises:
            NotPlain: a score is not a finite decimal number.
        """
        starts, ends = self.scores
        characters = np.frombuffer(self.text.data, dtype=np.uint8)
        negative = characters[starts] == _MINUS
        points = np.append(np.flatnonzero(characters == _POINT), len(characters))
        point = np.minimum(points[np.searchsorted(points, starts)], ends)
        behind = np.minimum(point + 1, ends)
        whole, whole_is_number = self.text.parse_digits(starts + negative, point)
        part, part_is_number = self.text.parse_digits(behind, ends)
        divisor = _POWERS[np.minimum(ends - behind, _WORD)]
        digits = whole * divisor + np.where(point < ends, part, np.uint64(0))  # 12.5 is 125 / 10
        scores: Floats = digits.astype(np.float64) / divisor.astype(np.float64)
        np.negative(scores, out=scores, where=negative)
        exact = whole_is_number & (part_is_number | (point == ends)) & (digits < _EXACT)
        others = np.flatnonzero(~exact)
        if len(others):
            scores[others] = self._read_numbers(starts[others], ends[others])
        return scores

    def _read_numbers(self, starts: Places, ends: Places) -> Floats:
        """Return decimal numbers, converted one by one with `float`, such as those with an exponent or many digits."""
        text = self._cut_out(starts, ends + 1)
        if text.translate(None, _NUMBER_BYTES):
            raise NotPlain
        try:
            numbers = np.fromiter(map(float, text.split()), dtype=np.float64, count=len(starts))
        except ValueError as error:
            raise NotPlain from error
        if not np.isfinite(numbers).all():
            raise NotPlain
        return numbers

    def _cut_out(self, starts: Places, ends: Places) -> bytes:
        """Return the bytes between each start and its end, joined."""
        data = np.frombuffer(self.text.data, dtype=np.uint8)
        edges = np.zeros(len(data) + 1, dtype=np.int8)
        edges[starts] = 1
        edges[ends] = -1
        inside: Flags = np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)
        return data[inside].tobytes()


def split_lines(data: bytes) -> Lines:
    """Return the lines of a text that ends with a newline.

    Raises:
        NotPlain: a line is not plain.
    """
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise NotPlain from error
    characters = np.frombuffer(data, dtype=np.uint8)
    is_end = characters <= _SPACE
    ends = np.flatnonzero(is_end)
    if len(ends) % 6 or is_end[0] or (is_end[1:] & is_end[:-1]).any():
        raise NotPlain
    by_line = ends.reshape(-1, 6)
    if (characters[by_line] != _ENDS_OF_A_LINE).any():
        raise NotPlain
    columns = np.ascontiguousarray(by_line.T)
    queries = np.concatenate(([0], columns[5][:-1] + 1))
    return Lines(
        text=Text(data),
        queries=(queries, columns[0]),
        documents=(columns[1] + 1, columns[2]),
        ranks=(columns[2] + 1, columns[3]),
        scores=(columns[3] + 1, columns[4]),
    )


def join_texts(texts: Sequence[str]) -> tuple[Text, Places, Places]:
    """Return texts joined as one, with the start and end of each."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
    return Text(b"".join(encoded)), np.concatenate(([0], ends[:-1])).astype(np.int64), ends
