"""`evalspec gold pin`, `check` and `carry`: versions of blocks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from evalspec.base.errors import ExitCode, Problem
from evalspec.base.plural import counted
from evalspec.cli.documents import emit_document
from evalspec.cli.gold.options import acting, open_as, print_entries, set_options
from evalspec.cli.options import min_overlap_option, option, warn
from evalspec.cli.streams import emit_line, notify
from evalspec.curation.gold.block_checks import BlockCheck
from evalspec.curation.gold.carrying import carry
from evalspec.curation.gold.gold_set import find_set
from evalspec.curation.gold.pins import Changed, SetCheck, check_set, mark_stale, pin

_PATH = click.Path(path_type=Path)
_CORPUS: dict[str, Any] = {"type": _PATH, "metavar": "FILE", "required": True}


@click.command("pin")
@click.argument("triple_ids", metavar="[ID]...", nargs=-1)
@option("--corpus", **_CORPUS, help="The documents: a corpus file, or a dataset with documents.")
@click.option("--reviewed", is_flag=True, help="Without ID: pin triples with reviews too; their reviews start again.")
@acting
def pin_command(
    triple_ids: Sequence[str], corpus: Path, reviewed: bool, root: Path, by: str, as_json: bool
) -> ExitCode:
    """Pin the unpinned blocks of triples: `version` becomes the hash of the text in FILE, which the set keeps.

    A pin is a change of content, so each triple gets a new revision and its reviews start again: an accepted triple
    leaves the set until two people confirm it. Therefore, only triples without reviews are pinned unless you name them
    or pass --reviewed. Reviews stay if two people confirmed the triple with --corpus and saw the same texts. If the
    block of a named triple changed, it is pinned to the new text: revise the answer first if it changed too. You may
    review the revisions, since you wrote nothing.

    \b
    Examples:
      evalspec gold pin --corpus evals/corpus.jsonl
      evalspec gold pin refund plans --corpus evals/corpus.jsonl --as ada
    """
    return _tell(pin(root, corpus, by, triple_ids, reviewed=reviewed), by, "pin: all blocks are pinned", as_json)


def _tell(changed: Changed, by: str, nothing: str, as_json: bool) -> ExitCode:
    """Print what was changed, and as warnings what was not or needs a look. `nothing`: why there was nothing to do."""
    for name, why in changed.left.items():
        warn(Problem(f"{name} was left as it is: {why}"))
    for name, texts in changed.texts.items():
        warn(Problem(f"{name}: {', '.join(one.render() for one in texts)}", "compare the answer with it"))
    if not changed.entries and not changed.left:
        notify(f"nothing to {nothing}")
    more = {"left": dict(changed.left), "newTexts": to_builtins(changed.texts)}
    return print_entries(changed.entries, as_json, by, more=more)


@click.command("check")
@option("--corpus", **_CORPUS, help="The documents: a corpus file, or a dataset with documents.")
@click.option("--mark", is_flag=True, help="Mark what is stale, which takes it out of the set until it is reviewed.")
@set_options
def check_command(corpus: Path, mark: bool, person: str | None, folder: Path | None, as_json: bool) -> ExitCode:
    """Find triples whose block changed or is missing in FILE. Exits with 2 and a line for each if there are any.

    With --mark, the exit code is 0 if all of them could be marked.

    A pin is compared with the text of the block, any other version with `metadata.version` of the document. Triples
    that are marked already do not count. A stale triple is revised and reviewed again, retired, or carried over with
    `evalspec gold carry`.

    \b
    Examples:
      evalspec gold check --corpus evals/corpus.jsonl
      evalspec gold check --corpus evals/corpus.jsonl --mark --as ada
    """
    root, by = open_as(folder, person) if mark else (find_set(folder), "")
    checked = check_set(root, corpus)
    marked = mark_stale(root, checked, by) if mark else Changed((), {})
    code = ExitCode.INVALID if len(checked.stale) > len(marked.entries) else ExitCode.OK
    _warn_of_doubts(checked, marked)
    if as_json:
        emit_document(_describe(checked, marked), code)
        return code
    for name, own in checked.stale.items():
        emit_line(f"{name}: {_render(own)}")
    notify(_sum_up(checked, marked))
    return code


def _warn_of_doubts(checked: SetCheck, marked: Changed) -> None:
    for name, own in checked.unpinned.items():
        warn(Problem(f"{name}: {_render(own)}", "pin it: evalspec gold pin --corpus FILE"))
    for name, own in checked.unknown.items():
        warn(Problem(f"{name} cannot be checked: {_render(own)}", "add metadata.version to the corpus"))
    for name, why in marked.left.items():
        warn(Problem(f"{name} was not marked: {why}", f"record it: evalspec gold revise {name}"))


def _render(checks: Sequence[BlockCheck]) -> str:
    return ", ".join(one.render() for one in checks)


def _sum_up(checked: SetCheck, marked: Changed) -> str:
    parts = [f"{counted(checked.checked, 'triple')} checked, {len(checked.stale)} stale"]
    counts = {
        "of them marked now": len(marked.entries),
        "marked earlier": len(checked.marked),
        "unpinned": len(checked.unpinned),
        "cannot be checked": len(checked.unknown),
    }
    return ", ".join(parts + [f"{count} {what}" for what, count in counts.items() if count])


def _describe(checked: SetCheck, marked: Changed) -> dict[str, Any]:
    return {
        "checked": checked.checked,
        "stale": _describe_blocks(checked.stale),
        "unpinned": _describe_blocks(checked.unpinned),
        "unknown": _describe_blocks(checked.unknown),
        "marked": [entry.id for entry in marked.entries],
        "markedEarlier": list(checked.marked),
        "notMarked": dict(marked.left),
    }


def _describe_blocks(found: Mapping[str, Sequence[BlockCheck]]) -> dict[str, Any]:
    return {
        name: [
            {"block": one.block.block_id, "fit": one.status, "version": one.block.version, "found": one.found}
            for one in own
        ]
        for name, own in found.items()
    }


@click.command("carry")
@click.argument("triple_ids", metavar="[ID]...", nargs=-1)
@option("--old-corpus", "old", **_CORPUS, help="The documents that the triples were made for.")
@option("--corpus", "new", **_CORPUS, help="The documents that they are carried over to.")
@min_overlap_option
@acting
def carry_command(
    triple_ids: Sequence[str],
    old: Path,
    new: Path,
    min_overlap: float,
    root: Path,
    by: str,
    as_json: bool,
) -> ExitCode:
    """Find the blocks of stale triples in a new corpus, as `evalspec remap` does, and write them as new revisions.

    Each revision has to be reviewed again; a warning says by how many words a new text differs. A block that was split
    becomes alternatives. A triple whose block is not found is left as it is, with the reason. You may review the
    revisions, since you wrote nothing.

    \b
    Example:
      evalspec gold carry --old-corpus old.jsonl --corpus evals/corpus.jsonl
    """
    changed = carry(root, old, new, by, triple_ids, min_overlap=min_overlap)
    return _tell(changed, by, "carry: no block changed or is missing", as_json)
