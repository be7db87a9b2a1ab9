"""Calibrate the judge of a run with people's labels, apply that to other runs, and measure how stable the judge is."""

import random
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput
from evalspec.base.plural import counted
from evalspec.curation.labels.cases import LabelledRun
from evalspec.curation.labels.judged_run import JudgedRun, explain_unknown
from evalspec.curation.labels.opinions import Place, collect_opinions
from evalspec.model import Score, ScoreStatus
from evalspec.model.calibrations import (
    AppliedCalibration,
    JudgeAnchors,
    JudgeCalibration,
    MetricAnchors,
    MetricCalibration,
    MetricStability,
    Stability,
    StoredAnchor,
    TransportedShare,
)
from evalspec.model.corrections import DrawKind, Drift, PeopleScore, PeopleScores
from evalspec.model.fingerprints import describe_drift
from evalspec.model.labels import Label
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.verdict.correction.agreement import RepeatedGrades, measure_stability
from evalspec.verdict.correction.calibrating import Pair, find_cut, measure_calibration
from evalspec.verdict.correction.controls import describe_order
from evalspec.verdict.correction.drift import FEWEST_ANCHORS, FEWEST_STORED
from evalspec.verdict.correction.rates import RunScores, apply_calibration
from evalspec.verdict.outline import MetricOutline

_SEED = 20_251_121

SEQUENTIAL = "of --until-decided, which stopped when the threshold was decided"
UNEQUAL = "at random, because their replies were more likely to be drawn than others"


def calibrate(run: str = "latest", *, metric: str | None = None, store: Path | str = STORE) -> JudgeCalibration:
    """Return how well the judge of a run agrees with people on replies that were drawn at random and labelled blindly.

    Args:
        run: Id of a run, its beginning, a name of the run, or `latest`.
        metric: Only this one. Default: every metric that has a judge.
        store: Folder of the runs.

    Raises:
        InvalidInput: There is no such run or metric, no metric has a judge, or nobody labelled a reply.
        StoreError: The run is damaged.
    """
    opened = LabelledRun(RunStore(Path(store)), run)
    return calibrate_run(opened, opened.files.read_all(), metric)


def calibrate_run(run: JudgedRun, labels: Collection[Label], metric: str | None = None) -> JudgeCalibration:
    """Return the calibration of a run that is open, from labels of any run. Errors are those of `calibrate`."""
    names = _choose_metrics(run, metric)
    people = collect_opinions(run, labels, names)
    if not any(one.scores for one in people):
        name = metric or names[0]
        fix = f"label replies: evalspec label {run.id} --metric {shlex.quote(name)} --random 50"
        raise InvalidInput(f"run {run.id} has no blind random labels of {_list_names(names)}", fix)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return JudgeCalibration(run=run.id, at=now, metrics=tuple(_calibrate_metric(run, one) for one in people))


def choose_anchors(
    run: str = "latest", most: int = 50, *, metric: str | None = None, store: Path | str = STORE
) -> JudgeAnchors:
    """Return replies with blind random labels and three or more grades of the judge, for `ciGate.judge.calibration`.

    Args:
        run: Id of a run, its beginning, a name of the run, or `latest`.
        most: Number of replies of each metric, at most.
        metric: Only this one. Default: every metric that has a judge.
        store: Folder of the runs.

    Raises:
        InvalidInput: There is no such run or metric, it has no texts, or too few labelled replies have three grades.
        StoreError: The run is damaged.
    """
    opened = LabelledRun(RunStore(Path(store)), run)
    opened.require_texts()
    _refuse_panel(opened)
    people = collect_opinions(opened, opened.files.read_all(), _choose_metrics(opened, metric))
    found = [
        MetricAnchors(
            dataset=one.dataset,
            metric=one.metric,
            identity=_find_identity(opened, one.dataset, one.metric),
            anchors=tuple(islice(_list_anchors(opened, one), most)),
        )
        for one in people
    ]
    kept = tuple(one for one in found if len(one.anchors) >= FEWEST_ANCHORS)
    if not kept:
        message = f"run {opened.id} has fewer than {FEWEST_ANCHORS} labelled replies with {FEWEST_STORED} grades each"
        again = f"evalspec rescore {opened.id} agent.yaml --judge-repeat {FEWEST_STORED}"
        raise InvalidInput(message, f"grade them, and name the new run: {again}")
    models = tuple(sorted(opened.stored.fingerprint.judge_models.values()))
    return JudgeAnchors(run=opened.id, models=models, metrics=kept)


