"""Latencies and irregularities of replies, over all attempts of a dataset."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from evalspec.base.plural import counted
from evalspec.model import FIRST_TOKEN, STAGES, TOTAL, Attempt, SampleResult, StageLatency
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
