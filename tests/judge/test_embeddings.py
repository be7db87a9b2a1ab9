"""Texts to vectors: the model in the wheel without a network, and the endpoint with its faults."""

import asyncio
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalspec.base.errors import InvalidInput, JudgeError, MetricError, MissingPackage
from evalspec.inputs.manifest.judge_schema import EmbeddingsConfig
from evalspec.scoring.judge import embeddings as module
from evalspec.scoring.judge.embeddings import LocalEmbedder, compute_cosine, create_embedder
from servers.scripted_judge import embed, status

OFFLINE = """
import asyncio, logging, os, socket, sys
from pathlib import Path

def refuse(*_arguments, **_options):
    raise AssertionError("the network was tried")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
from evalspec.scoring.judge.embeddings import LocalEmbedder

vectors = asyncio.run(LocalEmbedder().embed(["a dog barks", "a dog barks", "the stock exchange"]))
assert vectors.shape == (3, 256)
assert (vectors[0] == vectors[1]).all() and (vectors[0] != vectors[2]).any()
assert logging.getLogger().level == logging.WARNING and not logging.getLogger().handlers
assert not list(Path(os.environ["HOME"]).rglob("*")), "something was written to the home folder"
"""


def run_embed(embedder, texts):
    async def run():
        try:
            return await embedder.embed(texts)
        finally:
            await embedder.aclose()

    return asyncio.run(run())


def http_embedder(judge, **config):
    settings = {"provider": "openai-compatible", "model": "bag", "base_url": judge.url, "max_retries": 0}
    return create_embedder(EmbeddingsConfig(**(settings | config)))


def test_the_local_model_loads_without_a_network(tmp_path):
    """A clean home and no HF_HUB_OFFLINE: the layout of the pinned release is all that it relies on."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", OFFLINE], env={"HOME": str(tmp_path)}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_local_vectors_at_once_are_those_one_by_one():
    embedder = LocalEmbedder()

    async def run():
        together = await asyncio.gather(*(embedder.embed([f"sentence number {n}"]) for n in range(8)))
        return together, await embedder.embed([f"sentence number {n}" for n in range(8)])

    together, batch = asyncio.run(run())
    np.testing.assert_allclose(np.vstack(together), batch, rtol=1e-6)
    with pytest.raises(MetricError, match="has no cosine"):
        run_embed(embedder, ["words", ""])


ODD_TEXTS = [
    "", " ", "\n", "a", "<s> a </s><unk>", "Straße, naïve café", "日本語の文章です。", "😀" * 50, "e\u0301" * 40,
    "a" * 300, "word " * 400, "one\ntwo\r\nthree\t four", "<s>" * 30 + "x", "12345.67 % of 8,900 €",
]  # fmt: skip


def compute_means(model, texts):
    """The means of the vectors of all tokens, in double precision. The library adds in single precision
    and pads to the longest text; for 260,000 characters it is off by 0.0005."""
    ids = (model.tokenizer.encode(text, add_special_tokens=False).ids for text in texts)
    return [model.embedding[one].astype(np.float64).mean(axis=0) if one else np.zeros(256) for one in ids]


def test_local_vectors_are_those_of_the_library():
    model = module._load_wordllama()
    found = module._embed_one_by_one(model, ODD_TEXTS)
    model.tokenizer.enable_padding()
    np.testing.assert_allclose(found, model.embed(ODD_TEXTS), atol=1e-6)


@pytest.fixture(scope="module")
def model():
    return module._load_wordllama()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=400), min_size=1, max_size=3))
@example(ODD_TEXTS)
def test_a_text_that_is_read_in_pieces_has_the_same_vector(model, texts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE", 1500)
        patch.setattr(module, "_TOKENS", 7)
        longer = [text * 20 for text in texts]
        np.testing.assert_allclose(module._embed_one_by_one(model, longer), compute_means(model, longer), atol=1e-6)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ModuleNotFoundError("no", name="wordllama"), MissingPackage),
        (ModuleNotFoundError("no", name="tokenizers"), InvalidInput),
        (FileNotFoundError("tokenizer.json\nmoved"), InvalidInput),
    ],
)
def test_a_local_model_that_does_not_load_is_one_line_with_the_fix(error, expected, monkeypatch):
    def fail(name):
        raise error

    monkeypatch.setattr(module, "import_module", fail)
    with pytest.raises(expected, match=r"^[^\n]*pip install wordllama==0\.4\.0\.post1[^\n]*$") as caught:
        run_embed(LocalEmbedder(), ["words"])
    assert type(caught.value) is expected
    assert import_module("wordllama")


def test_http_vectors_come_in_batches_and_by_index(judge):
    judge.embedding_fault = "reversed"
    texts = [f"text {n}" for n in range(300)]
    vectors = run_embed(http_embedder(judge, api_key="sk-1234"), texts)
    np.testing.assert_array_equal(vectors, [embed(text) for text in texts])
    assert [len(request.body["input"]) for request in judge.embeddings] == [128, 128, 44]
    assert judge.embeddings[0].body["encoding_format"] == "float"
    assert judge.embeddings[0].headers["authorization"] == "Bearer sk-1234"


@pytest.mark.parametrize(
    ("fault", "says"),
    {
        "short": "returned 1 vectors for 2 texts",
        "ragged": "different lengths: [255, 256]",
        "text": "returned no vectors for 2 texts",
        status(401): "check spec.evaluation.embeddings.apiKey",
        status(500): "500 Internal Server Error",
    }.items(),
    ids=str,
)
def test_a_faulty_endpoint_is_one_line(judge, fault, says):
    judge.embedding_fault = fault
    with pytest.raises(JudgeError) as caught:
        run_embed(http_embedder(judge), ["one", "two"])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_retries_are_the_configs(judge):
    judge.embedding_fault = status(503)
    with pytest.raises(JudgeError):
        run_embed(http_embedder(judge, max_retries=2), ["one"])
    assert len(judge.embeddings) == 3


def test_cosine():
    assert compute_cosine(np.array([1.0, 0.0]), np.array([3.0, 3.0])) == pytest.approx(0.5**0.5)
