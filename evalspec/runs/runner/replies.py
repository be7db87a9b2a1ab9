"""What replies show besides their scores: latencies, irregularities, failures, and what makes numbers doubtful."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from evalspec.base.plural import counted, name_some, pluralize
from evalspec.model import (
    FIRST_TOKEN,
    NOT_ASKED,
    STAGES,
    TOTAL,
    Attempt,
    Cause,
    DatasetResult,
    MeasurementChange,
    SampleResult,
    SampleStatus,
    ScoreStatus,
    StageLatency,
    VerdictStatus,
    is_cut_off,
)
from evalspec.verdict.outline import RunOutline
from evalspec.verdict.stats.descriptive import compute_statistic
from evalspec.verdict.validity.estimates import FEW
from evalspec.verdict.wording import is_latency

_NOTES_SHOWN = 5
_LAG_SHARE = 0.1
"""Share of a failed latency threshold's value above which the lag of this process is reported."""

_ODDITIES = {
    "duplicates": "{count} hits with a duplicate id, in {queries}; the first rank counts",
    "outOfOrder": "{count} hits with a higher score than the hit before, in {queries}; the order of the hits counts",
    "unknown": "{count} hits of documents that are not in the dataset, in {queries}",
    "fewer": "{queries} returned fewer distinct documents than the {top_k} requested",
    "askedAgain": "{queries} took more than one search, because chunks of one document count once",
    "undiagnosed": "{queries} could not be searched deeper for the missing documents",
}
"""The note for each kind of irregularity."""


def compute_stages(samples: Iterable[SampleResult]) -> tuple[StageLatency, ...]:
    """Return percentiles of each reported stage and of the total, over all attempts."""
    taken: dict[str, list[float]] = defaultdict(list)
    for attempt in list_attempts(samples):
        for stage, ms in attempt.timings_ms.items():
            taken[stage].append(ms)
        if attempt.latency_ms is not None:
            taken[TOTAL].append(attempt.latency_ms)
    known = (FIRST_TOKEN, *STAGES)
    own = [stage for stage in taken if stage not in (*known, TOTAL)]
    return tuple(_stage(stage, taken[stage]) for stage in (*known, *own, TOTAL) if stage in taken)


def reports_stages(samples: Iterable[SampleResult]) -> bool:
    """Return whether the time of any stage is known."""
    return any(attempt.timings_ms for attempt in list_attempts(samples))


def _stage(stage: str, taken: Sequence[float]) -> StageLatency:
    return StageLatency(stage, len(taken), *(compute_statistic(taken, share) for share in ("p50", "p95", "p99")))


def describe_oddities(samples: Iterable[SampleResult], top_k: int) -> list[str]:
    """Return the irregularities of the replies, one line per kind."""
    hits: Counter[str] = Counter()
    queries: Counter[str] = Counter()
    for attempt in list_attempts(samples):
        for kind, count in attempt.oddities.items():
            hits[kind] += count
            queries[kind] += 1
    return [
        text.format(count=f"{hits[kind]:,}", queries=_queries(queries[kind]), top_k=top_k)
        for kind, text in _ODDITIES.items()
        if queries[kind]
    ]


def _queries(count: int) -> str:
    return counted(count, "query", "queries")


def list_attempts(samples: Iterable[SampleResult]) -> Iterator[Attempt | SampleResult]:
    """Return all attempts. A sample with a single attempt stands for it."""
    for sample in samples:
        yield from sample.attempts or (sample,)


_FEWEST_SAME = 5
_SHARE_SAME = 0.25
_SHARE_STUCK = 0.9
_FEWEST_JUDGED = 10


def list_doubtful_measurements(datasets: Sequence[DatasetResult], outline: RunOutline) -> Iterator[MeasurementChange]:
    """Yield retries of the agent, equal answers to different questions, and judged metrics with a single value."""
    yield from _list_retries(datasets)
    yield from _list_same_answers(datasets)
    yield from _list_one_value(datasets, outline)


def _list_retries(datasets: Sequence[DatasetResult]) -> Iterator[MeasurementChange]:
    for dataset in datasets:
        retries = sum(sample.retries or 0 for sample in dataset.samples)
        if retries:
            attempts = sum(len(sample.attempts) or 1 for sample in dataset.samples)
            repeated = f"{counted(retries, 'request')} failed and {pluralize(retries, 'was', 'were')} repeated"
            yield MeasurementChange("retries", dataset.name, f"{repeated}, for {counted(attempts, 'attempt')}")


def _list_same_answers(datasets: Sequence[DatasetResult]) -> Iterator[MeasurementChange]:
    """Yield an answer to many questions: if those samples fail, or if it is the answer to nearly all."""
    for dataset in datasets:
        total = len({sample.digest or sample.id for sample in dataset.samples})
        failing = [sample for sample in dataset.samples if sample.pass_rate != 1]
        counts = [(_count_same(failing), _SHARE_SAME), (_count_same(dataset.samples), _SHARE_STUCK)]
        doubtful = [count for count, share in counts if count >= _FEWEST_SAME and count > share * total]
        if doubtful:
            said = f"{doubtful[-1]} of {total} different questions have the same answer"
            yield MeasurementChange("answers", dataset.name, said)


def _count_same(samples: Sequence[SampleResult]) -> int:
    """Return the number of different questions with the most frequent answer."""
    questions = {sample.digest or sample.id: sample.answer_digest for sample in samples}
    answers = Counter(answer for answer in questions.values() if answer is not None)
    return max(answers.values(), default=0)


