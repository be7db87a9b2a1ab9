"""Match the chunks of an old corpus with those of a new one that have the same content.

The overlap of two chunks is the number of shared characters over the length of the shorter one (Szymkiewicz and
Simpson's coefficient). It is symmetric, and 1 if one chunk contains the other. Characters are compared by position if
both chunks have spans in the same page of the same file, otherwise by text.

For that, the chunks of a corpus are joined into one text, in order. So the surrounding text helps to identify a
passage: the last word of a document is found in that document, and a phrase that occurs in another document is
recognised as a phrase.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter

from msgspec import Struct

from evalspec.curation.remap.corpus import Chunk
from evalspec.curation.remap.shared_text import (
    SHINGLE,
    CommonSubstring,
    Interval,
    MatchMethod,
    Overlap,
    compose,
    list_common_substrings,
    measure,
    measure_repeat,
    remove_whitespace,
    restore_whitespace,
)

_MOST = 0.9
"""The chunks that replace an old one cover at least this share of what the new corpus has of it. It is below 1, so that
a chunk that begins with the last word of a passage does not count as an answer."""
_CONTRADICTION = 0.5
"""Texts that share less than this part of what their spans share are from different files."""


class Match(Struct, frozen=True):
    """The match of one old chunk.

    `overlaps`: the new chunks that replace it, in the order of the new corpus. Empty if it is not carried over; then
    `why` gives the reason. `held`: the share of it in any new chunk. `covered`: the share in the chunks of `overlaps`.
    `best`: the nearest new chunk, if any has some of its text.
    """

    old: str
    overlaps: tuple[Overlap, ...] = ()
    best: Overlap | None = None
    held: float = 0.0
    covered: float = 0.0
    why: str = ""

    @property
    def chunks(self) -> tuple[str, ...]:
        """The ids of the new chunks that replace the old one."""
        return tuple(overlap.chunk for overlap in self.overlaps)

    @property
    def is_same(self) -> bool:
        """Whether the old chunk itself is in the new corpus."""
        return any(overlap.how is MatchMethod.SAME for overlap in self.overlaps)


def compute_matches(
    old: Sequence[Chunk], new: Sequence[Chunk], min_overlap: float, judged: Container[str] | None = None
) -> dict[str, Match]:
    """Return the match of each judged chunk of the old corpus, {old id: match}. `judged` None: of every chunk.

    A chunk whose id and text are in the new corpus is unchanged. Any other chunk is replaced by the new chunks whose
    overlap is at least `min_overlap`. If they cover less than nine tenths of what the new corpus has of it, the chunks
    that add most are added. It is not carried over if neither one overlap nor all of them together reach `min_overlap`.
    Spans are used if they match, otherwise the text: in the same page, else in the same file, else anywhere. `old` is
    the whole corpus, in order, so that neighbours help to identify a text.
    """
    texts = {chunk.id: remove_whitespace(chunk.text) for chunk in new}
    spans = _index_spans(new)
    matches: dict[str, Match] = {}
    unfound: list[int] = []
    for index, chunk in enumerate(old):
        if judged is not None and chunk.id not in judged:
            continue
        if texts.get(chunk.id) == remove_whitespace(chunk.text):
            matches[chunk.id] = _same(chunk)
            continue
        beside = spans.get((chunk.path, chunk.page), ())
        matches[chunk.id] = _choose(chunk.id, list(_overlaps_by_span(chunk, beside)), _length(chunk.span), min_overlap)
        if not matches[chunk.id].overlaps:
            unfound.append(index)
    for index, in_places in match_by_text(old, unfound, new):
        chunk = old[index]
        match = matches[chunk.id]
        for overlaps in in_places:
            match = max(match, _choose(chunk.id, overlaps, len(compose(chunk.text)), min_overlap), key=_rank)
            if match.overlaps:
                break
        matches[chunk.id] = match if match.best else _match_holder(chunk, new)
    return matches


def _match_holder(old: Chunk, new: Sequence[Chunk]) -> Match:
    """Return the match of a text without stretches. A chunk that contains more must be the only one."""
    holders = find_holders(old, new)
    if len(holders) > 1 and holders[0].of_new < 1:
        return Match(old.id, (), holders[0], 1.0, why=f"{len(holders)} new chunks have it, so the match is ambiguous")
    return _choose(old.id, holders[:1], len(compose(old.text)), 0)


def _rank(match: Match) -> tuple[bool, float]:
    return bool(match.overlaps), match.best.value if match.best else -1.0


def _same(chunk: Chunk) -> Match:
    length = len(chunk.text)
    only = Overlap(chunk.id, MatchMethod.SAME, ((0, length),), 1.0, 1.0)
    return Match(chunk.id, (only,), only, held=1.0, covered=1.0)


def _length(span: tuple[int, int] | None) -> int:
    return 0 if span is None else span[1] - span[0]


def _index_spans(chunks: Iterable[Chunk]) -> Mapping[tuple[str | None, int | str | None], Sequence[Chunk]]:
    """Return the chunks with a span, by file and page. Chunks without a file count as from one unnamed file."""
    places: dict[tuple[str | None, int | str | None], list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        if chunk.span is not None:
            places[chunk.path, chunk.page].append(chunk)
    return places


def _overlaps_by_span(old: Chunk, beside: Iterable[Chunk]) -> Iterator[Overlap]:
    """Yield overlaps with chunks of the same place, unless no file is known and the texts contradict the spans."""
    if old.span is None:
        return
    start, end = old.span
    for new in beside:
        first, last = new.span or (0, 0)
        part = (max(start, first) - start, min(end, last) - start)
        shared = part[1] - part[0]
        if shared <= 0:
            continue
        doubtful = _contradict(old, new, shared)
        if old.path is not None or not doubtful:
            yield Overlap(new.id, MatchMethod.SPAN, (part,), shared / (end - start), shared / (last - first), doubtful)


def _contradict(old: Chunk, new: Chunk, shared: int) -> bool:
    """Return whether two chunks that should share `shared` characters share hardly any. False if `shared` is small."""
    if shared < 2 * SHINGLE or not old.text.strip() or not new.text.strip():
        return False
    first, second = remove_whitespace(old.text), remove_whitespace(new.text)
    places = range(len(first) - SHINGLE + 1)
    found = measure((place, place + SHINGLE) for place in places if first[place : place + SHINGLE] in second)
    return found < _CONTRADICTION * shared * len(first) / len(old.text)


def _choose(old: str, found: Sequence[Overlap], length: int, min_overlap: float) -> Match:
    """Return the match of an old chunk of this length: the overlaps that replace it, or why there are none."""
    if not found:
        return Match(old, why="no new chunk has any of it")
    best = max(found, key=lambda overlap: overlap.value)
    held = _measure(found)
    if best.value < min_overlap and held < min_overlap * length:
        return Match(old, (), best, held / length, why=f"the new corpus has {held * 100 // length} % of it")
    chosen = [overlap for overlap in found if overlap.value >= min_overlap]
    rest = [overlap for overlap in found if overlap.value < min_overlap]
    while _measure(chosen) < _MOST * held:
        chosen.append(max(rest, key=lambda overlap: _measure([*chosen, overlap])))
        rest.remove(chosen[-1])
    kept = tuple(overlap for overlap in found if overlap in chosen)
    return Match(old, kept, best, held / length, _measure(chosen) / length)


def _measure(overlaps: Iterable[Overlap]) -> int:
    """Return how many characters of the old chunk the overlaps cover together."""
    return measure(part for overlap in overlaps for part in overlap.parts)


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
    """The joined texts of chunks, without whitespace. `spans`: the interval of each, both nondecreasing."""

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
    stretches: list[list[CommonSubstring]] = [[] for _ in spans]
    scale = len(after.text) / len(before.text)
    found = list_common_substrings(before.text, after.text, spans)
    for stretch in sorted(found, key=lambda stretch: (-stretch.length, abs(stretch.new - scale * stretch.old))):
        for own in stretches[_touching(spans, stretch.in_old)]:
            own.append(stretch)
    for index, span, own in zip(indices, spans, stretches, strict=True):
        yield index, _widen(old[index], span, own, after)


def _join(chunks: Sequence[Chunk], separator: str) -> _Joined:
    """Return the joined texts. Characters that overlapping neighbours share occur once.

    The separator of pages and files is a blank, which texts without whitespace do not contain. It differs between the
    corpora, so that no common substring extends beyond it.
    """
    texts = [remove_whitespace(chunk.text) for chunk in chunks]
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


def _widen(old: Chunk, span: Interval, stretches: Sequence[CommonSubstring], new: _Joined) -> Iterator[list[Overlap]]:
    for is_near in _PLACES:
        near = [stretch for stretch in stretches if is_near(old, new.chunk_at(stretch.new))]
        if near:
            yield _find_overlaps(old, span, near, new)


def _find_overlaps(old: Chunk, span: Interval, stretches: Sequence[CommonSubstring], new: _Joined) -> list[Overlap]:
    """Return the overlaps with the chunks of stretches. Those in the best stretch's document take precedence."""
    best, *others = sorted(stretches, key=lambda stretch: -measure([_cut(stretch.in_old, span)]))
    is_repeated = any((other.old, other.length) == (best.old, best.length) for other in others)
    elsewhere = {stretch for stretch in others if _is_elsewhere(stretch, best, span, new)}
    pieces: dict[str, list[_Piece]] = defaultdict(list)
    touched: list[tuple[Interval, Chunk]] = []
    for stretch in _choose_stretches(span, sorted([best, *others], key=elsewhere.__contains__)):
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
    parts, others = restore_whitespace(first, second, ((piece.of_old, piece.of_new) for piece in pieces))
    doubtful = all(piece.doubtful for piece in pieces)
    return Overlap(
        new.id, MatchMethod.TEXT, tuple(parts), measure(parts) / len(first), measure(others) / len(second), doubtful
    )


def _choose_stretches(span: Interval, stretches: Iterable[CommonSubstring]) -> list[CommonSubstring]:
    """Return the stretches that together cover what all of them cover, preferring the first ones.

    A stretch that adds nothing to better ones is a phrase that both texts happen to use.
    """
    chosen: list[CommonSubstring] = []
    covered = 0
    for stretch in stretches:
        together = measure(_cut(each.in_old, span) for each in [*chosen, stretch])
        if together > covered:
            chosen.append(stretch)
            covered = together
        if covered == span[1] - span[0]:
            break
    return chosen


def _is_elsewhere(stretch: CommonSubstring, best: CommonSubstring, span: Interval, new: _Joined) -> bool:
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
    text, whole = remove_whitespace(old.text), (0, len(compose(old.text)))
    texts = [(chunk, remove_whitespace(chunk.text)) for chunk in new] if text else []
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
