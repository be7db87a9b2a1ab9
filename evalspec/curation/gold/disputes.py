"""The rules of disputes: which category a dispute has, and where an answer differs from the numbers of its block.

In a numeric dispute the phrasing of the block decides: every number, its unit and every mode (as in AES-256-GCM) of the
answer has to occur in the text of the block.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.blocks import find_texts, key_of
from evalspec.curation.gold.files import show
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry
from evalspec.curation.gold.quantities import Quantity, list_quantities, list_words
from evalspec.curation.gold.schema import Category, DisputeOutcome, Event, GoldTriple, Kind
from evalspec.curation.gold.states import SETTLING

UNCATEGORISED = "uncategorised"
"""The category of a settled dispute that nobody gave one."""


class Difference(Struct, frozen=True):
    """A number or a mode of the answer that its block does not say. `block`: the nearest thing that it says, if any."""

    answer: str
    block: str | None = None

    def render(self) -> str:
        """Return the difference as a clause."""
        said = "does not say it" if self.block is None else f"says {self.block}"
        return f"the answer says {self.answer}; the block {said}"


class NumericCheck(Struct, frozen=True):
    """The numbers of an answer compared with its block. `unknown`: why they could not be compared."""

    differences: Sequence[Difference] = ()
    unknown: str | None = None

    @property
    def is_passed(self) -> bool:
        """Whether the numbers were compared and are the same."""
        return self.unknown is None and not self.differences

    def render_known(self) -> list[str]:
        """Return a line for each difference."""
        return [one.render() for one in self.differences]

    def render(self) -> list[str]:
        """Return a line for each difference, or the reason why they are unknown."""
        return [self.unknown] if self.unknown is not None else self.render_known()


def check_numbers(root: Path, entry: TripleEntry, corpus: Mapping[str, str] | None = None) -> NumericCheck:
    """Compare the numbers, units and modes of the answer with the pinned texts of its blocks.

    With alternatives, each of them has to say what the answer says. `corpus`: texts by block, for blocks without a
    pinned text.
    """
    if entry.triple is None:
        return NumericCheck(unknown="the triple is revoked, so its numbers cannot be compared")
    texts = find_texts(root, entry.triple, corpus)
    absent = [block.block_id for block in entry.triple.blocks if key_of(block) not in texts]
    if absent:
        return NumericCheck(unknown=f"the text of {', '.join(absent)} is not known, so numbers cannot be compared")
    groups = [[texts[key_of(block)] for block in group] for group in entry.triple.groups]
    return NumericCheck(find_differences(_join_answer(entry.triple), groups))


def find_differences(answer: str, groups: Sequence[Sequence[str]]) -> list[Difference]:
    """Return what an answer says in numbers, units and modes that its blocks do not say.

    `groups`: the texts as AND/OR ground truth. What the answer says has to be in all alternatives of some group.
    """
    words = list_words(answer)
    blocks = [[_BlockText(list_quantities(text), list_words(text)) for text in group] for group in groups]
    missing = [
        wanted
        for wanted in list_quantities(answer)
        if not any(all(text.says(wanted, words) for text in group) for group in blocks)
    ]
    lacking = [text for group in blocks for text in group]
    names = [wanted.text for wanted in missing if wanted.is_loose]
    own = [
        wanted
        for wanted in missing
        if wanted.value is None or not any(name.endswith(f" {wanted.text}") for name in names)
    ]
    return list(dict.fromkeys(Difference(wanted.text, _find_nearest(wanted, lacking)) for wanted in own))


class _BlockText(Struct, frozen=True):
    """The quantities and the words of a block."""

    quantities: Sequence[Quantity]
    words: frozenset[str]

    def says(self, wanted: Quantity, words: frozenset[str]) -> bool:
        """Return whether the block says a quantity of the answer. `words`: all of the answer."""
        if wanted.is_loose and not self._list_relatives(wanted):
            return True  # the number after an acronym is a quantity of its own
        if wanted.parts:
            return any(_is_same_name(wanted, own, words, self.words) for own in self.quantities if own.parts)
        return any(_is_same_number(wanted, own) for own in self.quantities) or self._has_as_part(wanted)

    def _list_relatives(self, wanted: Quantity) -> list[Quantity]:
        return [own for own in self.quantities if own.parts[:1] == wanted.parts[:1]]

    def _has_as_part(self, wanted: Quantity) -> bool:
        """Return whether a number without a unit is part of a name or a date."""
        return wanted.unit is None and any(str(wanted.value) in own.parts for own in self.quantities)


def _is_same_name(wanted: Quantity, own: Quantity, words: frozenset[str], own_words: frozenset[str]) -> bool:
    """Return whether two names are the same. `AES-256 in GCM mode` is AES-256-GCM."""
    if wanted.parts == own.parts:
        return True
    short, long = sorted((wanted.parts, own.parts), key=len)
    others = words if short == wanted.parts else own_words
    return len(short) > 1 and long[: len(short)] == short and others.issuperset(long[len(short) :])


def _is_same_number(wanted: Quantity, own: Quantity) -> bool:
    """Return whether the block's number is the same, with the same unit if the answer has one."""
    if wanted.value is None or wanted.value != own.value:
        return False
    if wanted.rate is not None and own.rate is not None and wanted.rate != own.rate:
        return False
    if wanted.unit is None or wanted.unit == own.unit:
        return wanted.rate is None or own.rate is not None or not wanted.is_measured
    if wanted.is_measured or own.is_measured:
        return False
    return own.unit is None or wanted.unit in own.nouns or own.unit in wanted.nouns


