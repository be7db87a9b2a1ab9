"""Test the judge of a run: let it score cases that are known to be good or bad, as it scores replies."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from evalspec.base.plural import counted
from evalspec.model import Cause, Controls, Direction, Exchange, Need, Score, ScoreStatus
from evalspec.model.log import ControlsRecord
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.runner.scoring import score_exchange
from evalspec.runs.runner.session import Session
from evalspec.runs.runner.targets import ProgressListener
from evalspec.scoring.metrics.base import ControlKind, Metric
from evalspec.verdict.correction.controls import FEWEST, LEVEL, compute_p_value, plan_rounds

if TYPE_CHECKING:
    from evalspec.scoring.controls import ControlPair

NO_KIND = "none can be made from the data"
TOO_FEW = (
    f"they need {FEWEST} samples with an expected answer, and for each of them another sample whose answer and "
    "passages have fewer than half of their words in common with it"
)
_NOT_TESTED = "the scores are those of an earlier run, which has none"
_CASES_A_PAIR = 2

_Scores = tuple[list[Score], list[Score]]
"""The scores of known-good and of known-bad cases, in the same order."""


async def check_judge(session: Session, progress: ProgressListener) -> tuple[Controls, ...]:
    """Return what the judge makes of control cases, for each judged metric of the run, and store it.

    Only metrics that the judge has scored are tested. Results of an earlier session, or of the run whose scores are
    reused, are kept. Metrics are left out if the run ended before all cases were scored.

    Raises:
        StoreError: The log cannot be written.
        InvalidInput: A package that the judge needs is missing or broken.
    """
    plan, known = session.plan, session.known_attempts
    if not plan.policy.judge.controls:
        return ()
    plan.services.budget.go_on()
    examiner = _Examiner(session, progress)
    tested = [dataset for dataset in plan.datasets if dataset.tests_judge]
    found = [one for dataset in tested for one in await examiner.examine(dataset)]
    if known is None or not known.is_own or tuple(found) != known.index.controls:
        used = plan.services.usage.take_new(), plan.services.budget.take_milliseconds()
        session.log.conclude_with(ControlsRecord(tuple(found), *used))
    return tuple(found)


class _Exam(Struct):
    """Control cases of one kind for some metrics of a dataset, and their scores so far by metric."""

    dataset: str
    metrics: Sequence[Metric]
    pairs: "Sequence[ControlPair]"
    scores: dict[str, _Scores] = field(default_factory=dict)

    async def ask(self, metrics: Sequence[Metric], done: int, size: int, at_once: asyncio.Semaphore) -> None:
        """Let the judge score the pairs from `done` to `size`. `at_once`: as many cases as may be scored at a time."""
        cases = [case for pair in self.pairs[done:size] for case in (pair.good, pair.bad)]

        async def score(number: int, case: Exchange) -> Mapping[str, Score]:
            async with at_once:
                place = (self.dataset, _CASES_A_PAIR * done + number)
                return await score_exchange(metrics, case, attempt=place)

        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(score(number, case)) for number, case in enumerate(cases, 1)]
        for metric in metrics:
            good, bad = self.scores.setdefault(metric.name, ([], []))
            found = [task.result()[metric.name] for task in asked]
            good += found[::_CASES_A_PAIR]
            bad += found[1::_CASES_A_PAIR]


class _Examiner:
    """Tests the judge of a session, dataset by dataset."""

    def __init__(self, session: Session, progress: ProgressListener) -> None:
        self._plan, self._progress = session.plan, progress
        earlier = session.known_attempts
        self._is_rescored = earlier is not None and not earlier.is_own
        self._known = {(one.dataset, one.metric): one for one in (earlier.index.controls if earlier else ())}
        self._asked = set(_list_answered(session.plan))
        if earlier is not None and earlier.is_own:
            self._asked |= earlier.index.judge_usage.keys()
        self._at_once = asyncio.Semaphore(session.plan.judge.concurrency if session.plan.judge else 1)

    async def examine(self, dataset: PlannedDataset) -> list[Controls]:
        """Return the results of a dataset, in the order of its metrics."""
        judged = [metric for metric in dataset.computed if Need.JUDGE in metric.needs]
        found = {one.name: kept for one in judged if (kept := self._recall(dataset.name, one)) is not None}
        due = [one for one in judged if one.name not in found and self._is_due(one)]
        if any(map(find_kind, due)):
            self._progress.say(f"{dataset.name}: testing the judge with control cases")
        for kind in dict.fromkeys(map(find_kind, due)):
            own = [one for one in due if find_kind(one) is kind]
            found |= await self._test(dataset, own, kind)
        return [found[one.name] for one in judged if one.name in found]

    def _recall(self, dataset: str, metric: Metric) -> Controls | None:
        """Return a result that is still right: of this run, or of the run whose scores are all reused."""
        known = self._known.get((dataset, metric.name))
        if not self._is_rescored:
            return None if known is None or known.distinguishes is None else known
        if is_among(self._asked, metric):
            return None
        return known or Controls(dataset=dataset, metric=metric.name, reason=_NOT_TESTED)

    def _is_due(self, metric: Metric) -> bool:
        """Return whether the judge has scored a reply on a metric, or will in a batch. A judge that is down has not."""
        if self._plan.options.shard is not None:  # another shard may be asked on the metric
            return bool(self._asked)
        return self._plan.services.batches is not None or is_among(self._asked, metric)

    async def _test(
        self, dataset: PlannedDataset, metrics: Sequence[Metric], kind: ControlKind | None
    ) -> dict[str, Controls]:
        from evalspec.scoring.controls import make_controls

        pairs = make_controls(kind, dataset.selected) if kind else []
        rounds = plan_rounds(len(pairs))
        if not rounds:
            reason = TOO_FEW if kind else NO_KIND
            return {one.name: Controls(dataset=dataset.name, metric=one.name, reason=reason) for one in metrics}
        exam = _Exam(dataset.name, metrics, pairs)
        found: dict[str, Controls | None] = {}
        done, undecided = 0, list(metrics)
        for size in rounds:
            await exam.ask(undecided, done, size, self._at_once)
            found |= {one.name: _decide(one, dataset.name, exam.scores[one.name], len(rounds)) for one in undecided}
            undecided = [one for one in undecided if (result := found[one.name]) and result.distinguishes is False]
            done = size
            if not undecided:
                break
        return {name: one for name, one in found.items() if one is not None}


def find_kind(metric: Metric) -> ControlKind | None:
    """Return how control cases of a metric are made; None if they cannot be."""
    return (metric.root or metric).definition.control


def _list_answered(plan: Plan) -> list[str]:
    """Return the metrics for which the judge, or its cache, has answered in this session."""
    return [name for name, used in plan.services.usage.by_metric.items() if used.calls or used.cached]


def is_among(names: set[str], metric: Metric) -> bool:
    """Return whether a metric, or the one that it is derived from, is among names."""
    root = metric.root or metric
    return not names.isdisjoint((root.name, root.definition.name))


def _decide(metric: Metric, dataset: str, scores: _Scores, rounds: int) -> Controls | None:
    """Return whether the judge distinguishes good from bad; None if the run ended before all were scored."""
    pairs = list(zip(*scores, strict=True))
    if any(one.cause is Cause.STOPPED for pair in pairs for one in pair):
        return None
    scored = [pair for pair in pairs if all(one.status is ScoreStatus.SCORED for one in pair)]
    good, bad = ([_read_value(metric, pair[side]) for pair in scored] for side in (0, 1))
    found = Controls(dataset=dataset, metric=metric.name, good=tuple(good), bad=tuple(bad))
    if len(scored) < FEWEST:
        return structs.replace(found, reason=f"only {counted(len(scored), 'pair')} of {len(pairs)} could be scored")
    sign = 1 if metric.definition.direction is Direction.HIGHER else -1
    p_value = compute_p_value([sign * value for value in good], [sign * value for value in bad])
    return structs.replace(found, p_value=p_value, distinguishes=p_value <= LEVEL / rounds)


def _read_value(metric: Metric, score: Score) -> float:
    read = metric.definition.judged_part
    return read(score) if read else score.value or 0.0
