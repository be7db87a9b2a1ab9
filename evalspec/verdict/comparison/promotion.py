"""Promote runs to baselines: as a new one, in place of another, or added to the attempts of one."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from evalspec.base.errors import InvalidInput
from evalspec.model import DatasetResult, PeopleScores, Run, SampleStatus
from evalspec.model.fingerprints import Repeats
from evalspec.verdict.comparison.baseline import (
    Acceptance,
    AcceptedLoss,
    Baseline,
    common_datasets,
    count_attempts,
    list_pooled,
)
from evalspec.verdict.comparison.comparability import (
    explain_parts,
    list_content_mismatches,
    list_metric_mismatches,
    list_mismatches_by_reason,
)
from evalspec.verdict.comparison.confirmation import ENOUGH_ATTEMPTS
from evalspec.verdict.comparison.pairing import (
    common_metrics,
    compute_delta,
    is_cost,
    pair_samples,
    pair_scores,
    sign_of,
)
from evalspec.verdict.comparison.stored_scores import (
    StoredSample,
    from_stored,
    pool_values,
    to_stored,
    to_stored_sample,
)

_ROUNDING = 1e-9


def refuse_stopped(run: Run) -> None:
    """Check that a run has all its scores: those of one that stopped early are chosen by when it stopped.

    Raises:
        InvalidInput: the run asked the judge no further, because of a limit or of --fail-fast.
    """
    if any(dataset.is_stopped(metric) for dataset in run.datasets for metric in dataset.metrics):
        fix = f"resume it without --fail-fast and with higher limits: evalspec evaluate … --resume {run.id}"
        raise InvalidInput(f"run {run.id} stopped before all scores, so it cannot become a baseline", fix)


def promote(
    run: Run, over: Baseline | None, reason: str | None, at: str, people: tuple[PeopleScores, ...] = ()
) -> Baseline:
    """Return the baseline of a run that takes the place of another one, whose anchor it keeps.

    `reason`: why the run becomes the anchor itself, so that its losses are accepted; None if it does not. `at`: when.
    `people`: what people say about the scores of the run.
    """
    anchor = None if over is None else over.anchor or over.run
    accepted = None if over is None else over.accepted
    if anchor is None or anchor.id == run.id:
        return Baseline(run, accepted=accepted, people=people)
    if reason is None:
        return Baseline(run, anchor, accepted, people)
    losses = [
        AcceptedLoss(dataset, metric, before, after) for dataset, metric, before, after in list_losses(anchor, run)
    ]
    return Baseline(run, None, Acceptance(at, reason, anchor.id, tuple(losses)), people)


def list_losses(anchor: Run, run: Run) -> list[tuple[str, str, float, float]]:
    """Return dataset, metric, and the means over the common samples in both runs, of all metrics that are worse now."""
    return [
        (after.name, metric, found.baseline, found.candidate)
        for before, after in common_datasets(anchor, run)
        for metric, statistic in common_metrics(before, after).items()
        if not is_cost(metric, statistic) and not list_metric_mismatches(anchor, run, after.name, metric)
        for found in [compute_delta(pair_scores(pair_samples(before, after).both, metric).pick(), metric, statistic)]
        if found.baseline is not None and found.candidate is not None
        if sign_of(after.metrics[metric].direction) * (found.candidate - found.baseline) < -_ROUNDING
    ]


def add_run(baseline: Baseline, run: Run) -> Baseline:
    """Return a baseline with the attempts of another run of the same evaluation added.

    Attempts beyond those of a full pool may be of a slowly decaying agent, so the full pool becomes the anchor.

    Raises:
        InvalidInput: the run is in it already, or measured something else.
    """
    pooled = list_pooled(baseline.run)
    if run.id in [one.id for one in pooled]:
        raise InvalidInput(f"run {run.id} is in this baseline already", "add another run of the same evaluation")
    for difference in _list_unequal(baseline.run, run):
        fix = "evaluate again without changes and add that run, or promote this one without --add"
        raise InvalidInput(f"run {run.id} cannot be added: {difference}", fix)
    datasets = tuple(_pool(before, after) for before, after in common_datasets(baseline.run, run))
    runs = [*pooled, *list_pooled(run)]
    fingerprint = replace(
        baseline.run.fingerprint,
        runs=tuple(runs),
        repeats=Repeats(sum(one.attempts for one in runs)),
        judge_models={**baseline.run.fingerprint.judge_models, **run.fingerprint.judge_models},
    )
    partial = baseline.run.partial or run.partial
    anchor = baseline.anchor or (baseline.run if count_attempts(baseline.run) >= ENOUGH_ATTEMPTS else None)
    pool = replace(baseline.run, datasets=datasets, fingerprint=fingerprint, partial=partial)
    return replace(baseline, run=pool, anchor=anchor, people=())


def _list_unequal(baseline: Run, run: Run) -> Iterator[str]:
    if parts := explain_parts(baseline, run):
        yield parts
    names = [[dataset.name for dataset in one.datasets] for one in (baseline, run)]
    if names[0] != names[1]:
        yield f"its datasets are {', '.join(names[1])}, those of the baseline {', '.join(names[0])}"
    for before, after in common_datasets(baseline, run):
        pairs = pair_samples(before, after)
        if pairs.describe_unpaired():
            yield f"dataset {after.name}: it has other samples{pairs.describe_unpaired()}"
        yield from list_content_mismatches(baseline, run, after.name, after.name)
        if before.metrics.keys() != after.metrics.keys():
            yield f"dataset {after.name}: it has other metrics"
        yield from list_mismatches_by_reason(baseline, run, after.name, common_metrics(before, after), after.name)


def _pool(before: DatasetResult, after: DatasetResult) -> DatasetResult:
    """Return a dataset with the attempts of both at each sample."""
    added = {sample.id: to_stored_sample(sample) for sample in after.samples}
    described = to_stored(before)
    samples = tuple(_pool_sample(sample, added[sample.id]) for sample in described.samples)
    return from_stored(replace(described, samples=samples))


def _pool_sample(one: StoredSample, other: StoredSample) -> StoredSample:
    passes = [*_list_passes(one), *_list_passes(other)]
    return replace(
        one,
        status=SampleStatus.FAILED if SampleStatus.FAILED in (one.status, other.status) else one.status,
        pass_rate=None if None in passes else passes.count(True) / len(passes),
        scores={metric: pool_values(metric, value, other.scores[metric]) for metric, value in one.scores.items()},
        passes=tuple(passes),
    )


def _list_passes(sample: StoredSample) -> Sequence[bool | None]:
    if isinstance(sample.passes, tuple):
        return sample.passes
    return [None if sample.pass_rate is None else sample.pass_rate == 1]
