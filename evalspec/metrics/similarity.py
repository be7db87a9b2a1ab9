"""answer_similarity: how alike response and expected answer are, without a judge.

The cosine of their embeddings, as ragas' SemanticSimilarity computes it (the tests hold them together), and the best
of several gold answers. Its range is −1 to 1, although ragas documents 0 to 1: unrelated texts come out around 0, on
either side. It measures likeness, not agreement: a changed number is hardly noticed.
"""

from evalspec.errors import MetricError
from evalspec.metrics.base import BuildContext
from evalspec.metrics.functions import metric
from evalspec.model import Exchange, Need, Score


@metric(needs={Need.EXPECTED, Need.EMBEDDINGS}, bounds=(-1.0, 1.0), attains_bounds=False)
async def answer_similarity(exchange: Exchange, context: BuildContext) -> Score:
    """Cosine of the embeddings of response and expected answer: likeness, not correctness."""
    references = [text for text in exchange.sample.references if text.strip()]
    if not references:
        raise MetricError("every expected answer is blank")
    if not exchange.response.strip():
        return Score.scored(0.0, "the response is empty")
    from evalspec.judge.embeddings import compute_cosine

    response, *golden = await context.services.embedder().embed([exchange.response, *references])
    return Score.scored(max(compute_cosine(response, vector) for vector in golden), exchange.answered)
