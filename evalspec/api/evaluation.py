"""Runs: prepared, executed, stored. What `evalspec evaluate` and `rescore` do, without a command line."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic.alias_generators import to_camel

from evalspec.errors import Problem
from evalspec.manifest.loader import LoadedManifest
from evalspec.model import Run
from evalspec.planning.build import Plan, build_plan
from evalspec.planning.options import RETRIEVER_OPTIONS, RunOptions
from evalspec.planning.outlining import outline_plan
from evalspec.reporters.json_report import iterate_json
from evalspec.reporters.redaction import redact_run, withhold_texts
from evalspec.retrievers.vectors import KnownVectors
from evalspec.runner.fingerprint import compute_fingerprint
from evalspec.runner.session import Session, begin_run, load_replies, metadata_keys, resume_run
from evalspec.runner.targets import ProgressListener
from evalspec.store.damage import refuse_damage
from evalspec.store.run_store import RunStore
from evalspec.store.stored_run import StoredRun, open_run

_ORIGIN = ("agent", "retrievers", "retrieversSha256", "selection")
"""What a fingerprint says of where the replies come from."""


class Progress(NamedTuple):
    """How far a run is: attempts asked and scored of a total, and how many of them failed.

    `ingested`: documents that a retriever has taken in, of how many. `message`: what a person should know at once.
    """

    total: int
    asked: int = 0
    scored: int = 0
    failed: int = 0
    ingested: tuple[int, int] | None = None
    message: str = ""


class ProgressCallback:
    """What the runner tells, as calls of one function."""

    def __init__(self, total: int, callback: Callable[[Progress], None] | None) -> None:
        self._last = Progress(total)
        self._callback = callback

    def __call__(self, *, asked: int, scored: int, failed: int) -> None:
        """Counts of attempts so far."""
        self._last = Progress(self._last.total, asked, scored, failed)
        self._tell(self._last)

    def ingested(self, done: int, total: int) -> None:
        """Documents that a retriever has taken in so far."""
        self._tell(self._last._replace(ingested=(done, total)))

    def say(self, line: str) -> None:
        """What a person should know at once."""
        self._tell(self._last._replace(message=line))

    def _tell(self, progress: Progress) -> None:
        if self._callback is not None:
            self._callback(progress)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A run that is planned and checked. Nothing is asked and nothing written before `begin`.

    `resumed`: the stored run to go on with. `rescored`: the one whose replies are scored again; with `fresh` no score
    of it is taken over.
    """

    plan: Plan
    store: RunStore
    resumed: StoredRun | None = None
    retry_errors: bool = False
    rescored: StoredRun | None = None
    fresh: bool = False

    @property
    def warnings(self) -> list[Problem]:
        """What is no error and should be known before the run."""
        short = sorted(self.plan.loaded.references.redaction.too_short)
        return [*self.plan.warnings, *map(_warn_of_short, short)]

    def begin(self) -> Session:
        """Open the run on disk.

        Raises:
            InvalidInput: what the stored run was made of has changed.
            StoreError: it cannot be written, or read.
        """
        plan, now = self.plan, datetime.now(UTC)
        outline, fingerprint = outline_plan(plan), compute_fingerprint(plan, now)
        if self.resumed is not None:
            return resume_run(self.resumed, plan, outline, fingerprint, retry_errors=self.retry_errors)
        if self.rescored is None:
            return begin_run(self.store, plan, outline, fingerprint, now)
        known_attempts = load_replies(self.rescored, plan, outline, fresh=self.fresh)
        origin = {key: self.rescored.fingerprint[key] for key in _ORIGIN if key in self.rescored.fingerprint}
        described = fingerprint | origin | {"rescoredFrom": self.rescored.id}
        return replace(begin_run(self.store, plan, outline, described, now), known_attempts=known_attempts)


def prepare(
    loaded: LoadedManifest,
    options: RunOptions,
    store: RunStore,
    known: KnownVectors | None = None,
    *,
    resumed: StoredRun | None = None,
    retry_errors: bool = False,
) -> Evaluation:
    """Check everything that a run needs. `known`: vectors that several retrievers of one call share.

    Raises:
        InvalidInput: with everything that is wrong, before anything was asked.
    """
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
) -> Evaluation:
    """Check what a run needs that scores the stored replies of another by the manifest as it is now.

    Raises:
        InvalidInput: with everything that is wrong.
        StoreError: the stored run is damaged.
    """
    refuse_damage(stored)
    options = RunOptions(
        datasets=tuple(datasets) or tuple(stored.fingerprint["selection"]["datasets"]),
        no_judge=no_judge,
        repeat=stored.outline.repeats,
        judge_repeat=judge_repeat,
        stored=_ids_of(stored),
        **retriever_options_of(stored),
    )
    return Evaluation(build_plan(loaded, options), store, rescored=stored, fresh=fresh)


async def complete(session: Session, progress: ProgressListener) -> Run:
    """Run what is left to run, and store the report.

    Raises:
        Unmeasurable: it could not go on; what it has is kept, and can be resumed.
    """
    from evalspec.runner.diagnosing import diagnose
    from evalspec.runner.execute import execute
    from evalspec.runner.reread import read_stored_baseline

    stored = open_run(session.log.folder)
    with session.log as log:
        measured = await execute(session, progress, read_stored_baseline(stored))
        run = diagnose(redact_run(measured, session.plan.loaded.references.redact_data), open_run(log.folder))
        if not session.outline.has_texts:
            run = withhold_texts(run, metadata_keys(session.outline))
        log.write_report(iterate_json(run))
    return run


def options_of(stored: StoredRun) -> dict[str, Any]:
    """What a stored run was begun with, by the names of RunOptions."""
    selection, responses = stored.fingerprint["selection"], stored.fingerprint["responses"]
    return {
        "datasets": tuple(selection["datasets"]),
        "sample_size": selection["sampleSize"],
        "seed": selection["seed"],
        "tags": tuple(selection["tags"]),
        "exclude_tags": tuple(selection["excludeTags"]),
        "repeat": stored.outline.repeats,
        "judge_repeat": stored.outline.judge_repeats,
        "no_judge": stored.fingerprint["noJudge"],
        "no_content": not stored.outline.has_texts,
        "responses": Path(responses["path"]) if responses else None,
        **retriever_options_of(stored),
    }


def retriever_options_of(stored: StoredRun) -> dict[str, Any]:
    """How the retrievers of a run were asked; nothing where it was begun before that was kept."""
    selection = stored.fingerprint["selection"]
    return {name: selection[key] for name in RETRIEVER_OPTIONS if (key := to_camel(name)) in selection}


def _ids_of(stored: StoredRun) -> Mapping[str, frozenset[str]]:
    """The samples of a run, by dataset."""
    found: dict[str, set[str]] = defaultdict(set)
    for dataset, sample in stored.read_samples():
        found[dataset].add(sample.id)
    return {dataset: frozenset(ids) for dataset, ids in found.items()}


def _warn_of_short(reference: str) -> Problem:
    message = f"${reference} has fewer than four characters and is not hidden"
    return Problem(message, "add :public if it is no secret" if reference.startswith("env:") else "")
