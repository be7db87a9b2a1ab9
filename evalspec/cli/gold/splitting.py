"""`evalspec gold split`: one triple for each claim of a compound one."""

from collections.abc import Sequence
from pathlib import Path

import click

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.base.foreign_text import visible
from evalspec.cli.documents import emit_document
from evalspec.cli.gold.options import corpus_option, note_option, open_as, print_entries, set_options
from evalspec.cli.streams import emit, notify
from evalspec.curation.gold.files import render_yaml
from evalspec.curation.gold.gold_set import find_set, read_entry
from evalspec.curation.gold.splitting import propose_children, read_children, split


@click.command("split")
@click.argument("triple_id", metavar="ID")
@click.option("--file", type=click.Path(path_type=Path), metavar="FILE", help="YAML list of the parts.")
@click.option("--claim", "claims", multiple=True, metavar="TEXT", help="Answer of one part; repeatable.")
@corpus_option
@note_option
@set_options
def split_command(
    triple_id: str,
    file: Path | None,
    claims: Sequence[str],
    corpus: Path | None,
    note: str | None,
    person: str | None,
    folder: Path | None,
    as_json: bool,
) -> ExitCode:
    """Replace the disputed triple ID by triples with one claim each, or propose how without --file and --claim.

    A proposal is a YAML list to edit, because only people know what is one claim. The parts are pending as ID-1, ID-2
    and so on. They have source, customer, provenance and generated_by of ID, and whatever else they do not state. With
    --corpus, their unpinned blocks are pinned to the texts there.

    \b
    Examples:
      evalspec gold split keys > parts.yaml
      evalspec gold split keys --file parts.yaml --corpus evals/corpus.jsonl
      evalspec gold split keys --claim "AES-256-GCM at rest" \\
        --claim "Keys rotate every 90 days"
    """
    if file is not None and claims:
        raise InvalidInput(Problem("--file and --claim both name the parts", "pass one of them", field="--claim"))
    if file is None and not claims:
        return _propose(find_set(folder), triple_id, as_json)
    root, by = open_as(folder, person)
    parts = read_children(file) if file is not None else claims
    children = split(root, triple_id, by, parts, note=note, corpus=corpus)
    return print_entries([read_entry(root, triple_id), *children], as_json, by)


def _propose(root: Path, triple_id: str, as_json: bool) -> ExitCode:
    proposed = propose_children(read_entry(root, triple_id))
    if as_json:
        emit_document({"id": triple_id, "proposal": proposed})
    else:
        emit(visible(render_yaml(proposed)).rstrip())
    notify("a proposal; edit it and pass it with --file FILE")
    return ExitCode.OK
