"""Overlaps of chunks by their texts alone.

The chunks of a corpus are joined to one text in their order. So a passage is known by the text around it as well: the
last word of a document is found in that document, and a phrase of another one is seen to be no more than a phrase.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

from evalspec.remap.corpus import Chunk
from evalspec.remap.shared_text import (
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
"""Characters. A shorter stretch may be a sentence that two documents have in common."""
_FEW = 0.1
"""Chunks overlap by design if more than this share of them repeats the end of the one before."""
_PLACES: tuple[Callable[[Chunk, Chunk], bool], ...] = (
    lambda old, new: (old.path, old.page) == (new.path, new.page),
    lambda old, new: old.path == new.path,
    lambda old, new: True,  # noqa: ARG005 - the file was renamed, or its pages were
)
"""Ever wider places to look for a text in."""


@dataclass(frozen=True, slots=True)
class _Joined:
    """The squeezed texts of chunks as one. `spans`: where each chunk is; neither starts nor ends ever decrease."""

    text: str
    chunks: Sequence[Chunk]
    spans: Sequence[Interval]

    def chunks_of(self, part: Interval) -> Iterator[tuple[Chunk, Interval]]:
        """The chunks that have any of these characters, with their spans."""
        found = _touching(self.spans, part)
        return zip(self.chunks[found], self.spans[found], strict=True)

    def chunk_at(self, place: int) -> Chunk:
        """The first chunk that has this character."""
        return self.chunks[bisect_right(self.spans, place, key=itemgetter(1))]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Squeezed characters that an old and a new chunk share, by their places in either."""

    of_old: Interval
    of_new: Interval
    doubtful: bool


def match_by_text(
    old: Sequence[Chunk], indices: Sequence[int], new: Sequence[Chunk]
) -> Iterator[tuple[int, Iterable[list[Overlap]]]]:
    """For each of the old chunks with these indices, the overlaps in ever wider places. Of places that have as much of
    a text the one is taken that is nearer to where the old corpus has it, as far as both have the same order.
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
    """Each character of overlapping neighbours once. The separator of pages and files is a blank, which no squeezed
    text has; another one for each corpus, so that no stretch goes beyond it.
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
    """How many characters each chunk repeats of the one before it, if that is what the chunks of a corpus usually do;
    else it is a sentence with which one document ends and the next one begins.
    """
    repeats = [0, *(measure_repeat(before, text) for before, text in pairwise(texts))]
    repeating = sorted(filter(None, repeats))
    if len(repeating) < _FEW * len(texts):
        return [0] * len(texts)
    usual = repeating[len(repeating) // 2]
    return [repeated if abs(repeated - usual) <= usual / 4 else 0 for repeated in repeats]


def _touching(spans: Sequence[Interval], part: Interval) -> slice:
    """Which of the spans, whose starts and ends never decrease, have any of these characters."""
    return slice(bisect_right(spans, part[0], key=itemgetter(1)), bisect_left(spans, part[1], key=itemgetter(0)))


def _widen(old: Chunk, span: Interval, stretches: Sequence[Stretch], new: _Joined) -> Iterator[list[Overlap]]:
    for is_near in _PLACES:
        near = [stretch for stretch in stretches if is_near(old, new.chunk_at(stretch.new))]
        if near:
            yield _find_overlaps(old, span, near, new)


def _find_overlaps(old: Chunk, span: Interval, stretches: Sequence[Stretch], new: _Joined) -> list[Overlap]:
    """The overlaps with the chunks of stretches, the best first; better are those in the document of the best one."""
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
    """Of stretches, the best first, those that have all of a passage that any has. A stretch that adds nothing to
    better ones is a phrase that both texts happen to use.
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
    """Whether a stretch is in another document than the best one, or without files, far from it."""
    path, main = new.chunk_at(stretch.new).path, new.chunk_at(best.new).path
    return path != main or (path is None and abs(stretch.shift - best.shift) > span[1] - span[0])


def _cut(part: Interval, span: Interval) -> Interval:
    return max(part[0], span[0]), min(part[1], span[1])


def find_holders(old: Chunk, new: Sequence[Chunk]) -> list[Overlap]:
    """The chunks that hold a text which is too short, or too common, for stretches: in the nearest place that has any,
    and those that hold nothing else before others. They are doubtful unless there is one that holds nothing else.
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
