"""One sitting at a run: begun, gone on with, or made of the replies of another."""

import gc
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from evalspec.datasets.selection import add_digest
from evalspec.errors import InvalidInput, Problem, StoreError
from evalspec.http.text import strip_userinfo
from evalspec.model import Run
from evalspec.outline import RunOutline, outline_to_json
from evalspec.planning.build import Plan
from evalspec.runner.fingerprint import list_changes, list_metric_changes
from evalspec.runner.known_attempts import KnownAttempts
from evalspec.store.damage import list_damaged_inputs
from evalspec.store.files import store_errors
from evalspec.store.inputs import input_record
from evalspec.store.log_index import LogIndex
from evalspec.store.log_records import change_fingerprint
from evalspec.store.run_log import RunLog
from evalspec.store.run_store import RunStore
from evalspec.store.stored_run import StoredRun
from evalspec.summary import TAGS, add_slices, limited_slices
from evalspec.trust import in_force

_NAMES_SHOWN = 5


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
    known_attempts: KnownAttempts | None = None


def begin_run(
    store: RunStore, plan: Plan, outline: RunOutline, fingerprint: Mapping[str, Any], now: datetime
) -> Session:
    """Open a new run: what it is to be is on disk before anything is asked.

    Raises:
        StoreError: it cannot be written.
    """
    redaction = plan.loaded.references.redaction
    baseline = _read_baseline(plan)
    fingerprint = {
        **fingerprint,
        "references": redaction.describe(),
        "baselineSha256": None if baseline is None else sha256(baseline).hexdigest(),
    }
    log = store.create(now, redact=redaction.hide_data, is_clean=redaction.is_clean, texts=outline.has_texts)
    with ExitStack() as undo:
        undo.callback(log.close)
        log.write_inputs(_describe_inputs(plan, outline), metadata_keys(outline))
        if baseline is not None:
            log.write_baseline(baseline)
        log.write_description(fingerprint, outline_to_json(outline, redaction.hide_data))  # last: what has it is whole
        undo.pop_all()
    return Session(plan, outline, log, fingerprint)


def _read_baseline(plan: Plan) -> bytes | None:
    if plan.baseline is None:
        return None
    with store_errors(plan.baseline):
        return plan.baseline.read_bytes()


def _describe_inputs(plan: Plan, outline: RunOutline) -> Iterator[dict[str, Any]]:
    for dataset, outlined in zip(plan.datasets, outline.datasets, strict=True):
        limited = limited_slices(outlined.thresholds)
        for sample in dataset.samples:
            yield input_record(dataset.name, add_slices(add_digest(sample), limited))


def resume_run(
    stored: StoredRun, plan: Plan, outline: RunOutline, fingerprint: Mapping[str, Any], *, retry_errors: bool
) -> Session:
    """Open a run to go on with it.

    Raises:
        InvalidInput: what it is made of has changed since it began; every change is named.
        StoreError: it is being written by another process, or cannot be read.
    """
    redaction = plan.loaded.references.redaction
    try:
        changes = list_changes(stored.fingerprint, change_fingerprint(fingerprint, redaction.hide_data))
        changes = changes or list_metric_changes(stored.outline, outline)
    except (KeyError, TypeError) as error:
        raise StoreError(f"{stored.folder}: its fingerprint is not complete: {error}. start a new run") from error
    if changes:
        fix = f"put it back, start a new run, or `evalspec rescore {stored.id} {plan.loaded.path}`"
        raise InvalidInput([Problem(f"run {stored.id} cannot be resumed: {change}", fix) for change in changes])
    log = RunLog(stored.folder, redact=redaction.hide_data, is_clean=redaction.is_clean, texts=outline.has_texts)
    with ExitStack() as undo:
        undo.callback(log.close)
        index = log.go_on_from(stored.read_index(redaction.restore_known))
        if any(list_damaged_inputs(stored)):
            log.write_inputs(_describe_inputs(plan, outline), metadata_keys(outline))
        described = stored.fingerprint["references"]
        lost = redaction.list_changed(described)
        _refuse_lost(stored, index, lost, redaction.names)
        known = stored.fingerprint
        if lost or redaction.names - described.keys():
            known = {**known, "references": described | redaction.describe()}
            log.write_description(known, outline_to_json(outline, redaction.hide_data))
        known_attempts = KnownAttempts(index, retry_errors=retry_errors, texts=outline.has_texts)
        undo.pop_all()
    return Session(plan, outline, log, known, known_attempts)


