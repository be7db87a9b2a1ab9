"""Compute overlaps of chunks from their texts alone.

The chunks of a corpus are joined into one text, in order. So the surrounding text helps to identify a passage: the last
word of a document is found in that document, and a phrase that occurs in another document is recognised as a phrase.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter

from msgspec import Struct

from evalspec.curation.remap.corpus import Chunk
from evalspec.curation.remap.shared_text import (
    Interval,
    MatchMethod,
    Overlap,
    Stretch,
    compose,
    list_stretches,
    measure,
    measure_repeat,
    squeeze,
    unsqueeze,
)

_PHRASE = 128
"""Length in characters below which a stretch may be a sentence that two documents share."""
_FEW = 0.1
"""Chunks overlap by design if more than this share of them repeat the end of their predecessor."""
_PLACES: tuple[Callable[[Chunk, Chunk], bool], ...] = (
    lambda old, new: (old.path, old.page) == (new.path, new.page),
    lambda old, new: old.path == new.path,
    lambda old, new: True,  # noqa: ARG005 - the file or its pages were renamed
)
"""Scopes to search for a text in, from narrow to wide."""


class _Joined(Struct, frozen=True):
    """The joined squeezed texts of chunks. `spans`: the interval of each chunk, with nondecreasing starts and ends."""

    text: str
    chunks: Sequence[Chunk]
    spans: Sequence[Interval]

    def chunks_of(self, part: Interval) -> Iterator[tuple[Chunk, Interval]]:
        """Return the chunks with any of these characters, and their spans."""
        found = _touching(self.spans, part)
        return zip(self.chunks[found], self.spans[found], strict=True)

    def chunk_at(self, place: int) -> Chunk:
        """Return the first chunk with this character."""
        return self.chunks[bisect_right(self.spans, place, key=itemgetter(1))]


class _Piece(Struct, frozen=True):
    """Squeezed characters that an old and a new chunk share, by their places in each."""

    of_old: Interval
    of_new: Interval
    doubtful: bool


def match_by_text(
    old: Sequence[Chunk], indices: Sequence[int], new: Sequence[Chunk]
) -> Iterator[tuple[int, Iterable[list[Overlap]]]]:
    """Yield for each old chunk at `indices` its index and the overlaps in increasingly wide scopes.

    Of places with equally much of a text, the one nearest to its relative position in the old corpus is taken.
    """
    if not indices:
        return
    before, after = _join(old, " "), _join(new, "\n")
    spans = [before.spans[index] for index in indices]
    stretches: list[list[Stretch]] = [[] for _ in spans]
    scale = len(after.text) / len(before.text)
    found = list_stretches(before.text, after.text, spans)
    for stretch in sorted(found, key=lambda stretch: (-stretch.length, abs(stretch.new - scale * stretch.old))):
        for own in stretches[_touching(spans, stretch.in_old)]:
            own.append(stretch)
    for index, span, own in zip(indices, spans, stretches, strict=True):
        yield index, _widen(old[index], span, own, after)


def _join(chunks: Sequence[Chunk], separator: str) -> _Joined:
    """Return the joined texts. Characters that overlapping neighbours share occur once.

    The separator of pages and files is a blank, which squeezed texts do not contain. It differs between the corpora, so
    that no stretch extends beyond it.
    """
    texts = [squeeze(chunk.text) for chunk in chunks]
    places = [(chunk.path, chunk.page) for chunk in chunks]
    pieces: list[str] = []
    spans: list[Interval] = []
    end = 0
    for index, repeated in enumerate(_find_repeats(texts)):
        if index == 0 or places[index] != places[index - 1]:
            pieces.append(separator)
            end, repeated = end + len(separator), 0
        pieces.append(texts[index][repeated:])
        spans.append((end - repeated, end - repeated + len(texts[index])))
        end = spans[-1][1]
    return _Joined("".join(pieces), chunks, spans)


def _find_repeats(texts: Sequence[str]) -> list[int]:
    """Return how many characters each chunk repeats of its predecessor.

    Only a usual repetition in the corpus counts. Otherwise one document may happen to begin as the previous one ends.
    """
    repeats = [0, *(measure_repeat(before, text) for before, text in pairwise(texts))]
    repeating = sorted(filter(None, repeats))
    if len(repeating) < _FEW * len(texts):
        return [0] * len(texts)
    usual = repeating[len(repeating) // 2]
    return [repeated if abs(repeated - usual) <= usual / 4 else 0 for repeated in repeats]


def _touching(spans: Sequence[Interval], part: Interval) -> slice:
    """Return which spans have any of these characters. Their starts and ends must be nondecreasing."""
    return slice(bisect_right(spans, part[0], key=itemgetter(1)), bisect_left(spans, part[1], key=itemgetter(0)))


def _widen(old: Chunk, span: Interval, stretches: Sequence[Stretch], new: _Joined) -> Iterator[list[Overlap]]:
    for is_near in _PLACES:
        near = [stretch for stretch in stretches if is_near(old, new.chunk_at(stretch.new))]
        if near:
            yield _find_overlaps(old, span, near, new)


def _find_overlaps(old: Chunk, span: Interval, stretches: Sequence[Stretch], new: _Joined) -> list[Overlap]:
    """Return the overlaps with the chunks of stretches. Those in the best stretch's document take precedence."""
    best, *others = sorted(stretches, key=lambda stretch: -measure([_cut(stretch.in_old, span)]))
    is_repeated = any((other.old, other.length) == (best.old, best.length) for other in others)
    elsewhere = {stretch for stretch in others if _is_elsewhere(stretch, best, span, new)}
    pieces: dict[str, list[_Piece]] = defaultdict(list)
    touched: list[tuple[Interval, Chunk]] = []
    for stretch in _choose(span, sorted([best, *others], key=elsewhere.__contains__)):
        doubtful = is_repeated or (stretch in elsewhere and stretch.length < _PHRASE)
        first, last = (place + stretch.shift for place in _cut(stretch.in_old, span))
        for chunk, own in new.chunks_of((first, last)):
            start, end = _cut((first, last), own)
            of_old = (start - stretch.shift - span[0], end - stretch.shift - span[0])
            touched.append((own, chunk))
            pieces[chunk.id].append(_Piece(of_old, (start - own[0], end - own[0]), doubtful))
    return [_build_overlap(old, chunk, pieces[chunk.id]) for chunk in _in_order(touched)]


