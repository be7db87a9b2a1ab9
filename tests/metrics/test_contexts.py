import asyncio
import random
import warnings

import pytest

from evalspec.base.errors import MetricError
from evalspec.model import AgentReply, Exchange, Sample

NAMES = ["non_llm_context_precision", "non_llm_context_recall"]


def exchange(retrieved, references) -> Exchange:
    sample = Sample("s", "q", reference_contexts=references)
    return Exchange(sample, AgentReply("", retrieved_contexts=retrieved))


@pytest.fixture
def evaluate(build_scorer):
    scorers = [build_scorer(name) for name in NAMES]
    return lambda retrieved, references: [score(exchange(retrieved, references)).value for score in scorers]


def test_hand_worked_cases(evaluate):
    assert evaluate(("a rainy day", "zzzz", "it snows"), ("a rainy day", "it snows")) == [(1 / 1 + 2 / 3) / 2, 1.0]
    assert evaluate(("zzzz",), ("a rainy day",)) == [0.0, 0.0]
    assert evaluate(("abcd",), ("abcd", "wxyz")) == [1.0, 0.5]


def test_a_similarity_of_exactly_one_half_is_precise_but_not_recalled(evaluate):
    assert evaluate(("abxx",), ("abyy",)) == [1.0, 0.0]


def test_agrees_with_ragas(evaluate, monkeypatch):
    monkeypatch.setenv("RAGAS_DO_NOT_TRACK", "true")
    generator = random.Random(3)
    cases = [(_passages(generator), _passages(generator)) for _ in range(60)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = asyncio.run(_score_with_ragas(cases))
    for (retrieved, references), theirs in zip(cases, expected, strict=True):
        assert evaluate(retrieved, references) == pytest.approx(theirs, abs=1e-9)
    assert len({round(value, 3) for pair in expected for value in pair}) > 8


def _passages(generator: random.Random) -> tuple[str, ...]:
    """Short texts of few letters, so that similarities lie on both sides of the threshold."""
    lengths = [generator.randint(1, 8) for _ in range(generator.randint(1, 5))]
    return tuple("".join(generator.choices("abc", k=length)) for length in lengths)


async def _score_with_ragas(cases) -> list[list[float]]:
    from ragas import SingleTurnSample
    from ragas.metrics import NonLLMContextPrecisionWithReference, NonLLMContextRecall

    metrics = [NonLLMContextPrecisionWithReference(), NonLLMContextRecall()]
    samples = [SingleTurnSample(retrieved_contexts=list(got), reference_contexts=list(ref)) for got, ref in cases]
    return [[await metric.single_turn_ascore(sample) for metric in metrics] for sample in samples]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_retrieved_is_zero_and_said(name, build_scorer):
    score = build_scorer(name)(exchange((), ("a",)))
    assert (score.value, score.reason) == (0.0, "nothing was retrieved")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("retrieved", "references"), [(None, ("a",)), (("a",), None), (("a",), ())])
def test_unknown_passages_are_an_error(name, retrieved, references, build_scorer):
    with pytest.raises(MetricError, match="contexts"):
        build_scorer(name)(exchange(retrieved, references))


def test_evidence_tells_which_passages_match(build_scorer):
    assert build_scorer(NAMES[0])(exchange(("abcd", "zzzz"), ("abcd",))).evidence == {"matches": [True, False]}
