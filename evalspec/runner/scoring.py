"""Scoring one exchange: the only place where a failure of a metric becomes a failed score."""

import asyncio
from collections.abc import Awaitable, Sequence

from evalspec.errors import InvalidInput, MetricError
from evalspec.metrics.base import Metric
from evalspec.records import Exchange, Score

_ROUNDING = 1e-9


async def score_exchange(metrics: Sequence[Metric], exchange: Exchange) -> dict[str, Score]:
    """One score for every metric, by name. A metric that others are derived from is computed once."""
    roots = {(metric.root or metric).name: metric.root or metric for metric in metrics}
    computed = dict(zip(roots, await _compute_all(list(roots.values()), exchange), strict=True))
    scores = {}
    for metric in metrics:
        score = computed[(metric.root or metric).name]
        derive = metric.definition.derive
        scores[metric.name] = derive(score) if metric.root is not None and derive is not None else score
    return scores


async def _compute_all(metrics: Sequence[Metric], exchange: Exchange) -> list[Score]:
    """Metrics that wait for something wait together; the others are done where they stand."""
    started = [_start(metric, exchange) for metric in metrics]
    waiting = [item for item in started if not isinstance(item, Score)]
    finished = iter(await asyncio.gather(*waiting) if waiting else ())
    return [item if isinstance(item, Score) else next(finished) for item in started]


def _start(metric: Metric, exchange: Exchange) -> Score | Awaitable[Score]:
    if metric.skip_reason is not None or metric.scorer is None:
        return Score.skipped(metric.skip_reason or "not computed")
    if exchange.reply is None and not metric.definition.scores_failures:
        return Score.failed(f"no reply: {exchange.error}")
    try:
        result = metric.scorer(exchange)
    except InvalidInput:
        raise
    except Exception as error:
        return _failed(error)
    return _within_bounds(metric, result) if isinstance(result, Score) else _finish(metric, result)


async def _finish(metric: Metric, pending: Awaitable[Score]) -> Score:
    try:
        return _within_bounds(metric, await pending)
    except InvalidInput:
        raise
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> Score:
    """Errors that say what is wrong speak for themselves; of any other the type is part of the message."""
    return Score.failed(str(error) if isinstance(error, MetricError) else f"{type(error).__name__}: {error}")


def _within_bounds(metric: Metric, score: Score) -> Score:
    low, high = metric.bounds
    if score.value is None:
        return score
    below = low is not None and score.value < low - _ROUNDING
    above = high is not None and score.value > high + _ROUNDING
    if below or above:
        return Score.failed(f"{metric.name} gave {score.value:g}, which is outside its range")
    return score
