"""`evalspec doctor`: whether agent, judge and embeddings of a manifest can be used, and what to do if not."""

from pathlib import Path

import click

from evalspec.base.errors import ExitCode
from evalspec.cli.documents import emit_checkup
from evalspec.cli.options import dataset_option, json_option, manifest_argument, no_judge_option, url_option
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.trust_options import trust_options
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.store.run_store import STORE, RunStore


@click.command("doctor", cls=OrderedCommand)
@manifest_argument
@dataset_option
@url_option
@no_judge_option
@trust_options("manifest")
@json_option
def command(manifest: Path, datasets: tuple[str, ...], url: str | None, no_judge: bool, as_json: bool) -> ExitCode:
    """Ask the agent, the judge and the embeddings of MANIFEST one small question each, and look at this machine.

    Each failure has its fix. The agent's command is started, and stopped afterwards. The question to the judge costs a
    few tokens. Nothing is stored.

    \b
    Examples:
      evalspec doctor agent.yaml
      evalspec doctor agent.yaml --url http://localhost:4000
      evalspec doctor agent.yaml --json | jq '.findings[].fix'
    """
    from evalspec.api.doctor import diagnose

    options = RunOptions(datasets=datasets, url=url, no_judge=no_judge)
    return emit_checkup(diagnose(load_manifest(manifest), options, RunStore(STORE)), as_json)
