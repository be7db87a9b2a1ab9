"""The recipes of examples/recipes run as they are, but for the port and the agent's name."""

import shutil
from pathlib import Path

import pytest

from servers.ports import find_free_port
from servers.postgres import open_cluster

RECIPES = Path(__file__).resolve().parents[2] / "examples" / "recipes"


@pytest.fixture
def recipe(project, monkeypatch):
    """Run a recipe with changes of its text, and return the results of its datasets by name."""
    shutil.copytree(RECIPES, project.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key-1")

    def run(name, *arguments, **changes):
        path = project.folder / f"{name}.yaml"
        text = path.read_text()
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)
        done = project("evaluate", path.name, "--json", *arguments)
        assert done.code == 0, done.err + done.out[-2000:]
        return {dataset["name"]: dataset for dataset in done.document["datasets"]}

    return run


@pytest.mark.parametrize("entry", ["chain", "chain.ainvoke", "chain.stream", "chain.astream"])
def test_langchain(recipe, entry):
    pytest.importorskip("langchain_core")
    found = recipe("langchain", **{"langchain_bot:chain ": f"langchain_bot:{entry} "})
    assert found["passages"]["metrics"]["Recall@2"]["value"] == 1
    assert found["answers"]["answered"] == 6
    assert ("first_token" in found["answers"]["samples"][0]["timingsMs"]) == ("stream" in entry)


@pytest.mark.parametrize("entry", ["engine", "engine.aquery", "streaming", "streaming.aquery"])
@pytest.mark.filterwarnings("ignore")
def test_llamaindex(recipe, entry):
    pytest.importorskip("llama_index.core")
    found = recipe("llamaindex", **{"llamaindex_bot:engine": f"llamaindex_bot:{entry}"})
    assert found["nodes"]["metrics"]["Recall@2"]["value"] == 1
    assert found["answers"]["metrics"]["Recall@2"]["value"] == 1
    assert ("first_token" in found["answers"]["samples"][0]["timingsMs"]) == ("streaming" in entry)


def test_chroma(recipe):
    pytest.importorskip("chromadb")
    assert recipe("chroma")["handbook"]["metrics"]["Recall@3"]["value"] == 1


@pytest.fixture(scope="module")
def cluster():
    with open_cluster() as opened:
        yield opened


@pytest.mark.parametrize("retriever", ["fulltext", "vectors"])
def test_postgres(recipe, cluster, monkeypatch, retriever):
    with cluster.connect() as connection:
        known = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    if retriever == "vectors" and not known:
        pytest.skip("pgvector is not installed")
    monkeypatch.setenv("POSTGRES_URL", cluster.create_database())
    found = recipe("postgres", "--retriever", retriever)["handbook"]
    assert found["metrics"]["Recall@3"]["value"] == 1


@pytest.mark.parametrize("streaming", ["true", "false"])
@pytest.mark.parametrize(("name", "port"), [("anthropic", "8921"), ("ollama", "8922")])
def test_wires(recipe, name, port, streaming):
    changes = {port: str(find_free_port()), "streaming: true": f"streaming: {streaming}"}
    if streaming == "false":
        changes[", first_token.latency_p95: 5000"] = ""
    found = recipe(name, **changes)["answers"]
    assert (found["answered"], found["metrics"]["tokens_mean"]["scored"]) == (6, 6)
    reasons = {sample["finishReason"] for sample in found["samples"]}
    assert reasons == {"end_turn" if name == "anthropic" else "stop"}


def test_ollama_generates(recipe):
    port = str(find_free_port())
    changes = {"8922": port, "protocol: ollama": "protocol: ollama\n      path: /api/generate"}
    assert recipe("ollama", **changes)["answers"]["answered"] == 6


def test_every_recipe_is_explained():
    page = (RECIPES / "README.md").read_text()
    assert [path.name for path in RECIPES.glob("*.yaml") if f"`{path.name}`" not in page] == []
