"""`evalspec runs`: what is in the run store, and names for it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from evalspec.cli.failure import CommandFailed
from evalspec.cli.options import json_option, warn
from evalspec.cli.run_output import OWN_INPUTS, STORE, refuse_inputs
from evalspec.cli.streams import emit, print_message
from evalspec.errors import ExitCode, InvalidInput, Problem, StoreError
from evalspec.foreign_text import inert
from evalspec.json_text import render_lines
from evalspec.output_files import write_file
from evalspec.records import Direction, Run, VerdictStatus
from evalspec.store.run_store import RunStore
from evalspec.store.stored_run import StoredRun, open_run

_OF_EVALUATION = ("name", "sha256", "selectionSha256", "metricIdentities")
"""Of a dataset of a fingerprint: what is the same in runs that measure the same."""


@click.group("runs", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List, label, promote and remove stored runs. A RUN is an id, the beginning of one, a label, or `latest`.

    \b
    Examples:
      evalspec runs list
      evalspec runs label latest before-rerank
      evalspec runs prune --keep 20
    """
    if context.invoked_subcommand is None:
        emit(context.get_help())


@command.command("list")
@json_option
def list_runs(as_json: bool) -> ExitCode:
    """All runs, newest first, with verdict, datasets and labels.

    \b
    Example:
      evalspec runs list --json | jq -r '.runs[0].id'
    """
    store = RunStore(STORE)
    rows = [_describe(store, folder) for folder in store.list()]
    if as_json:
        emit(render_lines({"schemaVersion": 1, "runs": rows}))
        return ExitCode.OK
    if not rows:
        print_message(f"no run in {store.runs}")
    for row in rows:
        asked = row.get("retrievers", {})
        datasets = ", ".join(
            f"{name} ({count}{f' of {asked[name]}' if name in asked else ''})"
            for name, count in row["datasets"].items()
        )
        shown = [datasets, " ".join(row["labels"]), row.get("error", "")]
        emit("  ".join(filter(None, [inert(row["id"]), f"{inert(row['state']):<10}", *map(inert, shown)])))
    return ExitCode.OK


@command.command("show")
@click.argument("run")
def show(run: str) -> ExitCode:
    """What RUN was made of: manifest, datasets, selection, agent, judge, versions.

    \b
    Example:
      evalspec runs show latest
    """
    stored = open_run(RunStore(STORE).find(run))
    emit(render_lines({"id": stored.id, **stored.fingerprint}))
    return ExitCode.OK


@command.command("label")
@click.argument("run")
@click.argument("name")
def label(run: str, name: str) -> ExitCode:
    """Let NAME stand for RUN wherever a run is asked for.

    \b
    Example:
      evalspec runs label latest before-rerank
    """
    store = RunStore(STORE)
    folder = store.find_own(run)
    store.label(folder, name)
    print_message(f"{name} is {folder.name}")
    return ExitCode.OK


@command.command("promote")
@click.argument("run")
@click.option("--as", "name", required=True, metavar="NAME", help="What ciGate.baseline calls it, or a path.")
def promote(run: str, name: str) -> ExitCode:
    """Write RUN's scores as a small file for git: what later runs are held against by `ciGate: {baseline: NAME}`.

    It goes to evals/baselines/NAME.json beside the manifest, without a text of any sample. A note says so where RUN is
    the best of several runs of the same evaluation. Only another promoted baseline is overwritten.

    \b
    Example:
      evalspec runs promote latest --as main && git add evals/baselines/main.json
    """
    from evalspec.compare.baseline import find_baseline, refuse_other_file, render_baseline
    from evalspec.plan.inputs import find_stored_inputs
    from evalspec.runner.reread import conclude_stored
    from evalspec.store.files import store_errors

    stored = open_run(RunStore(STORE).find(run))
    if not stored.report.is_file():
        raise InvalidInput(f"run {stored.id} is not finished", f"evalspec evaluate … --resume {stored.id}")
    concluded = conclude_stored(stored)
    best_of = _count_outdone(stored, concluded)
    if best_of is not None:
        concluded = replace(concluded, fingerprint={**concluded.fingerprint, "bestOf": best_of})
    path = find_baseline(Path(stored.fingerprint["manifest"]["path"]).parent, name)
    refuse_inputs([path], [*OWN_INPUTS, *find_stored_inputs(stored.fingerprint, baseline=False)], "--as")
    refuse_other_file(path)
    with store_errors(path):
        write_file(path, render_baseline(concluded).encode())
    if concluded.verdict.status in (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE):
        warn(Problem(f"the verdict of run {stored.id} is {concluded.verdict.status}: a baseline that is no pass"))
    if best_of is not None:
        said = f"run {stored.id} is the best of {best_of} runs, so an unchanged agent will look worse than it"
        warn(Problem(said, "promote a run with --repeat, in which luck averages out"))
    print_message(f"{path} is run {stored.id}")
    return ExitCode.OK


