"""Test whether the judge of a run is the one of its calibration: let it grade some of the same replies again."""

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import EvalspecError
from evalspec.base.plural import counted
from evalspec.model import AgentReply, Exchange, Need, Sample, Score, ScoreStatus
from evalspec.model.calibrations import JudgeAnchors, MetricAnchors, StoredAnchor
from evalspec.model.corrections import Drift, JudgeDrift
from evalspec.model.log import ControlsRecord
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.planning.inputs import read_judge_anchors
from evalspec.runs.runner.controls import is_among
from evalspec.runs.runner.scoring import score_exchange
from evalspec.runs.runner.session import Session
from evalspec.runs.runner.targets import ProgressListener
from evalspec.runs.store.run_store import RunStore
from evalspec.runs.store.stored_run import open_run
from evalspec.scoring.metrics.base import Metric
from evalspec.verdict.correction.drift import (
    FEWEST_ANCHORS,
    FEWEST_FRESH,
    MOST_FRESH,
    Anchor,
    compute_drift_p_value,
    count_first_anchors,
    decide_drift,
)

Drifts = Mapping[str, Mapping[str, JudgeDrift]]
_Case = tuple[StoredAnchor, Sample]
_MOST_READ = 50
"""The newest runs of the store that may have found a change. A run on another machine finds it by itself."""
_NOT_ASKED = "the judge was asked about no reply in this session, or answers in batches"


async def check_drift(session: Session, progress: ProgressListener) -> Drifts:
    """Return by dataset and metric whether the judge has changed since the calibration that the manifest names.

    Only metrics are tested that the judge was asked about in this session: verdicts from its cache are of another time.

    Raises:
        InvalidInput: The anchors cannot be read.
        StoreError: The log cannot be written.
    """
    plan, known = session.plan, session.known_attempts
    anchors = read_judge_anchors(plan.loaded)
    if anchors is None:
        return session.fingerprint.judge_drifts
    asked = {name for name, used in plan.services.usage.by_metric.items() if used.calls}
    found: dict[str, dict[str, JudgeDrift]] = {}
    changed, tests = _list_changed(session, anchors.run), [*_list_tests(plan, anchors)]
    for own, dataset, metric in (one for one in tests if one[1].tests_judge):
        drift = JudgeDrift(calibration=anchors.run, then=anchors.models)
        if (dataset.name, metric.name) in changed:
            drift = changed[dataset.name, metric.name]
        elif is_among(asked, metric):
            progress.say(f"{dataset.name}: testing whether the judge of {metric.name} has changed")
            plan.services.budget.go_on()
            drift = await _DriftTest(session, dataset, metric, own, len(tests)).run(drift)
        else:
            earlier = session.fingerprint.judge_drifts.get(dataset.name, {}).get(metric.name)
            drift = earlier or replace(drift, reason=_NOT_ASKED)
        found.setdefault(dataset.name, {})[metric.name] = drift
    if asked:
        used = plan.services.usage.take_new(), plan.services.budget.take_milliseconds()
        controls = known.index.controls if known is not None and known.is_own else ()
        session.log.conclude_with(ControlsRecord(controls, *used))
    return found


def _list_changed(session: Session, calibration: str) -> dict[tuple[str, str], JudgeDrift]:
    """Return the changes that the newest runs of the store have found: a calibration that is void stays so."""
    found: dict[tuple[str, str], JudgeDrift] = {}
    for folder in RunStore(session.log.place.parent.parent).list()[:_MOST_READ]:
        with suppress(EvalspecError):  # a run that cannot be read has said so to its readers
            for dataset, drifts in open_run(folder).fingerprint.judge_drifts.items():
                for metric, drift in drifts.items():
                    if drift.calibration == calibration and drift.state is Drift.DRIFTED:
                        found[dataset, metric] = drift
    return found


def _list_tests(plan: Plan, anchors: JudgeAnchors) -> Iterator[tuple[MetricAnchors, PlannedDataset, Metric]]:
    """Yield the anchors of the judged metrics of a run."""
    datasets = {one.name: one for one in plan.datasets}
    for own in anchors.metrics:
        dataset = datasets.get(own.dataset)
        metric = None if dataset is None else dataset.metrics.get(own.metric)
        if dataset is not None and metric is not None and Need.JUDGE in metric.needs and metric.skip_reason is None:
            yield own, dataset, metric


