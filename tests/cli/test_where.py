"""`--where` and `--stratify` in every command that selects samples, and in the library."""

import json
from collections import Counter

import pytest

import evalspec
from evalspec.base.errors import InvalidInput


@pytest.fixture
def qa(project):
    """Forty samples: ten of level 2, thirty of level 1, in two nested regions; right replies to all."""
    lines = [
        {
            "id": f"s{n}",
            "input": f"Question {n}?",
            "relevant": [f"d{n}"],
            "metadata": {"level": 1 if n % 4 else 2, "place": {"region": "eu" if n % 2 else "us"}},
        }
        for n in range(40)
    ]
    project.dataset("qa", lines, metrics=["string_match"])
    replies = [{"id": f"s{n}", "response": "Paris", "retrieved_context_ids": [f"d{n}"]} for n in range(40)]
    (project.folder / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    project.write()
    return project


def evaluate(project, *arguments):
    return project("evaluate", "agent.yaml", "--responses", "replies.jsonl", "--json", *arguments)


def ids_of(outcome):
    return {sample["id"] for sample in outcome.document["datasets"][0]["samples"]}


LEVEL_2 = {f"s{n}" for n in range(0, 40, 4)}


def test_evaluate_selects_by_metadata_and_stores_how(qa):
    outcome = evaluate(qa, "--where", "level=2")
    assert ids_of(outcome) == LEVEL_2
    assert outcome.document["fingerprint"]["selection"]["where"] == ["level=2"]
    assert outcome.document["partial"]
    both = evaluate(qa, "--where", "place.region=eu", "--where", "id in s1,s2,s3")
    assert ids_of(both) == {"s1", "s3"}
    resumed = qa("evaluate", "agent.yaml", "--resume", "--json")
    assert ids_of(resumed) == {"s1", "s3"}
    run = evalspec.evaluate("agent.yaml", responses="replies.jsonl", where="level=2")
    assert {sample.id for sample in run.datasets[0].samples} == LEVEL_2


def test_the_environment_separates_conditions_by_semicolons(qa, monkeypatch):
    monkeypatch.setenv("EVALSPEC_WHERE", "place.region=eu;id in s1, s2, s3")
    assert ids_of(evaluate(qa)) == {"s1", "s3"}


def test_a_stratified_draw_keeps_the_shares(qa):
    outcome = evaluate(qa, "--sample-size", "8", "--stratify", "level")
    assert Counter(name in LEVEL_2 for name in ids_of(outcome)) == {True: 2, False: 6}
    assert outcome.document["fingerprint"]["selection"]["stratify"] == ["level"]
    assert ids_of(qa("evaluate", "agent.yaml", "--resume", "--json")) == ids_of(outcome)
    more = ids_of(evaluate(qa, "--sample-size", "21", "--stratify", "level,place.region"))
    assert len(more) == 21
    planned = qa(
        "plan", "agent.yaml", "--sample-size", "8", "--stratify", "level", "--where", "place.region=us", "--json"
    )
    assert planned.document["agentRequests"] == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--where", "levle=2"), "--where: no sample has the key 'levle'. did you mean 'level'?"),
        (("--where", "level"), "--where: 'level' is not a condition. write key=value"),
        (("--stratify", "level"), "--stratify: strata need a size. add --sample-size N"),
        (("--sample-size", "5", "--stratify", "levle"), "--stratify: no sample has the key 'levle'"),
        (("--where", "level=3"), "no sample is selected"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "plan", "convert"])
def test_a_wrong_selection_is_one_clear_line(qa, command, arguments, message):
    head = {
        "evaluate": ("agent.yaml", "--responses", "replies.jsonl"),
        "plan": ("agent.yaml",),
        "convert": ("qa.jsonl", "out.jsonl", "--to", "jsonl"),
    }
    outcome = qa(command, *head[command], *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert not (qa.folder / "out.jsonl").exists()


def test_a_dataset_without_the_key_is_skipped_like_one_without_the_tag(qa):
    qa.samples(3, "plain")
    qa.write()
    outcome = evaluate(qa, "--where", "level=2")
    assert [dataset["name"] for dataset in outcome.document["datasets"]] == ["qa"]
    assert "dataset 'plain' has no sample that is selected: skipped" in outcome.err
    drawn = evaluate(qa, "--sample-size", "2", "--stratify", "level")
    assert [dataset["selected"] for dataset in drawn.document["datasets"]] == [2, 2]
    assert "dataset 'plain' has no `level`, so its draw ignores that key" in drawn.err


def test_convert_writes_the_selected_samples(qa):
    outcome = qa("convert", "qa.jsonl", "hard.jsonl", "--to", "jsonl", "--where", "level=2", "--json")
    assert (outcome.document["samples"], outcome.document["available"]) == (10, 40)
    written = [json.loads(line) for line in (qa.folder / "hard.jsonl").read_text().splitlines()]
    assert {line["id"] for line in written} == LEVEL_2
    evalspec.convert("qa.jsonl", "few.jsonl", to="jsonl", sample_size=8, stratify="level")
    few = {json.loads(line)["id"] for line in (qa.folder / "few.jsonl").read_text().splitlines()}
    assert few == ids_of(evaluate(qa, "--sample-size", "8", "--stratify", "level")), "the draw of evaluate"
    with pytest.raises(InvalidInput, match="sample_size"):
        evalspec.convert("qa.jsonl", "none.jsonl", to="jsonl", sample_size=0)


def test_score_counts_only_the_selected_queries(qa):
    replies = [{"id": f"s{n}", "retrieved_context_ids": [f"d{n}"] if n % 4 else []} for n in range(40)]
    (qa.folder / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    outcome = qa("score", "qa.jsonl", "replies.jsonl", "-m", "Recall@5", "--where", "level!=2", "--json")
    assert outcome.document["datasets"][0]["metrics"]["Recall@5"]["value"] == 1.0
    assert "queries that --where leaves out: 10 of 40" in outcome.err
    run = evalspec.score("qa.jsonl", "replies.jsonl", metrics=["Recall@5"], where=["level=2"])
    assert run.datasets[0].metrics["Recall@5"].value == 0.0


def test_score_cannot_filter_judgements_without_metadata(qa):
    (qa.folder / "qrels.txt").write_text("s1 0 d1 1\n")
    (qa.folder / "run.txt").write_text("s1 Q0 d1 1 2.0 x\n")
    outcome = qa("score", "qrels.txt", "run.txt", "--where", "level=2")
    assert outcome.code == 2
    assert "qrels.txt: --where: judgements have no metadata to filter by. give a dataset with metadata" in outcome.err
    assert qa("score", "qa.jsonl", "run.txt", "--where", "levle=2").code == 2


def test_the_gate_treats_a_filtered_run_like_a_tagged_one(qa):
    evaluate(qa)
    qa("runs", "promote", "latest", "--as", "main")
    qa.evaluation["ciGate"] = {"baseline": "main", "maxDrop": 0.0}
    qa.write()
    found = evaluate(qa, "--where", "level=2").document["regressions"][0]
    assert (found["status"], found["pairs"]) == ("PASS", 10), "the other samples are left out by choice"