def _list_one_value(datasets: Sequence[DatasetResult], outline: RunOutline) -> Iterator[MeasurementChange]:
    for planned, dataset in zip(outline.datasets, datasets, strict=True):
        for metric in planned.metrics:
            values = _list_values(dataset, metric.name) if metric.judged else []
            if len(values) >= _FEWEST_JUDGED and min(values) == max(values):
                said = f"the judge gave {metric.name} {values[0]:g} to all {len(values)} samples"
                yield MeasurementChange("judge", dataset.name, said)


def _list_values(dataset: DatasetResult, metric: str) -> list[float]:
    values = (sample.scores[metric].value for sample in dataset.samples)
    return [value for value in values if value is not None]


def list_result_notes(datasets: Sequence[DatasetResult], own_lag_ms: float) -> list[str]:
    """Return the notes on the results of a run. `own_lag_ms`: p95 of this process's own lag during requests."""
    return [
        *_oddity_notes(datasets),
        *_cut_off_notes(datasets),
        *_failure_notes(datasets),
        *_stop_notes(datasets),
        *_lag_notes(datasets, own_lag_ms),
        *_copy_notes(datasets),
        *_few_notes(datasets),
    ]


def _oddity_notes(datasets: Sequence[DatasetResult]) -> list[str]:
    return [
        f"{dataset.name}: {oddity}"
        for dataset in datasets
        if dataset.retriever is not None
        for oddity in describe_oddities(dataset.samples, dataset.retriever.top_k)
    ]


def _cut_off_notes(datasets: Sequence[DatasetResult]) -> list[str]:
    """Return for each dataset how many replies were cut off, according to their finish reason."""
    notes = []
    for dataset in datasets:
        replies = [attempt for attempt in list_attempts(dataset.samples) if attempt.status is SampleStatus.ANSWERED]
        reasons = Counter(reply.finish_reason for reply in replies if is_cut_off(reply.finish_reason or ""))
        if reasons:
            counts = [f"{reason} {n}" if len(reasons) > 1 else f"{reason}" for reason, n in reasons.most_common()]
            of = f"{reasons.total()} of {len(replies)} replies {pluralize(reasons.total(), 'was', 'were')}"
            notes.append(f"{dataset.name}: {of} cut off (finish_reason {', '.join(counts)})")
    return notes


def _failure_notes(datasets: Sequence[DatasetResult]) -> list[str]:
    """Return why scores failed, most frequent reason first. A reason is reported once, not for every metric."""
    reasons, not_asked = Counter[str](), Counter[str]()
    failed = Counter[tuple[str, str | None, str]]()
    for dataset in datasets:
        for sample in dataset.samples:
            if sample.error is not None:
                reason = f"{dataset.name}: no usable reply: {sample.error.removeprefix(NOT_ASKED)}"
                reasons[reason] += 1
                not_asked[reason] += sample.error.startswith(NOT_ASKED)
                continue
            for metric, score in sample.scores.items():
                if score.status is ScoreStatus.FAILED:
                    failed[dataset.name, score.reason, metric] += 1
    alike: dict[tuple[str, str | None, int], list[str]] = {}
    for (name, why, metric), count in failed.items():
        alike.setdefault((name, why, count), []).append(metric)
    reasons.update({f"{name}: {name_some(names)} failed: {why}": count for (name, why, count), names in alike.items()})
    told = []
    for reason, count in reasons.most_common(_NOTES_SHOWN):
        after = f", {not_asked[reason]:,} of them not asked" if not_asked[reason] else ""
        told.append(f"{reason} ({counted(count, 'sample')}{after})" if count > 1 else reason)
    rest = len(reasons) - len(told)
    return [*told, f"and {counted(rest, 'other reason')} (see the report)"] if rest > 0 else told


def _stop_notes(datasets: Sequence[DatasetResult]) -> list[str]:
    """Return why the judge was not asked for scores that cannot change the verdict, with their number."""
    scores = (score for dataset in datasets for sample in dataset.samples for score in sample.scores.values())
    skipped = [one.reason for one in scores if one.cause is Cause.STOPPED and one.status is ScoreStatus.SKIPPED]
    return [f"{skipped[0]} ({counted(len(skipped), 'score')} not computed)"] if skipped else []


def _lag_notes(datasets: Sequence[DatasetResult], own_lag_ms: float) -> list[str]:
    """Return a note for each failed latency threshold if much of the time was this process's own lag."""
    return [
        f"{dataset.name}: {outcome.metric} includes up to {own_lag_ms:,.0f} ms in which this machine was "
        "busy; rerun with a lower --concurrency before blaming the agent"
        for dataset in datasets
        for outcome in dataset.thresholds
        if is_latency(outcome.metric)
        and outcome.status is VerdictStatus.FAIL
        and own_lag_ms > _LAG_SHARE * (outcome.value or 0.0)
    ]


def _copy_notes(datasets: Sequence[DatasetResult]) -> list[str]:
    units = {d.name: [sample.unit for sample in d.samples if sample.unit is not None] for d in datasets}
    return [
        f"{name}: {len(found)} samples are copies of each other and count as {counted(len(set(found)), 'observation')}"
        for name, found in units.items()
        if len(found) > len(set(found))
    ]


def _few_notes(datasets: Sequence[DatasetResult]) -> list[str]:
    """Return a caution for every report format: results of so few samples are mostly luck."""
    notes = []
    for dataset in datasets:
        scored = {name: summary.units for name, summary in dataset.metrics.items() if summary.scored}
        units = min(scored.values(), default=FEW)
        if units < FEW:
            fewest = [name for name, number in scored.items() if number == units]
            others = f" and {len(fewest) - 1} more" if len(fewest) > 1 else ""
            of = f" of {fewest[0]}{others}" if len(fewest) < len(scored) else ""
            said = f"{counted(units, 'independent sample')}{of} {pluralize(units, 'says', 'say')} little"
            notes.append(f"{dataset.name}: {said}: see the intervals")
    return notes
