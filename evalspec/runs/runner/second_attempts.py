"""The second attempts that confirm drops: which samples and metrics they are about, and their results."""

from collections.abc import Sequence

from msgspec.structs import replace

from evalspec.base.plural import counted, pluralize
from evalspec.model import DatasetResult, Run, SampleResult, VerdictStatus
from evalspec.model.fingerprints import Fingerprint
from evalspec.verdict.outline import DatasetOutline, RunOutline
from evalspec.verdict.summary import summarise

SecondAttempts = tuple[RunOutline, Sequence[Sequence[SampleResult]]]
"""Results of second attempts by dataset, with their outline."""


def list_second(second: SecondAttempts | str, datasets: Sequence[DatasetResult]) -> list[DatasetResult] | str:
    """Return the datasets with second attempts, or why there are none."""
    if isinstance(second, str):
        return second
    first, pairs = {dataset.name: dataset for dataset in datasets}, zip(second[0].datasets, second[1], strict=True)
    return [_repeat_dataset(first[planned.name], planned, found) for planned, found in pairs]


def _repeat_dataset(first: DatasetResult, planned: DatasetOutline, samples: Sequence[SampleResult]) -> DatasetResult:
    """Return a dataset with second attempts, on some of its metrics."""
    metrics = summarise(samples, planned.metrics, planned.cluster)
    limits = tuple(limit for limit in first.thresholds if limit.metric in metrics)
    return replace(first, samples=tuple(samples), metrics=metrics, thresholds=limits)


def outline_second(outline: RunOutline, run: Run) -> RunOutline | None:
    """Return the datasets and metrics with a drop to confirm; None if no test decides the verdict.

    A run that breaks an absolute limit fails in any case, so nothing is asked again.
    """
    broken = any(limit.status is VerdictStatus.FAIL for dataset in run.datasets for limit in dataset.thresholds)
    doubted = [one for one in run.regressions if one.rests_on_test]
    if broken or not doubted:
        return None
    wanted: dict[str, set[str]] = {}
    for one in doubted:
        dataset = next(dataset for dataset in outline.datasets if dataset.name == one.dataset)
        limited = {limit.metric for limit in dataset.thresholds}
        named = limited if one.metric is None else {one.metric}
        rules = [metric.passes for metric in dataset.metrics if metric.passes and metric.name in named]
        deciding = (limited if rule.of is None else {rule.of} for rule in rules)
        wanted.setdefault(one.dataset, set()).update(named, *deciding)
    return replace(
        outline,
        datasets=tuple(
            replace(
                dataset,
                metrics=tuple(metric for metric in dataset.metrics if metric.name in wanted[dataset.name]),
                thresholds=tuple(limit for limit in dataset.thresholds if limit.metric in wanted[dataset.name]),
            )
            for dataset in outline.datasets
            if dataset.name in wanted
        ),
    )


def explain_no_second(fingerprint: Fingerprint) -> str | None:
    """Return why the samples of a run cannot be asked again, None if they can."""
    if fingerprint.responses:
        return "the replies are recorded, so they would be the same"
    origin = fingerprint.rescored_from
    return f"the replies are those of run {origin}" if origin else None


def list_second_notes(second: SecondAttempts | str) -> list[str]:
    """Return a note with the number of second attempts."""
    if isinstance(second, str):
        return []
    outline, results = second
    attempts = outline.repeats * sum(map(len, results))
    return [f"{counted(attempts, 'second attempt')} {pluralize(attempts, 'was', 'were')} made to confirm a drop"]
