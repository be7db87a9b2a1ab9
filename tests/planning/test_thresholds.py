"""Which limits each dataset gets from its own thresholds, its file's and the evaluation's, and what is refused."""

import json

import pytest

from evalspec.inputs.datasets.base import DatasetContent, DatasetDefaults
from evalspec.inputs.datasets.load import LoadedDataset
from evalspec.inputs.manifest.judge_schema import EmbeddingsConfig
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.model import Threshold
from evalspec.runs.planning.build import build_plan
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.planning.metrics import MetricFinder
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.survey import Lacking, Survey
from evalspec.runs.planning.thresholds import ThresholdFinder
from evalspec.scoring.judge.services import JudgeServices


def datasets_of(project):
    """What `evaluate` would run, by name."""
    plan = build_plan(load_manifest(project.write()), RunOptions(url="http://localhost:1", no_judge=True))
    return {dataset.name: dataset for dataset in plan.datasets}


def limits_of(project):
    """What `evaluate` would gate, by dataset, in order."""
    return {name: list(dataset.thresholds) for name, dataset in datasets_of(project).items()}


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


SUBSTRING = "string_match(match=substring)"
OWN = {"name": "own", "scorer": "own:own"}


@pytest.fixture(autouse=True)
def own_scorer(project):
    """The module that OWN names."""
    (project.folder / "own.py").write_text("def own(exchange): return 0\n")


UNRAG = {
    "version": "1",
    "id": "support",
    "defaults": {
        "topK": 5,
        "scopePrefix": "eval:s:",
        "thresholds": {"min": {"recallAtK": 0.75}, "max": {"p95TotalMs": 800}},
    },
    "documents": [{"sourceId": "eval:s:a", "content": "Refunds take 14 days."}],
    "queries": [{"id": "q", "query": "Refunds?", "relevant": {"sourceIds": ["eval:s:a"]}}],
}


@pytest.fixture
def unrag(project):
    """A dataset whose file brings limits."""
    (project.folder / "s.json").write_text(json.dumps(UNRAG))
    project.api["chatEndpoint"] = {"response": {"answer": "$.a", "contextIds": "$.i[*]"}}
    config = {"name": "qa", "path": "$file:s.json", "metrics": ["Recall@5"]}
    project.evaluation |= {"datasets": [config], "ciGate": {"confidence": 0.9}}
    return project


@pytest.mark.parametrize(
    ("own", "shared", "expected"),
    [
        ({}, {}, [("Recall@5", 0.75, None, 0.9), ("latency_p95", None, 800.0, 0.9)]),
        ({"recall@5": 0.5}, {}, [("Recall@5", 0.5, None, 0.9), ("latency_p95", None, 800.0, 0.9)]),
        ({}, {"latency_p95": 100}, [("Recall@5", 0.75, None, 0.9), ("latency_p95", None, 100.0, 0.9)]),
        ({}, {"recall@5": 0.5}, [("Recall@5", 0.5, None, 0.9), ("latency_p95", None, 800.0, 0.9)]),
    ],
)
def test_a_file_states_limits_where_the_manifest_states_none(unrag, own, shared, expected):
    unrag.evaluation["datasets"][0]["thresholds"] = own
    unrag.evaluation["thresholds"] = shared
    found = limits_of(unrag)["qa"]
    assert sorted((limit.metric, limit.min, limit.max, limit.confidence) for limit in found) == expected


def test_a_limit_of_the_file_is_on_the_metric_as_it_is_listed(unrag):
    unrag.evaluation["datasets"][0]["minGrade"] = 2
    metrics = datasets_of(unrag)["qa"].metrics
    assert metrics["Recall@5"].settings["rules"]["min_grade"] == 2
    assert "latency_p95" in metrics, "the file's limits bring it"


def test_a_metric_that_the_file_s_limits_bring_follows_the_dataset_s_rules(unrag):
    """Recall of the relevant and recall of the highly relevant are not the same number."""
    unrag.evaluation["datasets"][0] |= {"minGrade": 2, "metrics": ["Precision@5"]}
    metrics = datasets_of(unrag)["qa"].metrics
    assert {metrics[name].settings["rules"]["min_grade"] for name in ("Precision@5", "Recall@5")} == {2}


