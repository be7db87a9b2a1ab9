"""Report a remapping: text for people, a document for programs, and problems for losses."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec.structs import asdict

from evalspec.base.errors import Problem
from evalspec.base.foreign_text import inert
from evalspec.base.plural import counted
from evalspec.curation.remap.carrying import Lost, Remapped
from evalspec.curation.remap.matching import Match
from evalspec.curation.remap.shared_text import MatchMethod, Overlap

_WHOLE = 0.995
"""A share that rounds to 100 % counts as whole, because chunkers drop blanks at the cuts."""


def list_losses(remapped: Remapped) -> list[Problem]:
    """Return a problem for each relevant chunk of a query without a new chunk, with the nearest one."""
    return [
        Problem(
            _sentence(lost), "lower --min-overlap" if lost.best else "", remapped.data.shown_as, lost.line, "relevant"
        )
        for lost in remapped.remapping.lost
        if lost.grade > 0
    ]


def list_notes(remapped: Remapped) -> Iterator[Problem]:
    """Yield notes on changes in meaning without a loss of relevant chunks."""
    remapping, shown_as = remapped.remapping, remapped.data.shown_as
    for lost in remapping.lost:
        if lost.grade == 0:
            yield Problem(f"{_sentence(lost)}; it was judged not relevant", "", shown_as, lost.line, "relevant")
    if remapping.graded:
        samples = counted(len(remapping.graded), "sample")
        yield Problem(f"in {samples} with grades, each part of a split chunk counts separately", file=shown_as)
    if remapping.outdated:
        message = f"metadata of {counted(remapping.outdated, 'sample')} about the old chunks was removed"
        yield Problem(message, file=shown_as)
    yield from _list_doubts(remapped)


_DOUBTS = {
    MatchMethod.SPAN: (
        "spans overlap whose texts have little in common",
        "if the file was edited, remove the spans from one corpus, so that texts are compared",
        "start_end_idx",
    ),
    MatchMethod.TEXT: (
        "short or repeated texts that may be from other documents",
        "check them, or give both corpora path and start_end_idx",
        "",
    ),
}
"""By matching method: why matches are doubtful, the fix, and the field."""


def _list_doubts(remapped: Remapped) -> Iterator[Problem]:
    for how, (message, fix, field) in _DOUBTS.items():
        pairs = sorted(
            f"'{inert(old)}' and '{inert(overlap.chunk)}'"
            for old, match in remapped.remapping.matches.items()
            for overlap in match.overlaps
            if overlap.doubtful and overlap.how is how
        )
        if pairs:
            shown = ", ".join(pairs[:3]) + (f" and {len(pairs) - 3} more" if pairs[3:] else "")
            yield Problem(f"{message}: {shown}", fix, remapped.new.shown_as, field=field)


def render_remapping(remapped: Remapped) -> str:
    """Return plain text: counts of the judged chunks by match, and the chunks that were carried over in part."""
    matches = remapped.remapping.matches
    lines = [
        f"{inert(remapped.old.shown_as)} ({counted(len(remapped.old.chunks), 'chunk')}) → "
        f"{inert(remapped.new.shown_as)} ({counted(len(remapped.new.chunks), 'chunk')}), "
        f"overlap from {remapped.min_overlap:g}",
        "",
        f"{'judged chunks':<20}{'old':>7}{'new':>7}",
    ]
    old, new = Counter(map(_kind, matches.values())), Counter[str]()
    for match in matches.values():
        new[_kind(match)] += len(match.overlaps)
    lines += [
        f"{kind:<20}{old[kind]:>7,}{f'{new[kind]:,}' if new[kind] else '–':>7}"
        for kind in (*MatchMethod, _LOST)
        if old[kind]
    ]
    return "\n".join([*lines, *_render_partial(remapped)])


def _render_partial(remapped: Remapped) -> Iterator[str]:
    partial = list_partial(remapped)
    if not partial:
        return
    names = [inert(match.old) for match in partial]
    width = max(map(len, ["carried in part", *names]))
    yield ""
    yield f"{'carried in part':<{width}}  carried  in the new corpus  by"
    for name, match in zip(names, partial, strict=True):
        chunks = ", ".join(map(inert, match.chunks))
        yield f"{name:<{width}}  {match.covered:>7.0%}  {match.held:>17.0%}  {chunks}"


def list_partial(remapped: Remapped) -> list[Match]:
    """Return the chunks that their replacements do not cover completely, the least covered first."""
    carried = (match for match in remapped.remapping.matches.values() if match.overlaps)
    return sorted((match for match in carried if match.covered < _WHOLE), key=lambda match: (match.covered, match.old))


def build_document(remapped: Remapped) -> dict[str, Any]:
    """Return a JSON document with every judged chunk, its new chunks, and every lost judgement."""
    return {
        "old": remapped.old.shown_as,
        "new": remapped.new.shown_as,
        "minOverlap": remapped.min_overlap,
        "chunks": [
            {
                "old": match.old,
                "new": [_overlap_document(overlap) for overlap in match.overlaps],
                "held": match.held,
                "covered": match.covered,
            }
            for match in sorted(remapped.remapping.matches.values(), key=lambda match: match.old)
        ],
        "lost": [
            {**asdict(lost), "best": None if lost.best is None else _overlap_document(lost.best)}
            for lost in remapped.remapping.lost
        ],
    }


_LOST = "not carried"


def _kind(match: Match) -> str:
    return match.overlaps[0].how if match.overlaps else _LOST


def _sentence(lost: Lost) -> str:
    best = f"; nearest is '{inert(lost.best.chunk)}', overlap {_floor(lost.best.value)}" if lost.best else ""
    return f"'{inert(lost.old)}' of query '{inert(lost.sample)}' is not carried over: {lost.why}{best}"


def _floor(value: float) -> str:
    """Return two decimals, truncated, so that a value below a limit is shown as below it."""
    return f"{int(value * 100) / 100:.2f}"


def _overlap_document(overlap: Overlap) -> dict[str, Any]:
    return {
        "id": overlap.chunk,
        "overlap": overlap.value,
        "ofOld": overlap.of_old,
        "ofNew": overlap.of_new,
        "by": overlap.how.name.lower(),
        "doubtful": overlap.doubtful,
    }
