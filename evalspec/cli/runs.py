"""`evalspec runs`: list and manage stored runs."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins
from msgspec.structs import replace

from evalspec.base.errors import ExitCode, InvalidInput, Problem, StoreError
from evalspec.base.foreign_text import inert
from evalspec.base.output_files import is_stream, refuse_inputs, write_file
from evalspec.base.plural import counted
from evalspec.cli.documents import emit_document
from evalspec.cli.failure import CommandFailed
from evalspec.cli.name_completion import complete_run
from evalspec.cli.options import json_option, warn
from evalspec.cli.pushing import push_stored, server_options
from evalspec.cli.streams import emit, notify
from evalspec.cli.terminal_size import find_line_width
from evalspec.model import VerdictStatus
from evalspec.model.fingerprints import describe_part
from evalspec.runs.store.locks import is_being_written
from evalspec.runs.store.run_log import LATEST_NAME
from evalspec.runs.store.run_store import OWN_INPUTS, STORE, VERDICTS, RunStore, is_run_name

if TYPE_CHECKING:
    from evalspec.model import Run
    from evalspec.verdict.comparison.baseline import Baseline


@click.group("runs", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List, name, promote, push, pull, verify and remove stored runs. Without a subcommand, list them.

    A RUN is an id, its prefix, a name, `latest`, or `latest~1` for the run before it. `runs label` gives a run a name.
    To judge the replies of a run, use `evalspec label`.

    \b
    Examples:
      evalspec runs
      evalspec runs label latest before-rerank
      evalspec runs prune --keep 20
    """
    if context.invoked_subcommand is None:
        context.invoke(list_runs)


@command.command("list")
@json_option
def list_runs(as_json: bool) -> ExitCode:
    """List all runs, newest first, with verdict, datasets, values and labels, and the trend of the newest one's values.

    \b
    Example:
      evalspec runs list --json | jq -r '.runs[0].runId'
    """
    from evalspec.cli.run_list import list_entries, list_trends, render_run

    store = RunStore(STORE)
    runs = list_entries(store)
    if as_json:
        emit_document({"runs": to_builtins(runs)})
        return ExitCode.OK
    if not runs:
        notify(f"no runs in {store.runs}")
    width = find_line_width() or sys.maxsize
    for line in (line for run in runs for line in render_run(run, width)):
        emit(line)
    for line in list_trends(runs, width):
        emit(line)
    return ExitCode.OK


@command.command("show")
@click.argument("run", shell_complete=complete_run)
def show(run: str) -> ExitCode:
    """Show the metadata of RUN: manifest, datasets, selection, agent, judge and versions.

    \b
    Example:
      evalspec runs show latest
    """
    from evalspec.runs.store.stored_run import open_run

    stored = open_run(RunStore(STORE).find(run))
    emit_document({"id": stored.id, **to_builtins(stored.fingerprint)})
    return ExitCode.OK


@command.command("label")
@click.argument("run", shell_complete=complete_run)
@click.argument("name")
def label(run: str, name: str) -> ExitCode:
    """Name RUN. Commands that take a run accept NAME.

    This says nothing about the quality of its replies: to judge those, use `evalspec label`.

    \b
    Example:
      evalspec runs label latest before-rerank
    """
    store = RunStore(STORE)
    folder = store.find_own(run)
    store.label(folder, name)
    notify(f"{name} is {folder.name}")
    return ExitCode.OK


