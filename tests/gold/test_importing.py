"""Triples from datasets, from stored runs and from the terminal, and what models wrote."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from typing import Any

import pytest
import yaml

from evalspec import gold
from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.schema import Kind
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset

LINES: list[dict[str, Any]] = [
    {"id": "one", "input": "How long?", "expected": "14 days", "relevant": ["refunds"], "tags": ["t"]},
    {"id": "a/b c", "input": "Who?", "expected": ["Ada", "Ben"], "relevant": [["x", "y"], ["z"]]},
    {"id": "graded", "input": "What?", "expected": "", "relevant": {"x": 2, "y": 1, "n": 0}},
    {"id": "none", "input": "Why?", "expected": "?"},
    {"id": "empty", "input": "Why not?", "expected": "?", "relevant": {"n": 0}},
]


@pytest.fixture
def lines(gold_set):
    path = gold_set.project.folder / "d.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return gold_set


def test_samples_become_pending_triples_and_others_are_named(lines):
    done = lines.call("import", "d.jsonl", "--source", "public", "--meta", "domain=billing", "--as", "ada")
    assert (done.code, [line.split()[:2] for line in done.out.splitlines()]) == (
        0,
        [["one@1", "pending"], ["a-b-c@1", "pending"], ["graded@1", "pending"]],
    )
    told = done.err.splitlines()
    for name in ("none", "empty"):
        assert f"warning: d.jsonl: {name}: not imported: it has no relevant document" in done.err
    assert "a triple cannot hold all right answers except the first (1 of 5 samples)" in done.err
    assert "a triple cannot hold grades other than 1" in done.err
    assert told[-1] == "3 triples added, 2 refused"
    assert lines.block("a-b-c") == [{"any": [{"block_id": "x"}, {"block_id": "y"}]}, {"block_id": "z"}]
    assert lines.block("graded") == [{"block_id": "x"}, {"block_id": "y"}]
    metadata = gold.read_entry(lines.root, "one").triple.metadata
    assert (metadata.source, metadata.domain, metadata.added_by) == ("public", "billing", "ada")
    assert metadata.model_extra == {"tags": ["t"]}
    assert lines.call("lint").code == 0


def test_an_import_continues_and_a_taken_id_is_refused(lines):
    gold.import_dataset(lines.root, "d.jsonl", "ada", at="2026-01-01T00:00:00Z")
    before = lines.files()
    next((lines.root / "events" / "one").glob("*")).unlink()
    again = gold.import_dataset(lines.root, "d.jsonl", "ada", at="2026-01-01T00:00:00Z")
    assert ([one.id for one in again.added], again.known) == (["one"], ["a-b-c", "graded"])
    assert lines.files() == before
    other = gold.import_dataset(lines.root, "d.jsonl", "ben")
    assert (other.added, "the id 'one' is taken" in other.refused["one"]) == ([], True)
    assert lines.files() == before


def test_blocks_are_pinned_to_the_corpus(lines):
    corpus = lines.corpus(refunds="14 days", x="x", y="y")
    done = gold.import_dataset(lines.root, "d.jsonl", "ada", corpus=corpus)
    assert [one.id for one in done.added] == ["one", "graded"]
    assert "the corpus does not have z" in done.refused["a/b c"]
    assert lines.block("one")["version"].startswith("sha256:")
    assert gold.check_set(lines.root, corpus).stale == {}


def test_nothing_to_import_is_an_error(lines, tmp_path):
    (tmp_path / "none.jsonl").write_text(json.dumps(LINES[3]) + "\n")
    done = lines.call("import", "none.jsonl", "--as", "ada")
    assert (done.code, "none: not imported" in done.err) == (2, True)


def test_an_import_cannot_change_where_samples_come_from(gold_set):
    """Else a customer's question would lose its permission, and what a model wrote would not be for stress tests."""
    gold.grant(gold_set.root, "acme", "ada", evidence="a contract")
    gold.grant(gold_set.root, "other", "ada", evidence="a contract")
    origins = {
        "theirs": {"source": "customer", "customer": "acme"},
        "unsaid": {"customer": "acme"},
        "made": {"source": "synthetic", "generated_by": "model-1"},
        "page": {"source": "handbook.pdf"},
    }
    lines = [LINES[0] | {"id": name, "metadata": metadata} for name, metadata in origins.items()]
    (gold_set.project.folder / "d.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    more = ("--source", "customer", "--meta", "customer=other", "--meta", "generated_by=ada")
    done = gold_set.call("import", "d.jsonl", *more, "--as", "ada")
    assert [line.split("@")[0] for line in done.out.splitlines()] == ["page"]
    for said in (
        "theirs: not imported: metadata.customer: its customer is acme, which other would replace",
        "unsaid: not imported: metadata.customer: its customer is acme, which other would replace",
        "made: not imported: metadata.source: its source is synthetic, which customer would replace",
    ):
        assert said in done.err
    done = gold_set.call("import", "d.jsonl", "--source", "public", "--meta", "source=customer", "--as", "ada")
    assert (done.code, "metadata.source is both customer and public. keep one" in done.err) == (2, True)
    same = gold_set.call(
        "import", "d.jsonl", "--source", "customer", "--meta", "customer=acme", "--as", "ada", "--json"
    )
    assert [one["id"] for one in same.document["triples"]] == ["theirs", "unsaid"]


def test_tags_are_merged(gold_set):
    line = LINES[0] | {"metadata": {"tags": ["u", "t"]}}
    (gold_set.project.folder / "d.jsonl").write_text(json.dumps(line))
    assert gold_set.call("import", "d.jsonl", "--meta", "tags=v", "--as", "ada").code == 0
    assert gold.read_entry(gold_set.root, "one").triple.metadata.model_extra == {"tags": ["t", "u", "v"]}


ELSEWHERE = {"question": "q", "expected_block": {"block_id": "b", "version": "v1"}, "expected_answer": "a"}


@pytest.fixture
def accepted_elsewhere(gold_set):
    people = {
        "good": {"added_by": "dan", "reviewed_by": ["ada", "ben"], "resolution": "consensus"},
        "author": {"added_by": "eve", "reviewed_by": ["ada", "ben"], "resolution": "consensus"},
        "foreign": {"added_by": "dan", "reviewed_by": ["ada", "mallory"], "resolution": "upheld"},
        "alone": {"added_by": "dan", "reviewed_by": ["dan", "ben"], "resolution": "consensus"},
        "open": {"added_by": "dan"},
    }
    entries = [{"id": name, **ELSEWHERE, "metadata": metadata} for name, metadata in people.items()]
    (gold_set.project.folder / "old.yaml").write_text(yaml.safe_dump(entries))
    return gold_set


def test_reviews_from_elsewhere_are_dropped_unless_they_are_kept(accepted_elsewhere):
    gold.import_dataset(accepted_elsewhere.root, "old.yaml", "cleo")
    assert {accepted_elsewhere.state(name) for name in ("good", "author", "foreign", "alone", "open")} == {"pending"}
    assert accepted_elsewhere.call("lint").code == 0, "nothing computed was written as content"
    metadata = gold.read_entry(accepted_elsewhere.root, "good").triple.metadata
    assert (metadata.added_by, metadata.model_extra["original_author"]) == ("cleo", "dan")


def test_who_wrote_a_triple_elsewhere_cannot_confirm_it_here(accepted_elsewhere):
    """Whether it comes by an import, also of an import, or by a file."""
    root, folder = accepted_elsewhere.root, accepted_elsewhere.project.folder
    again = {"id": "again", **ELSEWHERE, "metadata": {"added_by": "cleo", "original_author": "dan"}}
    (folder / "again.yaml").write_text(yaml.safe_dump([again]))
    (folder / "one.yaml").write_text(yaml.safe_dump({**ELSEWHERE, "metadata": {"added_by": "dan"}}))
    gold.import_dataset(root, "old.yaml", "cleo")
    gold.import_dataset(root, "again.yaml", "ben")
    assert accepted_elsewhere.call("add", "one", "--file", "one.yaml", "--as", "cleo").code == 0
    writers = {
        name: gold.read_entry(root, name).review_status.current.writers for name in ("good", "author", "again", "one")
    }
    assert writers == {
        "good": {"cleo", "dan"},
        "author": {"cleo"},
        "again": {"ben", "cleo", "dan"},
        "one": {"cleo", "dan"},
    }
    with pytest.raises(InvalidInput, match="nobody reviews their own triple"):
        accepted_elsewhere.accept("good", "ada", "dan")
    assert accepted_elsewhere.call("lint").code == 0


def test_kept_reviews_are_marked_as_imported(accepted_elsewhere):
    done = accepted_elsewhere.call("import", "old.yaml", "--keep-reviews", "--as", "ada", "--json")
    document = done.document
    states = {one["id"]: (one["state"], one["author"]) for one in document["triples"]}
    assert states == {
        "good": ("accepted", "dan"),
        "author": ("pending", "ada"),
        "foreign": ("pending", "dan"),
        "alone": ("pending", "dan"),
        "open": ("pending", "dan"),
    }
    assert (document["reviewsKept"], sorted(document["reviewsLeft"])) == (3, ["alone", "author", "foreign"])
    events = [one.event for one in gold.read_entry(accepted_elsewhere.root, "good").events]
    assert [(event.by, event.is_imported) for event in events if event.kind is Kind.CONFIRM] == [
        ("ada", True),
        ("ben", True),
    ]
    assert accepted_elsewhere.call("lint").code == 0


@pytest.fixture
def run(gold_set, agent):
    """A stored run whose agent retrieves documents. Its samples know no, one or two relevant ones."""
    project = gold_set.project
    project.api = {"url": agent.url, "chatEndpoint": {"response": {"answer": "$.response", "contextIds": "$.ids"}}}
    project.dataset(
        "qa", [{"id": "known", "relevant": ["d1"]}, {"id": "open", "expected": ""}], metrics=["latency_p95"]
    )
    theirs = {"source": "customer", "customer": "acme", "generated_by": "model-1", "author": "x", "added_by": "ben"}
    project.dataset("more", [{"id": "known", "relevant": ["d1", "d2"], "metadata": theirs}], metrics=["latency_p95"])
    agent.reply = lambda _body: {"response": "Paris, says the agent", "ids": ["d3", "d4"]}
    assert project.evaluate().code == 0
    return gold_set


def test_a_sample_of_a_run_becomes_a_triple(run):
    assert run.call("add", "paris", "--from-run", "latest", "qa/known", "--as", "ada").code == 0
    triple = gold.read_entry(run.root, "paris").triple
    assert (triple.question, triple.expected_answer, triple.metadata.generated_by) == (
        "Capital of France?",
        "Paris",
        None,
    )
    assert run.block("paris") == {"block_id": "d1"}
    assert triple.metadata.model_extra["from_run"].endswith(" qa/known")
    refused = run.call("add", "theirs", "--from-run", "latest", "more/known", "--as", "ada")
    assert (refused.code, "gold grant --customer acme" in refused.err) == (2, True)
    gold.grant(run.root, "acme", "ada", evidence="a contract")
    assert run.call("add", "theirs", "--from-run", "latest", "more/known", "--as", "ada").code == 0
    assert gold.read_entry(run.root, "theirs").review_status.current.writers == {"ada", "ben"}
    theirs = gold.read_entry(run.root, "theirs").triple.metadata
    assert (theirs.source, theirs.customer, theirs.generated_by) == ("customer", "acme", "model-1")
    assert run.block("theirs") == [{"block_id": "d1"}, {"block_id": "d2"}]
    other = run.call("add", "p2", "--from-run", "latest", "more/known", "--meta", "customer=other", "--as", "ada")
    assert (other.code, "its customer is acme, which other would replace" in other.err) == (2, True)
    ambiguous = run.call("add", "p2", "--from-run", "latest", "known", "--as", "ada")
    assert (ambiguous.code, "name qa/known or more/known" in ambiguous.err) == (2, True)
    unknown = run.call("add", "p2", "--from-run", "latest", "knwn", "--as", "ada")
    assert (unknown.code, "did you mean 'known'" in unknown.err) == (2, True)


def test_the_agents_answer_is_marked_and_its_documents_are_a_choice(run):
    refused = run.call("add", "paris", "--from-run", "latest", "open", "--as", "ada")
    assert (refused.code, "the agent retrieved d3, d4. choose one of them with --block" in refused.err) == (2, True)
    done = run.call("add", "paris", "--from-run", "latest", "open", "--block", "d4", "--as", "ada", "--json")
    (triple,) = done.document["triples"]
    assert (triple["expected_answer"], triple["isStress"]) == ("Paris, says the agent", True)
    assert triple["metadata"]["generated_by"].startswith("agent of run ")


def test_what_models_wrote_is_for_stress_tests_until_two_people_confirm(gold_set):
    for name, author in (("model", "model-1"), ("sure", "model-1"), ("human", None)):
        gold_set.add(name, block={"block_id": name, "version": "v1"}, metadata={"generated_by": author})
    gold_set.accept("sure")
    gold_set.accept("human")
    gold_set.accept("model", "ben")
    done = gold_set.call("export", "--stress", "-o", "stress.jsonl", "--to", "jsonl", "--as", "ada", "--json")
    assert (done.code, done.document["triples"]) == (0, 1)
    (line,) = (gold_set.project.folder / "stress.jsonl").read_text().splitlines()
    assert json.loads(line)["metadata"] | {"added_at": ""} == {
        "generated_by": "model-1",
        "added_by": "ada",
        "added_at": "",
        "stress": True,
        "review_state": "pending",
        "expected_block": {"block_id": "model", "version": "v1"},
    }
    assert gold_set.call("export", "--stress", "-o", "stress.yaml", "--as", "ada").code == 0
    (sample,) = load_dataset(Source(gold_set.project.folder / "stress.yaml", "s")).samples
    assert sample.id == "model", "evaluated as any dataset"
    assert [one.id for one in load_dataset(Source(gold_set.root, "set")).samples] == ["human", "sure"]
    inside = gold_set.call("export", "--stress", "-o", f"{gold_set.root}/triples/all.yaml", "--as", "ada")
    assert (inside.code, "would change the gold set" in inside.err) == (2, True)
    gold.review(gold_set.root, "model", "cleo")
    assert gold_set.call("export", "--stress", "-o", "none.yaml", "--as", "ada").code == 2


def test_a_synthetic_triple_needs_a_human_author(gold_set):
    with pytest.raises(InvalidInput, match="'model-1' is not one of the people"):
        gold_set.add("made", metadata={"source": "synthetic", "added_by": "model-1"})
    gold_set.add("made", metadata={"source": "synthetic"})
    path = gold_set.root / "triples" / "made.yaml"
    path.write_text(path.read_text().replace("  added_by: ada\n", ""))
    done = gold_set.call("lint")
    assert (done.code, "metadata.added_by: a synthetic triple needs a human author" in done.err) == (2, True)


def type_on_a_terminal(folder, arguments, answers, seconds=90):
    """Return exit code and screen of a command whose questions are answered on a pseudo-terminal."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "evalspec", *arguments],
        cwd=folder,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "80"},
    )
    os.close(follower)
    screen, wanted, end = b"", list(answers), time.monotonic() + seconds
    while time.monotonic() < end:
        ready, _, _ = select.select([leader], [], [], 0.2)
        if ready:
            try:
                part = os.read(leader, 4096)
            except OSError:
                break
            if not part:
                break
            screen += part
        if wanted and screen.count(b": ") and wanted[0][0].encode() in screen:
            os.write(leader, f"{wanted.pop(0)[1]}\n".encode())
    os.close(leader)
    return process.wait(seconds), screen.decode()


def test_missing_parts_are_prompted_for_on_a_terminal_only(gold_set, run):
    folder = gold_set.project.folder
    gold.grant(gold_set.root, "acme", "ada", evidence="a contract")
    prompts = [("Block: ", "2"), ("Another block", ""), ("Source", ""), ("Source", "customer"), ("Customer", "acme")]
    code, screen = type_on_a_terminal(
        folder,
        ["gold", "add", "paris", "--from-run", "latest", "open", "--as", "ada"],
        [*prompts, ("Domain", "geo"), ("Difficulty", "")],
    )
    assert code == 0, screen
    entry = gold.read_entry(gold_set.root, "paris")
    assert (gold_set.block("paris"), entry.triple.metadata.source, entry.triple.metadata.customer) == (
        {"block_id": "d4"},
        "customer",
        "acme",
    )
    done = gold_set.call("add", "lyon", "--as", "ada")
    assert (done.code, "this key is required" in done.err) == (2, True), "not a terminal"
