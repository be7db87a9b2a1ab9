"""`evalspec rescore`: score stored replies with other metrics, thresholds or judge, without querying the agent."""

from pathlib import Path
from typing import Any

import click

from evalspec.base.collector import long_lived
from evalspec.base.errors import ExitCode
from evalspec.base.output_files import Input, refuse_inputs
from evalspec.cli.failure import redacting
from evalspec.cli.name_completion import complete_run
from evalspec.cli.options import (
    dataset_option,
    judge_repeat_option,
    limit_options,
    manifest_argument,
    no_cache_option,
    no_judge_option,
    option,
    warn_all,
)
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.pushing import server_options
from evalspec.cli.run_output import Shape, output_option, resolve_reporters, shape_options
from evalspec.cli.trust_options import trust_options
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.runs.store.damage import refuse_damage
from evalspec.runs.store.run_store import OWN_INPUTS, STORE, RunStore
from evalspec.runs.store.stored_run import open_run


@click.command("rescore", cls=OrderedCommand)
@click.argument("run", shell_complete=complete_run)
@manifest_argument
@dataset_option
@judge_repeat_option
@no_judge_option
@no_cache_option
@option("--fresh", is_flag=True, help="Recompute all scores, including unchanged and cached ones.")
@limit_options
@trust_options("manifest")
@server_options
@shape_options
@output_option
def command(
    run: str,
    manifest: Path,
    datasets: tuple[str, ...],
    judge_repeat: int,
    no_judge: bool,
    no_cache: bool,
    fresh: bool,
    to: str | None,
    allow_http: bool,
    shape: Shape,
    outputs: tuple[Path, ...],
    **limits: Any,
) -> ExitCode:
    """Score the stored replies of RUN with the current MANIFEST, as a new run. The agent is not called.

    Scores are reused if their metric, its options and the judge are unchanged.

    \b
    Examples:
      evalspec rescore latest agent.yaml
      evalspec rescore before-rerank agent.yaml --no-judge --json
      evalspec rescore latest agent.yaml --max-judge-calls 500
    """
    from evalspec.api.evaluation import prepare_rescore
    from evalspec.api.server_baselines import ServerChoice, fetch_baseline
    from evalspec.cli.run_session import finish_session

    store = RunStore(STORE)
    stored = open_run(store.find(run))
    refuse_damage(stored)
    loaded = fetch_baseline(load_manifest(manifest), store, ServerChoice(to, allow_http))
    with redacting(loaded.references.redact):
        reporters = resolve_reporters(outputs)
        with long_lived():
            evaluation = prepare_rescore(
                stored,
                loaded,
                store,
                datasets=datasets,
                judge_repeat=judge_repeat,
                no_judge=no_judge,
                fresh=fresh,
                no_cache=no_cache,
                **limits,
            )
            refuse_inputs(outputs, [*OWN_INPUTS, Input(stored.folder, "the run"), *evaluation.plan.inputs])
            warn_all(evaluation.warnings)
            session = evaluation.begin()
        return finish_session(session, reporters, shape=shape)
