"""What a review session shows: a triple with the texts of its blocks, keys, and outcomes.

Lines scroll, nothing is drawn over: this works on every terminal and with screen readers.
"""

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from evalspec.foreign_text import inert, visible
from evalspec.gold.blocks import parse_pin
from evalspec.gold.files import to_plain
from evalspec.gold.gold_set import Entry
from evalspec.gold.passages import BlockText, find_shared
from evalspec.gold.review_session import Outcome
from evalspec.gold.schema import Block, Category, Flag, GoldTriple

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_WIDEST, _NARROWEST = 100, 20
_SHORTEST_BLOCK = 6
"""Lines of a block that are shown even on a low screen."""
_HIDDEN = frozenset({"reviewed_by", "resolution"})
"""Metadata that would say what others think."""

FLAGS = {
    Flag.QUESTION_UNREALISTIC: "nobody would ask this",
    Flag.WRONG_BLOCK: "the answer comes from another block",
    Flag.NOT_ENTAILED: "the block does not say what the answer says",
    Flag.OVERSTATED: "the answer says more than the block",
    Flag.UNDERSTATED: "the answer leaves out what the question asks for",
}
CATEGORIES = {
    Category.NUMERIC: "numbers, units and modes",
    Category.SYNONYM: "other words or another tense",
    Category.COMPOUND: "several claims in one answer",
    Category.OTHER: "anything else",
}
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


class View(Struct, frozen=True):
    """How to lay text out. `height`: lines of the terminal."""

    width: int
    height: int
    color: bool
    unicode: bool

    @property
    def columns(self) -> int:
        """The width of lines. Very wide ones are hard to read."""
        return max(_NARROWEST, min(self.width, _WIDEST))


