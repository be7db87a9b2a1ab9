"""Prepare, execute and store runs, for `evalspec evaluate` and `evalspec rescore`."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from msgspec import Struct
from msgspec.structs import asdict, replace

from evalspec.api.arguments import LimitOptions
from evalspec.api.server_baselines import fetch_baseline
from evalspec.base.errors import Problem
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.model import PeopleScores, Run
from evalspec.model.corrections import JudgeCorrection
from evalspec.model.shards import refuse_shard
from evalspec.reports.json_report import iterate_json
from evalspec.runs.planning.build import Plan, build_plan
from evalspec.runs.planning.options import RETRIEVER_OPTIONS, RunOptions
from evalspec.runs.planning.outlining import outline_plan
from evalspec.runs.planning.selecting import log_held_out
from evalspec.runs.runner.fingerprint import compute_fingerprint
from evalspec.runs.runner.session import (
    Session,
    begin_run,
    describe_reused,
    load_replies,
    metadata_keys,
    open_batches,
    open_cache,
    resume_run,
    uses_cache,
)
from evalspec.runs.runner.targets import ProgressListener
from evalspec.runs.store.batch_log import is_batched
from evalspec.runs.store.damage import refuse_damage
from evalspec.runs.store.erasing import refuse_erased
from evalspec.runs.store.pushed_runs import refuse_pushed
from evalspec.runs.store.run_redaction import redact_run, withhold_texts
from evalspec.runs.store.run_store import VERDICTS, RunStore
from evalspec.runs.store.stored_run import StoredRun, open_run
from evalspec.verdict.outline import DatasetOutline

if TYPE_CHECKING:
    from evalspec.runs.runner.worker import OpenWorker
    from evalspec.targets.retrievers.vectors import KnownVectors

_ORIGIN = ("agent", "ci", "recorded", "retrievers", "retrievers_sha256", "selection", "user")
"""The fields of a fingerprint that describe where replies come from."""


_WORKERS = {True: "evalspec.runs.runner.worker:work_here", False: "evalspec.runs.cluster.driver:work_on_ray"}
"""What asks and scores, by whether it does so in this process. Loaded once it is needed: one of them starts Ray."""


class Progress(NamedTuple):
    """Progress of a run, in attempts: total, queried, scored, failed.

    `ingested`: number of documents ingested by a retriever, and their total. `message`: a message to show immediately.
    `judge_wait_seconds`: the judge is rate limited, and its next request is sent in this time.
    """

    total: int
    asked: int = 0
    scored: int = 0
    failed: int = 0
    ingested: tuple[int, int] | None = None
    message: str = ""
    judge_wait_seconds: float | None = None


class ProgressCallback:
    """A progress listener that calls one function with a Progress."""

    def __init__(self, total: int, callback: Callable[[Progress], None] | None) -> None:
        self._last = Progress(total)
        self._callback = callback

    def __call__(self, *, asked: int, scored: int, failed: int) -> None:
        """Report the attempts so far."""
        self._last = Progress(self._last.total, asked, scored, failed)
        self._tell(self._last)

    def ingested(self, done: int, total: int) -> None:
        """Report the documents that a retriever has ingested so far."""
        self._tell(self._last._replace(ingested=(done, total)))

    def judge_waits(self, seconds: float) -> None:
        """Report that the judge is rate limited, and the seconds until its next request."""
        self._tell(self._last._replace(judge_wait_seconds=seconds))

    def say(self, line: str) -> None:
        """Report a message to show immediately."""
        self._tell(self._last._replace(message=line))

    def _tell(self, progress: Progress) -> None:
        if self._callback is not None:
            self._callback(progress)


class Evaluation(Struct, frozen=True):
    """A run that is planned and checked. Nothing is sent or written before `begin`.

    `resumed`: stored run to resume. `rescored`: stored run whose replies are scored again. `fresh`: reuse none of its
    scores. `short_id`: the last part of the name of a new run, eight random digits by default.
    """

    plan: Plan
    store: RunStore
    resumed: StoredRun | None = None
    retry_errors: bool = False
    rescored: StoredRun | None = None
    fresh: bool = False
    short_id: str | None = None

    @property
    def warnings(self) -> list[Problem]:
        """Warnings to show before the run."""
        short = sorted(self.plan.loaded.references.redaction.too_short)
        return [*self.plan.warnings, *map(_warn_of_short, short)]

    def begin(self) -> Session:
        """Create the run on disk, or open the one to resume.

        Raises:
            InvalidInput: The inputs of the resumed run have changed, a use of a held-out share cannot be logged, git
                tracks the judge's cache, or the file of labels is invalid.
            StoreError: A run cannot be read or written.
        """
        is_cached = uses_cache(self.plan, self.store.cache)
        collect = self._find_people()
        session = self._begin()
        if collect is not None:
            session = replace(session, collect_people=partial(collect, session.log.id))
        if is_cached:
            open_cache(session, self.store.cache)
        if self.plan.options.batch:
            with ExitStack() as undo:
                undo.callback(session.log.close)
                open_batches(session)
                undo.pop_all()
        return session

    def _find_people(self) -> Callable[[str], tuple[PeopleScores, ...]] | None:
        """Return a function of a run's id that collects what people say about its scores; None without labels."""
        if self.plan.options.shard is not None:
            return None
        loaded = self.plan.loaded
        policy = loaded.manifest.spec.evaluation.ci_gate
        datasets = outline_plan(self.plan).datasets
        return find_people(self.store, policy, loaded.path, is_judged=self.plan.judged, datasets=datasets)

    def _begin(self) -> Session:
        plan, now = self.plan, datetime.now(UTC)
        outline, fingerprint = outline_plan(plan), compute_fingerprint(plan, now)
        if self.resumed is not None:
            return resume_run(self.resumed, plan, outline, fingerprint, retry_errors=self.retry_errors)
        if self.rescored is None:
            session = begin_run(self.store, plan, outline, fingerprint, now, self.short_id)
            with ExitStack() as undo:
                undo.callback(session.log.close)
                log_held_out(plan.datasets, session.log.place.name)
                undo.pop_all()
            return session
        known_attempts = load_replies(self.rescored, plan, outline, fresh=self.fresh)
        origin = {name: getattr(self.rescored.fingerprint, name) for name in _ORIGIN}  # this build got no replies
        reused = describe_reused(self.rescored, outline, known_attempts)
        counts = {"rescored_from": self.rescored.id, "replies": known_attempts.origin}
        described = replace(fingerprint, **origin, **reused, **counts)
        return replace(begin_run(self.store, plan, outline, described, now), known_attempts=known_attempts)