def _count_outdone(stored: StoredRun, concluded: Run) -> int | None:
    """How many finished runs of the same evaluation the store has, where this one is the best of them.

    Best by the leading metric: the first with a threshold, else the first. None for a run that is not better than any.
    """
    dataset = concluded.datasets[0]
    limited = (outcome.threshold.metric for outcome in dataset.outcomes)
    metric = next(limited, None) or next(iter(dataset.summaries), None)
    own = None if metric is None else dataset.summaries[metric].value
    if metric is None or own is None:
        return None
    sign = 1 if dataset.direction[metric] is Direction.HIGHER else -1
    values = [_read_value(other, dataset.name, metric) for other in _find_alike(stored)]
    gains = [sign * (own - value) for value in values if value is not None]
    return len(gains) + 1 if gains and min(gains) >= 0 and max(gains) > 0 else None


def _find_alike(stored: StoredRun) -> Iterator[StoredRun]:
    """The other finished runs of the same agent over the same samples by the same metrics."""
    wanted = _describe_evaluation(stored.fingerprint)
    for folder in RunStore(STORE).list():
        try:
            other = open_run(folder)
            alike = other.report.is_file() and _describe_evaluation(other.fingerprint) == wanted
        except (StoreError, AttributeError, KeyError, TypeError):
            continue  # `runs list` says what is wrong with it
        if alike and other.id != stored.id and "rescoredFrom" not in other.fingerprint:
            yield other


def _describe_evaluation(fingerprint: Mapping[str, Any]) -> Any:
    datasets = [[entry.get(key) for key in _OF_EVALUATION] for entry in fingerprint["datasets"]]
    return datasets, fingerprint["agent"]["sha256"], fingerprint.get("retrieversSha256"), fingerprint["repeats"]


def _read_value(stored: StoredRun, dataset: str, metric: str) -> float | None:
    """The value of a metric in a run's report; None where it has none."""
    from evalspec.reporters.checked_json import parse_document, read_bytes

    try:
        document = parse_document(read_bytes(stored.report), str(stored.report))
        found = next(entry["metrics"][metric]["value"] for entry in document["datasets"] if entry["name"] == dataset)
    except (InvalidInput, KeyError, TypeError, StopIteration):
        return None
    return found if isinstance(found, float | int) else None


@command.command("rm")
@click.argument("runs", nargs=-1, required=True)
def remove(runs: Sequence[str]) -> ExitCode:
    """Delete runs with all that they hold. A RUN is an id, the beginning of one, or a label; never a path.

    \b
    Example:
      evalspec runs rm 20261121T061500
    """
    store = RunStore(STORE)
    for folder in dict.fromkeys(store.find_own(run) for run in runs):
        store.remove(folder)
        print_message(f"removed {folder.name}")
    return ExitCode.OK


@command.command("prune")
@click.option("--keep", type=click.IntRange(min=0), required=True, metavar="N", help="How many of the newest stay.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed.")
def prune(keep: int, dry_run: bool) -> ExitCode:
    """Delete all but the newest runs; a run with a label, or one that is being written, stays.

    \b
    Example:
      evalspec runs prune --keep 20 --dry-run
    """
    store = RunStore(STORE)
    labelled = {folder.name for folder in store.labels().values()}
    busy = []
    for folder in [path for path in store.list()[keep:] if path.name not in labelled and store.owns(path)]:
        try:
            if not dry_run:
                store.remove(folder)
            print_message(f"{'would remove' if dry_run else 'removed'} {folder.name}")
        except StoreError as error:
            busy.append(str(error))
    if busy:
        raise CommandFailed(ExitCode.UNMEASURED, busy)
    return ExitCode.OK


def _describe(store: RunStore, folder: Path) -> dict[str, Any]:
    """One run as a row; one that cannot be read is a row too, and says why."""
    labels = [name for name, labelled in store.labels().items() if labelled.name == folder.name]
    try:
        stored = open_run(folder)
        state = _find_state(stored)
        datasets = {dataset["name"]: dataset["selected"] for dataset in stored.fingerprint["datasets"]}
        retrievers = {name: asked["name"] for name, asked in stored.fingerprint.get("retrievers", {}).items()}
        started = stored.fingerprint["startedAt"]
    except (StoreError, AttributeError, KeyError, TypeError) as error:
        return {"id": folder.name, "state": "unreadable", "datasets": {}, "labels": labels, "error": str(error)}
    return {
        "id": stored.id,
        "state": state,
        "startedAt": started,
        "datasets": datasets,
        "retrievers": retrievers,
        "labels": labels,
    }


def _find_state(stored: StoredRun) -> str:
    """The verdict of a finished run, `unfinished` of any other."""
    if not stored.report.is_file():
        return "unfinished"
    with stored.report.open(encoding="utf-8") as report:
        for line in report:
            key, _, value = line.strip().partition(": ")
            if key == '"verdict"':
                return str(json.loads(value.rstrip(",")))
    return "unreadable"