@command.command("promote")
@click.argument("run", shell_complete=complete_run)
@click.option("--as", "name", required=True, metavar="NAME", help="Name for ciGate.baseline, a path, or server:NAME.")
@click.option("--add", is_flag=True, help="Add RUN's attempts to the baseline, which must measure the same.")
@click.option(
    "--anchor",
    "reason",
    metavar="REASON",
    help="Make RUN the anchor too: its losses are accepted for this reason.",
)
@server_options
def promote(run: str, name: str, add: bool, reason: str | None, to: str | None, allow_http: bool) -> ExitCode:
    """Write RUN's scores to a small baseline file for git. `ciGate: {baseline: NAME}` compares later runs with it.

    The file is evals/baselines/NAME.json beside the manifest and contains no sample texts. Only an existing baseline is
    overwritten: its first run stays in the file as the anchor, which later runs are compared with too. If RUN is the
    best of several runs of the same evaluation, a warning is printed.

    With `--as server:NAME`, the server promotes RUN, which was pushed to it, and keeps who did that. The token in
    EVALSPEC_TOKEN needs the scope `review`.

    \b
    Examples:
      evalspec evaluate agent.yaml --repeat 5
      evalspec runs promote latest --as main
      evalspec runs promote latest --as main --add
      evalspec runs promote latest --as main --anchor "the new corpus is harder"
      evalspec runs promote latest --as server:main --to https://evals.example.com
    """
    from evalspec.api.baseline_files import promote_stored
    from evalspec.inputs.manifest.gate_schema import SERVER
    from evalspec.runs.planning.inputs import list_stored_inputs
    from evalspec.runs.store.files import store_errors
    from evalspec.runs.store.pushed_runs import refuse_pushed
    from evalspec.runs.store.stored_run import open_run
    from evalspec.verdict.comparison.baseline import KIND, baseline_path, count_attempts, render_baseline
    from evalspec.verdict.comparison.confirmation import ENOUGH_ATTEMPTS
    from evalspec.verdict.kept_documents import refuse_other_file

    if reason is not None and not reason.strip():
        raise click.UsageError("--anchor needs a reason")
    if add and reason is not None:
        raise click.UsageError("--add takes no --anchor")
    if name.startswith(SERVER):
        run_id = run if is_run_name(run) else RunStore(STORE).find(run).name
        return _promote_on_server(
            run_id, name.removeprefix(SERVER), {"reason": reason, "add": add}, to, allow_http=allow_http
        )
    stored = open_run(RunStore(STORE).find(run))
    refuse_pushed(stored.folder, "promoted")
    path = baseline_path(stored.manifest_path.parent, name)
    refuse_inputs([path], [*OWN_INPUTS, *list_stored_inputs(stored.fingerprint, baseline=False)], "--as")
    refuse_other_file(path, KIND, "a promoted baseline")
    over = _read_over(path, add=add)
    if add and over is None:
        raise click.UsageError("--add needs a baseline to add to")
    baseline, concluded = promote_stored(RunStore(STORE), stored, over, reason, add=add)
    with store_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, [render_baseline(baseline).encode()])
    _warn_about(concluded)
    attempts = count_attempts(baseline.run)
    notify(f"promoted run {stored.id} to {path}, which has {counted(attempts, 'attempt')} per sample")
    _tell_way(baseline)
    if attempts < ENOUGH_ATTEMPTS and not concluded.fingerprint.recorded:
        fix = (
            f'evaluate with --repeat {ENOUGH_ATTEMPTS} and promote that run with --anchor "{ENOUGH_ATTEMPTS} attempts"'
        )
        notify(f"{ENOUGH_ATTEMPTS} attempts per sample in the baseline find more drops with fewer false alarms: {fix}")
    return ExitCode.OK


def _promote_on_server(run_id: str, name: str, asked: dict[str, Any], to: str | None, *, allow_http: bool) -> ExitCode:
    from evalspec.api.server import choose_server
    from evalspec.api.server_baselines import promote_on_server
    from evalspec.model.typed_json import parse_document
    from evalspec.verdict.comparison.baseline import build_baseline

    server = choose_server(to, os.environ, "review", allow_http=allow_http)
    done = promote_on_server(run_id, name, asked, server, notify)
    if not asked["add"]:  # else the document has several runs
        _warn_about(build_baseline(parse_document(done.document.encode(), done.run_id), done.run_id).run)
    notify(f"promoted run {done.run_id} to server:{name}, as {done.promoted_by}, sha256 {done.sha256[:12]}")
    return ExitCode.OK


