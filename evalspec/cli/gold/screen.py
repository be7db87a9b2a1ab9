"""What a review session shows: a triple with the texts of its blocks, keys, and outcomes."""

from collections.abc import Iterator, Sequence
from typing import Any

from evalspec.base.foreign_text import inert
from evalspec.cli.screen import (
    Screen,
    build_body,
    build_excerpt,
    build_heading,
    build_marked,
    build_title,
    clean,
    render_keys,
    render_parts,
)
from evalspec.curation.gold.gold_set import TripleEntry
from evalspec.curation.gold.passages import BlockText, find_shared
from evalspec.curation.gold.review_session import ReviewOutcome
from evalspec.curation.gold.schema import GoldTriple
from evalspec.curation.gold.wording import FLAGS, describe_block, label_blocks, list_answers, list_shown_metadata

KEYS = {
    "c": "confirm",
    "f": "flag",
    "s": "skip",
    "u": "undo",
    "b": "whole block",
    "?": "help",
    "q": "quit",
}
_HELP = """\
Confirm if all three are true: somebody would ask the question, the block is the right source, and the block entails \
the answer. Otherwise flag what is wrong; then choose a category and write a note for the author.

{flags}

Undo takes your last review back, until your next one. Only after that do you see what others said about the triple, \
because reviews are blind.

Each review is written to events/ at once, so you can quit at any time and continue later. Commit the files to share \
them."""


def render_triple(
    entry: TripleEntry,
    texts: Sequence[BlockText],
    progress: str,
    screen: Screen,
    *,
    numbers: Sequence[str] = (),
    whole: bool,
) -> str:
    """Return a triple for a reviewer: question, blocks, answer, metadata, keys. Nothing that others said about it.

    `numbers`: differences of numbers between answer and block. `whole`: show long blocks in full.
    """
    if entry.triple is None:
        return ""
    triple = entry.triple
    answers = list_answers(triple)
    head, tail = _head(entry, progress, screen), [*_answer(triple, numbers), *_metadata(triple)]
    room = None if whole else screen.find_room([*head, *tail], len(texts))
    labels = label_blocks(triple)
    parts = head
    for one in texts:
        heading = build_heading(labels[one.block.block_id], inert(describe_block(one.block)))
        parts += [heading, *_block(one, answers, room, screen), ""]
    return render_parts([*parts, *tail, render_keys(KEYS)], screen)


def explain_keys() -> str:
    """Return what the keys and flags mean."""
    return _HELP.format(flags="\n".join(f"  {flag}: {meaning}" for flag, meaning in FLAGS.items()))


def render_outcome(outcome: ReviewOutcome, screen: Screen) -> str:
    """Return what became of a triple."""
    said = [f"  {inert(line)}" for line in outcome.said]
    return render_parts([f"{inert(outcome.reference)} is {inert(outcome.summary)}", *said], screen)


def _head(entry: TripleEntry, progress: str, screen: Screen) -> list[Any]:
    question = entry.triple.question if entry.triple else ""
    return [*build_title(entry.reference, progress, screen), build_heading("Question"), *build_body(question), ""]


def _answer(triple: GoldTriple, numbers: Sequence[str]) -> list[Any]:
    parts: list[Any] = [build_heading("Answer"), *build_body(triple.expected_answer or "(none)")]
    for number, claim in enumerate(triple.claims or (), 1):
        parts += [build_heading("Claims")] if number == 1 else []
        parts += build_body(f"{number}. {claim}")
    if numbers:
        parts += [build_heading("Numbers"), *(line for each in numbers for line in build_body(each))]
    return [*parts, ""]


def _metadata(triple: GoldTriple) -> list[Any]:
    from rich.text import Text

    plain = list_shown_metadata(triple)
    if not plain:
        return []
    said = "; ".join(f"{inert(key)}: {_render_value(value)}" for key, value in plain.items())
    return [Text(said, style="dim"), ""]


def _render_value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{inert(str(key))} {_render_value(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(_render_value, value))
    return inert(str(value))


def _block(one: BlockText, answers: Sequence[str], room: int | None, screen: Screen) -> Iterator[Any]:
    """Yield the lines of a block, or of its part with the most shared words if there is less room."""
    from rich.text import Text

    if one.text is None:
        yield Text(f"  the text is not available: {inert(one.why)}", style="italic")
        return
    text = clean(one.text)
    yield from build_excerpt(build_marked(text, find_shared(text, answers), screen), room, screen, "b")