def render_triple(
    entry: Entry, texts: Sequence[BlockText], progress: str, view: View, *, numbers: Sequence[str] = (), whole: bool
) -> str:
    """Return a triple for a reviewer: question, blocks, answer, metadata, keys. Nothing that others said about it.

    `numbers`: differences of numbers between answer and block. `whole`: show long blocks in full.
    """
    if entry.triple is None:
        return ""
    triple = entry.triple
    answers = list(filter(None, [triple.expected_answer, *(triple.claims or ())]))
    around = [*_head(entry, progress, view), *_answer(triple, numbers), *_metadata(triple)]
    fixed = _count_lines(around, view) + len(texts) * 3 + 4
    room = None if whole else max(_SHORTEST_BLOCK, (view.height - fixed) // max(1, len(texts)))
    parts = _head(entry, progress, view)
    labels = _label_blocks(triple)
    for one in texts:
        parts += [_label(labels[one.block.block_id], _describe_block(one.block)), *_block(one, answers, room, view), ""]
    return _render([*parts, *_answer(triple, numbers), *_metadata(triple), keys_line()], view)


def render_help(view: View) -> str:
    """Return what the keys and flags mean."""
    flags = "\n".join(f"  {flag}: {meaning}" for flag, meaning in FLAGS.items())
    return _render(["", *_HELP.format(flags=flags).split("\n"), "", keys_line()], view)


def render_choices(title: str, choices: Mapping[Any, str], otherwise: str, view: View) -> str:
    """Return a question with numbered choices. `otherwise`: what other keys do."""
    lines = [f"  {number} {name}: {meaning}" for number, (name, meaning) in enumerate(choices.items(), 1)]
    return _render(["", title, *lines, f"  {otherwise}"], view)


def render_outcome(outcome: Outcome, view: View) -> str:
    """Return what became of a triple."""
    said = [f"  {inert(line)}" for line in outcome.said]
    return _render([f"{inert(outcome.reference)} is {inert(outcome.summary)}", *said], view)


def render_lines(lines: Sequence[str], view: View) -> str:
    """Return lines, which may contain untrusted text."""
    return _render(map(inert, lines), view)


def keys_line() -> str:
    """Return the keys with their meanings."""
    return "  ".join(f"[{key}] {meaning}" for key, meaning in KEYS.items())


def _head(entry: Entry, progress: str, view: View) -> list[Any]:
    from rich.text import Text

    title = f" {inert(entry.reference)}  {progress} "
    line = "─" if view.unicode else "-"
    rule = Text(f"{line * 2}{title}", style="bold")
    rule.append(line * (view.columns - rule.cell_len))
    question = entry.triple.question if entry.triple else ""
    return [Text(""), rule, Text(""), _label("Question"), *_body(question), Text("")]


def _answer(triple: GoldTriple, numbers: Sequence[str]) -> list[Any]:
    parts: list[Any] = [_label("Answer"), *_body(triple.expected_answer or "(none)")]
    for number, claim in enumerate(triple.claims or (), 1):
        parts += [_label("Claims")] if number == 1 else []
        parts += _body(f"{number}. {claim}")
    if numbers:
        parts += [_label("Numbers"), *(line for each in numbers for line in _body(each))]
    return [*parts, ""]


def _metadata(triple: GoldTriple) -> list[Any]:
    from rich.text import Text

    plain = {key: value for key, value in to_plain(triple.metadata).items() if key not in _HIDDEN}
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


def _label_blocks(triple: GoldTriple) -> dict[str, str]:
    """Return a label for each block, which says how it belongs to the others."""
    groups = triple.groups
    labels: dict[str, str] = {}
    for number, group in enumerate(groups, 1):
        part = f" {number} of {len(groups)}, all needed" if len(groups) > 1 else ""
        for block in group:
            alone = "" if len(group) == 1 else ", or another of this part" if part else ", one of several that answer"
            labels.setdefault(block.block_id, f"Block{part}{alone}")
    return labels


def _describe_block(block: Block) -> str:
    pages = "–".join(map(str, dict.fromkeys(block.page_range or ())))
    parts = [
        block.block_id,
        block.document_id and f"document {block.document_id}",
        pages and f"page {pages}",
        _describe_version(block.version),
    ]
    return inert("; ".join(filter(None, parts)))


def _describe_version(version: str | None) -> str:
    """Return a version as a reviewer needs it. The hash of a pin says nothing to them."""
    if version is None:
        return "unpinned"
    return f"version {version}" if parse_pin(version) is None else "pinned"


def _block(one: BlockText, answers: Sequence[str], room: int | None, view: View) -> Iterator[Any]:
    """Yield the lines of a block, or of its part with the most shared words if there is less room."""
    from rich.text import Text

    if one.text is None:
        yield Text(f"  the text is not available: {inert(one.why)}", style="italic")
        return
    lines = _wrap(_mark(visible(one.text).expandtabs(4), answers, view), view)
    if room is None or len(lines) <= room:
        yield from lines
        return
    shown = room - 2
    marked = [sum(span.style == _MARK for span in line.spans) for line in lines]
    sums = [sum(marked[at : at + shown]) for at in range(len(lines) - shown + 1)]
    best = [at for at, count in enumerate(sums) if count == max(sums)]
    start = best[len(best) // 2] if max(sums) else 0
    after = len(lines) - start - shown
    yield Text(f"  … {start} lines before" if start else "  (from the beginning)", style="dim")
    yield from lines[start : start + shown]
    yield Text(f"  … {after} lines more; b shows all" if after else "  (to the end; b shows all)", style="dim")


_MARK = "bold underline"


def _mark(text: str, answers: Sequence[str], view: View) -> "Text":
    """Return a text with the words of the answers marked: by style, or by asterisks without colour."""
    from rich.text import Text

    marked, position = Text(), 0
    for start, end in find_shared(text, answers):
        marked.append(text[position:start])
        marked.append(text[start:end] if view.color else f"*{text[start:end]}*", _MARK)
        position = end
    return marked.append(text[position:])


def _label(title: str, about: str = "") -> "Text":
    from rich.text import Text

    return Text.assemble((title, "bold"), f"  {about}" if about else "")


def _body(text: str) -> Iterator["Text"]:
    from rich.text import Text

    yield from (Text(f"  {line}") for line in visible(text).expandtabs(4).strip("\n").split("\n"))


def _wrap(text: "Text", view: View) -> list["Text"]:
    from rich.text import Text

    console = _open_console(StringIO(), view)
    return [Text("  ") + line for line in text.wrap(console, view.columns - 2)]


def _count_lines(parts: Sequence[Any], view: View) -> int:
    return _render(parts, view).count("\n")


def _render(parts: Any, view: View) -> str:
    """Return parts, a line or more each. Continued lines are indented like their first one."""
    from rich.padding import Padding
    from rich.text import Text

    stream = StringIO()
    console = _open_console(stream, view)
    for part in parts:
        text = part if isinstance(part, Text) else Text(part)
        indent = min(len(text.plain) - len(text.plain.lstrip(" ")), 4)
        console.print(Padding(text[indent:], (0, 0, 0, indent)) if text.plain.strip() else "")
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().removesuffix("\n").split("\n"))


def _open_console(stream: StringIO, view: View) -> "Console":
    from rich.console import Console

    return Console(
        file=stream,
        width=view.columns,
        force_terminal=view.color,
        color_system="standard" if view.color else None,
        no_color=not view.color,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
