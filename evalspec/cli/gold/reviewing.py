"""`evalspec gold assign`, `next`, `review`, `resolve` and `retire`: what people decide about triples."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.base.foreign_text import visible
from evalspec.base.plural import counted
from evalspec.cli.documents import emit_document
from evalspec.cli.gold.options import acting, corpus_option, note_option, open_as, print_entries, set_option
from evalspec.cli.options import json_option, person_option, warn
from evalspec.cli.streams import emit, notify
from evalspec.curation.gold.blocks import read_texts
from evalspec.curation.gold.describing import describe_for_review
from evalspec.curation.gold.disputes import check_numbers, is_numeric
from evalspec.curation.gold.files import render_yaml
from evalspec.curation.gold.gold_set import TripleEntry, read_set
from evalspec.curation.gold.protocol import assign, resolve, retire, review
from evalspec.curation.gold.reviewers import list_reviewable
from evalspec.curation.gold.schema import Category, DisputeOutcome, Flag

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
    the answer are compared with the pinned text of the block, or with that of --corpus.

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
    entry = review(root, triple_id, by, flag, category=category, note=note)
    numbers = _compare_numbers(root, entry, category, read_texts(corpus) if corpus else None) if flag else {}
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
    from evalspec.cli.gold.session import run_session

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
