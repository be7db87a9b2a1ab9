"""`evalspec traces check`: which spans of the agent arrive, and what metrics read in them."""

from pathlib import Path

import click

from evalspec.base.errors import ExitCode
from evalspec.cli.documents import emit_checkup
from evalspec.cli.options import dataset_option, json_option, manifest_argument, url_option
from evalspec.cli.streams import emit
from evalspec.cli.trust_options import trust_options
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.runs.planning.options import RunOptions


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
    from evalspec.cli.run_session import ProgressLines

    options = RunOptions(datasets=datasets, url=url, sample_size=1)
    return emit_checkup(check_traces(load_manifest(manifest), options, ProgressLines(1)), as_json)
