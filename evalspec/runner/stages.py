"""What asking a retriever showed beside its rankings, over all attempts of a dataset: latencies, and what was odd."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from evalspec.model import STAGES, TOTAL, Attempt, SampleResult, StageLatency
from evalspec.stats.descriptive import compute_statistic

_ODDITIES = {
    "duplicates": "{count} hits whose id stands twice in an answer, in {queries}; the first place counts",
    "outOfOrder": "{count} hits with a higher score than the hit before, in {queries}; the order of the answer counts",
    "unknown": "{count} hits of documents that the dataset does not have, in {queries}",
    "fewer": "{queries} got fewer distinct documents than the {top_k} asked for",
    "askedAgain": "{queries} took more than one search, because chunks of one document count once",
    "undiagnosed": "{queries} could not be searched further down for what is missing",
}
"""What is told of each kind of oddity."""


def compute_stages(samples: Iterable[SampleResult]) -> tuple[StageLatency, ...]:
    """Percentiles of each stage that is told, and of the whole, over every asking."""
    taken: dict[str, list[float]] = defaultdict(list)
    for attempt in list_attempts(samples):
        for stage, ms in attempt.timings_ms.items():
            taken[stage].append(ms)
        if attempt.latency_ms is not None:
            taken[TOTAL].append(attempt.latency_ms)
    own = [stage for stage in taken if stage not in (*STAGES, TOTAL)]
    return tuple(_stage(stage, taken[stage]) for stage in (*STAGES, *own, TOTAL) if stage in taken)


def _stage(stage: str, taken: Sequence[float]) -> StageLatency:
    return StageLatency(stage, len(taken), *(compute_statistic(taken, share) for share in ("p50", "p95", "p99")))


def describe_oddities(samples: Iterable[SampleResult], top_k: int) -> list[str]:
    """What is odd about the answers, one line a kind."""
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
    return f"{count:,} {'query' if count == 1 else 'queries'}"


def list_attempts(samples: Iterable[SampleResult]) -> Iterator[Attempt | SampleResult]:
    """Every asking: the attempts of a sample that was asked more than once, else the sample itself."""
    for sample in samples:
        yield from sample.attempts or (sample,)
