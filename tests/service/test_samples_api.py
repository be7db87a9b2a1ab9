"""Samples by HTTP: filters, pages, texts of one sample, and an index that never outlives a text."""

import json
from typing import Any

import msgspec
import pytest
import yaml

import evalspec
from evalspec.reports.json_report import iterate_json
from evalspec.runs.runner.reread import conclude_stored
from evalspec.runs.store.erasing import Wanted, erase_samples
from evalspec.runs.store.stored_run import open_run
from evalspec.service import sample_builds
from servers.service import wait_for

SAMPLES: list[dict[str, Any]] = [
    {"id": "plain", "input": "What is the CAPITAL of France?", "expected": "Paris", "tags": ["geo"]},
    {"id": "wrong/one", "input": "Größe der Straße?", "expected": "Rome", "metadata": {"level": 2, "hard": True}},
    {"id": "down", "input": "down", "expected": "Paris", "tags": ["geo", "slow"], "metadata": {"level": 2.0}},
    {"id": 'quo"te', "input": 'a "quoted" word', "expected": "Paris", "metadata": {"level": "x"}},
]
ALL = [sample["id"] for sample in SAMPLES]


def answer(question):
    if question == "down":
        raise ConnectionError("nobody is there")
    contexts = ["Paris is the capital of France.", f"about {question}"]
    return {"response": "Paris", "retrieved_contexts": contexts, "finish_reason": "stop"}


@pytest.fixture
def run(projects):
    """A run with two attempts at each sample, one failure and one score beyond its threshold."""
    folder = projects["shop"]
    (folder / "qa.jsonl").write_text("".join(f"{json.dumps(sample)}\n" for sample in SAMPLES))
    manifest = yaml.safe_load((folder / "agent.yaml").read_text())
    manifest["spec"]["evaluation"]["thresholds"] = {"exact_match": {"min": 0.5, "slice": "level=2"}}
    (folder / "agent.yaml").write_text(yaml.safe_dump(manifest))
    return evalspec.evaluate(folder / "agent.yaml", agent=answer, store=folder / ".evalspec", repeat=2)


def found(client, run, **parameters):
    answered = client.get(f"/v1/runs/{run.id}/samples", params=parameters)
    assert answered.status_code == 200, answered.text
    return [sample["result"]["id"] for sample in answered.json()["samples"]]


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        ({}, ALL),
        ({"dataset": "qa"}, ALL),
        ({"dataset": "q"}, []),
        ({"metric": "exact_match"}, ALL),
        ({"metric": "faithfulness"}, []),
        ({"failed": True}, ["down"]),
        ({"failed": True, "metric": "latency_p95"}, ["down"]),
        ({"failed": True, "metric": "error_rate"}, []),
        ({"beyond_threshold": True}, ["wrong/one"]),
        ({"beyond_threshold": True, "metric": "exact_match"}, ["wrong/one"]),
        ({"beyond_threshold": True, "metric": "latency_p95"}, []),
        ({"tag": "geo"}, ["plain", "down"]),
        ({"tag": ["geo", "slow"]}, ["down"]),
        ({"tag": "ge"}, []),
        ({"slice": "level=2"}, ["wrong/one", "down"]),
        ({"slice": ["level=2", "hard=true"]}, ["wrong/one"]),
        ({"slice": "geo"}, ["plain", "down"]),
        ({"text": "capital OF"}, ["plain"]),
        ({"text": "STRASSE"}, []),
        ({"text": "straße"}, ["wrong/one"]),
        ({"text": "GRÖß"}, ["wrong/one"]),
        ({"text": "paris"}, ["plain", "wrong/one", 'quo"te']),
        ({"text": '"quoted" w'}, ['quo"te']),
        ({"text": "paris", "tag": "geo"}, ["plain"]),
        ({"text": "par* OR x"}, []),
    ],
)
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_filters(client, run, parameters, wanted):
    assert found(client, run, **parameters) == wanted


