"""`evalspec gold`: curate a gold set. Modules of subcommands are imported when they are used."""

from importlib import import_module
from typing import Any

import click

from evalspec.cli.lazy_group import LazyGroup
from evalspec.cli.streams import emit

COMMANDS = {
    "init": ("authoring", "Create a gold set."),
    "add": ("authoring", "Add a triple: a question, the block that answers it, and the answer."),
    "import": ("exchanging", "Add the samples of a dataset as triples."),
    "revise": ("authoring", "Record the edited triple as a new revision; its reviews start again."),
    "assign": ("reviewing", "Ask a person to review triples."),
    "next": ("reviewing", "Show the next triple to review."),
    "review": ("reviewing", "Review triples in a session, or confirm or flag one."),
    "resolve": ("reviewing", "Settle a dispute, or adjudicate it."),
    "split": ("splitting", "Replace a disputed triple by triples with one claim each."),
    "retire": ("reviewing", "Take a triple out of the set for good."),
    "slice": ("slicing", "Draw a working slice for cheap runs, or show one."),
    "list": ("looking", "List the triples with their states."),
    "log": ("looking", "Show the history of a triple."),
    "stats": ("quality", "Show agreement, flag rates, disputes, sources and coverage."),
    "calibrate": ("quality", "Record a calibration session with a person."),
    "lint": ("looking", "Check that the files follow the rules."),
    "pin": ("versions", "Pin the blocks of triples to the texts of a corpus."),
    "check": ("versions", "Find triples whose block changed or vanished."),
    "carry": ("versions", "Carry triples over to a new corpus, to be reviewed again."),
    "grant": ("permission", "Record that a customer permits the use of its questions."),
    "revoke": ("permission", "Delete the text of a customer everywhere."),
    "export": ("publishing", "Write the accepted triples as a dataset, or as a folder to publish."),
}
"""By subcommand: the module of this package that defines it as `<name>_command`, and a summary."""


def _load(name: str) -> Any:
    return getattr(import_module(f"evalspec.cli.gold.{COMMANDS[name][0]}"), f"{name}_command")


@click.group(
    "gold",
    cls=LazyGroup,
    summaries={name: summary for name, (_, summary) in COMMANDS.items()},
    load=_load,
    invoke_without_command=True,
)
@click.pass_context
def command(context: click.Context) -> None:
    """Curate a gold set: triples in YAML files, reviewed by people, kept in git.

    Every command takes --set FOLDER; without it, the only set under gold/ or evals/gold/ is used. The acting person is
    --as NAME, or the one of git's configuration.

    \b
    Examples:
      evalspec gold init evals/gold/help --person ada --person ben --person cleo
      evalspec gold add refund --question "How long does a refund take?" \\
        --block refunds --answer "14 days" --as ada
      evalspec gold review refund confirm --as ben
    """
    if context.invoked_subcommand is None:
        emit(context.get_help())
