"""Conclude a run: summaries, thresholds, verdict and exit code from the results of its samples."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import ExitCode
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import (
    Cause,
    Controls,
    DatasetResult,
    Direction,
    JudgeUsage,
    MeasurementChange,
    PeopleScores,
    RegressionOutcome,
    Run,
    SampleResult,
    Score,
    ScoreStatus,
    SliceResult,
    Verdict,
    VerdictStatus,
    describe_reuse,
    list_unenforced,
)
from evalspec.model.exchanges import QUESTION_CHANGED
from evalspec.model.fingerprints import Fingerprint, list_judge_notes, list_part_notes, list_reply_notes
from evalspec.runs.runner.fingerprint import public_part
from evalspec.runs.runner.open_gate import leave_gate_open
from evalspec.runs.runner.replies import (
    compute_stages,
    list_doubtful_measurements,
    list_result_notes,
    reports_stages,
)
from evalspec.runs.runner.second_attempts import SecondAttempts, list_second, list_second_notes
from evalspec.verdict.attempts import compute_repeats
from evalspec.verdict.correction.controls import (
    doubt_limit,
    doubt_regression,
    list_control_notes,
    list_order_notes,
    list_panel_notes,
)
from evalspec.verdict.gate import compute_outcome, compute_verdict, doubt_lost
from evalspec.verdict.outline import DatasetOutline, MetricOutline, RunOutline
from evalspec.verdict.summary import MIN_SLICE, group_by_slice, summarise
from evalspec.verdict.validity.coverage import LostSamples, exceeds_share
from evalspec.verdict.wording import list_left_out, list_opinion_notes

if TYPE_CHECKING:
    from evalspec.verdict.comparison.baseline import Baseline
    from evalspec.verdict.correction.people import People


class RunMetadata(Struct, frozen=True):
    """Everything about a run except its scores.

    `fingerprint`: the inputs of the run. `baseline`: what to compare with. `own_lag_ms`: p95 of this process's own lag
    during requests. `notes`: further notes for the report. `unfinished`: what is missing of a run that was ended.
    `second`: results of second attempts, with their outline, that confirm drops; or why there are none. `people`: what
    people say about the judge's scores. `controls`: what the judge makes of control cases.
    """

    fingerprint: Fingerprint = Fingerprint()
    baseline: "Baseline | None" = None
    own_lag_ms: float = 0.0
    judge_usage: Mapping[str, JudgeUsage] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unfinished: str | None = None
    second: SecondAttempts | str = "a broken threshold fails the run in any case"
    people: tuple[PeopleScores, ...] = ()
    controls: tuple[Controls, ...] = ()

    def people_of(self, dataset: str) -> "People":
        """Return what people say about the scores of a dataset, by metric."""
        return {one.metric: one for one in self.people if one.dataset == dataset}


def conclude(
    outline: RunOutline, run_id: str, results: Sequence[Sequence[SampleResult]], run_metadata: RunMetadata
) -> Run:
    """Return the finished Run. `results`: the results of all samples, for each dataset of the outline."""
    if run_metadata.fingerprint.shard is not None:
        outline, run_metadata = leave_gate_open(outline), replace(run_metadata, baseline=None)
    second = () if isinstance(run_metadata.second, str) else run_metadata.second[1]
    run_metadata = replace(run_metadata, unfinished=run_metadata.unfinished or _find_end([*results, *second]))
    lost = {
        planned.name: _find_lost(planned, found, run_metadata.baseline, outline.policy)
        for planned, found in zip(outline.datasets, results, strict=True)
    }
    datasets = tuple(
        _dataset(planned, found, outline, lost[planned.name], run_metadata)
        for planned, found in zip(outline.datasets, results, strict=True)
    )
    skipped = any(metric.skip_reason for dataset in outline.datasets for metric in dataset.metrics)
    left_out = any(sample.error == QUESTION_CHANGED for dataset in datasets for sample in dataset.samples)
    found = _regressions(outline, datasets, run_metadata)
    asked = _doubt_judged(found, outline, datasets, run_metadata)
    regressions = tuple(doubt_regression(one, run_metadata.controls) for one in asked)
    verdict = compute_verdict(
        datasets, outline.policy, partial=outline.partial or skipped or left_out, regressions=regressions, lost=lost
    )
    if run_metadata.fingerprint.shard is not None:
        verdict = verdict._replace(status=VerdictStatus.SHARD, reasons=tuple(filter(None, [run_metadata.unfinished])))
    if run_metadata.unfinished is not None and verdict.status is VerdictStatus.PASS:
        verdict = verdict._replace(status=VerdictStatus.INCOMPLETE, reasons=(run_metadata.unfinished,))
    reuse = describe_reuse(run_metadata.fingerprint)
    notes = [
        *run_metadata.notes,
        *([reuse] if reuse else []),
        *list_part_notes(run_metadata.fingerprint),
        *list_reply_notes(run_metadata.fingerprint),
        *list_judge_notes(run_metadata.fingerprint),
        *list_panel_notes(run_metadata.fingerprint.judge, datasets),
        *list_order_notes(datasets),
        *_baseline_notes(run_metadata, regressions),
        *_list_lost_notes(lost, outline.policy, verdict.reasons),
        *list_second_notes(run_metadata.second),
        *list_result_notes(datasets, run_metadata.own_lag_ms),
        *list_control_notes(run_metadata.controls),
        *list_opinion_notes(datasets, outline.policy, run_id),
        *list_left_out(run_metadata.people),
        *(note for dataset in datasets for note in list_unenforced(dataset.name, dataset.limits)),
    ]
    return Run(
        id=run_id,
        verdict=verdict.status,
        partial=verdict.partial,
        exit_code=_exit_code(verdict, datasets, is_complete=run_metadata.unfinished is None),
        reasons=verdict.reasons,
        notes=tuple(notes),
        has_texts=outline.has_texts,
        regressions=regressions,
        measurement=(*_list_changes(outline, datasets, run_metadata), *list_doubtful_measurements(datasets, outline)),
        fingerprint=public_part(run_metadata.fingerprint),
        judge_usage=run_metadata.judge_usage,
        judge_costs=run_metadata.fingerprint.compute_costs(run_metadata.judge_usage),
        controls=run_metadata.controls,
        datasets=datasets,
    )


def _find_end(results: Sequence[Sequence[SampleResult]]) -> str | None:
    """Return why the run stopped before all scores, None if it did not."""
    scores = (score for samples in results for sample in samples for score in sample.scores.values())
    ends = (one.reason for one in scores if one.cause is Cause.STOPPED and one.status is ScoreStatus.FAILED)
    return next((reason or "the run stopped before all scores" for reason in ends), None)


def _regressions(
    outline: RunOutline, datasets: Sequence[DatasetResult], run_metadata: RunMetadata
) -> tuple[RegressionOutcome, ...]:
    """Return the outcomes of the regression limits. Empty if the gate has no baseline."""
    name = outline.policy.baseline
    if name is None:
        return ()
    if run_metadata.baseline is None:
        origin = run_metadata.fingerprint.baseline
        missing = f"there is no baseline '{name}'; write it with `evalspec runs promote RUN --as {name}`"
        reason = missing if origin is None or origin.problem is None else origin.problem
        return (RegressionOutcome("", None, VerdictStatus.INCOMPLETE, reason=reason, of_baseline=True),)
    from evalspec.verdict.comparison.confirmation import confirm
    from evalspec.verdict.comparison.regression import decide_regressions

    compared = (outline.policy, run_metadata.fingerprint)
    removed = {dataset.name: dataset.removed for dataset in outline.datasets}
    people = run_metadata.people
    outcomes = decide_regressions(run_metadata.baseline, datasets, *compared, removed=removed, people=people)
    if run_metadata.unfinished is not None:
        return tuple(_leave_open(one, run_metadata.unfinished) if one.rests_on_test else one for one in outcomes)
    second = list_second(run_metadata.second, datasets)
    return confirm(outcomes, run_metadata.baseline, second, *compared, removed)


def _doubt_judged(
    outcomes: Sequence[RegressionOutcome],
    outline: RunOutline,
    datasets: Sequence[DatasetResult],
    run_metadata: RunMetadata,
) -> Iterator[RegressionOutcome]:
    """Yield the outcomes of the regression limits, those of judged metrics as far as people's labels support them."""
    judged = {(one.name, metric.name) for one in outline.datasets for metric in one.metrics if metric.is_opinion}
    if not judged:
        yield from outcomes
        return
    from evalspec.verdict.correction.sufficiency import doubt_comparison

    every = (*run_metadata.people, *(run_metadata.baseline.people if run_metadata.baseline else ()))
    summaries = {(one.name, name): summary for one in datasets for name, summary in one.metrics.items()}
    for one in outcomes:
        key = one.dataset, one.metric or ""
        said = [own for own in every if (own.dataset, own.metric) == key]
        yield doubt_comparison(one, summaries[key].correction, said, outline.policy.judge) if key in judged else one


