"""The library: what the commands do, as functions. `evalspec` exports all of them.

Each raises an EvalspecError where the command would end with a code other than the verdict's, and prints nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from evalspec.errors import EvalspecError, InvalidInput, Problem
from evalspec.manifest.loader import LoadedManifest, load_manifest
from evalspec.planning.options import RunOptions
from evalspec.store.run_store import STORE, RunStore
from evalspec.store.stored_run import open_run

if TYPE_CHECKING:
    from evalspec.api.conversion import Conversion
    from evalspec.api.evaluation import Progress
    from evalspec.comparison.result import Comparison, NamedRun
    from evalspec.model import Run
    from evalspec.planning.forecast import Forecast

AnyPath = str | Path
AgentFunction = Callable[[Any], Any]


class Options(TypedDict, total=False):
    """What a run can be given beside its manifest; see `evalspec evaluate --help`."""

    datasets: Sequence[str]
    url: str | None
    sample_size: int | None
    seed: int
    tags: Sequence[str]
    exclude_tags: Sequence[str]
    concurrency: int
    timeout: float | None
    no_judge: bool
    responses: AnyPath | None
    repeat: int
    judge_repeat: int
    no_content: bool
    retriever: str | None
    mode: Literal["retrieve", "retrieve+rerank"] | None
    top_k: int | None
    rerank_top_k: int | None
    scope_prefix: str | None
    no_ingest: bool
    cleanup: Literal["none", "on-success", "always"]
    depth: int


def evaluate(
    manifest: AnyPath,
    *,
    agent: AgentFunction | None = None,
    judge: Mapping[str, Any] | None = None,
    store: AnyPath = STORE,
    progress: "Callable[[Progress], None] | None" = None,
    **options: Unpack[Options],
) -> "Run":
    """Evaluate the agent or retriever of a manifest, store the run, and return it. `run.verdict` is the gate's.

    Also works inside a running event loop (a notebook, an async test); there `aevaluate` does not block it.

    Args:
        manifest: Path of agent.yaml.
        agent: A Python function that is asked in place of `spec.api`: it takes the question (a conversation as a list
            of `{"role", "content"}`) and returns the answer as text, or a dict with `response` and, as far as they are
            known, `retrieved_contexts`, `retrieved_context_ids`, `usage` and `finish_reason`. May be async.
        judge: Used in place of `spec.evaluation.judge`, with the same keys.
        store: Folder of the runs; `.evalspec` of the working directory where not given.
        progress: Called after each step, in the thread that runs the event loop.
        **options: As of `evalspec evaluate`: `datasets`, `sample_size`, `repeat`, `no_judge`, …

    Raises:
        InvalidInput: Something is wrong with the manifest, a dataset or an option; nothing was asked.
        Unmeasurable: The run could not go on. What it has is stored, and `evaluate --resume` goes on with it.
    """
    from evalspec.api.loops import run_coroutine

    return run_coroutine(
        lambda: aevaluate(manifest, agent=agent, judge=judge, store=store, progress=progress, **options)
    )


async def aevaluate(
    manifest: AnyPath,
    *,
    agent: AgentFunction | None = None,
    judge: Mapping[str, Any] | None = None,
    store: AnyPath = STORE,
    progress: "Callable[[Progress], None] | None" = None,
    **options: Unpack[Options],
) -> "Run":
    """As `evaluate`, for async code."""
    from evalspec.api.evaluation import ProgressCallback, complete, prepare

    loaded = _with_judge(load_manifest(Path(manifest)), judge)
    with redacting(loaded):
        evaluation = prepare(loaded, replace(_to_options(options), agent=agent), RunStore(Path(store)))
        return await complete(evaluation.begin(), ProgressCallback(evaluation.plan.total, progress))


def rescore(
    run: str,
    manifest: AnyPath,
    *,
    datasets: Sequence[str] = (),
    judge_repeat: int = 1,
    no_judge: bool = False,
    fresh: bool = False,
    store: AnyPath = STORE,
    progress: "Callable[[Progress], None] | None" = None,
) -> "Run":
    """Score the stored replies of a run by the manifest as it is now: a new run, for which the agent is not asked.

    Args:
        run: An id, the beginning of one, a label, or `latest`.
        manifest: Path of agent.yaml.
        datasets: Only these.
        judge_repeat: How often each reply is graded.
        no_judge: Leave judged metrics out.
        fresh: Compute every score again, also those that nothing has changed for.
        store: Folder of the runs.
        progress: Called after each step.

    Raises:
        InvalidInput: There is no such run, or something is wrong with the manifest.
        Unmeasurable: The run could not go on.
    """
    from evalspec.api.evaluation import ProgressCallback, complete, prepare_rescore
    from evalspec.api.loops import run_coroutine

    runs = RunStore(Path(store))
    stored, loaded = open_run(runs.find(run)), load_manifest(Path(manifest))
    with redacting(loaded):
        evaluation = prepare_rescore(
            stored, loaded, runs, datasets=datasets, judge_repeat=judge_repeat, no_judge=no_judge, fresh=fresh
        )
        callback = ProgressCallback(evaluation.plan.total, progress)
        return run_coroutine(lambda: complete(evaluation.begin(), callback))


@dataclass(frozen=True, slots=True)
class Validation:
    """What is wrong with a manifest and its datasets: `problems` are errors. `samples`: how many by dataset."""

    problems: Sequence[Problem] = ()
    warnings: Sequence[Problem] = ()
    notes: Sequence[Problem] = ()
    samples: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_valid(self) -> bool:
        """Whether there is no error."""
        return not self.problems


def validate(manifest: AnyPath, *, agent: AgentFunction | None = None, **options: Unpack[Options]) -> Validation:
    """Find every error of a manifest and its datasets. Nothing is called, not even `agent`, and no secret is read."""
    from evalspec.planning.checks import validate_manifest
    from evalspec.planning.opening import recommend_checks

    try:
        loaded = load_manifest(Path(manifest))
        warnings, samples = validate_manifest(loaded, replace(_to_options(options), agent=agent))
        return Validation(warnings=warnings, notes=list(recommend_checks(loaded)), samples=samples)
    except InvalidInput as error:
        return Validation(error.problems)


def plan(
    manifest: AnyPath, *, baseline: str | None = None, store: AnyPath = STORE, **options: Unpack[Options]
) -> "Forecast":
    """Say what a run would call, and the smallest drop that its comparison with a baseline detects.

    Args:
        manifest: Path of agent.yaml.
        baseline: A promoted name, a file, or a stored run; the gate's where not given.
        store: Folder of the runs.
        **options: As of `evaluate`.

    Raises:
        InvalidInput: Something is wrong with the manifest, or nothing has the baseline's name.
    """
    from evalspec.api.runs import comparison_baseline
    from evalspec.planning.forecast import build_forecast

    loaded = load_manifest(Path(manifest))
    found = comparison_baseline(loaded, baseline, RunStore(Path(store)))
    return build_forecast(loaded, _to_options(options), found)


def score(
    qrels: AnyPath,
    run: AnyPath,
    *,
    metrics: Sequence[str] = (),
    cutoffs: Sequence[int] = (),
    min_grade: int = 1,
    empty_qrels: Literal["notApplicable", "zero"] = "notApplicable",
) -> "Run":
    """Measure a ranking from a file against ground truth from a file. The samples of the run are the queries.

    Args:
        qrels: TREC or BEIR judgements, or any dataset that says which documents are relevant.
        run: A TREC run, or recorded replies.
        metrics: Like `nDCG@10`, `AP`, `F0.5@5`; the defaults of `evalspec score` where none is given.
        cutoffs: For metrics named without one.
        min_grade: Lowest grade that is relevant.
        empty_qrels: What a query without a relevant document is to the means; `zero` is trec_eval's way.

    Raises:
        InvalidInput: A file or a name is wrong.
    """
    from evalspec.api.score_run import build_run
    from evalspec.api.scoring import list_notes, measure

    scored = measure(Path(qrels), Path(run), metrics, cutoffs, min_grade, empty_qrels, [])
    return build_run(scored, Path(qrels), Path(run), list(list_notes(scored, str(run))), per_query=True)


def compare(
    baseline: "str | Run",
    *candidates: "str | Run",
    datasets: Sequence[str] = (),
    metrics: Sequence[str] = (),
    alpha: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
    allow_mismatch: bool = False,
    store: AnyPath = STORE,
) -> "Comparison":
    """Compare runs with a baseline, sample by sample: what changed, and whether chance explains it.

    Args:
        baseline: A Run, or a name: of a stored run, a promoted baseline, or the file of a report.
        *candidates: What is compared with it.
        datasets: Only these.
        metrics: Only these.
        alpha: A change counts when chance explains it with less than this probability.
        resamples: Of the tests.
        seed: Of the resamples.
        allow_mismatch: Compare what is not comparable; the result says so.
        store: Folder of the runs.

    Raises:
        InvalidInput: There is no such run, or the runs are not comparable.
    """
    from evalspec.comparison.compare_runs import Choice, compare_runs
    from evalspec.validity.changes import Rules

    first, *others = (_name(one, RunStore(Path(store))) for one in (baseline, *candidates))
    rules = Rules(alpha, resamples=resamples, seed=seed)
    return compare_runs(first, others, rules, Choice(datasets, metrics, allow_mismatch))


def load_run(name: AnyPath, *, store: AnyPath = STORE) -> "Run":
    """Load a run: a stored one by id, beginning of an id, label or `latest`; or the file of a report or baseline.

    Raises:
        InvalidInput: There is no such run, or it cannot be read.
    """
    from evalspec.api.runs import read_named

    return read_named(str(name), RunStore(Path(store))).run


def convert(
    source: AnyPath,
    destination: AnyPath,
    *,
    to: str,
    source_format: str | None = None,
    corpus: AnyPath | None = None,
    retrieval_gt_1d: Literal["and", "or"] | None = None,
    lossy: bool = False,
    force: bool = False,
) -> "Conversion":
    """Read a dataset and write it in another format.

    Args:
        source: The dataset.
        destination: Where to write: a file, or a folder where the format has several files.
        to: The format to write.
        source_format: The format of the source; detected where not given.
        corpus: The documents of the source, where they have a file of their own.
        retrieval_gt_1d: Whether all ids of a flat list are needed, or any, where the format does not say.
        lossy: Write even if the format cannot hold everything; `losses` of the result says what is lost.
        force: Replace the destination if it exists.

    Raises:
        InvalidInput: The source is wrong, the destination exists, or something would be lost.
    """
    from evalspec.api.conversion import convert_dataset
    from evalspec.datasets.base import Source

    named = Source(Path(source), str(source), Path(corpus) if corpus else None, str(corpus or ""), retrieval_gt_1d)
    return convert_dataset(named, Path(destination), to, source_format, lossy=lossy, force=force)


def _to_options(options: Options) -> RunOptions:
    given: dict[str, Any] = {**options}
    for name in ("datasets", "tags", "exclude_tags"):
        if name in given:
            given[name] = tuple(given[name])
    if given.get("responses") is not None:
        given["responses"] = Path(given["responses"])
    return RunOptions(**given)


def _with_judge(loaded: LoadedManifest, judge: Mapping[str, Any] | None) -> LoadedManifest:
    if judge is None:
        return loaded
    from pydantic import ValidationError

    from evalspec.manifest.schema import JudgeConfig

    try:
        config = JudgeConfig.model_validate(dict(judge))
    except ValidationError as error:
        raise InvalidInput(
            Problem(detail["msg"], field=f"judge.{'.'.join(map(str, detail['loc']))}")
            for detail in error.errors(include_url=False)
        ) from error
    spec = loaded.manifest.spec
    evaluation = spec.evaluation.model_copy(update={"judge": config})
    spec = spec.model_copy(update={"evaluation": evaluation})
    return replace(loaded, manifest=loaded.manifest.model_copy(update={"spec": spec}))


def _name(run: "str | Run", store: RunStore) -> "NamedRun":
    from evalspec.api.runs import read_named
    from evalspec.comparison.result import NamedRun
    from evalspec.model import Run

    return NamedRun(run.id, run, "run") if isinstance(run, Run) else read_named(run, store)


@contextmanager
def redacting(loaded: LoadedManifest) -> Iterator[None]:
    """Errors leave this block without the secrets of the manifest, and without the errors behind them."""
    redact = loaded.references.redact
    try:
        yield
    except InvalidInput as error:
        problems = [
            replace(p, message=redact(p.message), fix=redact(p.fix), file=redact(p.file), field=redact(p.field))
            for p in error.problems
        ]
        raise InvalidInput(problems) from None
    except EvalspecError as error:
        error.args = tuple(redact(part) if isinstance(part, str) else part for part in error.args)
        raise error from None
