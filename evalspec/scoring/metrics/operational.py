"""Operational metrics: latency, tokens, and errors."""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import structs

from evalspec.base.errors import FailureCause, InvalidInput
from evalspec.model import FIRST_TOKEN, Cause, Direction, Exchange, JudgeUsage, Score, Usage, is_cut_off
from evalspec.scoring.metrics.base import BuildContext, MetricDefinition, Scorer
from evalspec.scoring.metrics.functions import define_metric, metric


def _latency(exchange: Exchange) -> Score:
    latency = exchange.reply.latency_ms if exchange.reply else None
    if latency is None:
        return Score.not_applicable("the reply has no latency", Cause.REPLY)
    return Score.scored(latency)


def _first_token(exchange: Exchange) -> Score:
    trace = exchange.reply.trace if exchange.reply else None
    took = trace.timings_ms.get(FIRST_TOKEN) if trace else None
    if took is None:
        return Score.not_applicable("the reply is not a stream", Cause.REPLY)
    return Score.scored(took)


def _measure_stage(stage: str) -> Callable[[Exchange], Score]:
    def measure(exchange: Exchange) -> Score:
        trace = exchange.reply.trace if exchange.reply else None
        if trace is None:
            return Score.not_applicable("no retriever was queried", Cause.OTHER)
        took = trace.timings_ms.get(stage)
        if took is None:
            return Score.not_applicable(f"the retriever does not report how long {stage} took", Cause.OTHER)
        return Score.scored(took)

    return measure


_PERCENTILES = {"p50": "Median", "p95": "95th percentile", "p99": "99th percentile"}
_STAGES = {"embed": "embedding the query", "retrieve": "finding documents", "rerank": "reranking documents"}


def _define_latencies(
    prefix: str, time: str, measure: Callable[[Exchange], Score], from_trace: tuple[str, ...] = ()
) -> Iterator[MetricDefinition]:
    for statistic, words in _PERCENTILES.items():
        yield define_metric(
            measure,
            name=f"{prefix}latency_{statistic}",
            summary=f"{words} of the time {time}, in ms.",
            direction=Direction.LOWER,
            bounds=(0.0, None),
            statistic=statistic,
            implicit=True,
            scores_answers=False,
            from_trace=from_trace,
        )


def _define_all() -> Iterator[MetricDefinition]:
    yield define_metric(
        _latency,
        name="latency",
        summary="Time from sending the request to the last byte of the reply, in ms.",
        direction=Direction.LOWER,
        bounds=(0.0, None),
        implicit=True,
        scores_answers=False,
    )
    yield from _define_latencies("", "from sending the request to the last byte of the reply", _latency)
    yield from _define_latencies(
        f"{FIRST_TOKEN}.", "from sending the request to the first text of a stream", _first_token
    )
    for stage, work in _STAGES.items():
        yield from _define_latencies(
            f"{stage}.", f"that a retriever spends on {work}", _measure_stage(stage), ("trace",)
        )


LATENCIES = tuple(_define_all())

_COUNTS_FAILURES: dict[str, Any] = {
    "direction": Direction.LOWER,
    "implicit": True,
    "scores_failures": True,
    "is_of_whole": True,
    "scores_answers": False,
    "usual_limits": (None, 0.5),
}


@metric(**_COUNTS_FAILURES, is_binary=True)
def error_rate(exchange: Exchange) -> Score:
    """Share of the samples without a usable reply.

    An unreachable agent has no error rate: that is a failure to measure, not a failed threshold.
    """
    if exchange.cause is not FailureCause.REPLY:
        return Score.failed(exchange.error or "", Cause(exchange.cause))
    if exchange.unreachable:
        return Score.failed(f"the agent was not reached: {exchange.error}", Cause.REPLY)
    return Score.scored(0.0) if exchange.reply else Score.scored(1.0, exchange.error)


