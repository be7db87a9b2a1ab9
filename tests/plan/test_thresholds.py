"""Which limits each dataset gets from its own thresholds, its file's and the evaluation's, and what is refused."""

import json

import pytest

from evalspec.manifest.loader import load_manifest
from evalspec.plan.build import build_plan
from evalspec.plan.options import RunOptions
from evalspec.records import Threshold


def limits_of(project):
    """What `evaluate` would gate, by dataset, in order."""
    plan = build_plan(load_manifest(project.write()), RunOptions(url="http://localhost:1", no_judge=True))
    return {dataset.name: list(dataset.thresholds) for dataset in plan.datasets}


def errors_of(project):
    outcome = project.validate("--no-judge", "--json")
    return [(error["field"], error["message"], error.get("fix")) for error in outcome.document["errors"]]


def test_a_bare_number_limits_the_worse_side_and_the_gates_confidence_may_be_replaced(project):
    limits = {
        "exact_match": [0.5, {"min": 0.1, "max": 0.9, "stat": "median", "slice": "x", "confidence": 0.8}],
        "latency_p95": [900, {"max": 800, "confidence": None}],
    }
    project.dataset("qa", [{"tags": ["x"]}], metrics=["exact_match"], thresholds=limits)
    project.evaluation["ciGate"] = {"confidence": 0.9}
    assert limits_of(project) == {
        "qa": [
            Threshold("exact_match", 0.5, None, confidence=0.9),
            Threshold("exact_match", 0.1, 0.9, "x", "median", 0.8),
            Threshold("latency_p95", None, 900.0, confidence=0.9),
            Threshold("latency_p95", None, 800.0),
        ]
    }


UNRAG = {
    "version": "1",
    "id": "support",
    "defaults": {
        "topK": 5,
        "scopePrefix": "e:",
        "thresholds": {"min": {"recallAtK": 0.75}, "max": {"p95TotalMs": 800}},
    },
    "documents": [{"sourceId": "e:a", "content": "Refunds take 14 days."}],
    "queries": [{"id": "q", "query": "Refunds?", "relevant": {"sourceIds": ["e:a"]}}],
}


@pytest.mark.parametrize(
    ("own", "shared", "expected"),
    [
        ({}, {}, [("Recall@5", 0.75, None, 0.9), ("latency_p95", None, 800.0, 0.9)]),
        ({"recall@5": 0.5}, {}, [("Recall@5", 0.5, None, 0.9), ("latency_p95", None, 800.0, 0.9)]),
        ({}, {"latency_p95": 100}, [("Recall@5", 0.75, None, 0.9), ("latency_p95", None, 100.0, 0.9)]),
        ({}, {"recall@5": 0.5}, [("latency_p95", None, 800.0, 0.9), ("Recall@5", 0.5, None, 0.9)]),
    ],
)
def test_a_file_states_limits_where_the_manifest_states_none(project, own, shared, expected):
    (project.folder / "s.json").write_text(json.dumps(UNRAG))
    project.api["chatEndpoint"] = {"response": {"answer": "$.a", "contextIds": "$.i[*]"}}
    config = {"name": "qa", "path": "$file:s.json", "metrics": ["Recall@5"], "thresholds": own}
    project.evaluation |= {"datasets": [config], "thresholds": shared, "ciGate": {"confidence": 0.9}}
    found = limits_of(project)["qa"]
    assert [(limit.metric, limit.min, limit.max, limit.confidence) for limit in found] == expected


def test_a_key_that_no_metric_can_have_is_refused_once_and_the_others_are_checked(project):
    project.dataset("qa", [{}], metrics=["exact_match"], thresholds={"Recall@0": 0.5, "bleu": 0.5})
    project.evaluation["thresholds"] = {"RR@0": 0.5, "rouge": 0.5}
    own, bleu, shared, rouge = errors_of(project)
    assert (own[0], shared[0]) == (
        "spec.evaluation.datasets[0].thresholds.Recall@0",
        "spec.evaluation.thresholds.RR@0",
    )
    assert "at least 1" in own[1]
    assert bleu == (
        "spec.evaluation.datasets[0].thresholds.bleu",
        "dataset 'qa' does not compute bleu",
        "add it to its metrics",
    )
    assert rouge == (
        "spec.evaluation.thresholds.rouge",
        "no dataset computes rouge",
        "add it to a dataset's metrics or remove the threshold; computed are: exact_match",
    )