def _leave_open(outcome: RegressionOutcome, why: str) -> RegressionOutcome:
    return replace(outcome, status=VerdictStatus.INCOMPLETE, reason=f"{outcome.reason}; {why}", worsened={})


def _list_changes(
    outline: RunOutline, datasets: tuple[DatasetResult, ...], run_metadata: RunMetadata
) -> Iterator[MeasurementChange]:
    """Yield what changed in the measurement since the baseline."""
    if run_metadata.baseline is not None:
        from evalspec.verdict.comparison.measurement import list_measurement_changes

        baseline = run_metadata.baseline.run
        yield from list_measurement_changes(baseline, datasets, outline, run_metadata.fingerprint)


def _dataset(
    planned: DatasetOutline,
    samples: Sequence[SampleResult],
    outline: RunOutline,
    lost: LostSamples,
    run_metadata: RunMetadata,
) -> DatasetResult:
    people = run_metadata.people_of(planned.name)
    metrics = {metric.name: metric for metric in planned.metrics}
    gated = samples if outline.has_texts else [_without_reasons(sample) for sample in samples]
    thresholds = tuple(
        doubt_lost(
            compute_outcome(threshold, metrics[threshold.metric], gated, outline.policy, planned.cluster, people),
            metrics[threshold.metric],
            gated,
            lost,
            outline.policy,
            planned.cluster,
            people,
        )
        for threshold in planned.thresholds
    )
    thresholds = tuple(doubt_limit(threshold, planned.name, run_metadata.controls) for threshold in thresholds)
    is_repeated = max(outline.repeats, outline.judge_repeats) > 1
    result = DatasetResult(
        **(planned.state() | {"thresholds": thresholds}),
        samples=tuple(samples),
        metrics=summarise(samples, planned.metrics, planned.cluster, people),
        slices=_slices(planned, samples, people),
        repeats=compute_repeats(samples, planned, outline.repeats) if is_repeated else None,
        stages=compute_stages(samples) if planned.retriever or reports_stages(samples) else (),
    )
    return result.with_limits()


