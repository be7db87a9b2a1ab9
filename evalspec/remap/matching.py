"""Which chunks of a new corpus hold what chunks of the old one held.

The overlap of two chunks is the number of characters that both hold, over the length of the shorter one (Szymkiewicz
and Simpson's coefficient): 1 where either lies inside the other, the same in both directions. Characters are told
apart by their place where both chunks have a span in the same page of the same file, and else by the text itself.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evalspec.remap.by_text import find_holders, match_by_text
from evalspec.remap.corpus import Chunk
from evalspec.remap.shared_text import SHINGLE, MatchMethod, Overlap, compose, measure, squeeze

_MOST = 0.9
"""The chunks that stand for an old one have at least this share of what the new corpus has of it. Not all of it: a
chunk that begins with the last word of a passage would count as an answer."""
_CONTRADICTION = 0.5
"""Texts that have less in common than this share of what their spans say are not of the same file."""


@dataclass(frozen=True, slots=True)
class Match:
    """What became of one old chunk.

    `overlaps`: the new chunks that stand for it, in the order of the new corpus; none where it is not carried, and
    `why` says why. `held`: the share of it that any new chunk holds. `covered`: the share that those of `overlaps`
    hold. `best`: the new chunk nearest to it, if any has something of it.
    """

    old: str
    overlaps: tuple[Overlap, ...] = ()
    best: Overlap | None = None
    held: float = 0.0
    covered: float = 0.0
    why: str = ""

    @property
    def chunks(self) -> tuple[str, ...]:
        """The ids of the new chunks that stand for the old one."""
        return tuple(overlap.chunk for overlap in self.overlaps)

    @property
    def is_same(self) -> bool:
        """Whether the old chunk itself is in the new corpus."""
        return any(overlap.how is MatchMethod.SAME for overlap in self.overlaps)


def compute_matches(
    old: Sequence[Chunk], new: Sequence[Chunk], min_overlap: float, judged: Container[str] | None = None
) -> dict[str, Match]:
    """Find what each judged chunk of the old corpus became, {old id: match}; of all chunks where none are named.

    A chunk whose id and text are in the new corpus stays what it is. For any other stand the new chunks whose overlap
    is at least `min_overlap`; where these have less than nine tenths of what the new corpus has of it, those that add
    most join them. It is not carried where no overlap, and not all of them together, come to `min_overlap` of it.
    Spans decide if they find any, else the text: in the same page, else in the same file, else anywhere. `old` is the
    whole corpus in its order, so that a text is known by its neighbours too.
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
    """The match of a text without stretches. Of chunks that hold more than it, it must be the only one."""
    holders = find_holders(old, new)
    if len(holders) > 1 and holders[0].of_new < 1:
        return Match(old.id, (), holders[0], 1.0, why=f"{len(holders)} new chunks have it, and nothing tells which")
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
    """The chunks with a span by file and page. Those that name no file are of the same unnamed one."""
    places: dict[tuple[str | None, int | str | None], list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        if chunk.span is not None:
            places[chunk.path, chunk.page].append(chunk)
    return places


def _overlaps_by_span(old: Chunk, beside: Iterable[Chunk]) -> Iterator[Overlap]:
    """Overlaps with the chunks of the same place. Where no file is named, a text that contradicts the spans wins."""
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
    """Whether two chunks that should share so many characters share hardly any; nothing is said of a few characters."""
    if shared < 2 * SHINGLE or not old.text.strip() or not new.text.strip():
        return False
    first, second = squeeze(old.text), squeeze(new.text)
    places = range(len(first) - SHINGLE + 1)
    found = measure((place, place + SHINGLE) for place in places if first[place : place + SHINGLE] in second)
    return found < _CONTRADICTION * shared * len(first) / len(old.text)


def _choose(old: str, found: Sequence[Overlap], length: int, min_overlap: float) -> Match:
    """Of the overlaps with an old chunk of that length those that stand for it, or why none does."""
    if not found:
        return Match(old, why="no new chunk has any of it")
    best = max(found, key=lambda overlap: overlap.value)
    held = _measure(found)
    if best.value < min_overlap and held < min_overlap * length:
        return Match(old, (), best, held / length, why=f"the new corpus holds {held * 100 // length} % of it")
    chosen = [overlap for overlap in found if overlap.value >= min_overlap]
    rest = [overlap for overlap in found if overlap.value < min_overlap]
    while _measure(chosen) < _MOST * held:
        chosen.append(max(rest, key=lambda overlap: _measure([*chosen, overlap])))
        rest.remove(chosen[-1])
    standing = tuple(overlap for overlap in found if overlap in chosen)
    return Match(old, standing, best, held / length, _measure(chosen) / length)


def _measure(overlaps: Iterable[Overlap]) -> int:
    """How many characters of the old chunk the overlaps have together."""
    return measure(part for overlap in overlaps for part in overlap.parts)
