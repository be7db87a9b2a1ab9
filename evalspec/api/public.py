"""The library: the commands as functions. `evalspec` exports all of them.

They print nothing, and raise an EvalspecError where the command would exit with an error.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import ValidationError

from evalspec.api.arguments import AnyPath, LimitOptions, Options, check_arguments, to_options
from evalspec.base.errors import EvalspecError, InvalidInput, Problem
from evalspec.inputs.manifest.loader import LoadedManifest, load_manifest, load_valid_parts
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.runs.store.stored_run import open_run
from evalspec.targets.agents.entry import AgentFunction

if TYPE_CHECKING:
    from evalspec.api.conversion import Conversion
    from evalspec.api.evaluation import Progress
    from evalspec.model import Run, StatedLimit
    from evalspec.model.comparisons import Comparison
    from evalspec.model.forecasts import Forecast
    from evalspec.verdict.comparison.named_runs import NamedRun


def evaluate(
    manifest: AnyPath,
    *,
    agent: AgentFunction | None = None,
    judge: Mapping[str, Any] | None = None,
    store: AnyPath = STORE,
    progress: "Callable[[Progress], None] | None" = None,
    **options: Unpack[Options],
) -> "Run":
    """Evaluate the agent or retriever of a manifest, store the run, and return it. `run.verdict` is the gate's verdict.

    Works inside a running event loop too (a notebook, an async test), but blocks it. `aevaluate` does not.

    Args:
        manifest: Path of agent.yaml.
        agent: Sync or async function to evaluate in place of `spec.api`. It takes the question, or a conversation as a
            list of `{"role", "content"}`. It returns the answer as text, or a dict with `response` and optionally
            `retrieved_contexts`, `retrieved_context_ids`, `usage` and `finish_reason`, or yields one of them in pieces.
            A class is instantiated for each worker. Runnables of LangChain and engines of LlamaIndex work as they are.
        judge: Replaces `spec.evaluation.judge`, with the same keys.
        store: Folder of the runs. Default: `.evalspec` in the working directory.
        progress: Called after each step, in the thread that runs the event loop.
        **options: Options of `evalspec evaluate`: `datasets`, `sample_size`, `repeat`, `no_judge`, …

    Raises:
        InvalidInput: The manifest, a dataset or an option is invalid. Nothing has been sent.
        Unmeasurable: The run could not continue. Its results so far are stored; `evaluate --resume` continues it.
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
    """Evaluate like `evaluate`, without blocking the event loop."""
    from evalspec.api.evaluation import ProgressCallback, complete, prepare

    loaded = _with_judge(load_whole(manifest, agent=agent, **options), judge)
    with redacting(loaded):
        evaluation = prepare(loaded, to_options(options, agent), RunStore(Path(store)))
        return await complete(evaluation.begin(), ProgressCallback(evaluation.plan.total, progress))


def rescore(
    run: str,
    manifest: AnyPath,
    *,
    datasets: Sequence[str] = (),
    judge_repeat: int = 1,
    no_judge: bool = False,
    fresh: bool = False,
    no_cache: bool = False,
    store: AnyPath = STORE,
    progress: "Callable[[Progress], None] | None" = None,
    **limits: Unpack[LimitOptions],
) -> "Run":
    """Score the stored replies of a run with the current manifest, and return the result as a new run.

    The agent is not queried.

    Args:
        run: Id, prefix of an id, label, or `latest`.
        manifest: Path of agent.yaml.
        datasets: Only these datasets.
        judge_repeat: How often the judge grades each reply.
        no_judge: Skip judged metrics.
        fresh: Recompute every score, including scores whose inputs are unchanged.
        no_cache: Neither read nor write the judge's cache.
        store: Folder of the runs.
        progress: Called after each step.
        **limits: `max_cost`, `max_judge_calls`, `max_tokens`, `max_time` and `fail_fast`, as of `evaluate`.

    Raises:
        InvalidInput: The run does not exist, or the manifest is invalid.
        Unmeasurable: The run could not continue.
    """
    from evalspec.api.evaluation import ProgressCallback, complete, prepare_rescore
    from evalspec.api.loops import run_coroutine

    check_arguments(judge_repeat=judge_repeat, limits=limits)
    runs = RunStore(Path(store))
    stored, loaded = open_run(runs.find(run)), load_manifest(Path(manifest))
    with redacting(loaded):
        evaluation = prepare_rescore(
            stored,
            loaded,
            runs,
            datasets=datasets,
            judge_repeat=judge_repeat,
            no_judge=no_judge,
            fresh=fresh,
            no_cache=no_cache,
            **limits,
        )
        callback = ProgressCallback(evaluation.plan.total, progress)
        return run_coroutine(lambda: complete(evaluation.begin(), callback))