def _find_lost(
    planned: DatasetOutline, samples: Sequence[SampleResult], baseline: "Baseline | None", policy: CiGate
) -> LostSamples:
    """Return the samples of the baseline that are gone from a dataset's file or edited, if they are above maxRemoved.

    A baseline knows the slices that were limited then. Any of its samples may be in another slice.
    """
    before = baseline.run.find_dataset(planned.name) if baseline else None
    if before is None:
        return LostSamples()
    from evalspec.verdict.comparison.pairing import is_edited

    now = {sample.id: sample for sample in samples}
    edited = [now[old.id] for old in before.samples if old.id in now and is_edited(old, now[old.id])]
    if not exceeds_share(len(planned.removed) + len(edited), len(before.samples), policy.max_removed):
        return LostSamples()
    gone, unknown = set(planned.removed), {one.slice for one in planned.thresholds if one.slice}
    unknown -= {one.slice for one in before.thresholds}
    removed = [replace(one, slices=(*one.slices, *unknown)) for one in before.samples if one.id in gone]
    return LostSamples(tuple(removed), tuple(edited))


def _list_lost_notes(lost: Mapping[str, LostSamples], policy: CiGate, reasons: Sequence[str]) -> Iterator[str]:
    """Yield the datasets that lost more samples than is allowed, unless a reason of the verdict says so."""
    for name, one in lost.items():
        if one and not any(one.counted in reason for reason in reasons):
            share = f"more than the share of {policy.max_removed:g} that ciGate.maxRemoved allows"
            yield f"{name}: {one.counted}, {share}. no outcome depends on it"