def test_a_file_may_limit_what_is_listed_or_built_in_and_malformed_keys_are_told_elsewhere(project):
    """Readers of other packages may name any metric."""
    project.dataset("qa", [{}], metrics=[OWN])
    loaded, problems = load_manifest(project.write()), []
    finder = MetricFinder(loaded, JudgeServices(None, EmbeddingsConfig()), no_judge=True, problems=problems)
    own = finder.find(MetricEntry(**OWN), ())
    named = {"own": (0.5, None), "no_such_metric": (0.5, None), "latency_p95": (None, 9.0)}
    file = LoadedDataset("s.json", DatasetContent((), defaults=DatasetDefaults(thresholds=named)), "", (), ())
    config = loaded.manifest.spec.evaluation.datasets[0]
    dataset = PlannedDataset(config, data=file, survey=Survey(alike={(True,) * 7: Lacking(1)}), metrics={"own": own})
    thresholds = ThresholdFinder(loaded, finder, [])
    thresholds.add_metrics_of_file(dataset)
    thresholds.of_file(dataset)
    assert [limit.metric for limit in dataset.thresholds] == ["own", "latency_p95"]
    assert list(dataset.metrics) == ["own", "latency_p95"]
    (problem,) = problems
    assert problem.message == "unknown metric 'no_such_metric'"


def test_a_key_that_no_metric_can_have_is_refused_once_and_the_others_are_checked(project):
    project.dataset("qa", [{}], metrics=["exact_match"], thresholds={"Recall@0": 0.5, "bleu": 0.5})
    project.evaluation["thresholds"] = {"RR@0": 0.5, "rouge": 0.5}
    own, bleu, shared, rouge = errors_of(project)
    assert (own[0], shared[0]) == (
        "spec.evaluation.datasets[0].thresholds.Recall@0",
        "spec.evaluation.thresholds.RR@0",
    )
    assert "at least 1" in own[2]
    assert (bleu[0], rouge[0]) == ("spec.evaluation.datasets[0].thresholds.bleu", "spec.evaluation.thresholds.rouge")


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("bleu", "add it to its metrics"),
        ("faithfulness", "add it to its metrics"),
        ("no_such_metric", "add it to its metrics"),
        ("hallucination", "add it to its metrics"),
        ("gain.Recall@5", "set mode: retrieve+rerank"),
    ],
)
def test_a_limit_on_what_is_not_computed(project, name, fix):
    """Hallucination costs nothing only where faithfulness is computed."""
    project.dataset("qa", [{}], metrics=["string_match", "exact_match"], thresholds={name: 0.5})
    project.evaluation["thresholds"] = {name: 0.5}
    assert errors_of(project) == [
        (f"spec.evaluation.datasets[0].thresholds.{name}", f"dataset 'qa' does not compute {name}", fix),
        (
            f"spec.evaluation.thresholds.{name}",
            f"no dataset computes {name}",
            "add it to a dataset's metrics or remove the threshold; computed metrics: exact_match, string_match",
        ),
    ]


def test_a_limit_where_no_metric_is_usable_says_that_none_is_computed(project):
    project.dataset("qa", [{}], metrics=["no_such_metric"])
    project.evaluation["thresholds"] = {"bleu": 0.5}
    assert errors_of(project)[1][2].endswith("computed metrics: none")


def test_a_metric_that_costs_nothing_takes_no_cutoff_in_a_limit_either(project):
    project.dataset("qa", [{}], metrics=["exact_match"], thresholds={"latency_p95@5": 9})
    assert errors_of(project)[0][1:] == ("latency_p95 takes no cutoff", "use latency_p95")


@pytest.mark.parametrize("owner", ["evaluation", "dataset"])
@pytest.mark.parametrize(
    ("listed", "key", "printed"),
    [
        ("exact_match", "latency_p95", "latency_p95"),
        ("exact_match", "error_rate", "error_rate"),
        ("exact_match", "tokens_mean", "tokens_mean"),
        ("exact_match", "pass_rate", SUBSTRING),
        ("exact_match", "Exact_Match", "exact_match"),
        ("faithfulness", "hallucination", "hallucination"),
        ("pass_rate", "pass_rate", SUBSTRING),
        ("pass_rate", "string_match", SUBSTRING),
        ("pass_rate", "string_match(match=word)", "string_match"),
        ("pass_rate", "string_match()", "string_match"),
        ("string_match", "pass_rate", SUBSTRING),
        (SUBSTRING, "String_Match", SUBSTRING),
        ({"name": "string_match", "match": "word"}, "string_match", "string_match"),
        ({"name": "string_match", "match": "substring"}, "pass_rate", SUBSTRING),
        ({"name": "string_match", "match": "substring"}, "String_Match", SUBSTRING),
        ("AP@5", "map@5", "AP@5"),
        ("F0.5@5", "f0.5@5", "F0.5@5"),
        (OWN, "own", "own"),
    ],
)
def test_a_limit_is_on_a_listed_metric_under_any_of_its_names_or_on_one_that_costs_nothing(
    project, owner, listed, key, printed
):
    project.api["chatEndpoint"] = {"response": {"answer": "$.a", "contextIds": "$.i[*]"}}
    project.dataset("qa", [{"context": ["c"], "relevant": ["d"]}], metrics=[listed])
    section = project.evaluation if owner == "evaluation" else project.evaluation["datasets"][0]
    section["thresholds"] = {key: {"max": 0.5}}
    assert limits_of(project) == {"qa": [Threshold(printed, None, 0.5)]}