def _find_nearest(wanted: Quantity, texts: Sequence[_BlockText]) -> str | None:
    """Return what a block says instead: the same number, else the same unit, else a name that begins alike."""
    every = [own for text in texts for own in text.quantities if own.text != wanted.text]
    own_unit = [own for own in every if wanted.unit is not None and own.unit == wanted.unit]
    alike = (
        [own for own in every if wanted.parts and own.parts[:1] == wanted.parts[:1]],
        [own for own in every if wanted.value is not None and own.value == wanted.value],
        [own for own in own_unit if own.rate == wanted.rate],
        own_unit,
        [own for own in every if wanted.is_measured and own.is_measured],
        [own for own in every if wanted.value is not None and str(wanted.value) in own.parts],
    )
    return next((found[0].text for found in alike if found), None)


def _join_answer(triple: GoldTriple) -> str:
    return "\n".join(filter(None, [triple.expected_answer, *(triple.claims or ())]))


def is_numeric(entry: TripleEntry, category: Category | str | None = None) -> bool:
    """Return whether the numeric rule applies: a flag is numeric, or the person who settles it says so."""
    current = entry.review_status.current
    return category == Category.NUMERIC or any(
        current.reviews[name].category is Category.NUMERIC for name in current.flaggers
    )


def refuse_upheld(
    root: Path,
    entry: TripleEntry,
    kind: Kind,
    *,
    category: Category | str | None,
    note: str | None,
    corpus: Mapping[str, str] | None = None,
) -> None:
    """Refuse to uphold an answer whose numbers are not those of the block. A third person may, with a note.

    Raises:
        InvalidInput: The dispute is numeric, and a difference remains or is unknown.
    """
    if not is_numeric(entry, category):
        return
    checked = check_numbers(root, entry, corpus)
    if checked.is_passed or (kind is Kind.ADJUDICATE and note):
        return
    fix = f"revise the answer: evalspec gold revise {entry.id}"
    if checked.unknown is not None:
        fix = "name the corpus: --corpus FILE"
    if kind is Kind.ADJUDICATE:
        fix += ", or say in a note (--note) why it is right"
    raise InvalidInput(Problem(line, fix, show(entry.path), field="expected_answer") for line in checked.render())


def find_category(events: Sequence[Event]) -> str | None:
    """Return the category of the last dispute that was settled, None if there was none.

    The category that people settled it under counts more than that of the flag. `events`: of one triple, by revision.
    """
    settled = [event for event in events if event.kind in SETTLING]
    if not settled:
        return None
    revision = max(event.revision for event in settled)
    same = [event for event in events if event.revision == revision]
    said = [event.category for event in same if event.kind in SETTLING] + [event.category for event in same]
    return next((str(category) for category in said if category is not None), UNCATEGORISED)


def find_categories(found: GoldSet) -> dict[str, str]:
    """Return the category of the settled dispute by id. A part of a split triple has that of the whole."""
    categories: dict[str, str] = {}
    for entry in found.entries.values():
        events = [one.event for one in entry.events]
        category = find_category(events)
        if category is None:
            continue
        categories[entry.id] = category
        children = (
            child for event in events if event.verdict == DisputeOutcome.SPLIT for child in event.children or ()
        )
        for child in children:
            categories.setdefault(child, category)
    return categories
