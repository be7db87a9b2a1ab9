"""What a reply cost: its latency, its tokens, and whether there was one at all."""

from evalspec.errors import MetricError
from evalspec.metrics.base import MetricDefinition, per_sample, register
from evalspec.records import Direction, Exchange, Score


def _latency(exchange: Exchange) -> Score:
    latency = exchange.reply.latency_ms if exchange.reply else None
    return Score.not_applicable("the reply has no latency") if latency is None else Score.scored(latency)


def _error(exchange: Exchange) -> Score:
    """An agent that cannot be reached has no error rate: that is a failure to measure, not a broken limit."""
    if exchange.unreachable:
        raise MetricError(f"the agent was not reached: {exchange.error}")
    return Score.scored(0.0) if exchange.reply else Score.scored(1.0, exchange.error)


def _tokens(exchange: Exchange) -> Score:
    usage = exchange.reply.usage if exchange.reply else None
    if usage is None:
        return Score.not_applicable("the reply does not tell its usage")
    return Score.scored(usage.total, evidence={"input": usage.input_tokens, "output": usage.output_tokens})


for _name, _statistic, _summary in (
    ("latency_p50", "p50", "Median time from sending the request to the last byte of the reply, in ms."),
    ("latency_p95", "p95", "Time in ms within which 95 % of the replies are complete."),
):
    register(
        MetricDefinition(
            name=_name,
            summary=_summary,
            engine="evalspec",
            build=per_sample(_latency),
            direction=Direction.LOWER,
            bounds=(0.0, None),
            statistic=_statistic,
            implicit=True,
        )
    )

register(
    MetricDefinition(
        name="error_rate",
        summary="Share of the samples to which the agent gave no usable reply.",
        engine="evalspec",
        build=per_sample(_error),
        direction=Direction.LOWER,
        implicit=True,
        scores_failures=True,
    )
)

register(
    MetricDefinition(
        name="tokens_mean",
        summary="Input and output tokens of a reply, as the agent counts them.",
        engine="evalspec",
        build=per_sample(_tokens),
        direction=Direction.LOWER,
        bounds=(0.0, None),
        implicit=True,
    )
)