def test_pages_have_every_sample_once(client, run):
    for filters in ({}, {"tag": "geo"}, {"text": "paris"}):
        listed, cursor = [], None
        for _ in range(10):
            given = {**filters, "limit": 1, **({"cursor": cursor} if cursor else {})}
            page = client.get(f"/v1/runs/{run.id}/samples", params=given).json()
            listed += [sample["result"]["id"] for sample in page["samples"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert listed == found(client, run, **filters)


def test_a_sample_has_its_texts_attempts_and_evidence(client, run):
    shown = client.get(f"/v1/runs/{run.id}/samples/qa/wrong/one").json()
    sample = shown["sample"]
    assert (sample["id"], sample["userInput"], sample["references"]) == ("wrong/one", "Größe der Straße?", ["Rome"])
    assert [attempt["number"] for attempt in shown["attempts"]] == [1, 2]
    for attempt in shown["attempts"]:
        result, reply = attempt["result"], attempt["reply"]
        assert (reply["response"], result["passed"], result["finishReason"]) == ("Paris", False, "stop")
        assert reply["retrievedContexts"] == ["Paris is the capital of France.", "about Größe der Straße?"]
        assert result["scores"]["exact_match"]["value"] == 0
        assert result["latencyMs"] > 0
    combined = run.datasets[0].samples[1]
    assert shown["result"] == msgspec.json.decode(msgspec.json.encode(combined))
    down = client.get(f"/v1/runs/{run.id}/samples/qa/down").json()
    assert [(a["reply"], a["result"]["status"]) for a in down["attempts"]] == [(None, "failed")] * 2
    assert "nobody is there" in down["attempts"][0]["result"]["error"]
    for missing in ("qa/other", "q/plain", "qa/..%2f..%2frun.json"):
        assert client.get(f"/v1/runs/{run.id}/samples/{missing}").status_code == 404


def test_a_run_without_texts_has_scores_only(client, add_run):
    run = add_run(no_content=True)
    listed = client.get(f"/v1/runs/{run.id}/samples").json()["samples"]
    assert [(one["question"], one["response"], one["result"]["scores"]["exact_match"]["value"]) for one in listed] == [
        (None, None, 1.0)
    ] * 6
    assert found(client, run, text="question") == []
    shown = client.get(f"/v1/runs/{run.id}/samples/qa/s0").json()
    assert (shown["sample"]["userInput"], shown["attempts"][0]["reply"]) == ("", None)
    assert shown["attempts"][0]["result"]["scores"]["exact_match"]["value"] == 1.0


def test_an_erased_text_is_in_no_index(client, run, projects):
    assert found(client, run, text="straße") == ["wrong/one"]
    index = projects["shop"] / ".evalspec" / "index" / run.id / "samples.db"
    outdated = index.read_bytes()
    assert b"wrong" in outdated
    wanted = Wanted(lambda record: record.sample.id == "wrong/one", lambda _: False, lambda _: False, ())
    stored = open_run(projects["shop"] / ".evalspec" / "runs" / run.id)
    erase_samples(stored, wanted, lambda erased: iterate_json(conclude_stored(erased)))
    assert not index.exists()
    index.parent.mkdir()
    index.write_bytes(outdated)
    assert found(client, run, text="straße") == [], "an index of other files is not used"
    assert found(client, run) == ALL
    assert "Straße".encode() not in index.read_bytes()
    shown = client.get(f"/v1/runs/{run.id}/samples/qa/wrong/one").json()
    assert (shown["sample"]["userInput"], [a["reply"] for a in shown["attempts"]]) == ("", [None, None])


def test_a_large_run_is_indexed_by_another_process(client, run, monkeypatch):
    monkeypatch.setattr(sample_builds, "SMALL", 3)
    first = client.get(f"/v1/runs/{run.id}/samples")
    assert (first.status_code, first.headers["Retry-After"]) == (503, "2")
    wait_for(lambda: client.get(f"/v1/runs/{run.id}/samples").status_code == 200)
    assert found(client, run) == ALL


def test_a_large_damaged_run_says_what_is_damaged(client, run, projects, monkeypatch):
    monkeypatch.setattr(sample_builds, "SMALL", 3)
    log = projects["shop"] / ".evalspec" / "runs" / run.id / "samples.jsonl"
    log.write_bytes(log.read_bytes().replace(b"about", b"ABOUT", 1))
    assert client.get(f"/v1/runs/{run.id}/samples").status_code == 503
    refused = wait_for(lambda: (a := client.get(f"/v1/runs/{run.id}/samples")).status_code == 409 and a)
    assert "checksum does not match" in refused.json()["detail"]
    assert str(projects["shop"]) not in refused.text


def test_a_search_needs_three_characters(client, run):
    for text in ("", "ab"):
        refused = client.get(f"/v1/runs/{run.id}/samples", params={"text": text})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "query.text")
