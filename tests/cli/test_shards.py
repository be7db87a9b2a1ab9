"""Shards of a run: evaluated apart, merged into the run that one process would have made."""

import json
import random
import re

import pytest

import evalspec
from cli.test_controls import ANSWERS

AGENT = """
import hashlib
from pathlib import Path

def answer(question):
    right = int(Path("right.txt").read_text())
    digit = int(hashlib.sha256(question.encode()).hexdigest(), 16) % 10
    if digit == 0:
        raise RuntimeError("no answer")
    return {"response": "Paris" if digit < right else "Lyon", "usage": {"input_tokens": digit, "output_tokens": 1}}
"""


@pytest.fixture
def sharded(project):
    """A project with two datasets, one of them with clusters, an agent that is sometimes wrong, and a gate."""
    (project.folder / "bot.py").write_text(AGENT)
    (project.folder / "right.txt").write_text("8")
    project.api = {"python": "bot:answer"}
    samples = [{"id": f"s{n}", "metadata": {"doc": f"d{n % 7 or n}"}, "tags": ["odd"][: n % 2]} for n in range(40)]
    of_one_cluster = {"string_match": {"min": 0, "slice": "doc=d1"}}
    metrics = ["string_match", "tokens_mean"]
    project.dataset("qa", samples, metrics=metrics, cluster="doc", thresholds=of_one_cluster)
    project.dataset("small", [{"id": f"t{n}", "input": f"Where? {n}"} for n in range(20)], metrics=["string_match"])
    project.evaluation["thresholds"] = {"string_match": 0.5}
    project.evaluation["ciGate"] = {"maxErrorRate": 0.5, "minCoverage": 0.5}
    return project


def evaluate_shards(project, of, *arguments, without=()):
    """The ids of the shards of a run."""
    found = {}
    for number in range(1, of + 1):
        if number not in without:
            outcome = project.evaluate("--json", "--shard", f"{number}/{of}", *arguments)
            assert (outcome.code, outcome.document.get("verdict")) == (0, "SHARD"), (outcome.document, outcome.err)
            found[number] = outcome.document["runId"]
    return found


TIMES = re.compile(r"latency|_ms|Ms$|stages|own_lag", re.I)


def comparable(document):
    """A report without what may differ between a run and its merged shards."""
    text = json.dumps(document).replace(document["runId"], "RUN")
    document = json.loads(text)
    for key in ("startedAt", "ci"):
        document["fingerprint"].pop(key, None)
    return drop_times(document)


def drop_times(value):
    if isinstance(value, dict):
        return {key: drop_times(item) for key, item in value.items() if not TIMES.search(key)}
    return [drop_times(item) for item in value] if isinstance(value, list) else value


PLAIN = [(), ("--repeat", "3"), ("--sample-size", "17", "--seed", "3"), ("--no-content",), ("--tag", "odd")]


@pytest.mark.parametrize(("of", "arguments"), [*((3, one) for one in PLAIN), (1, ()), (8, ()), (30, ())])
def test_merged_shards_are_the_run(of, arguments, sharded):
    whole = sharded.evaluate("--json", *arguments)
    assert (whole.code, whole.document["verdict"]) == (0, "PASS"), whole.document["reasons"]
    ids = [*evaluate_shards(sharded, of, *arguments).values()]
    random.Random(of).shuffle(ids)
    merged = sharded("merge", *ids, "--json")
    assert (merged.code, comparable(merged.document)) == (0, comparable(whole.document))
    assert sharded("runs", "verify").out.split() == [merged.document["runId"], "intact"]
    if "--no-content" not in arguments:
        assert sharded("report", merged.document["runId"], "--json").document == merged.document