def keep_reuse(session: Session, url: str) -> dict[str, Any]:
    """The fingerprint of a run that asks what already answers at a url; it is on disk before anything is asked.

    Raises:
        StoreError: it cannot be written.
    """
    fingerprint = {**session.fingerprint, "agent": {**session.fingerprint["agent"], "reusedUrl": url}}
    redact = session.plan.loaded.references.redact_data
    session.log.write_description(fingerprint, outline_to_json(session.outline, redact))
    return fingerprint


def load_replies(stored: StoredRun, plan: Plan, outline: RunOutline, *, fresh: bool) -> KnownAttempts:
    """The replies of a run for another to score. Scores whose metric and sample are as they were count too, unless all
    are to be `fresh`.

    Raises:
        InvalidInput: the run was written without texts, so that there is nothing to score; or a reply hides a value
            that is not known here.
        StoreError: it cannot be read.
    """
    if not stored.outline.has_texts:
        raise InvalidInput(f"run {stored.id} was written with --no-content: it has no replies to score", "run it again")
    before = {(d.name, m.name): m.key for d in stored.outline.datasets for m in d.metrics if not m.skip_reason}
    usable = {
        dataset.name: {m.name for m in dataset.metrics if not fresh and before.get((dataset.name, m.name)) == m.key}
        for dataset in outline.datasets
    }
    references, described = plan.loaded.references, stored.fingerprint["references"]
    references.recover(described)
    lost = references.redaction.list_changed(described)
    index = stored.read_whole_index(references.redaction.restore_known)
    _refuse_lost(stored, index, lost, references.redaction.names, [dataset.name for dataset in plan.datasets])
    return KnownAttempts(index, is_own=False, usable=usable, changed=_find_changed_samples(stored, plan))


def _refuse_lost(
    stored: StoredRun,
    index: LogIndex,
    lost: Iterable[str],
    known: Collection[str],
    datasets: Collection[str] | None = None,
) -> None:
    """Raise where replies of these datasets quote lost values: they cannot be scored as they were.

    `known`: references that have a value now.
    """
    problems = []
    for reference in sorted(lost):
        keys = (key for key in index.list_hiding(reference) if datasets is None or key.dataset in datasets)
        names = sorted({key.sample_id for key in keys})
        if names:
            more = ", …" if len(names) > _NAMES_SHOWN else ""
            samples = f"{', '.join(names[:_NAMES_SHOWN])}{more}"
            state = "has another value now" if reference in known else "is not set"
            message = f"run {stored.id}: ${reference} {state}, and the replies to {samples} quote what it was"
            problems.append(Problem(message, "set it to what it was when the run began, or start a new run"))
    if problems:
        raise InvalidInput(problems)


def _find_changed_samples(stored: StoredRun, plan: Plan) -> frozenset[tuple[str, str]]:
    """Samples, by dataset and id, of which the dataset now says something else: no score of them counts."""
    before = {(dataset, sample.id): sample.digest for dataset, sample in stored.read_samples()}
    now = ((dataset.name, add_digest(sample)) for dataset in plan.datasets for sample in dataset.samples)
    return frozenset((name, sample.id) for name, sample in now if before.get((name, sample.id)) != sample.digest)


def metadata_keys(outline: RunOutline) -> set[str]:
    """The metadata that results are cut by: all that stays of it where texts are not kept."""
    named = {key for dataset in outline.datasets for key in (*(dataset.slices or ()), dataset.cluster) if key}
    limited = {t.slice.partition("=")[0] for d in outline.datasets for t in d.thresholds if t.slice}
    return (named | limited) - {TAGS}


def describe_resume(plan: Plan, run_id: str, *more: str) -> str:
    """What to type to go on with a run, as little trusted as now."""
    url = ("--url", strip_userinfo(plan.options.url)) if plan.options.url else ()
    return shlex.join(
        ["evalspec", "evaluate", str(plan.loaded.path), *url, *in_force().to_options(), "--resume", run_id, *more]
    )


def has_failures(run: Run) -> bool:
    """Whether anything could be had by trying again."""
    return any(
        len(dataset.samples) > dataset.answered or any(summary.failed for summary in dataset.metrics.values())
        for dataset in run.datasets
    )
