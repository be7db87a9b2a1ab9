"""`evalspec requirements`: the packages that a manifest needs, for pip."""

from pathlib import Path

import click

from evalspec.base.distribution import list_requirements
from evalspec.base.errors import InvalidInput
from evalspec.cli.documents import emit_document
from evalspec.cli.options import json_option, manifest_argument, no_judge_option, option
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.streams import emit_line


@click.command("requirements", cls=OrderedCommand)
@manifest_argument
@no_judge_option
@option("--slim", is_flag=True, help="Print what every manifest needs, and read none.")
@json_option
def command(manifest: Path, no_judge: bool, slim: bool, as_json: bool) -> None:
    """Print the packages that MANIFEST needs beside evalspec itself, one requirement for pip a line.

    A manifest without judged metrics needs a fraction of the default installation. Only the manifest is read. What a
    line of a dataset, an option such as --export, or a plug-in needs is not listed; `evalspec validate` names the
    command that installs it.

    \b
    Examples:
      evalspec requirements agent.yaml
      pip install $(evalspec requirements agent.yaml)
      evalspec requirements agent.yaml --json | jq .extras
    """
    extras: dict[str, list[str]] = {}
    if not slim:
        from evalspec.inputs.manifest.loader import load_manifest
        from evalspec.runs.planning.packages import find_extras

        extras = find_extras(load_manifest(manifest).manifest, no_judge=no_judge)
    lines = list_requirements(extras)
    if not lines:
        raise InvalidInput("evalspec is not installed, so its requirements are unknown", "install it with pip")
    if as_json:
        emit_document({"requirements": lines, "extras": extras})
        return
    for line in lines:
        emit_line(line)