def _list_anchors(run: JudgedRun, people: PeopleScores) -> Iterator[StoredAnchor]:
    for one in people.scores:
        case = run.read_case((people.dataset, one.id, one.attempt, people.metric))
        if case is None or case.exchange.reply is None or case.score is None or case.exchange.sample.digest is None:
            continue
        if len(case.score.repeats) >= FEWEST_STORED:
            reply = case.exchange.reply
            yield StoredAnchor(
                sample=one.id, digest=case.exchange.sample.digest, response=reply.response,
                retrieved_contexts=reply.retrieved_contexts, scores=case.score.repeats,
            )  # fmt: skip


def stability(run: str = "latest", *, metric: str | None = None, store: Path | str = STORE) -> Stability:
    """Return how much the grades of one reply differ in a run with several gradings of each.

    Args:
        run: Id of a run, its beginning, a name of the run, or `latest`.
        metric: Only this one. Default: every metric that has a judge.
        store: Folder of the runs.

    Raises:
        InvalidInput: There is no such run or metric, no metric has a judge, or each reply was graded once.
        StoreError: The run is damaged.
    """
    opened = LabelledRun(RunStore(Path(store)), run)
    _refuse_panel(opened)
    names = _choose_metrics(opened, metric)
    found = tuple(_measure_metric(opened, dataset, one) for dataset, one in _list_metrics(opened, names))
    if not any(one.replies for one in found):
        fix = f"grade them three times: evalspec rescore {opened.id} agent.yaml --judge-repeat 3"
        raise InvalidInput(f"run {opened.id} has one grade of each reply", fix)
    return Stability(run=opened.id, metrics=found)


def apply(calibration: JudgeCalibration, run: str = "latest", *, store: Path | str = STORE) -> AppliedCalibration:
    """Return the share of good replies in a run, if its judge errs as it did in a calibration.

    A calibration of another judge, prompt or rubric is void, which the `reason` of the metric says.

    Args:
        calibration: Of `calibrate`, or as `read_calibration` returns it.
        run: Id of a run, its beginning, a name of the run, or `latest`.
        store: Folder of the runs.

    Raises:
        InvalidInput: There is no such run.
        StoreError: The run is damaged.
    """
    opened = LabelledRun(RunStore(Path(store)), run)
    found = tuple(_apply_metric(opened, calibration, one) for one in calibration.metrics)
    return AppliedCalibration(run=opened.id, calibration=calibration.run, metrics=found)


def _refuse_panel(run: JudgedRun) -> None:
    if run.stored.fingerprint.judge is not None and run.stored.fingerprint.judge.panel:
        message = f"the grades of run {run.id} are of several judges, and each graded once"
        raise InvalidInput(message, "name a run with one judge, graded several times")


def _choose_metrics(run: JudgedRun, metric: str | None) -> list[str]:
    names = list(dict.fromkeys(one.name for _, one in _list_metrics(run)))
    if metric is not None and metric not in names:
        raise InvalidInput(explain_unknown("metric", metric, names, run.id))
    if not names:
        raise InvalidInput(f"run {run.id} has no judged metric", "name a run with one")
    return names if metric is None else [metric]


def _list_metrics(run: JudgedRun, names: Collection[str] | None = None) -> Iterator[tuple[str, MetricOutline]]:
    """Yield the judged metrics with their datasets. `names`: only these."""
    for dataset, outline in run.outlines.items():
        yield from ((dataset, one) for one in outline.metrics if one.judged and (names is None or one.name in names))


def _list_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else "its judged metrics"


def _calibrate_metric(run: JudgedRun, people: PeopleScores) -> MetricCalibration:
    outline = run.find_metric(people.dataset, people.metric)
    scores = _list_scores(run, people.dataset, people.metric)
    chosen, left_out = _choose_labels(people)
    pairs = [
        Pair(one.id, one.attempt, run.find_unit(people.dataset, one.id), score.value, one.value, score.reason)
        for one in chosen
        if (score := scores.get((one.id, one.attempt))) is not None and score.value is not None
    ]
    found = MetricCalibration(
        dataset=people.dataset,
        metric=people.metric,
        identity=_find_identity(run, people.dataset, people.metric),
        samples_sha256=_hash_samples(run, people.dataset),
        labels=len(chosen),
        unscored=len(chosen) - len(pairs),
        left_out=left_out,
        notes=tuple(_list_notes(people, scores)),
    )
    if not chosen:
        return replace(found, reason="there are no blind random labels")
    every = [one.value for one in scores.values() if one.value is not None]
    return measure_calibration(found, outline, find_cut(outline, run.outlines[people.dataset].thresholds), pairs, every)