def _say_remedy(grades: int, cases: int) -> str:
    """Return how a run of so many grades gets enough anchors. `cases`: those of the calibration."""
    shares = (percent / 100 for percent in range(1, 101))
    enough = next((one for one in shares if count_first_anchors(grades, one, cases) >= FEWEST_ANCHORS), None)
    return "calibrate with more anchors" if enough is None else f"set anchorShare to {enough:g}"


class _DriftTest(Struct):
    """The test of one metric in one run. `tests`: how many metrics the run tests, which share the level."""

    session: Session
    dataset: PlannedDataset
    metric: Metric
    kept: MetricAnchors
    tests: int

    async def run(self, drift: JudgeDrift) -> JudgeDrift:
        """Return the result: of the first anchors, and of the others if these are suspicious."""
        reason = self._explain_void()
        cases = [] if reason else self._deal()
        plan = self.session.plan
        grades = len(self.dataset.selected) * plan.options.repeat * plan.options.judge_repeat
        share = plan.policy.judge.anchor_share
        first = count_first_anchors(grades, share, len(cases))
        if reason is None and first < FEWEST_ANCHORS:
            limits = f"ciGate.judge.anchorShare {share:g} of {counted(grades, 'grade')}"
            kept = counted(len(cases), "reply", "replies")
            needed = f"and the calibration's {kept} for this dataset allow {first}, and {FEWEST_ANCHORS} are needed"
            reason = f"{limits} {needed}: {_say_remedy(grades, len(cases))}"
        if reason is not None:
            return replace(drift, reason=reason)
        fresh = await self._ask(cases[:first], FEWEST_FRESH)
        anchors = [*_list_anchors(cases, fresh)]
        if len(anchors) < FEWEST_ANCHORS:
            return replace(drift, reason=f"the judge graded only {counted(len(anchors), 'reply', 'replies')} again")
        p_values: tuple[float, ...] = (compute_drift_p_value(anchors),)
        state = decide_drift(p_values[0])
        if state is Drift.SUSPECTED:
            again = await self._ask(cases[:first], MOST_FRESH - FEWEST_FRESH)
            fresh = {sample: (*grades, *again.get(sample, ())) for sample, grades in fresh.items()}
            fresh |= await self._ask(cases[first:], MOST_FRESH)
            anchors = [*_list_anchors(cases, fresh)]
            p_values = (*p_values, compute_drift_p_value(anchors))
            state = decide_drift(*p_values, tests=self.tests)
        return replace(drift, state=state, anchors=len(anchors), p_values=p_values)

    def _explain_void(self) -> str | None:
        """Return why the calibration is not about this metric; None if it is."""
        described = self.session.fingerprint.find_dataset(self.dataset.name)
        now = described.metric_identities.get(self.metric.name, {}) if described else {}
        then = self.kept.identity
        parts = sorted(part for part in {*now, *then} if str(now.get(part)) != then.get(part))
        return f"the calibration is void: {', '.join(parts)} changed" if parts else None

    def _deal(self) -> list[_Case]:
        """Return the anchors whose samples are unchanged, in an order of their own for each run."""
        samples = {sample.id: sample for sample in self.dataset.selected}
        known = [
            (one, samples[one.sample])
            for one in self.kept.anchors
            if one.sample in samples and samples[one.sample].digest == one.digest
        ]
        run = self.session.log.id
        return sorted(known, key=lambda case: hashlib.sha256(f"{run} {case[0].sample}".encode()).digest())

    async def _ask(self, cases: Sequence[_Case], repeats: int) -> dict[str, tuple[float, ...]]:
        """Return the judge's new grades by sample. No grade is from the cache or goes into it."""
        judge = self.session.plan.judge
        at_once = asyncio.Semaphore(judge.concurrency if judge else 1)

        async def grade(anchor: StoredAnchor, sample: Sample) -> Score:
            exchange = Exchange(sample, AgentReply(anchor.response, anchor.retrieved_contexts))
            async with at_once:
                scores = await score_exchange([self.metric], exchange, judge_repeats=repeats)
            return scores[self.metric.name]

        async with asyncio.TaskGroup() as group:
            tasks = {anchor.sample: group.create_task(grade(anchor, sample)) for anchor, sample in cases}
        graded = {sample: task.result() for sample, task in tasks.items()}
        return {sample: score.repeats for sample, score in graded.items() if score.status is ScoreStatus.SCORED}


def _list_anchors(cases: Sequence[_Case], fresh: Mapping[str, tuple[float, ...]]) -> Iterator[Anchor]:
    for stored, _ in cases:
        grades = fresh.get(stored.sample, ())
        if len(grades) >= FEWEST_FRESH:
            yield Anchor(stored.scores, grades)
