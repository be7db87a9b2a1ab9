"""`evalspec gold assign`, `next`, `review`, `resolve` and `retire`: what people decide about triples."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.base.foreign_text import inert, visible
from evalspec.base.plural import counted
from evalspec.cli.case_session import CaseSession, CaseView, require_terminal
from evalspec.cli.documents import emit_document
from evalspec.cli.gold.options import acting, corpus_option, note_option, open_as, print_entries, set_option
from evalspec.cli.keyboard import END, ENTER, ESCAPE
from evalspec.cli.options import json_option, person_option, warn, warn_all
from evalspec.cli.screen import Screen, build_body, build_heading, build_marked, clean
from evalspec.cli.streams import emit, notify
from evalspec.curation.gold.blocks import read_texts
from evalspec.curation.gold.describing import describe_for_review
from evalspec.curation.gold.disputes import check_numbers, is_numeric
from evalspec.curation.gold.files import render_yaml
from evalspec.curation.gold.gold_set import TripleEntry, read_set
from evalspec.curation.gold.passages import BlockText, find_shared, read_block_text
from evalspec.curation.gold.protocol import assign, resolve, retire, review
from evalspec.curation.gold.review_session import ReviewOutcome, ReviewSession
from evalspec.curation.gold.reviewers import list_reviewable
from evalspec.curation.gold.schema import Category, DisputeOutcome, Flag, GoldTriple
from evalspec.curation.gold.wording import (
    CATEGORIES,
    FLAGS,
    describe_block,
    label_blocks,
    list_answers,
    list_shown_metadata,
)

_CONFIRM = "confirm"
_category_option = click.option(
    "--category",
    type=click.Choice(list(map(str, Category))),
    help="What a flag is about; it decides the rule of the dispute.",
)


@click.command("assign")
@click.argument("triple_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--reviewer", "to", required=True, metavar="NAME", help="Who should review them.")
@acting
def assign_command(triple_ids: Sequence[str], to: str, root: Path, by: str, as_json: bool) -> ExitCode:
    """Ask a person to review triples. `evalspec gold next` offers them first.

    \b
    Example:
      evalspec gold assign refund plans --reviewer ben
    """
    return print_entries(assign(root, triple_ids, to, by), as_json, by)


@click.command("next")
@person_option
@set_option
@corpus_option
@json_option
def next_command(person: str | None, folder: Path | None, corpus: Path | None, as_json: bool) -> ExitCode:
    """Show the next triple that you can review, with the texts of its blocks, without what others said about it.

    \b
    Example:
      evalspec gold next --as ben
    """
    root, by = open_as(folder, person)
    waiting = list_reviewable(read_set(root), by)
    texts = read_texts(corpus) if corpus else None
    shown = describe_for_review(root, waiting[0], texts) if waiting else None
    if as_json:
        emit_document({"waiting": len(waiting), "triple": shown})
    elif shown:
        emit(visible(render_yaml(shown)).rstrip())
    notify(f"{counted(len(waiting), 'triple')} to review" if waiting else f"nothing to review for {by}")
    return ExitCode.OK


@click.command("review")
@click.argument("triple_id", metavar="[ID]", required=False)
@click.argument("verdict", metavar="[VERDICT]", type=click.Choice([_CONFIRM, *map(str, Flag)]), required=False)
@_category_option
@corpus_option
@note_option
@acting
def review_command(
    triple_id: str | None,
    verdict: str | None,
    category: str | None,
    corpus: Path | None,
    note: str | None,
    root: Path,
    by: str,
    as_json: bool,
) -> ExitCode:
    """Confirm ID, or flag it with what is wrong. Nobody sees other reviews before their own.

    VERDICT is confirm, question_unrealistic, wrong_block, not_entailed, overstated or understated. Without it, this is
    a session on the terminal: it shows one triple after the other, beginning with ID, and a key decides. It continues
    where you left off.

    Two confirmations accept a triple, one flag makes it disputed, two flags drop it. For a numeric flag, the numbers of
    the answer are compared with the pinned text of the block, or with that of --corpus. With --corpus, a confirmation
    holds for its texts: `evalspec gold pin` to the same texts keeps it.

    \b
    Examples:
      evalspec gold review --as ben
      evalspec gold review refund --corpus evals/corpus.jsonl
      evalspec gold review refund confirm --as ben
      evalspec gold review refund overstated --category numeric \\
        --note "The block says 14 days."
    """
    if triple_id is None or verdict is None:
        return _open_session(root, by, triple_id, corpus, unused=as_json or bool(category or note))
    flag = None if verdict == _CONFIRM else verdict
    texts = read_texts(corpus) if corpus else None
    entry = review(root, triple_id, by, flag, category=category, note=note, corpus=texts)
    numbers = _compare_numbers(root, entry, category, texts) if flag else {}
    return print_entries([entry], as_json, by, more=numbers)


def _compare_numbers(
    root: Path, entry: TripleEntry, category: str | None, texts: Mapping[str, str] | None
) -> dict[str, list[str]]:
    """Print what the answer says in numbers that the block does not say, and return it as a part of a document.

    Nothing if the dispute is not numeric. `texts`: a corpus by id.
    """
    if not is_numeric(entry, category):
        return {}
    lines = check_numbers(root, entry, texts).render()
    for line in lines:
        warn(Problem(line))
    return {"differences": lines}


def _open_session(root: Path, by: str, first: str | None, corpus: Path | None, *, unused: bool) -> ExitCode:
    if unused:
        message = "--json, --category and --note need ID and VERDICT"
        raise InvalidInput(Problem(message, "write: evalspec gold review ID VERDICT"))
    return run_session(root, by, first, corpus)


@click.command("resolve")
@click.argument("triple_id", metavar="ID")
@click.argument("outcome", type=click.Choice([str(DisputeOutcome.UPHELD), str(DisputeOutcome.DROPPED)]))
@_category_option
@corpus_option
@note_option
@acting
def resolve_command(
    triple_id: str,
    outcome: str,
    category: str | None,
    corpus: Path | None,
    note: str | None,
    root: Path,
    by: str,
    as_json: bool,
) -> ExitCode:
    """Settle the dispute about ID. To uphold it, author and flagger both have to say so; each of them may drop it.

    Anybody else adjudicates. To change the triple instead, use `evalspec gold revise` or `evalspec gold split`. A
    numeric dispute is only upheld if the block says every number of the answer; a third person may say in --note why
    it is right nevertheless.

    \b
    Examples:
      evalspec gold resolve refund upheld --as ada
      evalspec gold resolve refund dropped --note "Nobody asks this." --as cleo
    """
    texts = read_texts(corpus) if corpus else None
    entry = resolve(root, triple_id, by, outcome, category=category, note=note, corpus=texts)
    numbers = _compare_numbers(root, entry, category, texts) if outcome == DisputeOutcome.UPHELD else {}
    return print_entries([entry], as_json, by, more=numbers)


@click.command("retire")
@click.argument("triple_id", metavar="ID")
@note_option
@acting
def retire_command(triple_id: str, note: str | None, root: Path, by: str, as_json: bool) -> ExitCode:
    """Take ID out of the set for good, for example because its document is gone.

    \b
    Example:
      evalspec gold retire refund --note "The plan no longer exists."
    """
    return print_entries([retire(root, triple_id, by, note=note)], as_json, by)


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


def run_session(root: Path, by: str, first: str | None, corpus: Path | None) -> ExitCode:
    """Let a person review triples on a terminal.

    Raises:
        InvalidInput: There is no terminal, or nothing can be read.
        CommandFailed: Interrupted. All reviews are kept.
    """
    require_terminal("a review session", "without one: evalspec gold next --json, then evalspec gold review ID VERDICT")
    texts = None if corpus is None else read_texts(corpus)
    session = ReviewSession(root, by, first, texts)
    warn_all(session.found.problems)
    again = ["evalspec", "gold", "review", "--set", str(root), "--as", by]
    return _TripleSession(session, texts).run(shlex.join([*again, *(["--corpus", str(corpus)] if corpus else [])]))


class _TripleSession(CaseSession[TripleEntry]):
    """A session that reviews triples. `texts`: a corpus by id."""

    decision, whole = "the review of", KEYS["b"]

    def __init__(self, session: ReviewSession, texts: Mapping[str, str] | None) -> None:
        super().__init__(session)
        self._session, self._texts = session, texts

    def name(self, case: TripleEntry) -> str:
        """Return id and revision."""
        return case.reference

    def list_keys(self, _case: TripleEntry) -> Mapping[str, str]:
        """Return the keys with their meanings."""
        return KEYS

    def describe(self, case: TripleEntry, screen: Screen) -> CaseView:
        """Return a triple: question, blocks, answer, the numbers that the blocks do not say, metadata."""
        triple = case.triple
        if triple is None:
            return CaseView(case.reference, [], [], [])
        root, labels, answers = self._session.root, label_blocks(triple), list_answers(triple)
        found = [read_block_text(root, block, self._texts) for block in triple.blocks]
        texts = [(_head(one, labels[one.block.block_id]), _block(one, answers, screen)) for one in found]
        numbers = check_numbers(root, case, self._texts).render_known()
        question = [build_heading("Question"), *build_body(triple.question), ""]
        return CaseView(case.reference, question, texts, [*_answer(triple, numbers), *_metadata(triple)])

    def explain(self, _case: TripleEntry) -> str:
        """Return what confirmations and flags mean."""
        return _HELP.format(flags="\n".join(f"  {flag}: {meaning}" for flag, meaning in FLAGS.items()))

    def answer(self, case: TripleEntry, meaning: str) -> bool:
        """Confirm a triple or flag it. If the person goes back, it is shown again."""
        if meaning == KEYS["c"]:
            self._record(case, f"confirmed {case.reference}", None)
        else:
            self._flag(case)
        return True

    def finish(self) -> None:
        """Print what became of the last triple."""
        self._report(self._session.settle())

    def _flag(self, entry: TripleEntry) -> None:
        """Ask for flag, category and note, and record them."""
        flag = self.choose("What is wrong?", FLAGS, "Esc: nothing, go back")
        category = ESCAPE
        if flag not in (ESCAPE, END):
            category = self.choose("What is it about?", CATEGORIES, "Enter: none; Esc: go back", may_be_none=True)
        note = None
        if category not in (ESCAPE, END):
            note = self.read_text("A note for the author (Enter: none; Ctrl-D: go back):")
        if note is None:
            self.say("nothing was recorded")
            return
        chosen = None if category == ENTER else category
        self._record(entry, f"flagged {entry.reference} as {flag}", flag, chosen, note or None)

    def _record(
        self, entry: TripleEntry, done: str, flag: str | None, category: str | None = None, note: str | None = None
    ) -> None:
        self._report(self._session.record(entry, flag, category=category, note=note))
        self.say(f"{done}; u takes it back")

    def _report(self, outcome: ReviewOutcome | None) -> None:
        if outcome is not None:
            self.say(f"{outcome.reference} is {outcome.summary}", *(f"  {line}" for line in outcome.said))


def _head(one: BlockText, label: str) -> Any:
    return build_heading(label, inert(describe_block(one.block)))


def _block(one: BlockText, answers: Sequence[str], screen: Screen) -> Any:
    """Return the text of a block with the words marked that the answer has too, or why there is none."""
    from rich.text import Text

    if one.text is None:
        return Text(f"the text is not available: {inert(one.why)}", style="italic")
    text = clean(one.text)
    return build_marked(text, find_shared(text, answers), screen)


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
