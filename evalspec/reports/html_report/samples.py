"""The samples as columns for sorting and filtering a table, without their texts."""

from collections.abc import Sequence
from typing import Any

from evalspec.model import DatasetResult, Run, SampleResult, SampleStatus, Score, ScoreStatus
from evalspec.reports.affected_samples import AffectedSamples, find_failure_causes
from evalspec.reports.findings import is_beyond, limits_of, metrics_of
from evalspec.reports.html_report.page_data import PageData
from evalspec.reports.markup.elements import group
from evalspec.reports.markup.samples import draw_columns
from evalspec.reports.markup.text_budget import TextBudget
from evalspec.reports.worst import list_worst


def describe_dataset(dataset: DatasetResult, room: TextBudget, foreign: PageData) -> dict[str, Any]:
    """Return what the table of the samples of a dataset needs at first: its titles, as elements."""
    metrics = metrics_of(dataset)
    return {
        "name": foreign.show(dataset.name),
        "samples": len(dataset.samples),
        "metrics": foreign.show(metrics),
        "head": foreign.show_element(group(draw_columns(metrics, room))),
    }


def describe_samples(
    run: Run, number: int, concerned: Sequence[AffectedSamples | None], foreign: PageData
) -> dict[str, Any]:
    """Return the columns of a dataset, with an entry per sample. `foreign` prepares ids and tags for the page.

    `values` are by metric. `beyond` lists the samples whose score fails a
    threshold. `rank` is the position of a sample among the failures, worst first. `concerned` has the samples that a
    reason of the verdict is about, by the number of the reason.
    """
    dataset = run.datasets[number]
    samples = dataset.samples
    metrics = metrics_of(dataset)
    limits = limits_of(dataset)
    ranks = {trouble.id: rank for rank, trouble in enumerate(list_worst(dataset, find_failure_causes(run)[number]))}
    beyond = [
        [n for n, sample in enumerate(samples) if is_beyond(sample, metric, sample.scores.get(metric), limits)]
        for metric in metrics
    ]
    broken = {number for numbers in beyond for number in numbers}
    tags = {tag: number for number, tag in enumerate(dict.fromkeys(tag for s in samples for tag in s.tags))}
    return {
        "ids": [foreign.show(sample.id) for sample in samples],
        "states": [_states(sample, number in broken) for number, sample in enumerate(samples)],
        "rank": [ranks.get(sample.id) for sample in samples],
        "latency": [_short(sample.latency_ms) for sample in samples],
        "tagNames": foreign.show(list(tags)),
        "tags": [[tags[tag] for tag in sample.tags] for sample in samples],
        "values": [[_value(sample.scores.get(metric)) for sample in samples] for metric in metrics],
        "beyond": beyond,
        "concerned": {
            reason: found.places for reason, found in enumerate(concerned) if found and found.dataset == number
        },
    }


def _states(sample: SampleResult, is_beyond: bool) -> str:
    """Return the letters of a sample's states, most severe first: failed, flaky, beyond limit, passed."""
    failed = sample.status is SampleStatus.FAILED or any(
        score.status is ScoreStatus.FAILED for score in sample.scores.values()
    )
    rate = sample.pass_rate
    below = is_beyond or (rate == 0.0 and not failed)
    told = {"f": failed, "y": rate is not None and 0.0 < rate < 1.0, "b": below, "p": rate == 1.0}
    return "".join(letter for letter, holds in told.items() if holds)


def _value(score: Score | None) -> float | None:
    return _short(score.value) if score else None


def _short(value: float | None) -> float | None:
    """Round to seven digits, more than a table shows. Thresholds were checked with the exact value."""
    return None if value is None else float(f"{value:.7g}")
