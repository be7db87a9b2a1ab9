"""Match the chunks of an old corpus with those of a new one that have the same content.

The overlap of two chunks is the number of shared characters over the length of the shorter one (Szymkiewicz and
Simpson's coefficient). It is symmetric, and 1 if one chunk contains the other. Characters are compared by position if
both chunks have spans in the same page of the same file, otherwise by text.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from evalspec.curation.remap.by_text import find_holders, match_by_text
from evalspec.curation.remap.corpus import Chunk
from evalspec.curation.remap.shared_text import SHINGLE, MatchMethod, Overlap, compose, measure, squeeze

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
    texts = {chunk.id: squeeze(chunk.text) for chunk in new}
    spans = _index_spans(new)
    matches: dict[str, Match] = {}
    unfound: list[int] = []
    for index, chunk in enumerate(old):
        if judged is not None and chunk.id not in judged:
            continue
        if texts.get(chunk.id) == squeeze(chunk.text):
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
    first, second = squeeze(old.text), squeeze(new.text)
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
    standing = tuple(overlap for overlap in found if overlap in chosen)
    return Match(old, standing, best, held / length, _measure(chosen) / length)


def _measure(overlaps: Iterable[Overlap]) -> int:
    """Return how many characters of the old chunk the overlaps cover together."""
    return measure(part for overlap in overlaps for part in overlap.parts)