def _in_order(touched: Iterable[tuple[Interval, Chunk]]) -> Iterable[Chunk]:
    return {chunk.id: chunk for _, chunk in sorted(touched, key=itemgetter(0))}.values()


def _build_overlap(old: Chunk, new: Chunk, pieces: Sequence[_Piece]) -> Overlap:
    first, second = compose(old.text), compose(new.text)
    parts, others = unsqueeze(first, second, ((piece.of_old, piece.of_new) for piece in pieces))
    doubtful = all(piece.doubtful for piece in pieces)
    return Overlap(
        new.id, MatchMethod.TEXT, tuple(parts), measure(parts) / len(first), measure(others) / len(second), doubtful
    )


def _choose(span: Interval, stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return the stretches that together cover what all of them cover, preferring the first ones.

    A stretch that adds nothing to better ones is a phrase that both texts happen to use.
    """
    chosen: list[Stretch] = []
    covered = 0
    for stretch in stretches:
        together = measure(_cut(each.in_old, span) for each in [*chosen, stretch])
        if together > covered:
            chosen.append(stretch)
            covered = together
        if covered == span[1] - span[0]:
            break
    return chosen


def _is_elsewhere(stretch: Stretch, best: Stretch, span: Interval, new: _Joined) -> bool:
    """Return whether a stretch is in another document than the best one, or far from it if files are unknown."""
    path, main = new.chunk_at(stretch.new).path, new.chunk_at(best.new).path
    return path != main or (path is None and abs(stretch.shift - best.shift) > span[1] - span[0])


def _cut(part: Interval, span: Interval) -> Interval:
    return max(part[0], span[0]), min(part[1], span[1])


def find_holders(old: Chunk, new: Sequence[Chunk]) -> list[Overlap]:
    """Return overlaps with the chunks that contain a text which is too short or too common for stretches.

    The narrowest scope with such chunks is used. Chunks that contain nothing else are preferred. The overlaps are
    doubtful unless there is a single chunk that contains nothing else.
    """
    text, whole = squeeze(old.text), (0, len(compose(old.text)))
    texts = [(chunk, squeeze(chunk.text)) for chunk in new] if text else []
    for is_near in _PLACES:
        near = [(chunk, other) for chunk, other in texts if text in other and is_near(old, chunk)]
        found = [(chunk, other) for chunk, other in near if text == other] or near
        if found:
            doubtful = len(found) > 1 or found[0][1] != text
            return [
                Overlap(chunk.id, MatchMethod.TEXT, (whole,), 1.0, len(text) / len(other), doubtful)
                for chunk, other in found
            ]
    return []
