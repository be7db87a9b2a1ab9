"""One session of a run: started, resumed, or rescoring the replies of another run."""

import re
import shlex
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from hashlib import sha256
from itertools import repeat
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.plural import name_some
from evalspec.base.text import strip_userinfo
from evalspec.base.trust import current_trust
from evalspec.inputs.datasets.filters import TAGS
from evalspec.model import PeopleScores, Run
from evalspec.model.corrections import JudgeDrift
from evalspec.model.fingerprints import AgentDigest, Fingerprint
from evalspec.model.log import InputRecord
from evalspec.runs.planning.build import Plan
from evalspec.runs.runner.fingerprint import list_changes, list_metric_changes
from evalspec.runs.runner.known_attempts import KnownAttempts
from evalspec.runs.runner.origin import compare_origin
from evalspec.runs.store.batch_log import BatchLog, begin_batch_log
from evalspec.runs.store.damage import list_damaged_inputs
from evalspec.runs.store.files import store_errors
from evalspec.runs.store.log_index import LogIndex
from evalspec.runs.store.log_records import change_fingerprint
from evalspec.runs.store.run_log import RunLog
from evalspec.runs.store.run_store import RunStore
from evalspec.runs.store.stored_run import StoredRun
from evalspec.scoring.judge.cache_file import CacheFile, refuse_tracked
from evalspec.scoring.judge.usage import Learned
from evalspec.verdict.outline import RunOutline, outline_to_json
from evalspec.verdict.summary import add_slices, limited_slices

_SETTING = re.compile(r"(?:set|check) chatEndpoint\.(path|protocol|request|response\.\w+)|\((response\.\w+)\)")
"""How errors of replies name what the manifest gets wrong."""

_OF_JUDGE = (
    "judge_refused",
    "judge_models",
    "judge_system_fingerprints",
    "judge_cached_models",
    "judge_cached",
    "judge_drifts",
)
_FREE_TO_CHANGE = ("judge_price", "user_price", "limits", "no_cache", "fresh")
"""Fields of the fingerprint that change no measurement, so that a run is resumed with new ones."""
_MOST_LEARNED = 100
"""Names of models of one judge. More are of an endpoint that makes them up."""


class Session(Struct, frozen=True):
    """A plan with the open log of its run and the attempts that are already stored.

    `collect_people`: returns what people say about the scores of the run, once it has them; None: nobody says anything.
    """

    plan: Plan
    outline: RunOutline
    log: RunLog
    fingerprint: Fingerprint
    known_attempts: KnownAttempts | None = None
    collect_people: Callable[[], tuple[PeopleScores, ...]] | None = None


def begin_run(
    store: RunStore,
    plan: Plan,
    outline: RunOutline,
    fingerprint: Fingerprint,
    now: datetime,
    short_id: str | None = None,
) -> Session:
    """Create a run. Its description is on disk before the first request. `short_id`: see RunStore.create.

    Raises:
        StoreError: The run cannot be written.
    """
    redaction = plan.loaded.references.redaction
    baseline = _read_baseline(plan)
    digest = None if baseline is None else sha256(baseline).hexdigest()
    fingerprint = replace(fingerprint, references=redaction.describe(), baseline_sha256=digest)
    log = store.create(now, short_id, **_log_options(plan, outline))
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, log.folder, ignore_errors=True)  # nothing was measured yet
        undo.callback(log.close)
        log.write_inputs(_describe_inputs(plan, outline), metadata_keys(outline))
        if baseline is not None:
            log.write_baseline(baseline)
        if plan.options.batch:
            begin_batch_log(log.place)
        log.write_description(
            fingerprint, outline_to_json(outline, redaction.hide_data)
        )  # last: it marks a complete folder
        undo.pop_all()
    return Session(plan, outline, log, fingerprint)


def _log_options(plan: Plan, outline: RunOutline) -> dict[str, Any]:
    hidden = plan.loaded.references.redaction
    return {
        "redact": hidden.hide_data,
        "is_clean": hidden.is_clean,
        "describe": hidden.describe,
        "texts": outline.has_texts,
    }


def _read_baseline(plan: Plan) -> bytes | None:
    if plan.baseline is None:
        return None
    with store_errors(plan.baseline):
        return plan.baseline.read_bytes()


def _describe_inputs(plan: Plan, outline: RunOutline) -> Iterator[InputRecord]:
    for dataset, outlined in zip(plan.datasets, outline.datasets, strict=True):
        limited = limited_slices(outlined.thresholds)
        positions = repeat(None) if dataset.whole is None else dataset.whole.own
        for sample, position in zip(dataset.samples, positions, strict=False):
            yield InputRecord(dataset.name, add_slices(sample, limited), position)


class InputsChanged(InvalidInput):
    """The inputs of a run have changed since it began, so it cannot be resumed."""


