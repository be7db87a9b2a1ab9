"""The baselines on a real collection with human judgements: 1,400 abstracts, 225 queries, four grades."""

import json
import os
from pathlib import Path
from statistics import fmean

import pytest
import pytrec_eval

from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.inputs.manifest.retriever_schema import Bm25Options, DenseOptions, HybridOptions, QdrantOptions
from evalspec.scoring.ranking.engine import MeasureSpec, compute_measures
from evalspec.targets.retrievers.opening import create_builtin
from retrievers.asking import CountingEmbedder, ask, fill, run, vectors_of

CRANFIELD = Path(os.environ.get("EVALSPEC_TEST_DATA", "")) / "cranfield"
NDCG = MeasureSpec("nDCG", 10)

pytestmark = pytest.mark.skipif(not CRANFIELD.is_dir(), reason="EVALSPEC_TEST_DATA names no folder with Cranfield")


@pytest.fixture(scope="module")
def cranfield():
    return load_dataset(Source(CRANFIELD, "cranfield"))


def rank_all(options, cranfield):
    """{query: {document: score}}, 100 documents deep, best first."""

    async def session():
        retriever = create_builtin(options, vectors_of(CountingEmbedder()))
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


def test_one_command_compares_the_baselines(cranfield, project):
    """And what it reports of BM25 is what trec_eval makes of the rankings that it stored."""
    pytest.importorskip("wordllama")
    names = ("bm25", "dense", "hybrid", "qdrant")
    project.evaluation = {
        "retrievers": {name: {"builtin": name} for name in names},
        "datasets": [{"name": "cranfield", "path": str(CRANFIELD), "metrics": ["nDCG@10"]}],
    }
    chosen = [part for name in names for part in ("--retriever", name)]
    outcome = project.evaluate(*chosen, "--best-by", "nDCG@10", "--json")
    assert outcome.code == 0, outcome.err
    assert [one["name"] for one in outcome.document["candidates"]] == ["dense", "hybrid", "qdrant"]
    run_id = outcome.document["runs"][0]["runId"]
    log = (project.folder / ".evalspec" / "runs" / run_id / "samples.jsonl").read_text().splitlines()
    replies = [record for record in map(json.loads, log) if record["kind"] == "reply"]
    rankings = {reply["id"]: reply["retrievedContextIds"] for reply in replies}
    scored = {query: {name: -rank for rank, name in enumerate(ids)} for query, ids in rankings.items()}
    qrels = {sample.id: dict(sample.qrels) for sample in cranfield.samples}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(scored)
    report = project("report", run_id, "--json").document["datasets"][0]["samples"]
    ours = {sample["id"]: sample["scores"]["nDCG@10"]["value"] for sample in report}
    assert ours == pytest.approx({query: values["ndcg_cut_10"] for query, values in theirs.items()}, abs=1e-12)
