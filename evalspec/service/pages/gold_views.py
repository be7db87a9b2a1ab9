"""What the pages of gold sets show: sets, rows of triples, one triple with its blocks, and disputes."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from evalspec.curation.gold.disputes import check_numbers, is_numeric
from evalspec.curation.gold.files import compute_hash
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry
from evalspec.curation.gold.passages import BlockText, find_shared, read_block_text
from evalspec.curation.gold.reviewers import describe_missing, explain_unresolvable, list_reviewable
from evalspec.curation.gold.schema import Event, Flag, Kind
from evalspec.curation.gold.states import State
from evalspec.curation.gold.viewer import Viewer
from evalspec.curation.gold.wording import (
    CATEGORIES,
    FLAGS,
    RULES,
    describe_block,
    label_blocks,
    list_answers,
    list_shown_metadata,
)
from evalspec.reports.rows import render_data
from evalspec.service.gold_api import MOST_WORDS
from evalspec.service.places import hide_folder
from evalspec.service.settings import Project

_PROBLEMS_SHOWN = 20
_BLOCKS_SHOWN = 20
_EXCERPT = 1600
_WHOLE = 60_000
_MOST_MARKS = 500
_LONGEST_START = 200
_TONES = {State.ACCEPTED: "pass", State.DISPUTED: "warn", State.STALE: "warn", State.DROPPED: "fail"}


class ShownSet(Struct, frozen=True):
    """A gold set. `waiting`, `done`, `to_settle`: numbers of triples for the person; 0 for somebody else.

    `states`: number of triples by state, as the person may see them.
    """

    name: str
    title: str
    folder: str
    is_demonstration: bool
    person: str | None
    triples: int
    waiting: int
    done: int
    to_settle: int
    states: tuple[tuple[str, int], ...]
    problems: tuple[str, ...]
    more_problems: int


class ListedTriple(Struct, frozen=True):
    """One row. `tone`: of its state. `question`: None without permission."""

    id: str
    revision: int
    question: str | None
    state: str
    tone: str
    following: str


class MarkedText(Struct, frozen=True):
    """A piece of a text. `differs`: it is marked, because the answer has these words too."""

    text: str
    differs: bool


class ShownBlock(Struct, frozen=True):
    """A block. `pieces`: its text; `why`: why there is none. `before`, `after`: numbers of characters left out."""

    label: str
    about: str
    pieces: tuple[MarkedText, ...]
    why: str
    before: int = 0
    after: int = 0


class ShownTriple(Struct, frozen=True):
    """What a reviewer sees of a triple. `content_hash`: of what is shown. `numbers`: differences from the blocks."""

    id: str
    revision: int
    content_hash: str
    question: str
    answer: str | None
    claims: tuple[str, ...]
    blocks: tuple[ShownBlock, ...]
    more_blocks: int
    numbers: tuple[str, ...]
    metadata: tuple[tuple[str, str], ...]


class ShownEvent(Struct, frozen=True):
    """One event of the history. `about`: verdict and category in words."""

    revision: int
    at: str
    by: str
    kind: str
    about: str
    note: str | None


class Words(Struct, frozen=True):
    """The words of a triple in a form. `claims`: one per line; None: it has none."""

    question: str
    answer: str
    claims: str | None


class ShownDispute(Struct, frozen=True):
    """A dispute. `rules`: by category. `numbers`: what the numeric rule found. `refusal`: why one cannot settle it.

    `is_third`: the person adjudicates. `words`: what the person can revise in a form, if anything. `signature`: of all
    that is shown.
    """

    flags: tuple[ShownEvent, ...]
    rules: tuple[tuple[str, str], ...]
    numbers: tuple[str, ...]
    following: str
    refusal: str | None
    is_third: bool
    words: Words | None
    signature: str


def show_set(project: Project, found: GoldSet, viewer: Viewer) -> ShownSet:
    """Return a set as a person may see it."""
    entries, person = list(found.entries.values()), viewer.person
    problems = [hide_folder(problem.render(), project.folder) for problem in found.problems]
    return ShownSet(
        name=found.root.name,
        title=found.config.name,
        folder=str(found.root.relative_to(project.folder)),
        is_demonstration=found.config.demonstration,
        person=person,
        triples=len(entries),
        waiting=len(list_reviewable(found, person)) if person else 0,
        done=sum(person in entry.review_status.current.reviews for entry in entries),
        to_settle=sum(can_settle(entry, viewer) for entry in entries),
        states=tuple(viewer.count_states(found).items()),
        problems=tuple(problems[:_PROBLEMS_SHOWN]),
        more_problems=max(len(problems) - _PROBLEMS_SHOWN, 0),
    )


def can_settle(entry: TripleEntry, viewer: Viewer) -> bool:
    """Return whether a person can settle a dispute that they may see."""
    if viewer.person is None or viewer.is_blind(entry):
        return False
    return explain_unresolvable(entry, viewer.person) is None


def list_triple(entry: TripleEntry, viewer: Viewer) -> ListedTriple:
    """Return the row of a triple."""
    has_content = entry.triple is not None and entry.state is not State.REVOKED
    state = viewer.show_state(entry)
    return ListedTriple(
        entry.id,
        entry.review_status.revision,
        entry.triple.question if entry.triple is not None and has_content else None,
        state,
        _TONES.get(entry.state, "none") if state == entry.state else "none",
        "" if viewer.is_blind(entry) else describe_missing(entry),
    )


def show_triple(project: Project, root: Path, entry: TripleEntry, *, whole: bool) -> ShownTriple | None:
    """Return a triple without what others said about it. None: it has no content, for lack of permission."""
    triple = entry.triple
    if triple is None or entry.state is State.REVOKED:
        return None
    labels, answers, most = label_blocks(triple), list_answers(triple), _WHOLE if whole else _EXCERPT
    texts = [read_block_text(root, block) for block in triple.blocks[:_BLOCKS_SHOWN]]
    return ShownTriple(
        entry.id,
        entry.review_status.revision,
        entry.content_hash,
        triple.question,
        triple.expected_answer,
        tuple(triple.claims or ()),
        tuple(_show_block(project, one, labels[one.block.block_id], answers, most) for one in texts),
        max(len(triple.blocks) - _BLOCKS_SHOWN, 0),
        tuple(check_numbers(root, entry).render_known()),
        tuple((key, render_data(value)) for key, value in list_shown_metadata(triple).items()),
    )


def _show_block(project: Project, one: BlockText, label: str, answers: Sequence[str], most: int) -> ShownBlock:
    about = describe_block(one.block)
    if one.text is None:
        return ShownBlock(label, about, (), hide_folder(one.why, project.folder))
    spans = find_shared(one.text, answers)[:_MOST_MARKS]
    start = _find_start(one.text, spans, most)
    end = min(start + most, len(one.text))
    return ShownBlock(label, about, _mark(one.text, spans, start, end), "", start, len(one.text) - end)


def _find_start(text: str, spans: Sequence[tuple[int, int]], most: int) -> int:
    """Return where the part of a text with the most marks begins, at the beginning of a line if one is near."""
    if len(text) <= most:
        return 0
    starts = [start for start, _ in spans]
    counts = [sum(start <= other < start + most - _LONGEST_START for other in starts) for start in starts]
    best = starts[counts.index(max(counts))] if starts else 0
    if best < most - _LONGEST_START:
        return 0
    line = text.rfind("\n", best - _LONGEST_START, best)
    return line + 1 if line >= 0 else best


def _mark(text: str, spans: Sequence[tuple[int, int]], start: int, end: int) -> tuple[MarkedText, ...]:
    pieces, at = list[MarkedText](), start
    for first, last in spans:
        if last <= start or first >= end:
            continue
        first, last = max(first, start), min(last, end)
        pieces += [MarkedText(text[at:first], differs=False), MarkedText(text[first:last], differs=True)]
        at = last
    pieces.append(MarkedText(text[at:end], differs=False))
    return tuple(piece for piece in pieces if piece.text)


def list_history(entry: TripleEntry) -> list[ShownEvent]:
    """Return the events of a triple, in the order of revisions. Notes of a triple without permission are left out."""
    has_notes = entry.state is not State.REVOKED
    return [show_event(one.event, has_note=has_notes) for one in entry.events]


def show_event(event: Event, *, has_note: bool = True) -> ShownEvent:
    """Return an event in words."""
    verdict = FLAGS[event.verdict] if isinstance(event.verdict, Flag) else event.verdict
    parts = [str(verdict) if verdict else "", CATEGORIES[event.category] if event.category else "", event.to or ""]
    return ShownEvent(
        event.revision,
        event.at,
        event.by,
        str(event.kind),
        "; ".join(filter(None, parts)),
        event.note if has_note else None,
    )


def show_dispute(root: Path, entry: TripleEntry, viewer: Viewer) -> ShownDispute | None:
    """Return the dispute about a triple. None: there is none, or the person may not see it."""
    if entry.state is not State.DISPUTED or viewer.is_blind(entry):
        return None
    current, person = entry.review_status.current, viewer.person
    flags = [event for event in current.events if event.kind is Kind.FLAG]
    named = dict.fromkeys(event.category for event in flags if event.category is not None)
    is_third = person not in current.writers | current.reviews.keys()
    refusal = "you are not one of the people of the set" if person is None else explain_unresolvable(entry, person)
    return ShownDispute(
        tuple(map(show_event, flags)),
        tuple((CATEGORIES[category], RULES[category]) for category in named if category in RULES),
        tuple(check_numbers(root, entry).render()) if is_numeric(entry) else (),
        describe_missing(entry),
        refusal,
        is_third,
        None if is_third or refusal is not None else _list_words(entry),
        sign_events(entry),
    )


def _list_words(entry: TripleEntry) -> Words | None:
    """Return the words of a triple for a form. None: a form cannot show them as they are."""
    triple = entry.triple
    if triple is None or any("\n" in claim for claim in triple.claims or ()):
        return None
    claims = None if triple.claims is None else "\n".join(triple.claims)
    words = Words(triple.question, triple.expected_answer or "", claims)
    return words if max(map(len, (words.question, words.answer, claims or ""))) <= MOST_WORDS else None


def sign_events(entry: TripleEntry) -> str:
    """Return a hash of content and events of a triple. Names of events have a hash of all that they say."""
    return compute_hash([entry.content_hash, *sorted(one.path.name for one in entry.events)])