def _choose_labels(people: PeopleScores) -> tuple[list[PeopleScore], dict[str, int]]:
    """Return labels that are a simple random sample, and how many are left out, by reason.

    Rates among good replies need replies that were all drawn with the same probability. Of those with a higher one, a
    random part is taken.
    """
    fixed = [one for one in people.scores if one.draw.kind is not DrawKind.SEQUENTIAL]
    least = min((one.draw.probability or 1.0 for one in fixed), default=1.0)
    generator = random.Random(_SEED)  # noqa: S311 - a choice, not a secret
    ordered = sorted(fixed, key=lambda one: (one.id, one.attempt))
    chosen = [one for one in ordered if generator.random() < least / (one.draw.probability or 1.0)]
    counts = {SEQUENTIAL: len(people.scores) - len(fixed), UNEQUAL: len(fixed) - len(chosen)}
    return chosen, {**people.left_out, **{reason: count for reason, count in counts.items() if count}}


def _list_notes(people: PeopleScores, every: Collection[Place]) -> Iterator[str]:
    """Yield what to know about labels of other runs. `every`: all replies of the run."""
    if people.unchanged and not set(every) <= set(people.unchanged):
        few = f"only {len(people.unchanged):,} of {counted(len(every), 'reply', 'replies')} are those of earlier runs"
        yield f"{few}, from which labels were drawn: no random part of this run"


def _list_scores(run: JudgedRun, dataset: str, metric: str) -> Mapping[Place, Score]:
    """Return the score of each answered attempt to which the metric applies."""
    return {
        (sample.id, attempt): scores[metric]
        for sample, attempts in run.list_answered(dataset)
        for attempt, scores in attempts
        if metric in scores and scores[metric].status is not ScoreStatus.NOT_APPLICABLE
    }


def _find_identity(run: JudgedRun, dataset: str, metric: str) -> dict[str, str]:
    return {part: str(value) for part, value in run.find_identity(dataset, metric).items()}


def _hash_samples(run: JudgedRun, dataset: str) -> str | None:
    return next((one.samples_sha256 for one in run.stored.fingerprint.datasets if one.name == dataset), None)


def _measure_metric(run: JudgedRun, dataset: str, metric: MetricOutline) -> MetricStability:
    scores = _list_scores(run, dataset, metric.name)
    replies = [RepeatedGrades(run.find_unit(dataset, sample), score.repeats) for (sample, _), score in scores.items()]
    cut = find_cut(metric, run.outlines[dataset].thresholds)
    found = measure_stability(dataset, metric.name, cut and cut[0], replies)
    swapped = describe_order(scores.values())
    return replace(found, notes=(*found.notes, swapped)) if swapped else found


def _apply_metric(run: JudgedRun, calibration: JudgeCalibration, kept: MetricCalibration) -> TransportedShare:
    dataset, metric = kept.dataset, kept.metric
    if dataset not in run.outlines or not run.has_metric(dataset, metric):
        return TransportedShare(dataset=dataset, metric=metric, reason=f"run {run.id} has no {metric} of {dataset}")
    scores = _list_scores(run, dataset, metric)
    drift = run.stored.fingerprint.judge_drifts.get(dataset, {}).get(metric)
    if drift is not None and drift.state is Drift.DRIFTED:
        reason = describe_drift(run.stored.fingerprint, drift)
        known = sum(one.value is not None for one in scores.values())
        return TransportedShare(
            dataset=dataset, metric=metric, replies=known, missing=len(scores) - known,
            reason=f"the calibration is void: {reason}",
        )  # fmt: skip
    own = RunScores(
        scores=[one.value for one in scores.values()],
        units=[run.find_unit(dataset, sample) for sample, _ in scores],
        identity=_find_identity(run, dataset, metric),
        samples_sha256=_hash_samples(run, dataset),
    )
    cut = find_cut(run.find_metric(dataset, metric), run.outlines[dataset].thresholds)
    return apply_calibration(kept, calibration.run, cut, own)