def _without_reasons(sample: SampleResult) -> SampleResult:
    """Return the sample without the reasons of scores that are not applicable, so that no threshold quotes them."""
    attempts = tuple(replace(attempt, scores=_bare_scores(attempt.scores)) for attempt in sample.attempts)
    return replace(sample, scores=_bare_scores(sample.scores), attempts=attempts)


def _bare_scores(scores: Mapping[str, Score]) -> dict[str, Score]:
    return {
        metric: replace(score, reason=None) if score.status is ScoreStatus.NOT_APPLICABLE else score
        for metric, score in scores.items()
    }


def _slices(planned: DatasetOutline, samples: Sequence[SampleResult], people: "People") -> tuple[SliceResult, ...]:
    """Return the slices, worst first, small ones last.

    They are ordered by the first metric with a threshold, or else by the first metric.
    """
    computed = [metric for metric in planned.metrics if not metric.skip_reason]
    limited = {threshold.metric for threshold in planned.thresholds}
    leading = next((metric for metric in computed if metric.name in limited), next(iter(computed), None))
    found = []
    for name, members in group_by_slice(samples, planned.slices).items():
        summaries = summarise(members, planned.metrics, planned.cluster, people)
        told = summaries[leading.name].expected - summaries[leading.name].failed if leading else len(members)
        small = min(told, len(members)) < MIN_SLICE
        found.append(SliceResult(name=name, selected=len(members), small=small, metrics=summaries))
    if leading is None:
        return tuple(found)
    return tuple(sorted(found, key=lambda part: (part.small, *_badness(part, leading))))


def _badness(part: SliceResult, leading: MetricOutline) -> tuple[bool, float]:
    """Return a sort key: the worst value first, slices without a value last."""
    value = part.metrics[leading.name].value
    if value is None:
        return True, 0.0
    return False, value if leading.direction is Direction.HIGHER else -value


def _exit_code(verdict: Verdict, datasets: Sequence[DatasetResult], *, is_complete: bool) -> ExitCode:
    if verdict.status is VerdictStatus.FAIL:
        return ExitCode.GATE_FAILED
    if verdict.status is VerdictStatus.INCOMPLETE or not is_complete:
        return ExitCode.UNMEASURED
    measured = any(summary.scored for d in datasets if d.answered for summary in d.metrics.values())
    return ExitCode.OK if measured or verdict.status is VerdictStatus.SHARD else ExitCode.UNMEASURED


def _baseline_notes(run_metadata: RunMetadata, regressions: Sequence[RegressionOutcome]) -> list[str]:
    origin, started = run_metadata.fingerprint.baseline, run_metadata.fingerprint.started_at
    notes = [] if origin is None else [origin.describe(started)]
    if run_metadata.baseline is None:
        return notes
    from evalspec.verdict.comparison.comparability import describe_choice
    from evalspec.verdict.comparison.confirmation import list_advice

    note = describe_choice(run_metadata.baseline.run)
    return [*notes, *([note] if note else []), *list_advice(regressions, run_metadata.baseline)]
