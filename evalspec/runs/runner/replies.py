"""What replies show besides their scores: latencies, irregularities, and what makes the numbers of a run doubtful."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from evalspec.base.plural import counted, pluralize
from evalspec.model import (
    FIRST_TOKEN,
    STAGES,
    TOTAL,
    Attempt,
    DatasetResult,
    MeasurementChange,
    SampleResult,
    StageLatency,
)
from evalspec.verdict.outline import RunOutline
from evalspec.verdict.stats.descriptive import compute_statistic

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