def _warn_about(run: "Run") -> None:
    """Warn of what a run lacks as a baseline."""
    if run.partial:
        said = f"run {run.id} is PARTIAL: nothing is compared with it that it left out"
        warn(Problem(said, "promote a run of everything"))
    if run.verdict in (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE):
        warn(Problem(f"run {run.id} is promoted although its verdict is {run.verdict_text}"))
    part = describe_part(run.fingerprint)
    if part is not None:
        said = f"run {run.id} used {part}, so only runs of that part are compared with this baseline"
        warn(Problem(said, "promote a run of the full set to compare full runs"))
    if run.fingerprint.best_of is not None:
        said = f"run {run.id} is the best of {run.fingerprint.best_of} runs, so an unchanged agent will look worse"
        warn(Problem(said, "promote a run with --repeat, which averages out noise"))


def _read_over(path: Path, *, add: bool) -> "Baseline | None":
    """Return the baseline that is added to or overwritten; None if there is none. A damaged one is overwritten."""
    from evalspec.verdict.comparison.run_files import read_baseline

    if is_stream(path) or not path.exists():
        return None
    try:
        return read_baseline(path)
    except InvalidInput as error:
        if add:
            raise
        fix = "its anchor is lost; to keep it, restore the file from git and promote again"
        warn(replace(error.problems[0], fix=fix))
        return None


def _tell_way(baseline: "Baseline") -> None:
    """Say how far the baseline is from its anchor, or which losses were accepted with it."""
    from evalspec.verdict.comparison.promotion import list_losses

    accepted = baseline.accepted
    if baseline.anchor is not None:
        since, what, losses = baseline.anchor.id, "worse than the anchor", list_losses(baseline.anchor, baseline.run)
    elif accepted is not None:
        since, what = accepted.since, f"loss accepted: {accepted.reason}"
        losses = [(one.dataset, one.metric, one.before, one.after) for one in accepted.losses]
    else:
        return
    for dataset, metric, before, after in losses:
        notify(f"{what}: {dataset}: {metric} {before:.4g} → {after:.4g} since run {since}")
    if not losses:
        notify(f"no metric is worse than in its anchor, run {since}")


@command.command("push")
@click.argument("run", default=LATEST_NAME, shell_complete=complete_run)
@server_options
@json_option
def push(run: str, to: str | None, allow_http: bool, as_json: bool) -> ExitCode:
    """Push RUN (default: the latest) to a server, which shows it and keeps it read-only.

    The files are sent as they are stored: redacted, and without texts if the run has none. To push a run again changes
    nothing; after an interruption it continues. EVALSPEC_TOKEN has a token of the scope `push`, whose namespace gets
    the run.

    \b
    Examples:
      evalspec runs push --to https://evals.example.com
      EVALSPEC_TO=https://evals.example.com evalspec runs push 20261121T061500 --json
    """
    from evalspec.api.server import choose_server

    folder = RunStore(STORE).find(run)
    pushed = push_stored(folder, choose_server(to, os.environ, allow_http=allow_http))
    if as_json:
        emit_document({"pushed": {"id": pushed.run_id, "url": pushed.page, "isNew": pushed.is_new}})
    return ExitCode.OK