def test_a_metric_that_cannot_be_used_is_reported_once(project, monkeypatch):
    monkeypatch.setattr("evalspec.judge.services.find_spec", lambda name: None)
    project.dataset("qa", [{"context": ["c"]}], metrics=["faithfulness"], thresholds={"faithfulness": 0.5})
    project.evaluation |= {"judge": {"model": "m"}, "thresholds": {"faithfulness": 0.4}}
    (error,) = project.validate("--json").document["errors"]
    assert error["field"] == "spec.evaluation.datasets[0].metrics[0]"


def test_an_implicit_metric_needs_the_one_it_is_computed_from(project):
    project.dataset("qa", [{}], metrics=["exact_match"], thresholds={"hallucination": 0.5})
    ((_, message, _),) = errors_of(project)
    assert message == "dataset 'qa' does not compute hallucination"


@pytest.mark.parametrize(
    ("metric", "value", "message", "fix"),
    [
        ("exact_match", 0, None, None),
        ("exact_match", 1, None, None),
        ("exact_match", 80, "80 is outside the range of exact_match, 0 to 1", "did you mean 0.8?"),
        ("exact_match", 100, "100 is outside the range of exact_match, 0 to 1", "did you mean 1?"),
        ("exact_match", 101, "101 is outside the range of exact_match, 0 to 1", None),
        (
            "exact_match",
            {"min": 0.5, "max": 1.5},
            "1.5 is outside the range of exact_match, 0 to 1",
            "did you mean 0.015?",
        ),
        ("exact_match", {"min": -0.5}, "-0.5 is outside the range of exact_match, 0 to 1", None),
        ("latency_p95", 1e9, None, None),
        ("latency_p95", {"max": -50}, "-50 is outside the range of latency_p95, 0 to unlimited", None),
    ],
)
@pytest.mark.parametrize("listed", [False, True])
def test_the_range_of_a_limit_includes_its_ends(project, metric, value, message, fix, listed):
    """In a list, the one at fault is named."""
    project.dataset("qa", [{}], metrics=["exact_match"])
    project.evaluation["thresholds"] = {metric: [{"max": 1}, value] if listed else value}
    field = f"spec.evaluation.thresholds.{metric}" + ("[1]" if listed else "")
    found = [(field, message, fix or "") for field, message, fix in errors_of(project)]
    assert found == ([(field, message, fix or "")] if message else [])


def test_an_unknown_slice_names_the_tags_there_are(project):
    project.dataset("a", [{"tags": ["hard", "easy"]}], metrics=["exact_match"])
    project.dataset("b", [{"tags": ["easy"]}], metrics=["exact_match"])
    project.evaluation["thresholds"] = {"exact_match": [0.1, {"min": 0.5, "slice": "x"}]}
    (error,) = errors_of(project)
    assert error == (
        "spec.evaluation.thresholds.exact_match[1]",
        "no sample is in the slice 'x'",
        "name a tag or key=value of the metadata; tags are: easy, hard",
    )
    project.evaluation["datasets"] = project.evaluation["datasets"][:1]
    (project.folder / "a.jsonl").write_text('{"input": "q", "expected": "a"}\n')
    assert errors_of(project)[0][2].endswith("tags are: none")


def test_a_limit_of_another_match_names_both(project):
    project.dataset("qa", [{}], metrics=["string_match"], thresholds={"pass_rate": 0.5})
    ((field, message, fix),) = errors_of(project)
    assert field == "spec.evaluation.datasets[0].thresholds.pass_rate"
    assert message == "'pass_rate' means match: substring, and dataset 'qa' computes string_match with match: word"
    assert fix == "use one name in metrics and thresholds"
    project.evaluation["datasets"][0]["thresholds"] = {"String_Match": 0.5}
    assert errors_of(project) == []


def test_a_dataset_that_is_not_selected_is_no_reason_to_refuse_a_slice(project):
    project.dataset(
        "a", [{"tags": ["hard"]}], metrics=["exact_match"], thresholds={"exact_match": {"min": 0.5, "slice": "hard"}}
    )
    project.dataset("b", [{}], metrics=["exact_match"])
    assert project.validate("--dataset", "b").code == 0
