"""`evalspec gold init`, `add` and `revise`: sets and the content of triples. `add` asks for what is missing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.base.foreign_text import inert
from evalspec.base.plural import counted
from evalspec.cli.documents import emit_document
from evalspec.cli.gold.options import acting, corpus_option, note_option, print_entries, source_option
from evalspec.cli.options import json_option, warn
from evalspec.cli.streams import can_prompt, notify
from evalspec.curation.gold.authoring import create_set, find_edited, list_removed, read_triple
from evalspec.curation.gold.blocks import read_documents
from evalspec.curation.gold.files import show
from evalspec.curation.gold.gold_set import TripleEntry, read_entry
from evalspec.curation.gold.layout import SET_FILE
from evalspec.curation.gold.pins import pin_triple
from evalspec.curation.gold.protocol import add_triple, revise_triple
from evalspec.curation.gold.redaction import count_redacted
from evalspec.curation.gold.run_samples import RunSample, read_run_sample
from evalspec.curation.gold.samples import ORIGINAL_AUTHOR
from evalspec.curation.gold.schema import GoldTriple, Person
from evalspec.curation.gold.states import CONFIRMATIONS

_PATH = click.Path(path_type=Path)
_SOURCES = click.Choice(["public", "customer", "synthetic"])
_file_option = click.option("--file", type=_PATH, metavar="FILE", help="YAML file with the triple.")


@click.command("init")
@click.argument("folder", type=_PATH)
@click.option(
    "--person",
    "people",
    multiple=True,
    required=True,
    metavar="NAME[=EMAIL]",
    help="Who writes or reviews; repeatable.",
)
@click.option("--name", metavar="NAME", help="Name of the set; by default, that of the folder.")
@click.option("--demonstration", is_flag=True, help="The people are invented; reports say so.")
@json_option
def init_command(folder: Path, people: Sequence[str], name: str | None, demonstration: bool, as_json: bool) -> ExitCode:
    """Create a gold set in FOLDER. A triple needs an author and two other people, so name at least three.

    \b
    Example:
      evalspec gold init gold/help --person ada --person ben --person cleo
    """
    pairs = [one.partition("=") for one in people]
    persons = {person: Person(email=email or None) for person, _, email in pairs}
    create_set(folder, name or folder.name, persons, demonstration=demonstration)
    if len(persons) <= CONFIRMATIONS:
        message = f"no triple can be accepted yet: each needs an author and {CONFIRMATIONS} other people"
        warn(Problem(message, f"add people to {show(folder / SET_FILE)}"))
    if as_json:
        emit_document({"folder": str(folder), "people": list(persons)})
    notify(f"created {show(folder)}/set.yaml")
    return ExitCode.OK


@click.command("add")
@click.argument("triple_id", metavar="ID")
@_file_option
@click.option("--question", metavar="TEXT", help="The question, as somebody would ask it.")
@click.option(
    "--block",
    "blocks",
    multiple=True,
    metavar="ID[@VERSION]",
    help="The block that answers it. Repeatable: all are needed.",
)
@click.option("--document", metavar="ID", help="Document of the block.")
@click.option("--answer", metavar="TEXT", help="The right answer.")
@click.option("--claim", "claims", multiple=True, metavar="TEXT", help="One statement of the answer; repeatable.")
@source_option
@click.option("--meta", "metadata", multiple=True, metavar="KEY=VALUE", help="Other metadata; repeatable.")
@click.option(
    "--from-run", "from_run", nargs=2, metavar="RUN SAMPLE", help="A sample of a stored run; SAMPLE may be DATASET/ID."
)
@corpus_option
@acting
def add_command(
    triple_id: str,
    file: Path | None,
    from_run: tuple[str, str] | None,
    corpus: Path | None,
    root: Path,
    by: str,
    as_json: bool,
    **fields: Any,
) -> ExitCode:
    """Add a triple. It is pending until two other people confirm it. On a terminal, missing parts are prompted for.

    A file may be a triple of another set: provenance and added_at stay, its author is original_author, and its reviews
    start again. With --corpus, its blocks are pinned to their texts. A sample of a run gives the question, its relevant
    documents and its reference. If it has no reference, the agent's answer is used, and generated_by says so: such a
    triple is for stress tests until two people confirm it.

    \b
    Examples:
      evalspec gold add refund --question "How long does a refund take?" \\
        --block refunds --answer "14 days"
      evalspec gold add refund --file refund.yaml --corpus evals/corpus.jsonl
      evalspec gold add refund --from-run latest rag-quality/q17
    """
    if file is not None and from_run is not None:
        raise InvalidInput(Problem("--file and --from-run both give a triple", "pass one of them", field="--from-run"))
    drafted = RunSample({}) if from_run is None else read_run_sample(*from_run)
    triple = _leave_out_reviews(_complete(file, drafted, fields, is_silent=as_json), by)
    if corpus is not None:
        triple = pin_triple(root, triple, read_documents(corpus))
    entry = add_triple(root, triple_id, triple, by, authors=drafted.authors)
    _tell_redacted(triple, entry)
    return print_entries([entry], as_json, by)


def _complete(file: Path | None, drafted: RunSample, fields: dict[str, Any], *, is_silent: bool) -> GoldTriple:
    """Return the triple of a file, a run or options. What is missing is prompted for, if somebody can answer."""
    has_all = all((drafted.content.get("question") or fields["question"], _has_block(drafted, fields)))
    if file is None and not has_all and not is_silent and can_prompt():
        fields = _ask_missing(fields, drafted.content, drafted.candidates)
    elif drafted.candidates and not _has_block(drafted, fields):
        retrieved = ", ".join(drafted.candidates)
        message = f"no document of the sample is known to be relevant; the agent retrieved {retrieved}"
        raise InvalidInput(Problem(message, "choose one of them with --block", field="--block"))
    return read_triple(file, base=drafted.content, **fields)


def _leave_out_reviews(triple: GoldTriple, by: str) -> GoldTriple:
    """Return a triple without the reviews that it states, because only events of the set count. Its author stays."""
    metadata = triple.metadata
    author = {ORIGINAL_AUTHOR: metadata.added_by} if metadata.added_by not in (None, by) else {}
    if metadata.reviewed_by or metadata.resolution:
        fix = "if they are people of this set: evalspec gold import FILE --keep-reviews"
        warn(Problem("reviewed_by and resolution are left out: the triple is reviewed in this set", fix))
    kept = metadata.model_copy(update={"reviewed_by": None, "resolution": None, **author})
    return triple.model_copy(update={"metadata": kept})


def _has_block(drafted: RunSample, fields: dict[str, Any]) -> bool:
    return bool(fields["blocks"]) or "expected_block" in drafted.content


def _tell_redacted(given: GoldTriple, entry: TripleEntry) -> None:
    """Report how many terms of a customer's grant were redacted."""
    after = 0 if entry.triple is None else count_redacted(entry.triple)
    count = after - count_redacted(given)
    if count > 0:
        notify(f"redacted {counted(count, 'term')} of {entry.customer}'s grant")


