"""`evalspec gold list`, `log` and `lint`: what a set contains."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from evalspec.base.errors import ExitCode, InvalidInput
from evalspec.base.plural import counted
from evalspec.cli.documents import emit_document, problem_document
from evalspec.cli.gold.options import render_columns, render_states, set_option, set_options
from evalspec.cli.options import json_option, warn_all
from evalspec.cli.streams import emit, notify
from evalspec.curation.gold.describing import describe_entry, describe_history, describe_set
from evalspec.curation.gold.gold_set import find_set, read_config, read_entry, read_set
from evalspec.curation.gold.identity import find_known_person
from evalspec.curation.gold.linting import lint
from evalspec.curation.gold.reviewers import SHOWN_STATES
from evalspec.curation.gold.viewer import Viewer


@click.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(SHOWN_STATES), help="Only these; repeatable.")
@set_options
def list_command(states: Sequence[str], person: str | None, folder: Path | None, as_json: bool) -> ExitCode:
    """List the triples with their states, and what each needs next.

    A triple that you should review is shown as "to review", so that you do not see what others said. Exits with 2 if a
    file is invalid, since its triple is missing here.

    \b
    Example:
      evalspec gold list --state disputed
    """
    found = read_set(find_set(folder))
    who = find_known_person(found.root, found.config, person)
    viewer = Viewer(who)
    entries = [entry for entry in found.entries.values() if not states or viewer.show_state(entry) in states]
    exit_code = ExitCode.INVALID if found.problems else ExitCode.OK
    summary = describe_set(found, viewer)
    warn_all(found.problems)
    if as_json:
        problems = [problem_document(one) for one in found.problems]
        described = [describe_entry(entry, viewer) for entry in entries]
        emit_document({**summary, "problems": problems, "entries": described}, exit_code)
        return exit_code
    for line in render_states(entries, who):
        emit(line)
    counts = [f"{count} {state}" for state, count in summary["states"].items()]
    notify(f"{found.config.name}: {', '.join(counts) or 'no triples'}")
    return exit_code


@click.command("log")
@click.argument("triple_id", metavar="ID")
@set_options
def log_command(triple_id: str, person: str | None, folder: Path | None, as_json: bool) -> ExitCode:
    """Show who did what to ID, by revision. Reviews are hidden from you while yours is wanted.

    \b
    Example:
      evalspec gold log refund
    """
    root = find_set(folder)
    who = find_known_person(root, read_config(root), person)
    entry = read_entry(root, triple_id)
    history = describe_history(entry, Viewer(who))
    if as_json:
        state = describe_entry(entry, Viewer(who))["state"]
        emit_document({"id": entry.id, "state": state, "history": history})
        return ExitCode.OK
    for event in history:
        emit(_render_event(event))
    emit(*render_states([entry], who))
    return ExitCode.OK


def _render_event(event: dict[str, Any]) -> str:
    event = {**event, "to": f"to {event['to']}"} if "to" in event else event
    said = (str(event.get(key, "")) for key in ("at", "by", "kind", "verdict", "category", "to", "note"))
    imported = "imported" if event.get("is_imported") else ""
    return render_columns([f"revision {event['revision']}", *said, imported])


@click.command("lint")
@set_option
@json_option
def lint_command(folder: Path | None, as_json: bool) -> ExitCode:
    """Check that every file of the set follows the rules, and that every state follows from its events.

    Exits with 2 if one does not. Warnings do not count.

    \b
    Example:
      evalspec gold lint --set evals/gold/help
    """
    checked = lint(find_set(folder))
    warn_all(checked.warnings)
    if checked.problems:
        raise InvalidInput(checked.problems)
    if as_json:
        emit_document({**describe_set(checked.found), "warnings": [problem_document(one) for one in checked.warnings]})
    notify(f"{checked.found.config.name}: {counted(len(checked.found.entries), 'triple')} checked, no errors")
    return ExitCode.OK