@metric(**_COUNTS_FAILURES)
def retry_rate(exchange: Exchange) -> Score:
    """Share of the requests for a reply that failed and were sent again."""
    if exchange.retries is None:
        return Score.not_applicable("the reply was recorded elsewhere", Cause.DATASET)
    return Score.scored(exchange.retries / (exchange.retries + 1))


@metric(**_COUNTS_FAILURES)
def user_error_rate(exchange: Exchange) -> Score:
    """Share of the attempts that were void or failed because of the simulated user. Each beginning counts."""
    reply = exchange.reply
    if exchange.sample.user is None:
        return Score.not_applicable("nobody simulates the user", Cause.DATASET)
    if exchange.unreachable:
        return Score.failed(exchange.error or "", Cause(exchange.cause))
    if exchange.retries is None:
        return Score.not_applicable("the conversation was recorded elsewhere", Cause.DATASET)
    errors = exchange.user_errors
    if reply is not None and errors == 0:
        return Score.scored(0.0, evidence={"ended": reply.ended, "turns": len(reply.turns)})
    is_failed = exchange.cause is FailureCause.USER
    begun = errors + (not is_failed)
    reason = exchange.error if is_failed else f"the simulated user failed {errors} of {begun} attempts"
    ended = {"ended": reply.ended, "turns": len(reply.turns)} if reply else {}
    return Score.scored(errors / begun, reason if errors else None, evidence={"userErrors": errors, **ended})


@metric(
    aliases=("tokens",),
    direction=Direction.LOWER,
    bounds=(0.0, None),
    implicit=True,
    scores_answers=False,
    from_trace=("usage",),
)
def tokens_mean(exchange: Exchange) -> Score:
    """Input and output tokens of a reply, as the agent counts them."""
    return _measure_usage(exchange, lambda usage: usage.total)


def _measure_usage(exchange: Exchange, measure: Callable[[Usage], float]) -> Score:
    usage = exchange.reply.usage if exchange.reply else None
    unread = exchange.reply.unread_usage if exchange.reply else None
    if unread is not None:
        reason = f"the usage of the reply has no token counts that evalspec can read; {unread}"
        return Score.not_applicable(reason, Cause.REPLY)
    if usage is None:
        return Score.not_applicable("the reply does not report its usage", Cause.REPLY)
    return Score.scored(measure(usage), evidence={"input": usage.input_tokens, "output": usage.output_tokens})


def _build_cost(context: BuildContext) -> Scorer:
    """Return the scorer of `cost`.

    Raises:
        InvalidInput: nobody says what tokens cost.
    """
    price = context.price
    if price is None:
        fix = "set spec.api.price, such as {input: 2.5, output: 10} for a million tokens each"
        raise InvalidInput("cost needs the price of the agent's tokens", fix)

    def measure(usage: Usage) -> float:
        return price.compute_cost(JudgeUsage(**structs.asdict(usage))) or 0.0

    def score(exchange: Exchange) -> Score:
        return _measure_usage(exchange, measure)

    return score


COST = MetricDefinition(
    name="cost",
    summary="What the tokens of a reply cost, by spec.api.price and in its currency.",
    engine="evalspec",
    build=_build_cost,
    direction=Direction.LOWER,
    bounds=(0.0, None),
    implicit=True,
    scores_answers=False,
    reads_price=True,
    from_trace=("usage",),
)


@metric(direction=Direction.LOWER, implicit=True, scores_calls=True)
def truncated_rate(exchange: Exchange) -> Score:
    """Share of replies that were truncated or filtered, by their finish reason."""
    finish_reason = exchange.reply.finish_reason if exchange.reply else None
    if finish_reason is None:
        return Score.not_applicable("the reply has no finish reason", Cause.REPLY)
    cut_off = is_cut_off(finish_reason)
    if cut_off is None:
        return Score.not_applicable(f"'{finish_reason}' is not a known finish reason", Cause.REPLY)
    return Score.scored(cut_off, f"finish_reason {finish_reason}" if cut_off else None)
