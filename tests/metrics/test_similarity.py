"""answer_similarity, held against ragas."""

import asyncio

import pytest

from evalspec.inputs.manifest.judge_schema import EmbeddingsConfig
from evalspec.model import ScoreStatus
from evalspec.scoring.judge.embeddings import LocalEmbedder
from evalspec.scoring.judge.services import JudgeServices, import_ragas
from metrics.judged_scoring import exchange, score, score_with
from servers.scripted_judge import ScriptedJudge

PAIRS = [
    ("Refunds are paid within 30 days.", "Refunds are paid within 90 days."),
    ("You get your money back in a month.", "Refunds are paid within 30 days."),
    ("Photos are uploaded at night.", "Refunds are paid within 30 days."),
    ("Zürich 🙂", "żółw"),
]


async def ragas_similarities():
    from ragas.metrics.collections import SemanticSimilarity

    from evalspec.scoring.judge.ragas_adapter import RagasEmbeddings

    embeddings = RagasEmbeddings(LocalEmbedder())
    await embeddings.fetch(text for pair in PAIRS for text in pair)
    metric = SemanticSimilarity(embeddings=embeddings)
    return [(await metric.ascore(response=one, reference=other)).value for one, other in PAIRS]


def test_it_is_ragas_semantic_similarity():
    import_ragas()
    exchanges = [exchange(response, references=(reference,)) for response, reference in PAIRS]
    scores = score_with(JudgeServices(None, EmbeddingsConfig()), "answer_similarity", *exchanges)
    assert [got.value for got in scores] == pytest.approx(asyncio.run(ragas_similarities()), abs=1e-6)
    assert scores[0].value > scores[1].value > scores[2].value


def test_the_best_of_several_gold_answers_counts_and_silence_is_zero():
    with ScriptedJudge() as judge:
        best, silent, unknown = score(
            judge,
            "answer_similarity",
            exchange("Within 30 days.", references=("Never.", "Within 30 days.")),
            exchange("  "),
            exchange(references=()),
        )
        assert best.value == pytest.approx(1.0)
        assert len(judge.embeddings) == 1
    assert (silent.value, silent.reason) == (0.0, "the response is empty")
    assert unknown.status is ScoreStatus.FAILED


@pytest.mark.parametrize("fault", ["short", "ragged", "text"])
def test_vectors_that_do_not_fit_are_no_score(fault):
    with ScriptedJudge() as judge:
        judge.embedding_fault = fault
        [got] = score(judge, "answer_similarity", exchange())
    assert got.status is ScoreStatus.FAILED
    assert "embeddings service" in got.reason
