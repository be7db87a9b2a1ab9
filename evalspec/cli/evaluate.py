"""`evalspec evaluate`: query the agent, score its replies, and check the gate."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from evalspec.api.public import load_whole
from evalspec.base.collector import long_lived
from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.base.foreign_text import inert
from evalspec.base.output_files import Input, refuse_inputs
from evalspec.base.plural import counted
from evalspec.base.text import strip_userinfo
from evalspec.cli.documents import render_document
from evalspec.cli.exporting import choose_exports, export_option
from evalspec.cli.failure import redacting
from evalspec.cli.options import (
    EnumChoice,
    dataset_option,
    group_options,
    limit_options,
    manifest_argument,
    no_cache_option,
    no_judge_option,
    on_option,
    option,
    request_options,
    url_option,
    warn_all,
)
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.pushing import choose_push_server, push_option, server_options
from evalspec.cli.run_output import Shape, output_option, resolve_reporters, shape_options
from evalspec.cli.streams import emit, notify
from evalspec.cli.trust_options import trust_options
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.model.fingerprints import Cleanup, RetrieverMode
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.retrievers import choose_retrievers
from evalspec.runs.store.run_log import LATEST_NAME
from evalspec.runs.store.run_store import OWN_INPUTS, STORE, RunStore
from evalspec.runs.store.stored_run import StoredRun, open_run

if TYPE_CHECKING:
    from evalspec.api.evaluation import Evaluation
    from evalspec.targets.retrievers.ingest_plan import IngestPlan
    from evalspec.targets.retrievers.vectors import KnownVectors

retriever_options = group_options(
    option("--retriever", "retrievers", multiple=True, metavar="NAME",
           help="Query this retriever instead of the agent; repeatable, or `all`. Several are compared."),
    option("--mode", type=EnumChoice(RetrieverMode), metavar="MODE",
           help="One of retrieve and retrieve+rerank."),
    option("--top-k", type=click.IntRange(min=1), metavar="K", help="Retrieve K distinct documents."),
    option("--rerank-top-k", type=click.IntRange(min=1), metavar="K", help="Rerank K documents."),
    option("--scope-prefix", metavar="PREFIX", help="Store, search and delete documents in this scope."),
    option("--no-ingest", is_flag=True, help="Query the index as it is; fill only in-memory ones."),
    option("--cleanup", type=EnumChoice(Cleanup), default=Cleanup.NONE, show_default=True,
           metavar="WHEN", help="Delete the documents: none, on-success or always."),
    option("--allow-custom-prefix", is_flag=True, help="Allow a prefix other than eval: and deletions in it."),
    option("-y", "--yes", is_flag=True, help="Do not ask before deletions in such a prefix."),
    option("--dry-run", is_flag=True, help="Print the steps; call nothing and import none of your code."),
    option("--depth", type=click.IntRange(min=0), default=100, show_default=True, metavar="N",
           help="Search for missing documents to rank N; 0: do not."),
    option("--best-by", metavar="METRIC", help="Choose the best retriever by this metric."),
    option("--max-latency", type=click.FloatRange(min=0, min_open=True), metavar="MS",
           help="With --best-by: highest p95; exit 1 if none meets it."),
)  # fmt: skip


def confirm_deletions(plans: Iterable[Plan], *, yes: bool) -> None:
    """Ask the user to type each prefix outside of `eval:` below which everything will be deleted.

    Raises:
        InvalidInput: a deletion was not confirmed.
    """
    prefixes = dict.fromkeys(ingest.scope_prefix for ingest in _ingests(plans) if ingest.needs_confirmation)
    for prefix in () if yes else prefixes:
        if not sys.stdin.isatty():
            message = f"this deletes everything below '{prefix}', which cannot be confirmed without a terminal"
            raise InvalidInput(message, "pass --yes")
        notify(f"everything below '{prefix}' will be deleted.")
        if click.prompt("type the prefix to continue", default="", show_default=False, err=True) != prefix:
            raise InvalidInput(f"the input is not '{prefix}'; nothing was deleted")


def render_plans(plans: Iterable[Plan], *, as_json: bool) -> str:
    """Return the output of `--dry-run`: the steps per dataset, as text or as a JSON document."""
    lines = [_list_lines(plan, dataset) for plan in plans for dataset in plan.datasets]
    if as_json:
        return render_document({"plan": ["\n".join(steps) for steps in lines]})
    return "\n".join(inert(line) for steps in lines for line in steps)


def _list_lines(plan: Plan, dataset: PlannedDataset) -> list[str]:
    asked = dataset.retriever
    if asked is None:
        where = plan.own_agent or strip_userinfo(plan.url or "recorded replies")
        count = counted(len(dataset.samples) * plan.options.repeat, "sample")
        return [dataset.name, f"1. send {count} to {where}"]
    from evalspec.targets.retrievers.ingest_plan import list_steps

    settings = asked.settings
    decided = {
        "mode": settings.mode,
        "topK": settings.top_k,
        "rerankTopK": settings.rerank_top_k,
        "scopePrefix": settings.scope_prefix,
    }
    how = ", ".join(f"{key} {decided[key]} ({origin})" for key, origin in settings.origins.items() if decided[key])
    own = len(asked.query_settings.overrides.keys() & {sample.id for sample in dataset.samples})
    but = f"; {own} queries have their own settings" if own else ""
    attempt = f"1. send {len(dataset.samples) * plan.options.repeat:,} queries to the existing index of {settings.name}"
    return [f"{dataset.name}: {how}{but}", *(list_steps(asked.ingest) if asked.ingest else [attempt])]


def _ingests(plans: Iterable[Plan]) -> "list[IngestPlan]":
    asked = [dataset.retriever for plan in plans for dataset in plan.datasets if dataset.retriever is not None]
    return [planned.ingest for planned in asked if planned.ingest is not None]


@click.command("evaluate", cls=OrderedCommand)
@manifest_argument
@dataset_option
@url_option
@request_options
@option("-j", "--concurrency", type=click.IntRange(min=1), default=10, metavar="N", help="Maximum concurrent requests.")
@option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Timeout per reply, in seconds.")
@option("--shard", metavar="N/SHARDS", help="Evaluate only this part, for `evalspec merge`; auto: ask GitLab or SLURM.")
@on_option
@no_judge_option
@no_cache_option
@option("--fresh", is_flag=True, help="Ask the judge for every score, also if its cache has it.")
@limit_options
@option("--batch", is_flag=True, help="Ask the judge in batches: cheaper, in hours. --resume continues.")
@option(
    "--responses",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Score recorded replies and call no agent; `same`: those in the files of the datasets.",
)
@option("--resume", is_flag=False, flag_value=LATEST_NAME, metavar="[RUN]",
        help="Resume a run (default: the latest) with the options it was started with.")  # fmt: skip
@option("--retry-errors", is_flag=True, help="Retry failures in the latest run, or in that of --resume.")
@option("--allow-actions", is_flag=True, help="Ask an agent whose tools destroy, although no environment can be reset.")
@option("--traces", is_flag=True, help="Receive the agent's OpenTelemetry spans, as `spec.api.traces` does.")
@option("--no-content", is_flag=True, help="Store scores only: no questions, answers, reasons or errors.")
@retriever_options
@trust_options("manifest")
@push_option
@server_options
@export_option
@shape_options
@output_option
@click.pass_context
def command(
    context: click.Context,
    /,
    manifest: Path,
    resume: str | None,
    retry_errors: bool,
    retrievers: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    best_by: str | None,
    max_latency: float | None,
    push: bool,
    to: str | None,
    allow_http: bool,
    exports: tuple[str, ...],
    shape: Shape,
    outputs: tuple[Path, ...],
    **options: Any,
) -> ExitCode:
    """Send every sample of MANIFEST's datasets to the agent, score the replies, and check the gate.

    \b
    Exit codes:
      0  PASS
      1  a metric fails its threshold or is worse than the baseline,
         or a sample is below minPassRate
      2  invalid input
      3  could not measure

    \b
    Examples:
      evalspec evaluate agent.yaml --dataset rag-quality
      evalspec evaluate agent.yaml --sample-size 20 --tag smoke --no-judge
      evalspec evaluate agent.yaml --repeat 5 -o report.html
      evalspec evaluate agent.yaml --max-cost 2 --fail-fast
      evalspec evaluate agent.yaml --batch
      evalspec evaluate agent.yaml --shard 3/8
      evalspec evaluate agent.yaml --on ray
      evalspec evaluate agent.yaml --push --to https://evals.example.com
      evalspec evaluate agent.yaml --export mlflow --export otel
      evalspec evaluate agent.yaml --resume --retry-errors
      evalspec evaluate theirs/agent.yaml --untrusted --url http://127.0.0.1:4000
      evalspec evaluate agent.yaml --retriever all --best-by nDCG@10
    """
    from evalspec.api.evaluation import options_of
    from evalspec.api.server_baselines import ServerChoice, fetch_baseline

    is_named = context.get_parameter_source("to") is ParameterSource.COMMANDLINE
    _read_shard(options)
    store = RunStore(STORE)
    wanted = LATEST_NAME if resume is None and retry_errors else resume
    is_newest = wanted == LATEST_NAME
    stored = open_run(store.find_unfinished() if is_newest else store.find(wanted)) if wanted else None
    if stored is not None:
        given = {name for name in options if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
        options |= {name: value for name, value in options_of(stored).items() if name not in given}
    if push and options["shard"] is not None:
        raise InvalidInput(Problem("a shard is not pushed", "push the merged run: evalspec runs push", field="--push"))
    options["dry_run"] = dry_run
    loaded = load_whole(manifest, datasets=options["datasets"], url=options["url"], no_judge=options["no_judge"])
    has_use = loaded.manifest.spec.evaluation.ci_gate.server_baseline is not None
    server = choose_push_server(to, is_wanted=push, is_named=is_named and not has_use, allow_http=allow_http)
    if stored is None:
        loaded = fetch_baseline(loaded, store, ServerChoice(to, allow_http))
    with redacting(loaded.references.redact):
        planned_exports = choose_exports(loaded, exports)
        kept = options.pop("retriever", None)
        names = choose_retrievers(loaded.manifest.spec.evaluation, retrievers) or [kept]
        _check_choice(names, stored, best_by, max_latency)
        if len(names) > 1:
            from evalspec.api.retrievers import choose_best_by
            from evalspec.cli.compare import check_forms
            from evalspec.cli.retriever_runs import run_retrievers

            check_forms(outputs)
            evaluations = _prepare(loaded, names, options, store)
            _refuse_inputs(outputs, evaluations.values(), None)
            chosen_by = choose_best_by([one.plan for one in evaluations.values()], best_by, max_latency)
            if _is_to_be_run(evaluations.values(), yes=yes, dry_run=dry_run, as_json=shape.as_json):
                return run_retrievers(
                    evaluations, chosen_by, shape=shape, outputs=outputs, server=server, exports=planned_exports
                )
            return ExitCode.OK
        from evalspec.cli.run_session import finish_session

        reporters = resolve_reporters(outputs)
        with long_lived():
            (evaluation,) = _prepare(loaded, names, options, store, stored, retry_errors=retry_errors).values()
            _refuse_inputs(outputs, [evaluation], stored)
            if not _is_to_be_run([evaluation], yes=yes, dry_run=dry_run, as_json=shape.as_json):
                return ExitCode.OK
            session = evaluation.begin()
            known = session.known_attempts
            is_done = stored is not None and stored.report.is_file() and not (known and known.is_stopped)
            if stored is not None and is_done and not retry_errors:
                again = "it is shown again, and only damaged attempts are repeated"
                ways = "--retry-errors retries failures; leave --resume out to start a new run"
                notify(f"run {stored.id} is already finished: {again}. {ways}")
            if is_newest and known is not None:
                done = len(known.index.attempts)
                notify(
                    f"resuming the newest run, {session.log.id}: {done:,} of {session.plan.total:,} attempts are stored"
                )
        return finish_session(session, reporters, shape=shape, server=server, exports=planned_exports)


def _read_shard(options: dict[str, Any]) -> None:
    """Read the shard of the options, and say what the environment says about it."""
    if options["shard"] is not None:
        from evalspec.runs.planning.sharding import read_shard

        options["shard"], said = read_shard(options["shard"], os.environ)
        if said is not None:
            notify(said)


def _check_choice(
    names: Sequence[str | None], stored: StoredRun | None, best_by: str | None, max_latency: float | None
) -> None:
    """Raise InvalidInput if an option does not fit the number of retrievers."""
    if len(names) > 1 and stored is not None:
        message = f"{len(names)} retrievers are selected, but only one run can be resumed"
        raise InvalidInput(Problem(message, "remove --retriever: the run keeps its own", field="--resume"))
    if len(names) == 1 and (best_by is not None or max_latency is not None):
        field = "--max-latency" if best_by is None else "--best-by"
        fix = "repeat --retriever, or use --retriever all"
        raise InvalidInput(Problem("needs at least two retrievers", fix, field=field))


def _prepare(
    loaded: LoadedManifest,
    names: Sequence[str | None],
    options: Mapping[str, Any],
    store: RunStore,
    stored: StoredRun | None = None,
    *,
    retry_errors: bool = False,
) -> dict[Any, "Evaluation"]:
    """Return an evaluation per retriever. All are checked before the first one starts."""
    from evalspec.api.evaluation import prepare

    for given, can in ("batch", "continued"), ("shard", "merged"):
        if len(names) > 1 and options[given]:
            message = f"{len(names)} retrievers are selected, but only one run can be {can}"
            raise InvalidInput(Problem(message, "choose one retriever, or remove the option", field=f"--{given}"))
    known: KnownVectors = {}
    evaluations = {
        name: prepare(
            loaded, RunOptions(**options, retriever=name), store, known, resumed=stored, retry_errors=retry_errors
        )
        for name in names
    }
    warn_all(dict.fromkeys(warning for one in evaluations.values() for warning in one.warnings))
    return evaluations


def _refuse_inputs(outputs: Sequence[Path], evaluations: Iterable["Evaluation"], stored: StoredRun | None) -> None:
    """Raise InvalidInput if a report would overwrite a file that the runs read."""
    if outputs:
        read = [file for one in evaluations for file in one.plan.inputs]
        own = [] if stored is None else [Input(stored.folder, "the run")]
        refuse_inputs(outputs, [*OWN_INPUTS, *own, *read])


def _is_to_be_run(evaluations: Iterable["Evaluation"], *, yes: bool, dry_run: bool, as_json: bool) -> bool:
    """Return whether to run the plans. Print them for `--dry-run`; otherwise, confirm deletions first."""
    plans = [one.plan for one in evaluations]
    if dry_run:
        emit(render_plans(plans, as_json=as_json))
        return False
    confirm_deletions(plans, yes=yes)
    return True
