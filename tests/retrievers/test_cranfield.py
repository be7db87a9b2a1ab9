"""The baselines on a real collection with human judgements: 1,400 abstracts, 225 queries, four grades."""

import os
from pathlib import Path
from statistics import fmean

import pytest
import pytrec_eval

from evalspec.datasets.base import Source
from evalspec.datasets.load import load_dataset
from evalspec.manifest.retriever_schema import Bm25Options, DenseOptions, HybridOptions, QdrantOptions
from evalspec.ranking.engine import MeasureSpec, compute_measures
from evalspec.retrievers.builtin import create_builtin
from evalspec.retrievers.vectors import TextVectors
from retrievers.asking import CountingEmbedder, ask, fill, run

CRANFIELD = Path(os.environ.get("EVALSPEC_TEST_DATA", "")) / "cranfield"
NDCG = MeasureSpec("nDCG", 10)

pytestmark = pytest.mark.skipif(not CRANFIELD.is_dir(), reason="EVALSPEC_TEST_DATA names no folder with Cranfield")


@pytest.fixture(scope="module")
def cranfield():
    return load_dataset(Source(CRANFIELD, "cranfield"))


def rank_all(options, cranfield):
    """{query: {document: score}}, 100 documents deep, best first."""

    async def session():
        retriever = create_builtin(options, TextVectors(CountingEmbedder()))
        assert list(await fill(retriever, cranfield.content.documents)) == ["471", "995"]  # they are empty
        found = {sample.id: await ask(retriever, sample.question, 100) for sample in cranfield.samples}
        await retriever.aclose()
        return {query: {hit.id: hit.score for hit in hits} for query, hits in found.items()}

    return run(session())


def compute_ndcg(run, cranfield):
    """Of each query, by the rankings' own order."""
    qrels = {sample.id: sample.qrels for sample in cranfield.samples}
    measured = compute_measures(qrels, {query: list(scores) for query, scores in run.items()}, [NDCG])
    return dict(zip(measured.queries, measured.values[NDCG], strict=True))


def test_bm25_is_as_good_as_published_and_as_trec_eval_says(cranfield):
    run = rank_all(Bm25Options(builtin="bm25"), cranfield)
    ours = compute_ndcg(run, cranfield)
    print(f"BM25 on Cranfield: nDCG@10 {fmean(ours.values()):.4f}")
    assert 0.30 <= fmean(ours.values()) <= 0.45
    qrels = {sample.id: dict(sample.qrels) for sample in cranfield.samples}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(run)
    assert ours == pytest.approx({query: values["ndcg_cut_10"] for query, values in theirs.items()}, abs=1e-12)


@pytest.mark.parametrize("options", [DenseOptions(builtin="dense"), HybridOptions(builtin="hybrid")], ids=type)
def test_the_other_baselines(options, cranfield):
    pytest.importorskip("wordllama")
    quality = fmean(compute_ndcg(rank_all(options, cranfield), cranfield).values())
    print(f"{options.builtin} on Cranfield: nDCG@10 {quality:.4f}")
    assert 0.25 <= quality <= 0.45


def test_qdrant_ranks_as_exact_cosine_does(cranfield):
    pytest.importorskip("wordllama")
    exact = rank_all(DenseOptions(builtin="dense"), cranfield)
    store = rank_all(QdrantOptions(builtin="qdrant"), cranfield)
    assert compute_ndcg(store, cranfield) == pytest.approx(compute_ndcg(exact, cranfield), abs=1e-9)