@pytest.mark.parametrize(
    ("shared", "holding"),
    [
        ({"exact_match": [0.9, {"max": 0.5}]}, {"b": [("exact_match", 0.9, None), ("exact_match", None, 0.5)]}),
        ({"latency_p95": 500}, {name: [("latency_p95", None, 500.0)] for name in ("b", "c", "r")}),
        ({"error_rate": 0.1}, {name: [("error_rate", None, 0.1)] for name in ("a", "b", "c", "r")}),
        ({"pass_rate": 0.5}, {"b": [(SUBSTRING, 0.5, None)]}),
        ({"hallucination": 0.1}, {"c": [("hallucination", None, 0.1)]}),
        ({"retrieve.latency_p95": 50}, {"r": [("retrieve.latency_p95", None, 50.0)]}),
    ],
)
def test_a_shared_limit_holds_where_its_metric_is_computed_or_costs_nothing(project, shared, holding):
    """One that needs nothing but a reply holds whoever lists it, and a dataset's own limit on the metric wins."""
    (project.folder / "s.json").write_text(json.dumps(UNRAG | {"defaults": {"scopePrefix": "eval:s:"}}))
    own = {"exact_match": 0.1, "latency_p95": 10}
    project.dataset("a", [{}], metrics=["exact_match", "error_rate"], thresholds=own)
    project.dataset("b", [{}], metrics=["exact_match", "pass_rate"])
    project.dataset("c", [{"context": ["x"]}], metrics=["faithfulness"])
    asked = {"name": "r", "path": "$file:s.json", "metrics": ["Recall@5"], "retriever": "bm25"}
    project.evaluation["datasets"].append(asked)
    project.evaluation |= {"retrievers": {"bm25": {"builtin": "bm25"}}, "thresholds": shared}
    found = {name: [(one.metric, one.min, one.max) for one in limits] for name, limits in limits_of(project).items()}
    stated = [("exact_match", 0.1, None), ("latency_p95", None, 10.0)]
    assert found == {"a": stated + holding.get("a", [])} | {name: holding.get(name, []) for name in ("b", "c", "r")}


def test_a_limit_on_a_slice_holds_where_the_slice_has_samples(project):
    project.dataset("a", [{"tags": ["hard"]}, {"id": "z"}], metrics=["exact_match"])
    project.dataset("b", [{"metadata": {"level": 2}}], metrics=["exact_match"])
    limits = [{"min": 0.2, "slice": "hard"}, {"min": 0.3, "slice": "level=2"}]
    project.evaluation["thresholds"] = {"exact_match": limits}
    assert limits_of(project) == {
        "a": [Threshold("exact_match", 0.2, None, "hard")],
        "b": [Threshold("exact_match", 0.3, None, "level=2")],
    }


def test_a_doubtful_limit_is_a_warning_at_its_line(project):
    project.dataset("qa", [{}], metrics=["exact_match"], thresholds={"exact_match": {"max": 0.3}})
    project.evaluation["thresholds"] = {"error_rate": [{"max": 0.1, "stat": "max"}, 0.9]}
    own, shared = project.validate("--json").document["warnings"]
    assert own["field"] == "spec.evaluation.datasets[0].thresholds.exact_match"
    assert own["message"].startswith("exact_match has only a maximum")
    assert shared["field"] == "spec.evaluation.thresholds.error_rate[1]"
    assert shared["message"].startswith("a maximum of 0.9 on error_rate")


def test_a_metric_that_cannot_be_used_is_reported_once(project, monkeypatch):
    monkeypatch.setattr("evalspec.scoring.judge.services.find_spec", lambda name: None)
    project.dataset("qa", [{"context": ["c"]}], metrics=["faithfulness"], thresholds={"faithfulness": 0.5})
    project.evaluation |= {"judge": {"model": "m"}, "thresholds": {"faithfulness": 0.4}}
    (error,) = project.validate("--json").document["errors"]
    assert error["field"] == "spec.evaluation.datasets[0].metrics[0]"


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
        ("own", {"max": 80}, "80 is outside the range of own, 0.5 to 5", None),
        ("share", {"max": 0.2}, "0.2 is outside the range of share, 0.5 to 1", None),
        ("free", {"max": -1e9}, None, None),
        ("latency_p95", 1e9, None, None),
        ("latency_p95", {"max": -50}, "-50 is outside the range of latency_p95, 0 to unlimited", None),
    ],
)
@pytest.mark.parametrize("listed", [False, True])
def test_the_range_of_a_limit_includes_its_ends(project, metric, value, message, fix, listed):
    """In a list, the one at fault is named."""
    own, share = OWN | {"range": [0.5, 5]}, OWN | {"name": "share", "range": [0.5, 1]}
    project.dataset("qa", [{}], metrics=["exact_match", own, share, OWN | {"name": "free"}])
    project.evaluation["thresholds"] = {metric: [{"max": 1, "stat": "median"}, value] if listed else value}
    field = f"spec.evaluation.thresholds.{metric}" + ("[1]" if listed else "")
    found = [(field, message, fix or "") for field, message, fix in errors_of(project)]
    assert found == ([(field, message, fix or "")] if message else [])