def resume_run(
    stored: StoredRun, plan: Plan, outline: RunOutline, fingerprint: Fingerprint, *, retry_errors: bool
) -> Session:
    """Open a stored run to resume it.

    Raises:
        InputsChanged: The inputs of the run have changed. Lists all changes.
        StoreError: Another process is writing the run, or it cannot be read.
    """
    redaction = plan.loaded.references.redaction
    changes = list_changes(stored.fingerprint, change_fingerprint(fingerprint, redaction.hide_data))
    changes = changes or list_metric_changes(stored.outline, outline)
    if changes:
        fix = "undo the change, start a new run, or score what is there: "
        fix += f"`evalspec rescore {stored.id} {plan.loaded.path}`. `git stash` undoes changes for now"
        problems = [Problem(f"run {stored.id} cannot be resumed: {change}") for change in changes]
        raise InputsChanged([*problems[:-1], replace(problems[-1], fix=fix)])  # one fix for all of them
    log = RunLog(stored.folder, **_log_options(plan, outline))
    with ExitStack() as undo:
        undo.callback(log.close)
        index = log.go_on_from(stored.read_index(redaction.restore_known))
        if any(list_damaged_inputs(stored)):
            log.write_inputs(_describe_inputs(plan, outline), metadata_keys(outline))
        described = stored.fingerprint.references
        lost = redaction.list_changed(described)
        _refuse_lost(stored, index, lost, redaction.names)
        known = stored.fingerprint
        log.description = known, outline_to_json(outline, redaction.hide_data)
        changed: dict[str, Any] = {
            name: getattr(fingerprint, name)
            for name in _FREE_TO_CHANGE
            if getattr(fingerprint, name) != getattr(known, name)
        }
        if lost or redaction.described - described.keys():
            changed["references"] = {**described, **redaction.describe()}
        if changed:
            known = replace(known, **changed)
            log.write_description(known, log.description[1])
        known_attempts = KnownAttempts(index, retry_errors=retry_errors, texts=outline.has_texts)
        undo.pop_all()
    return Session(plan, outline, log, known, known_attempts)


def uses_cache(plan: Plan, folder: Path) -> bool:
    """Return whether a run uses the judge's cache. A project that is not trusted could write scores into it.

    Raises:
        InvalidInput: Git tracks the cache, so a pull request could write scores into it.
    """
    if plan.options.no_cache or not plan.judged or current_trust().is_limited:
        return False
    refuse_tracked(folder)
    return True


def open_cache(session: Session, folder: Path) -> None:
    """Let the judge of a run use the cache in a folder."""
    from evalspec.scoring.judge.cache import JudgeCache

    plan, redaction = session.plan, session.plan.loaded.references.redaction
    plan.services.cache = JudgeCache(
        CacheFile(folder),
        session.log.id,
        hide=redaction.hide_data,
        restore=redaction.restore_known,
        has_texts=session.outline.has_texts,
        is_fresh=plan.options.fresh or plan.policy.fresh,
    )


def open_batches(session: Session) -> None:
    """Let the judge of a run answer in batches, as the log of its batches says.

    Raises:
        StoreError: The log cannot be read.
        JudgeError: The judge cannot answer in batches.
    """
    redaction, log = session.plan.loaded.references.redaction, session.log
    begin_batch_log(log.place)
    batches = BatchLog(log.place, redaction.hide_data, redaction.restore_known)
    services = session.plan.services
    services.open_batches(log.id, batches.read(), batches.append)
    if services.batches is not None and session.known_attempts is not None and session.known_attempts.retry_errors:
        services.batches.retry_errors()


def keep_reuse(session: Session, url: str) -> Fingerprint:
    """Return the fingerprint of a run that uses an already running agent, and store it before the first request.

    Raises:
        StoreError: The fingerprint cannot be written.
    """
    agent = replace(session.fingerprint.agent or AgentDigest(), reused_url=url)
    fingerprint = replace(session.fingerprint, agent=agent)
    return _keep(session.plan, session.outline, session.log, fingerprint)


def keep_learned(
    plan: Plan, outline: RunOutline, log: RunLog, fingerprint: Fingerprint, learned: Learned
) -> Fingerprint:
    """Return the fingerprint with what its replies say about the judge, and store it if it is new.

    Raises:
        StoreError: The fingerprint cannot be written.
    """
    added = {}
    for name, found in learned.items():
        known = getattr(fingerprint, name)
        if len(known) < _MOST_LEARNED and not found.items() <= known.items():
            added[name] = {**known, **found}
    return _keep(plan, outline, log, replace(fingerprint, **added)) if added else fingerprint


def keep_drifts(
    session: Session, fingerprint: Fingerprint, drifts: Mapping[str, Mapping[str, JudgeDrift]]
) -> Fingerprint:
    """Return the fingerprint with whether the judge has changed since its calibration, and store it if it is new.

    Raises:
        StoreError: The fingerprint cannot be written.
    """
    if drifts == fingerprint.judge_drifts:
        return fingerprint
    return _keep(session.plan, session.outline, session.log, replace(fingerprint, judge_drifts=drifts))


