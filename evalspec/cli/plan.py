"""`evalspec plan`: the calls and the detectable change of a run, without calling anything."""

from pathlib import Path
from typing import Any

import click

from evalspec.base.errors import ExitCode
from evalspec.cli.options import (
    dataset_option,
    json_option,
    manifest_argument,
    no_judge_option,
    option,
    request_options,
    url_option,
    warn_all,
)
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.streams import emit
from evalspec.cli.terminal_size import detect_terminal
from evalspec.cli.trust_options import trust_options
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.store.run_store import STORE, RunStore


@click.command("plan", cls=OrderedCommand)
@manifest_argument
@option(
    "--baseline",
    metavar="NAME|FILE|RUN",
    help="Compare with this instead of ciGate.baseline: a promoted name, a file, or a stored run.",
)
@dataset_option
@url_option
@request_options
@no_judge_option
@trust_options("manifest")
@json_option
def command(manifest: Path, baseline: str | None, as_json: bool, **options: Any) -> ExitCode:
    """Show the calls and the price of a run of MANIFEST, and the smallest drop that it can detect against a baseline.

    Tokens and times are those of earlier runs of the manifest. Without any, tokens are estimated from the samples.

    Nothing is called and no secret is read. The noise of an unchanged agent is measured if the baseline has several
    attempts (`evaluate --repeat 2`). Otherwise, it is assumed, and the output says so.

    \b
    Examples:
      evalspec plan agent.yaml
      evalspec plan agent.yaml --baseline latest --repeat 3
      evalspec plan agent.yaml --json | jq '.datasets[].metrics[].detectable'
    """
    from evalspec.api.runs import comparison_baseline
    from evalspec.cli.plan_report import render_forecast, render_forecast_json
    from evalspec.runs.planning.forecast import build_forecast

    loaded = load_manifest(manifest)
    store = RunStore(STORE)
    forecast = build_forecast(loaded, RunOptions(**options), comparison_baseline(loaded, baseline, store), store)
    warn_all(forecast.warnings)
    if as_json:
        emit(render_forecast_json(forecast), nl=False)
    else:
        width, color = detect_terminal()
        emit(render_forecast(forecast, width=width, color=color), nl=False, color=color)
    return ExitCode.OK
