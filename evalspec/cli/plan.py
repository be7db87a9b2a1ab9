"""`evalspec plan`: what a run would call and what its comparison could show, without calling anything."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalspec.cli.options import (
    asking_options,
    dataset_option,
    json_option,
    manifest_argument,
    no_judge_option,
    option,
    url_option,
    warn,
)
from evalspec.cli.run_output import find_terminal
from evalspec.cli.streams import emit
from evalspec.cli.trust_options import trust_options
from evalspec.errors import ExitCode, InvalidInput, Problem
from evalspec.manifest.loader import LoadedManifest, load_manifest
from evalspec.plan.baseline import find_existing_baseline
from evalspec.plan.options import RunOptions
from evalspec.registry import near_miss
from evalspec.store.run_log import LATEST_NAME
from evalspec.store.run_store import STORE, RunStore

if TYPE_CHECKING:
    from evalspec.compare.comparison import NamedRun


@click.command("plan")
@manifest_argument
@option(
    "--baseline",
    metavar="NAME|FILE|RUN",
    help="Compare with this instead of ciGate.baseline: a promoted name, a file, or a stored run.",
)
@dataset_option
@url_option
@asking_options
@no_judge_option
@trust_options("manifest")
@json_option
def command(manifest: Path, baseline: str | None, as_json: bool, **options: Any) -> ExitCode:
    """Show what a run of MANIFEST would call, and the smallest drop that its comparison with a baseline detects.

    Nothing is called and no secret is read. The noise of an unchanged agent is measured on a baseline of several
    attempts (`evaluate --repeat 2`); otherwise it is assumed, and the output says so.

    \b
    Examples:
      evalspec plan agent.yaml
      evalspec plan agent.yaml --baseline latest --repeat 3
      evalspec plan agent.yaml --sample-size 50 --json | jq '.datasets[].metrics[].detectable'
    """
    from evalspec.cli.plan_report import render_forecast, render_forecast_json
    from evalspec.plan.forecast import build_forecast

    loaded = load_manifest(manifest)
    forecast = build_forecast(loaded, RunOptions(**options), _find_baseline(loaded, baseline))
    for warning in forecast.warnings:
        warn(warning)
    if as_json:
        emit(render_forecast_json(forecast), nl=False)
    else:
        width, color = find_terminal()
        emit(render_forecast(forecast, width=width, color=color), nl=False, color=color)
    return ExitCode.OK


def _find_baseline(loaded: LoadedManifest, name: str | None) -> "NamedRun | None":
    """The baseline of that name, else the gate's where it exists; a promoted baseline wins over a stored run."""
    from evalspec.cli.compare import read_named
    from evalspec.compare.baseline import find_baseline
    from evalspec.compare.run_files import read_run_file

    if name is None:
        path = find_existing_baseline(loaded)
        return None if path is None else read_run_file(path, loaded.manifest.spec.evaluation.ci_gate.baseline)
    promoted = find_baseline(loaded.path.parent, name)
    if promoted.is_file() and not Path(name).is_file():
        return read_run_file(promoted, name)
    store = RunStore(STORE)
    if not Path(name).suffix:
        _check_name(name, [path.stem for path in promoted.parent.glob("*.json")], store)
    return read_named(name, store)


def _check_name(name: str, promoted: Sequence[str], store: RunStore) -> None:
    """Raise InvalidInput where nothing has that name."""
    names = [LATEST_NAME, *store.labels(), *promoted]
    if name in names or Path(name).exists() or any(folder.name.startswith(name) for folder in store.list()):
        return
    raise InvalidInput(Problem(f"no baseline or run is named '{name}'", near_miss(name, names), field="--baseline"))