@click.command("revise")
@click.argument("triple_id", metavar="ID")
@_file_option
@corpus_option
@note_option
@acting
def revise_command(
    triple_id: str,
    file: Path | None,
    corpus: Path | None,
    note: str | None,
    root: Path,
    by: str,
    as_json: bool,
) -> ExitCode:
    """Record the edited triple ID as a new revision: from FILE, or as you edited it in the set's folder.

    The reviews start again. If ID is disputed, this settles the dispute. FILE is the whole triple: what it leaves out
    is removed. With --corpus, blocks are pinned to the texts there.

    \b
    Examples:
      evalspec gold revise refund --file refund.yaml --note "It says 14 days."
      $EDITOR evals/gold/help/triples/refund.yaml; evalspec gold revise refund
    """
    before = read_entry(root, triple_id)
    triple = find_edited(before) if file is None else read_triple(file)
    if triple.id not in (None, triple_id):
        raise InvalidInput(Problem(f"the file has the id '{triple.id}'", f"write {triple_id}", str(file), field="id"))
    if corpus is not None:
        triple = pin_triple(root, triple, read_documents(corpus), renew=True)
    for key in list_removed(before, triple) if file is not None else ():
        warn(Problem(f"{key} is removed, because the file has no such key", file=str(file)))
    entry = revise_triple(root, triple_id, triple, by, note=note)
    _tell_redacted(triple, entry)
    return print_entries([entry], as_json, by)


def _ask_missing(fields: Mapping[str, Any], known: Mapping[str, Any], candidates: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of a triple, completed by questions on the terminal. An empty answer leaves out what can be.

    `fields`: given as options. `known`: the triple as far as it is known otherwise. `candidates`: ids of blocks.

    Raises:
        click.Abort: The person ends the input.
    """
    answers = dict(fields)
    metadata = known.get("metadata", {})
    if not fields.get("question") and "question" not in known:
        answers["question"] = _ask("Question")
    if not fields.get("blocks") and "expected_block" not in known:
        answers["blocks"] = _ask_blocks(candidates)
    if not fields.get("answer") and "expected_answer" not in known:
        answers["answer"] = _ask("Right answer (empty: none)", default="") or None
    given = [pair.partition("=")[0] for pair in fields.get("metadata", ())] + list(metadata)
    if not fields.get("source") and "source" not in given:
        answers["source"] = _ask("Source", type=_SOURCES)
    missing = [key for key in ("domain", "difficulty") if key not in given]
    if answers.get("source") == "customer" and "customer" not in given:
        missing.insert(0, "customer")
    asked = ((key, _ask(f"{key.capitalize()} (empty: none)", default="")) for key in missing)
    answers["metadata"] = [*fields.get("metadata", ()), *(f"{key}={value}" for key, value in asked if value)]
    return answers


def _ask_blocks(candidates: Sequence[str]) -> list[str]:
    """Return the ids of the blocks, at least one. A number chooses a candidate."""
    for place, name in enumerate(candidates, 1):
        notify(f"  {place}  {inert(name)}")
    blocks: list[str] = []
    while True:
        label = "Block" if not blocks else "Another block that is needed (empty: none)"
        typed = _ask(label) if not blocks else _ask(label, default="")
        if not typed:
            return blocks
        is_choice = typed.isdecimal() and 0 < int(typed) <= len(candidates)
        blocks.append(candidates[int(typed) - 1] if is_choice else typed)


def _ask(label: str, **settings: Any) -> str:
    answer: str = click.prompt(label, err=True, show_default=bool(settings.get("default")), **settings)
    return answer.strip()