def find_people(
    store: RunStore, policy: CiGate, manifest: Path, *, is_judged: bool, datasets: Iterable[DatasetOutline] = ()
) -> Callable[[str], tuple[PeopleScores, ...]] | None:
    """Return a function of a run's id that collects what people say about its scores; None without labels.

    `datasets`: those of the run, if they are known: labels of a file have to be possible scores of their metrics.

    Raises:
        InvalidInput: The file of labels is invalid.
        StoreError: The folder of labels cannot be read.
    """
    named = policy.judge.labels
    is_used = is_judged and policy.judge.correct is not JudgeCorrection.OFF
    if not is_used or not (named or (store.root / VERDICTS).is_dir()):
        return None
    from evalspec.curation.labels import opinions

    return opinions.find_people(store, manifest.parent / named if named else None, datasets)


def prepare(
    loaded: LoadedManifest,
    options: RunOptions,
    store: RunStore,
    known: "KnownVectors | None" = None,
    *,
    resumed: StoredRun | None = None,
    retry_errors: bool = False,
) -> Evaluation:
    """Return a checked run. `known`: vectors shared by the retrievers of one call.

    Raises:
        InvalidInput: The manifest, a dataset or an option is invalid. Lists all problems. Nothing has been sent.
    """
    if resumed is not None:
        refuse_pushed(resumed.folder, "resumed")
        refuse_erased(resumed, resumed.read_index(), "resumed")
    loaded = fetch_baseline(loaded, store, resumed=resumed)
    return Evaluation(build_plan(loaded, options, known), store, resumed, retry_errors)