def describe_reused(stored: StoredRun, outline: RunOutline, known: KnownAttempts) -> dict[str, Any]:
    """Return what the fingerprint of a stored run says about its judge's replies, if any judged score is reused."""
    usable = known.usable or {}
    judged = any(
        one.judged and one.name in usable[dataset.name] for dataset in outline.datasets for one in dataset.metrics
    )
    return {name: getattr(stored.fingerprint, name) for name in _OF_JUDGE if judged}


def _keep(plan: Plan, outline: RunOutline, log: RunLog, fingerprint: Fingerprint) -> Fingerprint:
    redact = plan.loaded.references.redact_data
    log.write_description(fingerprint, outline_to_json(outline, redact))
    return fingerprint


def load_replies(stored: StoredRun, plan: Plan, outline: RunOutline, *, fresh: bool) -> KnownAttempts:
    """Return the replies of a stored run, for another run to score.

    Scores are reused if metric and sample are unchanged, and replies to another question are left out. `fresh`: reuse
    no scores.

    Raises:
        InvalidInput: The run was stored without texts, or a redacted value of a reply is unknown or has changed.
        StoreError: The run cannot be read.
    """
    if not stored.outline.has_texts:
        raise InvalidInput(f"run {stored.id} was written with --no-content: it has no replies to score", "run it again")
    before = {(d.name, m.name): m.key for d in stored.outline.datasets for m in d.metrics if not m.skip_reason}
    usable = {
        dataset.name: {m.name for m in dataset.metrics if not fresh and before.get((dataset.name, m.name)) == m.key}
        for dataset in outline.datasets
    }
    references, described = plan.loaded.references, stored.fingerprint.references
    references.recover(described)
    lost = references.redaction.list_changed(described)
    index = stored.read_whole_index(references.redaction.restore_known)
    _refuse_lost(stored, index, lost, references.redaction.names, [dataset.name for dataset in plan.datasets])
    edited, origin = compare_origin(index, plan)
    changed = _find_changed_samples(stored, plan)
    return KnownAttempts(index, is_own=False, usable=usable, changed=changed, edited=edited, origin=origin)


def _refuse_lost(
    stored: StoredRun,
    index: LogIndex,
    lost: Iterable[str],
    known: Collection[str],
    datasets: Collection[str] | None = None,
) -> None:
    """Raise if replies of the datasets quote values that are lost, because such replies cannot be restored and scored.

    `lost`: references whose value is unknown or has changed. `known`: references that have a value now.
    """
    problems = []
    for reference in sorted(lost):
        keys = (key for key in index.list_hiding(reference) if datasets is None or key.dataset in datasets)
        names = sorted({key.sample_id for key in keys})
        if names:
            samples = name_some(names)
            state = "has changed" if reference in known else "is not set"
            message = f"run {stored.id}: ${reference} {state}, and the replies to {samples} quote the original value"
            problems.append(Problem(message, "restore the value that it had when the run started, or start a new run"))
    if problems:
        raise InvalidInput(problems)


def _find_changed_samples(stored: StoredRun, plan: Plan) -> frozenset[tuple[str, str]]:
    """Return the samples (dataset, id) that have changed in their dataset. Their scores are not reused."""
    before = {(dataset, sample.id): sample.digest for dataset, sample in stored.read_samples()}
    now = ((dataset.name, sample) for dataset in plan.datasets for sample in dataset.samples)
    return frozenset((name, sample.id) for name, sample in now if before.get((name, sample.id)) != sample.digest)


def metadata_keys(outline: RunOutline) -> set[str]:
    """Return the metadata keys used for slices and clusters. Without texts, only these are stored."""
    named = {key for dataset in outline.datasets for key in (*(dataset.slices or ()), dataset.cluster) if key}
    limited = {t.slice.partition("=")[0] for d in outline.datasets for t in d.thresholds if t.slice}
    return (named | limited) - {TAGS}


def describe_resume(plan: Plan, run_id: str, *more: str) -> str:
    """Return the command that resumes a run, with the same restrictions on trust."""
    url = ("--url", strip_userinfo(plan.options.url)) if plan.options.url else ()
    return shlex.join(
        ["evalspec", "evaluate", str(plan.loaded.path), *url, *current_trust().to_options(), "--resume", run_id, *more]
    )


def find_setting_to_fix(run: Run) -> str | None:
    """Return the setting of the manifest that every reply failed for, so that no retry helps; None if there is none."""
    errors = {sample.error for dataset in run.datasets for sample in dataset.samples}
    found = _SETTING.search(errors.pop() or "") if len(errors) == 1 else None
    return f"chatEndpoint.{found[1] or found[2]}" if found else None


def has_failures(run: Run) -> bool:
    """Return whether a run has failed attempts or scores, so that a retry may help."""
    return any(
        len(dataset.samples) > dataset.answered or any(summary.failed for summary in dataset.metrics.values())
        for dataset in run.datasets
    )
