"""Match verdicts to statements by text, without relying on the judge's order or count.

A judge may change a statement's case, quotes, numbering, contractions and accents. With any other word changed, missing
or misspelled it is a different statement: one letter separates nitrite from nitrate, and an ellipsis can hide an
exception.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from evalspec.base.text import excerpt
from evalspec.scoring.judge.extraction import UnusableVerdict
from evalspec.scoring.judge.wording import split_words, strip_emphasis, strip_latin_accents

_LABEL = re.compile(
    r"""
    \s* (?: [-–—*•·‣▪●]+ (?!\d) \s* )?
    (?: (?:statement|claim)\s* [#(\[*]{0,2} \d{1,3} [.):\]*]+ \s+  |  (?:statement|claim): \s*
      | [#(\[*]{0,2} (?P<number>\d{1,3}) [.):\]*]+ \s+  |  (?P<letter>[a-z])\) \s+ )?
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""A bullet, a number or both, before a statement."""

_RELABELLED, _RESPELLED, _FOREIGN = 1, 10, 10**9
"""Costs of matching two texts, from harmless to impossible."""

_QUOTED = 80


class _Wording(Struct, frozen=True, dict=True):
    """One statement, prepared for comparison."""

    text: str

    @cached_property
    def folded(self) -> tuple[str, ...]:
        """The words without case."""
        return tuple(word.casefold() for word in split_words(self.text))

    @cached_property
    def unlabelled(self) -> tuple[str, ...]:
        """The words without case and without the label."""
        return tuple(word.casefold() for word in split_words(_split_label(self.text)[1]))

    @cached_property
    def without_articles(self) -> tuple[str, ...]:
        """The words without case, and without "the", the only word that is nothing but an article in any language."""
        return tuple(word for word in self.folded if word != "the")

    @cached_property
    def without_accents(self) -> tuple[str, ...]:
        """The words without case, without "the" and without the accents of Latin letters."""
        return tuple(map(strip_latin_accents, self.without_articles))


def simplify(text: str) -> str:
    """Return the words of a statement without case and label. Statements with equal results are the same."""
    return " ".join(_Wording(text).unlabelled)


def parse_label(text: str) -> str | None:
    """Return the number or the small letter before a statement, which may also be its first word: 3 in "3. Oktober"."""
    label, _ = _split_label(text)
    return label and label.lower()


def match_statements(asked: Sequence[str], answered: Sequence[str], labels: Sequence[int]) -> list[int]:
    """Return for each answered statement the position of the same asked statement. Positions are unique.

    `labels`: the verdicts as numbers from 0. If two statements are interchangeable, their labels must be equal.

    Raises:
        UnusableVerdict: an answered statement was not asked, is repeated, or could be either of two.
    """
    found: dict[int, int] = {}
    waiting = defaultdict(list)
    for position, text in enumerate(asked):
        waiting[text].append(position)
    # Sorted by label, so that the answer's order has no influence, not even between equal statements.
    for index in sorted(range(len(answered)), key=labels.__getitem__):
        if waiting[answered[index]]:
            found[index] = waiting[answered[index]].pop(0)
    loose = [index for index in range(len(answered)) if index not in found]
    free = sorted(position for positions in waiting.values() for position in positions)
    if loose:
        near = _match_near(
            [asked[position] for position in free],
            [answered[index] for index in loose],
            [labels[index] for index in loose],
        )
        found |= {index: free[column] for index, column in zip(loose, near, strict=True)}
    return [found[index] for index in range(len(answered))]


def _match_near(asked: Sequence[str], answered: Sequence[str], labels: Sequence[int]) -> list[int]:
    """Return what `match_statements` does, for statements without an exact match."""
    columns = [_Wording(text) for text in asked]
    costs = [[_cost(column, row) for column in columns] for row in map(_Wording, answered)]
    for text, row in zip(answered, costs, strict=True):
        if min(row, default=_FOREIGN) == _FOREIGN:
            raise _stranger(text)
    if len(answered) > len(asked):
        raise _stranger(answered[-1])
    # If costs leave open which text gets a label, one assignment prefers the first texts, and another the last.
    codes = _encode_labels(labels, len(asked))
    bits = (len(asked) * max(1, *codes)).bit_length()
    ranks = {text: rank for rank, text in enumerate(dict.fromkeys(asked))}
    weights = [1 << bits * ranks[text] for text in asked]
    room = bits * (len(ranks) + 1)

    def choose(sign: int) -> list[int]:
        return assign(
            [
                [(cost << room) + sign * label * weight for cost, weight in zip(row, weights, strict=True)]
                for row, label in zip(costs, codes, strict=True)
            ]
        )

    def weigh(chosen: Sequence[int]) -> int:
        return sum(label * weights[column] for label, column in zip(codes, chosen, strict=True))

    first, last = choose(1), choose(-1)
    for text, row, column in zip(answered, costs, first, strict=True):
        if row[column] == _FOREIGN:
            raise _stranger(text)
    if weigh(first) != weigh(last):
        doubtful = next(
            text for text, one, other in zip(answered, first, last, strict=True) if asked[one] != asked[other]
        )
        raise UnusableVerdict(f"its statement {excerpt(doubtful, _QUOTED)} could be either of two that were sent")
    return first


def _encode_labels(labels: Sequence[int], count: int) -> list[int]:
    """Return labels as numbers whose sum over at most `count` statements says how often each label occurs."""
    known = sorted(set(labels))
    codes = {label: (count + 1) ** (place - 1) if place else 0 for place, label in enumerate(known)}
    return [codes[label] for label in labels]


def _stranger(text: str) -> UnusableVerdict:
    return UnusableVerdict(
        f"its statement {excerpt(text, _QUOTED)} was not sent, or is repeated; give each one once, word for word"
    )


def _cost(asked: _Wording, answered: _Wording) -> int:
    if asked.folded == answered.folded:
        return 0
    if asked.folded == answered.unlabelled or asked.unlabelled == answered.folded:
        return _RELABELLED
    # One side must be without accents: if both have some, accents may distinguish words, as in pêche and péché.
    if asked.without_articles in (answered.without_articles, answered.without_accents):
        return _RESPELLED
    return _RESPELLED if asked.without_accents == answered.without_articles else _FOREIGN


def _split_label(text: str) -> tuple[str | None, str]:
    """Return the number or letter of a statement's label, and the statement without its label."""
    plain = strip_emphasis(text)
    label = _LABEL.match(plain)
    return (label["number"] or label["letter"], plain[label.end() :]) if label else (None, plain)


def assign(costs: Sequence[Sequence[int]]) -> list[int]:
    """Return a unique column for each row so that the total cost is minimal (Hungarian method).

    There must be at least as many columns as rows. The time is O(rows² x columns).
    """
    rows, columns = len(costs), len(costs[0]) if costs else 0
    unlimited = 1 + 4 * sum(max(map(abs, row)) for row in costs)
    row_price, column_price = [0] * (rows + 1), [0] * (columns + 1)
    taken_by = [0] * (columns + 1)  # rows from 1; 0: none. Column 0 has the row to place
    for row in range(1, rows + 1):
        taken_by[0], column = row, 0
        slack, came_from, visited = [unlimited] * (columns + 1), [0] * (columns + 1), [False] * (columns + 1)
        while taken_by[column]:
            visited[column] = True
            placed = taken_by[column]
            for other in range(1, columns + 1):
                reduced = costs[placed - 1][other - 1] - row_price[placed] - column_price[other]
                if not visited[other] and reduced < slack[other]:
                    slack[other], came_from[other] = reduced, column
            nearest = min((other for other in range(1, columns + 1) if not visited[other]), key=slack.__getitem__)
            step = slack[nearest]
            for other in range(columns + 1):
                if visited[other]:
                    row_price[taken_by[other]] += step
                    column_price[other] -= step
                else:
                    slack[other] -= step
            column = nearest
        while column:
            taken_by[column] = taken_by[came_from[column]]
            column = came_from[column]
    columns_of = {taken_by[column]: column - 1 for column in range(1, columns + 1) if taken_by[column]}
    return [columns_of[row] for row in range(1, rows + 1)]
