"""`evalspec rescore`: other metrics, limits or judge on the replies of a run, without asking the agent again."""

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from evalspec.cli.failure import redacting
from evalspec.cli.options import (
    dataset_option,
    json_option,
    judge_repeat_option,
    manifest_argument,
    no_judge_option,
    option,
    warn,
)
from evalspec.cli.retriever_options import kept_options
from evalspec.cli.run_output import OWN_INPUTS, find_reporters, output_option, refuse_inputs
from evalspec.cli.trust_options import trust_options
from evalspec.errors import ExitCode
from evalspec.manifest.loader import load_manifest
from evalspec.output_files import Input
from evalspec.plan.build import build_plan
from evalspec.plan.inputs import find_plan_inputs
from evalspec.plan.options import RunOptions
from evalspec.plan.outlining import outline_plan
from evalspec.store.damage import refuse_damage
from evalspec.store.run_store import STORE, RunStore
from evalspec.store.stored_run import StoredRun, open_run

_ORIGIN = ("agent", "retrievers", "retrieversSha256", "selection")
"""What a fingerprint says of where the replies come from."""


@click.command("rescore")
@click.argument("run")
@manifest_argument
@dataset_option
@judge_repeat_option
@no_judge_option
@option("--fresh", is_flag=True, help="Compute every score again, those that nothing has changed for too.")
@trust_options("manifest")
@json_option
@output_option
def command(
    run: str,
    manifest: Path,
    datasets: tuple[str, ...],
    judge_repeat: int,
    no_judge: bool,
    fresh: bool,
    as_json: bool,
    outputs: tuple[Path, ...],
) -> ExitCode:
    """Score the stored replies of RUN by MANIFEST as it is now: a new run, for which the agent is not asked.

    Scores whose metric, options and judge are as they were are taken over; only the others are computed.

    \b
    Examples:
      evalspec rescore latest agent.yaml
      evalspec rescore before-rerank agent.yaml --no-judge --json
    """
    stored = open_run(RunStore(STORE).find(run))
    refuse_damage(stored)
    loaded = load_manifest(manifest)
    with redacting(loaded.references.redact):
        reporters = find_reporters(outputs)
        options = RunOptions(
            datasets=datasets or tuple(stored.fingerprint["selection"]["datasets"]),
            no_judge=no_judge,
            repeat=stored.outline.repeats,
            judge_repeat=judge_repeat,
            stored=_ids_of(stored),
            **kept_options(stored),
        )
        from evalspec.cli.run_session import finish_session
        from evalspec.runner.fingerprint import compute_fingerprint
        from evalspec.runner.session import begin_run, gathering, recall_replies

        with gathering():
            plan = build_plan(loaded, options)
            refuse_inputs(outputs, [*OWN_INPUTS, Input(stored.folder, "the run"), *find_plan_inputs(plan)])
            for warning in plan.warnings:
                warn(warning)
            now, outline = datetime.now(UTC), outline_plan(plan)
            recall = recall_replies(stored, plan, outline, fresh=fresh)
            origin = {key: stored.fingerprint[key] for key in _ORIGIN if key in stored.fingerprint}
            origin |= {"rescoredFrom": stored.id}
            fingerprint = compute_fingerprint(plan, now) | origin
            session = begin_run(RunStore(STORE), plan, outline, fingerprint, now)
        return finish_session(replace(session, recall=recall), loaded, reporters, as_json=as_json)


def _ids_of(stored: StoredRun) -> dict[str, frozenset[str]]:
    """The samples of a run, by dataset."""
    found: dict[str, set[str]] = defaultdict(set)
    for dataset, sample in stored.read_samples():
        found[dataset].add(sample.id)
    return {dataset: frozenset(ids) for dataset, ids in found.items()}