class Validation(Struct, frozen=True):
    """Problems of a manifest and its datasets. `problems`: errors.

    `samples`: number of samples by dataset; if the options select by tag, condition or slice, only of selected ones.
    `limits`: each limit stated for a dataset, enforced or not.
    """

    problems: Sequence[Problem] = ()
    warnings: Sequence[Problem] = ()
    notes: Sequence[Problem] = ()
    samples: Mapping[str, int] = field(default_factory=dict)
    limits: "Mapping[str, Sequence[StatedLimit]]" = field(default_factory=dict)

    @property
    def is_valid(self) -> bool:
        """Whether there are no errors."""
        return not self.problems


def validate(manifest: AnyPath, *, agent: AgentFunction | None = None, **options: Unpack[Options]) -> Validation:
    """Return every error of a manifest and its datasets. Calls nothing, not even `agent`, and reads no secrets."""
    from evalspec.runs.planning.checks import validate_manifest
    from evalspec.runs.planning.retrievers import recommend_checks

    try:
        part = load_valid_parts(Path(manifest))
    except InvalidInput as error:
        return Validation(tuple(error.problems))
    if part.loaded is None:
        return Validation(tuple(part.problems))
    try:
        warnings, remarks, samples, limits = validate_manifest(part.loaded, to_options(options, agent))
    except InvalidInput as error:
        return Validation((*part.problems, *part.list_further(error.problems)))
    if part.problems:
        return Validation(tuple(part.problems))
    if problems := _check_labels(part.loaded):
        return Validation(problems)
    notes = (*remarks, *recommend_checks(part.loaded))
    return Validation(warnings=tuple(warnings), notes=notes, samples=samples, limits=limits)


def load_whole(manifest: AnyPath, *, agent: AgentFunction | None = None, **options: Unpack[Options]) -> LoadedManifest:
    """Return a manifest.

    Raises:
        InvalidInput: It is invalid. The problems of its datasets are listed too.
    """
    try:
        return load_manifest(Path(manifest))
    except InvalidInput as error:
        raise InvalidInput(validate(manifest, agent=agent, **options).problems or error.problems) from None


def _check_labels(loaded: LoadedManifest) -> tuple[Problem, ...]:
    """Return what is wrong with the file of labels that the gate reads."""
    labels = loaded.manifest.spec.evaluation.ci_gate.judge.labels
    if labels is None:
        return ()
    from evalspec.curation.labels.opinions import read_label_file

    try:
        read_label_file(loaded.path.parent / labels)
    except InvalidInput as error:
        return tuple(error.problems)
    return ()


def plan(
    manifest: AnyPath, *, baseline: str | None = None, store: AnyPath = STORE, **options: Unpack[Options]
) -> "Forecast":
    """Return the calls that a run would make, and the smallest drop that a comparison with a baseline can detect.

    Args:
        manifest: Path of agent.yaml.
        baseline: A promoted name, a file, or a stored run. Default: the baseline of the gate.
        store: Folder of the runs.
        **options: Options of `evaluate`.

    Raises:
        InvalidInput: The manifest is invalid, or the baseline does not exist.
    """
    from evalspec.api.runs import comparison_baseline
    from evalspec.api.server_baselines import fetch_baseline
    from evalspec.runs.planning.forecast import build_forecast

    runs, given = RunStore(Path(store)), load_manifest(Path(manifest))
    loaded = fetch_baseline(given, runs) if baseline is None else given
    return build_forecast(loaded, to_options(options), comparison_baseline(loaded, baseline, runs), runs)


def score(
    qrels: AnyPath,
    run: AnyPath,
    *,
    metrics: Sequence[str] = (),
    cutoffs: Sequence[int] = (),
    min_grade: int = 1,
    empty_qrels: Literal["notApplicable", "zero"] = "notApplicable",
    where: str | Sequence[str] = (),
) -> "Run":
    """Compute ranking metrics of a run file against a file of ground truth. The samples of the result are the queries.

    Args:
        qrels: TREC or BEIR judgements, or any dataset that says which documents are relevant.
        run: A TREC run, or recorded replies.
        metrics: Metrics such as `nDCG@10`, `AP`, `F0.5@5`. Default: those of `evalspec score`.
        cutoffs: Cut-offs of metrics that are named without one.
        min_grade: Lowest grade that is relevant.
        empty_qrels: How queries without a relevant document enter the means. `zero` does what trec_eval does.
        where: Score only queries that meet all of these conditions, such as `difficulty=hard`. Needs a dataset.

    Raises:
        InvalidInput: A file is invalid, or a metric is unknown.
    """
    from evalspec.api.score_run import build_run
    from evalspec.api.scoring import list_notes, measure
    from evalspec.model.conventions import EmptyQrels

    check_arguments(cutoffs=cutoffs, min_grade=min_grade, empty_qrels=empty_qrels)
    conditions = [where] if isinstance(where, str) else where
    scored = measure(Path(qrels), Path(run), metrics, cutoffs, min_grade, EmptyQrels(empty_qrels), [], conditions)
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
    """Compare runs with a baseline, sample by sample, and test whether the differences exceed noise.

    Args:
        baseline: A Run, or the name of a stored run, a promoted baseline or a report file.
        *candidates: The runs to compare with the baseline.
        datasets: Only these datasets.
        metrics: Only these metrics.
        alpha: Significance level.
        resamples: Number of resamples of the tests.
        seed: Seed of the resamples.
        allow_mismatch: Compare runs that are not comparable. The result lists the differences.
        store: Folder of the runs.

    Raises:
        InvalidInput: A run does not exist, or the runs are not comparable.
    """
    from evalspec.verdict.comparison.compare_runs import Choice, compare_runs
    from evalspec.verdict.validity.changes import SignificanceRules

    check_arguments(alpha=alpha, resamples=resamples, seed=seed)
    if not candidates:
        raise InvalidInput("nothing to compare with the baseline", "pass a candidate")
    first, *others = (_name(one, RunStore(Path(store))) for one in (baseline, *candidates))
    rules = SignificanceRules(alpha, resamples=resamples, seed=seed)
    return compare_runs(first, others, rules, Choice(datasets, metrics, allow_mismatch))