def test_a_shard_shows_no_gate(sharded):
    found = sharded.evaluate("--shard", "2/3", "-o", "page.html", "-o", "cases.junit.xml", "-o", "found.sarif")
    assert found.code == 0
    assert found.out.startswith("SHARD")
    assert "part 2 of 3, no threshold is checked" in found.out
    assert "to merge all 3 shards: evalspec merge RUN…" in found.err
    page = (sharded.folder / "page.html").read_text()
    assert "✓" not in found.out + page.partition("<script")[0]
    assert "<failure" not in (sharded.folder / "cases.junit.xml").read_text()
    results = json.loads((sharded.folder / "found.sarif").read_text())["runs"][0]["results"]
    assert {one["level"] for one in results} <= {"note"}
    stored = next(sharded.folder.glob(".evalspec/runs/2*")) / "inputs.jsonl"
    one = json.loads(stored.read_text().splitlines()[0])["sample"]["id"]
    assert sharded("show", one).out.startswith(one)


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "latest"), ("compare", "latest", "latest"), ("rescore", "latest", "agent.yaml"),
        ("runs", "promote", "latest", "--as", "main"),
        ("label", "latest", "--sample", "s0", "--verdict", "good", "--as", "ann"),
        ("report", "shard.json"),
        ("runs", "push", "latest", "--to", "http://127.0.0.1:9"), ("compare", "shard.json", "latest"),
    ],
)  # fmt: skip
def test_what_a_part_of_a_run_cannot_do_is_refused_in_one_line(arguments, sharded, monkeypatch):
    monkeypatch.setenv("EVALSPEC_TOKEN", "t")
    sharded.evaluate("--shard", "1/2", "-o", "shard.json")
    refused = sharded(*arguments)
    assert (refused.code, refused.out) == (2, "")
    assert re.fullmatch(r"evalspec: run \S+ is shard 1/2, .* merge all 2 shards: evalspec merge RUN…\n", refused.err)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--fail-fast",), "--fail-fast does not go with it: no shard knows the verdict"),
        (("--batch",), "--batch does not go with it"),
        (("--shard", "auto"), "--shard: neither CI_NODE_INDEX nor SLURM_ARRAY_TASK_ID is set"),
        (("--push", "--to", "http://127.0.0.1:9"), "--push: a shard is not pushed"),
    ],
)
def test_what_does_not_go_with_shards_is_refused(option, said, sharded, monkeypatch):
    for name in ("CI_NODE_INDEX", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EVALSPEC_SHARD", "1/2")
    monkeypatch.setenv("EVALSPEC_TOKEN", "t")
    refused = sharded.evaluate(*option)
    assert (refused.code, said in refused.err) == (2, True), refused.err


def test_a_scheduler_counts_only_if_it_is_asked(sharded, monkeypatch):
    monkeypatch.setenv("CI_NODE_INDEX", "2")
    monkeypatch.setenv("CI_NODE_TOTAL", "3")
    assert sharded.evaluate("--json").document["verdict"] == "PASS"
    found = sharded.evaluate("--json", "--shard", "auto")
    assert found.document["fingerprint"]["shard"]["number"] == 2
    assert "shard 2/3, as GitLab CI says: CI_NODE_INDEX is 2, CI_NODE_TOTAL is 3" in found.err


def test_an_index_that_shards_would_fill_is_refused(project):
    (project.folder / "find.py").write_text("class Finder:\n    async def search(self, request): raise KeyError\n")
    project.dataset("qa", [{"id": "q", "relevant": ["a"]}], retriever="own", metrics=["Recall@5"], corpus="docs.jsonl")
    (project.folder / "docs.jsonl").write_text(json.dumps({"id": "a", "text": "b"}) + "\n")
    project.evaluation["retrievers"] = {"own": {"python": "find:Finder"}}
    refused = project.evaluate("--shard", "1/2")
    assert (refused.code, "add --no-ingest" in refused.err) == (2, True), refused.err


def test_missing_shards_are_named_with_their_commands(sharded):
    options = ("--tag", "odd", "--repeat", "2", "--no-content")
    found = evaluate_shards(sharded, 4, *options, without=(2, 3))
    incomplete = sharded("merge", *found.values(), "--json")
    assert incomplete.code == 3
    assert [one["message"] for one in incomplete.document["errors"]] == [
        f"INCOMPLETE: shard {number}/4 is missing" for number in (2, 3)
    ]
    for number, one in zip((2, 3), incomplete.document["errors"], strict=True):
        command = "evalspec evaluate agent.yaml --tag odd --repeat 2 --no-content --no-cache --shard"
        assert one["fix"] == f"run: {command} {number}/4", "EVALSPEC_NO_CACHE is set in tests"
        found[number] = sharded(*one["fix"].split()[2:], "--json").document["runId"]
    assert sharded("merge", *found.values()).code == 0
    with pytest.raises(evalspec.Unmeasurable, match="INCOMPLETE: shard 2/4 is missing"):
        evalspec.merge(found[1], found[3], found[4])


def test_a_killed_shard_is_resumed_and_merged(sharded):
    whole = sharded.evaluate("--json").document
    found = evaluate_shards(sharded, 3)
    folder = sharded.folder / ".evalspec" / "runs" / found[2]
    lines = (folder / "samples.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "samples.jsonl").write_bytes(b"".join(lines[: len(lines) // 2]) + b'{"kind":')
    (folder / "report.json").unlink()
    incomplete = sharded("merge", *found.values())
    assert (incomplete.code, incomplete.out) == (3, "")
    (line,) = incomplete.err.splitlines()
    assert line.startswith("evalspec: INCOMPLETE: shard 2/3 is not finished: the run is not finished: ")
    assert sharded(*line.partition("run: evalspec ")[2].split()).code == 0
    assert comparable(sharded("merge", *found.values(), "--json").document) == comparable(whole)


def test_a_shard_whose_agent_is_down_is_not_finished(sharded):
    sharded.api = {"url": "http://127.0.0.1:9"}
    found = [sharded.evaluate("--shard", f"{number}/2", "--json") for number in (1, 2)]
    assert {(one.code, one.document["verdict"]) for one in found} == {(3, "SHARD")}
    assert "could not reach the agent" in found[0].document["reasons"][0]
    assert sharded("merge", *(one.document["runId"] for one in found)).code == 3


def test_runs_that_are_not_the_shards_of_one_run_are_refused(sharded):
    found = evaluate_shards(sharded, 2)
    sharded.evaluation["thresholds"] = {"string_match": 0.4}
    other_limit = sharded.evaluate("--json", "--shard", "2/2").document["runId"]
    other_options = sharded.evaluate("--json", "--shard", "2/2", "--repeat", "2").document["runId"]
    sharded.evaluation["thresholds"] = {"string_match": 0.5}
    other_number = sharded.evaluate("--json", "--shard", "2/3").document["runId"]
    other_samples = sharded.evaluate("--json", "--shard", "2/2", "--tag", "odd").document["runId"]
    plain = sharded.evaluate("--json").document["runId"]
    path = sharded.folder / "qa.jsonl"
    path.write_text(path.read_text().replace("Paris", "Rome", 1))
    other_data = sharded.evaluate("--json", "--shard", "2/2").document["runId"]
    for others, said in {
        (found[1],): "shard 1 is given more than once",
        (plain,): "is no shard",
        (other_limit,): "manifest: spec.evaluation.thresholds.string_match[0].bound changed",
        (other_options,): "--repeat was 1 and is now 2",
        (other_number,): "number of shards: 2 and 3",
        (other_samples,): "SHA-256 of the selected samples of all shards: ",
        (other_data,): "SHA-256 of dataset qa: ",
    }.items():
        refused = sharded("merge", found[1], *others, "--json")
        assert refused.code == 2, said
        assert any(said in one["message"] for one in refused.document["errors"]), refused.document["errors"]


def test_a_sample_that_is_missing_from_a_shard_is_noticed(sharded):
    found = evaluate_shards(sharded, 2)
    path = sharded.folder / ".evalspec" / "runs" / found[2] / "inputs.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    refused = sharded("merge", *found.values())
    assert (refused.code, refused.out) == (3, "")
    assert str(path.parent.name) in refused.err


def test_shards_of_other_machines_are_named_by_their_folders(sharded):
    found = evaluate_shards(sharded, 2)
    collected = sharded.folder / "shards"
    (sharded.folder / ".evalspec" / "runs").rename(collected)
    merged = evalspec.merge(*(collected / one for one in found.values()))
    assert (merged.verdict, merged.fingerprint.shard) == ("PASS", None)
    with pytest.raises(evalspec.InvalidInput, match="--shard: '3' is no shard"):
        evalspec.evaluate("agent.yaml", shard="3")
    assert evalspec.evaluate("agent.yaml", shard="1/2").verdict == "SHARD"


@pytest.mark.parametrize(("right", "code"), [(8, 0), (2, 1)])
def test_a_drop_is_confirmed_by_resuming_the_merged_run_and_baselines_have_the_same_bytes(right, code, sharded):
    sharded.evaluation["thresholds"] = {"string_match": {"min": 0}}
    sharded.evaluation["ciGate"] |= {"baseline": "main", "maxDrop": {"string_match": 0.1}}
    sharded.evaluate()
    sharded("runs", "promote", "latest", "--as", "main")
    (sharded.folder / "right.txt").write_text(str(right))
    whole = sharded.evaluate("--json")
    assert whole.code == code, whole.document["reasons"]
    baseline = sharded.folder / "evals" / "baselines" / "main.json"
    before = baseline.read_bytes()
    ids = evaluate_shards(sharded, 4).values()
    merged = sharded("merge", *ids, "--json")
    if code:
        assert (merged.code, merged.document["verdict"]) == (3, "INCOMPLETE")
        assert sharded("report", merged.document["runId"], "--json").document == merged.document
        (hint,) = (line for line in merged.err.splitlines() if "to confirm the drop: " in line)
        merged = sharded(*hint.partition("evalspec evaluate")[2].join(("evaluate", "")).split(), "--json")
    assert (merged.code, comparable(merged.document)) == (code, comparable(whole.document))
    assert baseline.read_bytes() == before
    sharded("runs", "promote", whole.document["runId"], "--as", "whole")
    sharded("runs", "promote", merged.document["runId"], "--as", "merged")
    assert read_bare(baseline.with_name("merged.json"), merged) == read_bare(baseline.with_name("whole.json"), whole)


def test_shards_are_no_rivals_of_the_run_that_they_make(sharded):
    (sharded.folder / "right.txt").write_text("7")
    sharded.evaluate()
    (sharded.folder / "right.txt").write_text("8")
    sharded("merge", *evaluate_shards(sharded, 1).values())
    assert "the best of 2 runs" in sharded("runs", "promote", "latest", "--as", "main").err


def read_bare(path, outcome):
    """The bytes of a baseline without what names its run: id, start and checksum."""
    found = path.read_text().partition('"sha256":')[0].replace(outcome.document["runId"], "RUN")
    return found.replace(outcome.document["fingerprint"]["startedAt"], "START")


@pytest.mark.usefixtures("with_controls")
def test_judged_shards_share_their_control_cases(project, judge):
    samples = [
        {"id": name, "input": f"What about {name}?", "expected": text, "context": [text]}
        for name, text in ANSWERS.items()
    ]
    answers = {one["input"]: one["expected"] for one in samples}
    (project.folder / "bot.py").write_text(f"def answer(question):\n    return {answers!r}[question]\n")
    project.api = {"python": "bot:answer"}
    project.evaluation |= {
        "judge": {"model": "scripted", "baseUrl": judge.url, "apiKey": "none"},
        "thresholds": {"faithfulness": 0.5}, "ciGate": True,
    }  # fmt: skip
    project.dataset("qa", samples, metrics=["faithfulness", "answer_correctness"])
    whole = project.evaluate("--json", "--no-cache")
    asked = len(judge.chats)
    merged = project("merge", *evaluate_shards(project, 3, "--no-cache").values(), "--json")
    assert len(judge.chats) == 2 * asked
    assert len(merged.document["controls"]) == 2
    assert (merged.code, comparable(merged.document)) == (0, comparable(whole.document))