@command.command("pull")
@click.argument("runs", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="Pull every finished run that is not here yet.")
@server_options
@json_option
def pull(runs: Sequence[str], is_all: bool, to: str | None, allow_http: bool, as_json: bool) -> ExitCode:
    """Pull RUNS from a server into the local store, read-only and with the bytes that were pushed.

    A RUN is the id that the server shows. What is here already is not sent again, and a run that differs here is
    reported and not overwritten. The token in EVALSPEC_TOKEN needs the scope `read`.

    \b
    Examples:
      evalspec runs pull 20261121T061500.257Z-57f26458 --to https://evals.example.com
      evalspec runs pull --all --to https://evals.example.com
    """
    from evalspec.api.loops import run_here
    from evalspec.api.pushing import pull_runs
    from evalspec.api.server import choose_server

    if bool(runs) == is_all:
        raise click.UsageError("name runs, or use --all")
    server, store = choose_server(to, os.environ, "read", allow_http=allow_http), RunStore(STORE)
    pulled, failed = run_here(lambda: pull_runs(None if is_all else runs, store, server, notify))
    code = ExitCode.UNMEASURED if failed else ExitCode.OK
    if as_json:
        shown = [{"id": one.run_id, "isNew": one.is_new} for one in pulled]
        emit_document({"pulled": shown, "failed": failed}, code)
        return code
    for one in pulled:
        emit(f"{one.run_id}  {'pulled' if one.is_new else 'already here'}")
    if failed:
        raise CommandFailed(code, failed)
    return code


@command.command("verify")
@click.argument("run", default=LATEST_NAME, shell_complete=complete_run)
@click.option("--all", "is_all", is_flag=True, help="Check every stored run.")
@json_option
def verify(run: str, is_all: bool, as_json: bool) -> ExitCode:
    """Check RUN (default: the latest) for damaged or missing files.

    Every line and file is checked against its stored checksum. `evalspec evaluate --resume` repeats the lost attempts.

    \b
    Examples:
      evalspec runs verify
      evalspec runs verify --all
    """
    from evalspec.runs.store.damage import list_damage

    store = RunStore(STORE)
    folders = store.list() if is_all else [store.find(run)]
    found = {folder.name: list_damage(folder) for folder in folders}
    code = ExitCode.UNMEASURED if any(found.values()) else ExitCode.OK
    if as_json:
        emit_document({"runs": [{"id": name, "damage": damage} for name, damage in found.items()]}, code)
    else:
        for name, damage in found.items():
            emit(f"{inert(name)}  {'damaged' if damage else 'intact'}")
            for line in damage:
                emit(f"  {inert(line)}")
    return code


@command.command("rm")
@click.argument("runs", nargs=-1, required=True, shell_complete=complete_run)
def remove(runs: Sequence[str]) -> ExitCode:
    """Delete runs and their files. A RUN is an id, its prefix or a name, never a path. Labels by people stay.

    \b
    Example:
      evalspec runs rm 20261121T061500
    """
    store = RunStore(STORE)
    for folder in dict.fromkeys(store.find_own(run) for run in runs):
        store.remove(folder)
        notify(f"removed {folder.name}{_describe_kept(store, folder.name)}")
    return ExitCode.OK


@command.command("prune")
@click.option("--keep", type=click.IntRange(min=0), required=True, metavar="N", help="Number of newest runs to keep.")
@click.option("--dry-run", is_flag=True, help="Print the runs that would be removed.")
def prune(keep: int, dry_run: bool) -> ExitCode:
    """Delete all but the newest runs. Labelled runs and runs in progress are kept.

    Folders without a run.json are deleted at any age: their run ended before its first request.

    \b
    Example:
      evalspec runs prune --keep 20 --dry-run
    """
    store = RunStore(STORE)
    labelled = {folder.name for folder in store.labels().values()}
    failures = []
    kept = {*labelled, *(folder.name for folder in store.list()[:keep])}
    for folder in [path for path in store.list_all() if path.name not in kept and store.owns(path)]:
        try:
            if is_being_written(folder):
                continue
            if not dry_run:
                store.remove(folder)
            removed = "would remove" if dry_run else "removed"
            notify(f"{removed} {folder.name}{_describe_kept(store, folder.name)}")
        except StoreError as error:
            failures.append(str(error))
    if failures:
        raise CommandFailed(ExitCode.UNMEASURED, failures)
    return ExitCode.OK


def _describe_kept(store: RunStore, run: str) -> str:
    """Return that the labels of a removed run stay, because they are people's work. Empty without labels."""
    kept = store.root / VERDICTS / run
    return f"; its labels stay in {kept}" if kept.is_dir() else ""