def load_run(name: AnyPath, *, store: AnyPath = STORE) -> "Run":
    """Load a stored run by id, prefix of an id, label or `latest`, or a run from a report or baseline file.

    Raises:
        InvalidInput: The run does not exist, or cannot be read.
    """
    from evalspec.api.runs import read_named

    return read_named(str(name), RunStore(Path(store))).run


def convert(
    source: AnyPath,
    destination: AnyPath,
    *,
    to: str,
    source_format: str | None = None,
    fields: Mapping[str, str] | None = None,
    corpus: AnyPath | None = None,
    retrieval_gt_1d: Literal["and", "or"] | None = None,
    where: str | Sequence[str] = (),
    sample_size: int | None = None,
    seed: int = 0,
    stratify: str | Sequence[str] = (),
    lossy: bool = False,
    force: bool = False,
) -> "Conversion":
    """Read a dataset and write it in another format.

    Args:
        source: Path of the dataset.
        destination: Path to write: a file, or a folder if the format has several files.
        to: Format to write.
        source_format: Format of the source. Default: detected.
        fields: The column of each field, such as `{"input": "ticket.text"}`, for files of records.
        corpus: File with the documents of the source, if they are in a separate file.
        retrieval_gt_1d: Whether all ids of a flat list are needed, or any of them, if the format does not say.
        where: Write only samples that meet all of these conditions, such as `difficulty=hard`.
        sample_size: Write at most so many samples.
        seed: Seed of the draw.
        stratify: Keys whose values keep their shares in the draw.
        lossy: Write even if the format cannot represent everything. `losses` of the result lists what is lost.
        force: Replace the destination if it exists.

    Raises:
        InvalidInput: The source is invalid, the destination exists, or data would be lost.
    """
    from evalspec.api.conversion import convert_dataset
    from evalspec.inputs.datasets.base import Source
    from evalspec.inputs.datasets.selection import parse_selection
    from evalspec.model.conventions import FlatIds

    check_arguments(retrieval_gt_1d=retrieval_gt_1d, sample_size=sample_size)
    beside = (Path(corpus) if corpus else None, str(corpus or ""))
    flat_ids = None if retrieval_gt_1d is None else FlatIds(retrieval_gt_1d)
    named = Source(Path(source), str(source), *beside, flat_ids, fields or {})
    conditions, keys = ([one] if isinstance(one, str) else one for one in (where, stratify))
    selection = parse_selection(where=conditions, size=sample_size, seed=seed, stratify=keys)
    return convert_dataset(named, Path(destination), to, source_format, selection=selection, lossy=lossy, force=force)


def _with_judge(loaded: LoadedManifest, judge: Mapping[str, Any] | None) -> LoadedManifest:
    check_arguments(judge=judge)
    if judge is None:
        return loaded
    from evalspec.inputs.manifest.judge_schema import JudgeConfig

    try:
        config = JudgeConfig.model_validate(dict(judge))
    except ValidationError as error:
        raise InvalidInput(
            Problem(detail["msg"], field=f"judge.{'.'.join(map(str, detail['loc']))}")
            for detail in error.errors(include_url=False)
        ) from None
    spec = loaded.manifest.spec
    evaluation = spec.evaluation.model_copy(update={"judge": config})
    spec = spec.model_copy(update={"evaluation": evaluation})
    return replace(loaded, manifest=loaded.manifest.model_copy(update={"spec": spec}))


def _name(run: "str | Run", store: RunStore) -> "NamedRun":
    from evalspec.api.runs import read_named
    from evalspec.model import Run
    from evalspec.verdict.comparison.named_runs import NamedRun

    return NamedRun(run.id, run, "run") if isinstance(run, Run) else read_named(run, store)


@contextmanager
def redacting(loaded: LoadedManifest) -> Iterator[None]:
    """Redact the secrets of a manifest from errors raised within the block, and drop the causes of those errors."""
    redact = loaded.references.redact
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(problem.redacted(redact) for problem in error.problems) from None
    except EvalspecError as error:
        error.args = tuple(redact(part) if isinstance(part, str) else part for part in error.args)
        raise error from None
