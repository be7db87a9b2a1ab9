"""Metrics that map the judge's label to a score (ragas' DiscreteMetric)."""

from collections.abc import Callable, Mapping

from evalspec.model import Cause, Exchange, Score
from evalspec.scoring.metrics.base import BuildContext, Scorer


def build_label_scorer(
    name: str,
    template: str,
    labels: Mapping[str, float],
    read: Callable[[Exchange], Mapping[str, str | list[str]]],
    *,
    judges_silence: bool,
) -> Callable[[BuildContext], Scorer]:
    """Return the build function of a label metric.

    `template`: the prompt, with the keys of `read` in braces. `judges_silence`: whether empty responses are judged too;
    otherwise, the metric is not applicable to them.
    """

    def build(context: BuildContext) -> Scorer:
        services = context.services

        async def score(exchange: Exchange) -> Score:
            if not judges_silence and not exchange.response.strip():
                return Score.not_applicable("the response is empty", Cause.REPLY)
            label, reason = await services.grade_label(template, tuple(labels), read(exchange), metric=name)
            return Score.scored(labels[label], f"{label}: {reason}", {"label": label, "reason": reason})

        return score

    return build