def prepare_rescore(
    stored: StoredRun,
    loaded: LoadedManifest,
    store: RunStore,
    *,
    datasets: Sequence[str] = (),
    judge_repeat: int = 1,
    no_judge: bool = False,
    fresh: bool = False,
    no_cache: bool = False,
    **limits: Unpack[LimitOptions],
) -> Evaluation:
    """Return a checked run that scores the replies of a stored run with the current manifest.

    Raises:
        InvalidInput: The manifest, a dataset or an option is invalid. Lists all problems.
        StoreError: The stored run is damaged.
    """
    given: dict[str, Any] = {**limits}
    refuse_shard(stored.id, stored.fingerprint, "scored again")
    refuse_pushed(stored.folder, "scored again")
    refuse_damage(stored)
    refuse_erased(stored, stored.read_index(), "scored again", datasets)
    options = RunOptions(
        datasets=tuple(datasets) or stored.selection.datasets,
        no_judge=no_judge,
        repeat=stored.outline.repeats,
        judge_repeat=judge_repeat,
        fresh=fresh,
        no_cache=no_cache,
        **given,
        stored=_ids_of(stored),
        **retriever_options_of(stored),
    )
    loaded = fetch_baseline(loaded, store)
    return Evaluation(build_plan(loaded, options), store, rescored=stored, fresh=fresh)


async def complete(session: Session, progress: ProgressListener) -> Run:
    """Run all remaining attempts, store the report, and return the run.

    Raises:
        Unmeasurable: The run could not continue. Its results so far are stored, and it can be resumed.
    """
    from evalspec.runs.runner.diagnosing import diagnose
    from evalspec.runs.runner.execute import execute
    from evalspec.runs.runner.reread import read_stored_baseline

    stored = open_run(session.log.place)
    with session.log as log:
        measured = await execute(session, progress, read_stored_baseline(stored), _find_worker(session.plan))
        redaction = session.plan.loaded.references.redaction
        run = diagnose(redact_run(measured, redaction.mask_data, redaction.is_readable), open_run(log.place))
        if not session.outline.has_texts:
            run = withhold_texts(run, metadata_keys(session.outline))
        log.write_report(iterate_json(run))
    return run


def _find_worker(plan: Plan) -> "OpenWorker":
    """Return what asks and scores where the plan says."""
    module, _, name = _WORKERS[plan.placed_on is None].partition(":")
    found: OpenWorker = getattr(import_module(module), name)
    return found


def options_of(stored: StoredRun) -> dict[str, Any]:
    """Return the options with which a stored run was started, by the names of RunOptions."""
    responses = stored.fingerprint.responses
    return {
        **asdict(stored.selection),
        "repeat": stored.outline.repeats,
        "judge_repeat": stored.outline.judge_repeats,
        "no_judge": stored.fingerprint.no_judge,
        "no_content": not stored.outline.has_texts,
        "no_cache": stored.fingerprint.no_cache,
        "shard": stored.fingerprint.shard,
        "fresh": stored.fingerprint.fresh,
        "responses": Path(responses.path) if responses else None,
        "batch": is_batched(stored.folder),
        **stored.fingerprint.limits,
    }


def retriever_options_of(stored: StoredRun) -> dict[str, Any]:
    """Return the retriever options of a stored run."""
    return {name: getattr(stored.selection, name) for name in RETRIEVER_OPTIONS}


def _ids_of(stored: StoredRun) -> Mapping[str, frozenset[str]]:
    """Return the ids of the samples of a run by dataset."""
    found: dict[str, set[str]] = defaultdict(set)
    for dataset, sample in stored.read_samples():
        found[dataset].add(sample.id)
    return {dataset: frozenset(ids) for dataset, ids in found.items()}


def _warn_of_short(reference: str) -> Problem:
    message = f"${reference} has fewer than four characters and is not redacted"
    return Problem(message, "add :public if it is not a secret" if reference.startswith("env:") else "")