@pytest.mark.parametrize("ranges", [([0, 1], [0, 3], [0, 5]), ([0, 5], [0, 1], [0, 3])])
def test_a_shared_limit_is_checked_against_the_range_of_each_dataset(project, ranges):
    """The same metric may have another range in another dataset; what is wrong in two datasets is told once."""
    for name, bounds in zip("abc", ranges, strict=True):
        project.dataset(name, [{}], metrics=["exact_match", OWN | {"range": bounds}])
    project.evaluation["thresholds"] = {"own": {"min": 3}, "exact_match": {"min": 2}}
    assert [message for _, message, _ in errors_of(project)] == [
        "3 is outside the range of own, 0 to 1",
        "2 is outside the range of exact_match, 0 to 1",
    ]
    project.evaluation["thresholds"] = {"own": {"max": 1}, "exact_match": {"max": 0.5}}
    assert [warning["message"].split(",")[0] for warning in project.validate("--json").document["warnings"]] == [
        "no value of own can fail this threshold",
        "exact_match has only a maximum",
    ]


def test_an_unknown_slice_names_the_tags_there_are(project):
    project.dataset("a", [{"tags": ["hard", "easy"]}], metrics=["exact_match"])
    project.dataset("b", [{"tags": ["easy"]}], metrics=["exact_match"])
    project.evaluation["thresholds"] = {"exact_match": [0.1, {"min": 0.5, "slice": "x"}]}
    (error,) = errors_of(project)
    assert error == (
        "spec.evaluation.thresholds.exact_match[1]",
        "no sample is in the slice 'x'",
        "use a tag or key=value of the metadata; tags: easy, hard",
    )
    project.evaluation["datasets"] = project.evaluation["datasets"][:1]
    (project.folder / "a.jsonl").write_text('{"input": "q", "expected": "a"}\n')
    assert errors_of(project)[0][2].endswith("tags: none")
    project.evaluation["datasets"][0]["thresholds"] = {"exact_match": 0.1}
    messages = [message for _, message, _ in errors_of(project)]
    assert messages[0].startswith("this threshold is enforced in no dataset: overridden by agent.yaml:")
    assert messages[1:] == ["no sample is in the slice 'x'"], "the dataset overrides no limit on a slice"


@pytest.mark.parametrize("owner", ["evaluation", "dataset"])
def test_a_bare_name_of_two_columns_is_an_error_that_names_both(project, owner):
    project.dataset("qa", [{}], metrics=["string_match", "pass_rate"])
    section = project.evaluation if owner == "evaluation" else project.evaluation["datasets"][0]
    section["thresholds"] = {"string_match": 0.5}
    ((field, message, fix),) = errors_of(project)
    assert field.endswith("thresholds.string_match")
    assert message == f"'string_match' may be string_match and {SUBSTRING}"
    assert fix == f"write string_match() or {SUBSTRING}"
    section["thresholds"] = {"string_match()": 0.5, SUBSTRING: 0.4}
    assert limits_of(project) == {"qa": [Threshold("string_match", 0.5), Threshold(SUBSTRING, 0.4)]}


def test_two_names_of_a_column_have_one_list_of_limits(project):
    project.dataset("qa", [{}], metrics=["exact_match"], thresholds={SUBSTRING: 0.5, "pass_rate": 0.4})
    said = (f"'pass_rate' and '{SUBSTRING}' are one metric, {SUBSTRING}", "write one list of limits")
    assert errors_of(project) == [("spec.evaluation.datasets[0].thresholds.pass_rate", *said)]


@pytest.mark.parametrize("owner", ["evaluation", "dataset"])
def test_a_dataset_that_is_not_selected_is_no_reason_to_refuse_a_slice(project, owner):
    project.dataset("a", [{"tags": ["hard"]}], metrics=["exact_match"])
    project.dataset("b", [{}], metrics=["exact_match"])
    section = project.evaluation if owner == "evaluation" else project.evaluation["datasets"][0]
    section["thresholds"] = {"exact_match": {"min": 0.5, "slice": "hard"}}
    for name in ("a", "b"):
        assert project.validate("--dataset", name).code == 0
