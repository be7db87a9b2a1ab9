"""One sitting at a run: begun, gone on with, or made of the replies of another."""

import gc
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evalspec.datasets.selection import add_digest
from evalspec.errors import InvalidInput, Problem, StoreError
from evalspec.outline import RunOutline, outline_to_json
from evalspec.plan.build import Plan
from evalspec.records import Run, Sample
from evalspec.runner.fingerprint import find_changes, find_metric_changes
from evalspec.runner.recall import Recall
from evalspec.store.files import store_errors
from evalspec.store.inputs import input_record
from evalspec.store.run_log import RunLog
from evalspec.store.run_store import RunStore
from evalspec.store.stored_run import StoredRun
from evalspec.summary import TAGS

Redact = Callable[[Any], Any]


@contextmanager
def gathering() -> Iterator[None]:
    """What is gathered here, samples and stored scores, all stays: the garbage collector need not look at it, neither
    now, where it would look at each a dozen times, nor during the run, where it would show as latency."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@dataclass(frozen=True, slots=True)
class Session:
    """A plan with the open log of its run and what is known of it already."""

    plan: Plan
    outline: RunOutline
    log: RunLog
    fingerprint: Mapping[str, Any]
    recall: Recall | None = None


def begin_run(
    store: RunStore, plan: Plan, outline: RunOutline, fingerprint: Mapping[str, Any], now: datetime, redact: Redact
) -> Session:
    """Open a new run: what it is to be is on disk before anything is asked.

    Raises:
        StoreError: it cannot be written.
    """
    log = store.create(now, redact=redact, texts=outline.has_texts)
    with ExitStack() as undo:
        undo.callback(log.close)
        log.write_description(fingerprint, outline_to_json(outline))
        records = (input_record(d.name, add_digest(sample)) for d in plan.datasets for sample in d.samples)
        log.write_inputs(records, metadata_keys(outline))
        if plan.baseline is not None:
            with store_errors(plan.baseline):
                log.write_baseline(plan.baseline.read_bytes())
        undo.pop_all()
    return Session(plan, outline, log, fingerprint)


def resume_run(
    stored: StoredRun,
    plan: Plan,
    outline: RunOutline,
    fingerprint: Mapping[str, Any],
    redact: Redact,
    *,
    retry_errors: bool,
) -> Session:
    """Open a run to go on with it.

    Raises:
        InvalidInput: what it is made of has changed since it began; every change is named.
        StoreError: it is being written by another process, or cannot be read.
    """
    try:
        changes = find_changes(stored.fingerprint, redact(fingerprint))
        changes = changes or find_metric_changes(stored.outline, outline)
    except (KeyError, TypeError) as error:
        raise StoreError(f"{stored.folder}: its fingerprint is not complete: {error}. start a new run") from error
    if changes:
        fix = f"put it back, start a new run, or `evalspec rescore {stored.id} {plan.loaded.path}`"
        raise InvalidInput([Problem(f"run {stored.id} cannot be resumed: {change}", fix) for change in changes])
    log = RunLog(stored.folder, redact=redact, texts=outline.has_texts)
    with ExitStack() as undo:
        undo.callback(log.close)
        recall = Recall(stored.read_index(), retry_errors=retry_errors, texts=outline.has_texts)
        undo.pop_all()
    return Session(plan, outline, log, stored.fingerprint, recall)


def keep_reuse(session: Session, url: str) -> dict[str, Any]:
    """The fingerprint of a run that asks what already answers at a url; it is on disk before anything is asked.

    Raises:
        StoreError: it cannot be written.
    """
    fingerprint = {**session.fingerprint, "agent": {**session.fingerprint["agent"], "reusedUrl": url}}
    session.log.write_description(fingerprint, outline_to_json(session.outline))
    return fingerprint


def recall_replies(stored: StoredRun, plan: Plan, outline: RunOutline, redact: Redact, *, fresh: bool) -> Recall:
    """The replies of a run for another to score. Scores whose metric and sample are as they were count too, unless all
    are to be `fresh`.

    Raises:
        InvalidInput: the run was written without texts, so that there is nothing to score.
        StoreError: it cannot be read.
    """
    if not stored.outline.has_texts:
        raise InvalidInput(f"run {stored.id} was written with --no-content: it has no replies to score", "run it again")
    before = {(d.name, m.name): m.key for d in stored.outline.datasets for m in d.metrics if not m.skip_reason}
    usable = {
        dataset.name: {m.name for m in dataset.metrics if not fresh and before.get((dataset.name, m.name)) == m.key}
        for dataset in outline.datasets
    }
    changed = _find_changed_samples(stored, plan, redact)
    return Recall(stored.read_index(), is_own=False, usable=usable, changed=changed)


def _find_changed_samples(stored: StoredRun, plan: Plan, redact: Redact) -> frozenset[tuple[str, str]]:
    """Samples, by dataset and id, of which the dataset now says something else: no score of them counts."""
    before = {(dataset, sample.id): _describe(sample) for dataset, sample in stored.read_samples()}
    now = {(dataset.name, sample.id): sample for dataset in plan.datasets for sample in dataset.samples}
    return frozenset(key for key, sample in now.items() if before.get(key) != redact(_describe(sample)))


def _describe(sample: Sample) -> Any:
    """All that a score may depend on, as JSON has it."""
    record = {key: value for key, value in input_record("", sample).items() if key not in ("tags", "line", "digest")}
    return json.loads(json.dumps(record))


def metadata_keys(outline: RunOutline) -> set[str]:
    """The metadata that results are cut by: all that stays of it where texts are not kept."""
    named = {key for dataset in outline.datasets for key in (*(dataset.slices or ()), dataset.cluster) if key}
    limited = {t.slice.partition("=")[0] for d in outline.datasets for t in d.thresholds if t.slice}
    return (named | limited) - {TAGS}


def describe_resume(plan: Plan, run_id: str, *more: str) -> str:
    """What to type to go on with a run."""
    url = ("--url", plan.options.url) if plan.options.url else ()
    return " ".join(["evalspec evaluate", str(plan.loaded.path), *url, "--resume", run_id, *more])


def has_failures(run: Run) -> bool:
    """Whether anything could be had by trying again."""
    return any(
        len(dataset.samples) > dataset.answered or any(summary.failed for summary in dataset.summaries.values())
        for dataset in run.datasets
    )
