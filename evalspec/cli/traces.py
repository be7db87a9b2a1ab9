"""`evalspec traces check`: which spans of the agent arrive, and what metrics read in them."""

from pathlib import Path

import click

from evalspec.base.errors import ExitCode
from evalspec.cli.documents import emit_checkup
from evalspec.cli.options import dataset_option, json_option, manifest_argument, url_option
from evalspec.cli.streams import emit
from evalspec.cli.trust_options import trust_options


@click.group("traces", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Check the OpenTelemetry traces of an agent.

    \b
    Examples:
      evalspec traces check agent.yaml
      evalspec traces check --json | jq .findings
    """
    if context.invoked_subcommand is None:
        emit(context.get_help())


@command.command("check")
@manifest_argument
@dataset_option
@url_option
@trust_options("manifest")
@json_option
def check(manifest: Path, datasets: tuple[str, ...], url: str | None, as_json: bool) -> ExitCode:
    """Send the first question of MANIFEST to its agent, and show which spans arrive and what each metric reads.

    What is missing is shown with the switch that records it. The judge is asked nothing, and nothing is stored.

    \b
    Examples:
      evalspec traces check agent.yaml
      evalspec traces check agent.yaml --dataset rag-quality
    """
    from evalspec.api.trace_check import check_traces

    return emit_checkup(check_traces(manifest, datasets=datasets, url=url), as_json)
