"""Every native metric against every kind of missing data: it gives a Score or a MetricError, nothing else."""

import itertools
from typing import Any

import pytest

from evalspec.base.errors import MetricError
from evalspec.model import AgentReply, Exchange, Need, Sample, Score, ScoreStatus
from evalspec.scoring.metrics.base import METRICS

NAMES = ("references", "retrieved_contexts", "reference_contexts", "qrels")
SAMPLES = [
    Sample("s", "q", **dict[str, Any](zip(NAMES, fields, strict=True)))
    for fields in itertools.product(
        [(), ("",), ("a",)], [None, (), ("c",)], [None, (), ("c",)], [None, {}, {"d": 0}, {"d": -1}, {"d": 2}]
    )
]
REPLIES = [None] + [
    AgentReply(response, contexts, ids)
    for response, contexts, ids in itertools.product(["", "a"], [None, (), ("c",)], [None, (), ("d", "d", "e")])
]
NATIVE = [
    metric.name
    for metric in METRICS
    if metric.build and not metric.needs & {Need.JUDGE, Need.EMBEDDINGS, Need.CANDIDATE_IDS}
]

HAS = {
    Need.EXPECTED: lambda exchange: bool(exchange.sample.references),
    Need.CONTEXT: lambda exchange: exchange.retrieved_contexts is not None,
    Need.REFERENCE_CONTEXTS: lambda exchange: bool(exchange.sample.reference_contexts),
    Need.RELEVANT: lambda exchange: exchange.sample.qrels is not None,
    Need.RETRIEVED_IDS: lambda exchange: exchange.ranking is not None,
}


@pytest.mark.parametrize("name", NATIVE)
def test_missing_data_never_becomes_a_value(name, build_scorer):
    definition, score = METRICS.find(name), build_scorer(name)
    low, high = definition.bounds
    for sample, reply in itertools.product(SAMPLES, REPLIES):
        exchange = Exchange(sample, reply, None if reply else "agent down")
        try:
            result = score(exchange)
        except MetricError as error:
            assert str(error)
            continue
        assert isinstance(result, Score)
        if result.status is ScoreStatus.SCORED:
            assert reply or definition.scores_failures
            assert all(HAS[need](exchange) for need in definition.needs)
            assert low <= result.value <= (high or result.value)
        else:
            assert result.status in (ScoreStatus.NOT_APPLICABLE, ScoreStatus.FAILED) and result.reason
