"""answer_similarity: similarity of response and expected answer, without a judge.

The score is the cosine of their embeddings, as in ragas' SemanticSimilarity (the tests compare the two), and the
maximum over several gold answers. Its range is −1 to 1, although ragas documents 0 to 1: unrelated texts score around
0, on either side. It measures similarity, not agreement: a changed number has little effect.
"""

from evalspec.base.errors import MetricError
from evalspec.model import Exchange, Need, Score
from evalspec.scoring.metrics.base import BuildContext
from evalspec.scoring.metrics.functions import metric


@metric(needs={Need.EXPECTED, Need.EMBEDDINGS}, bounds=(-1.0, 1.0))
async def answer_similarity(exchange: Exchange, context: BuildContext) -> Score:
    """Cosine of the embeddings of response and expected answer: similarity, not correctness."""
    references = [text for text in exchange.sample.references if text.strip()]
    if not references:
        raise MetricError("every expected answer is blank")
    if not exchange.response.strip():
        return Score.scored(0.0, "the response is empty")
    from evalspec.scoring.judge.embeddings import compute_cosine

    response, *golden = await context.services.embedder().embed([exchange.response, *references])
    return Score.scored(max(compute_cosine(response, vector) for vector in golden), exchange.answered)
