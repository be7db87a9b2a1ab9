"""A dataset in another normalisation form of Unicode has the same samples: editors and file systems choose the form."""

import json
import unicodedata
from typing import Any

import pytest

LINES: list[dict[str, Any]] = [
    {"id": "café", "input": "Où est le café ?", "tags": ["été"], "metadata": {"topic": "crème"}},
    {"input": "Wie heißt die Hauptstadt von Österreich?", "context": ["Österreich: Wien"]},
    {"input": "Name?", "expected": "Žižka"},
]


@pytest.fixture
def nfc(project, agent):
    project.api = {"url": agent.url}
    project.dataset("qa", LINES, metrics=["string_match"])
    project.evaluation |= {"thresholds": {"string_match": {"min": 0, "slice": "topic=crème"}}, "ciGate": True}
    return project


def rewrite(project, form):
    path = project.folder / "qa.jsonl"
    path.write_text("".join(unicodedata.normalize(form, line) for line in path.read_text("utf-8").splitlines(True)))


def describe(outcome):
    (dataset,) = outcome.document["datasets"]
    return [(one["id"], one["digest"], one["scores"]["string_match"]["value"]) for one in dataset["samples"]]


@pytest.mark.parametrize("selection", [(), ("--tag", "été"), ("--where", "topic=crème"), ("--sample-size", "2")])
def test_samples_selection_and_slices_are_the_same(nfc, selection):
    path = nfc.folder / "qa.jsonl"
    path.write_text("".join(json.dumps(line | {"expected": "Paris"}, ensure_ascii=False) + "\n" for line in LINES))
    before = describe(nfc.evaluate("--json", *selection))
    rewrite(nfc, "NFD")
    assert describe(nfc.evaluate("--json", *selection)) == before


def test_a_run_is_resumed_and_recorded_replies_are_found(nfc, agent):
    run = nfc.evaluate("--json").document["runId"]
    rewrite(nfc, "NFD")
    assert nfc.evaluate("--resume", run).code == 0
    assert len(agent.requests) == 3
    replies = [{"id": unicodedata.normalize(form, "café"), "response": "Paris"} for form in ("NFC", "NFD")]
    (nfc.folder / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    assert "replies.jsonl:2: id: duplicate reply" in nfc.evaluate("--responses", "replies.jsonl").err


def test_ids_that_differ_only_in_form_are_duplicates(nfc):
    ids = [{"id": unicodedata.normalize(form, "café")} for form in ("NFC", "NFD")]
    nfc.dataset("other", ids, metrics=["string_match"])
    assert "other.jsonl:2: id: id 'café' is a duplicate of line 1" in nfc.validate().out
