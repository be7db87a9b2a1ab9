"""What `evalspec validate` finds: everything, at once, at its line, without calling anything."""

import json
import re
import shlex
import tracemalloc
from typing import Any

import pytest

from evalspec.base.distribution import list_requirements
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.runs.planning.build import build_plan
from evalspec.runs.planning.options import RunOptions


def problems(project, *arguments):
    outcome = project.validate(*arguments)
    assert outcome.code == 2
    assert outcome.err == ""
    *lines, last = outcome.out.splitlines()
    assert last == f"agent.yaml is not valid: {len(lines)} error{'s' if len(lines) > 1 else ''}"
    return lines


def problems_only(project):
    """The errors, beside warnings."""
    outcome = project.validate()
    assert outcome.code == 2
    return outcome.out.splitlines()[:-1]


def test_a_valid_manifest(project):
    project.dataset("qa", [{"id": "a"}, {"id": "b"}], metrics=["string_match"])
    outcome = project.validate()
    assert (outcome.code, outcome.out) == (0, "agent.yaml is valid: 1 dataset, 2 samples\n")


def test_json_is_one_document(project):
    project.dataset("qa", [{}], metrics=["strng_match"])
    outcome = project.validate("--json")
    assert outcome.code == outcome.document["exitCode"] == 2
    (error,) = outcome.document["errors"]
    assert (error["file"], error["field"]) == ("agent.yaml", "spec.evaluation.datasets[0].metrics[0]")
    assert "did you mean 'string_match'?" in error["fix"]
    assert outcome.document["valid"] is False


def test_manifest_and_datasets_are_reported_together(project):
    project.dataset("one", b"not json\n", metrics=["nDCG@10", "nope"])
    project.dataset("two", [{"id": "x"}, {"id": "x"}], metrics=["context_recall"], thresholds={"bleu": 0.5})
    lines = problems(project)
    for part in ("one.jsonl:1: not valid JSON", "'nope'", "two.jsonl:2: id", "does not compute bleu", "no judge",
                 "contextIds", "two.jsonl:1: context:", "two.jsonl:1: reference_contexts:"):  # fmt: skip
        assert any(part in line for line in lines), part


@pytest.mark.parametrize(
    ("metrics", "field", "message"),
    [
        (["faithfullness"], "metrics[0]", "did you mean 'faithfulness'?"),
        (["string_match@5"], "metrics[0]", "takes no cutoff"),
        (["Recall@0"], "metrics[0]", "at least 1"),
        (["string_match", "String_Match"], "metrics[1]", "string_match is duplicated"),
        ([{"name": "string_match", "match": "substring"}, "pass_rate"], "metrics[1]", "is duplicated"),
        ([{"name": "bleu", "match": "word"}], "metrics[0].match", "bleu has no parameter 'match'. known: "),
        ([{"name": "string_match", "mtch": "word"}], "metrics[0].mtch", "did you mean 'match'?"),
        ([{"name": "string_match", "rubrik": "x"}], "metrics[0].rubrik", "did you mean 'rubric'?"),
        (
            [{"name": "string_match", "match": "words"}],
            "metrics[0].match",
            "no value of match. write word | substring",
        ),
        (["string_match(match=words)"], "metrics[0].match", "'words' is no value of match"),
        (["string_match(match)"], "metrics[0]", "no list of name=value"),
        ([{"name": "pass_rate", "match": "word"}], "metrics[0].match", "'pass_rate' sets match already"),
        ([{"name": "exact_match", "range": [0, 2]}], "metrics[0].range", "is [0, 1] already"),
        (["exact_match(range=[0, 2])"], "metrics[0].range", "is [0, 1] already"),
        ([{"name": "bleu", "reference": "expected"}], "metrics[0].reference", "no parameter 'reference'"),
        ([{"name": "bleu", "rubric": "x", "labels": {"a": 1, "b": 0}}], "metrics[0]", "built-in metric"),
        (
            [{"name": "tone", "rubric": "Is {respones} kind?", "labels": {"a": 1, "b": 0}}],
            "metrics[0].rubric",
            "response",
        ),
        ([{"name": "tone", "rubric": "Is { kind?", "labels": {"a": 1, "b": 0}}], "metrics[0].rubric", "{{"),
        ([{"name": "cites", "scorer": "absent:cites"}], "metrics[0].scorer", "absent"),
    ],
)
def test_metrics(project, metrics, field, message):
    project.dataset("qa", [{}], metrics=metrics)
    (line,) = problems(project, "--no-judge")
    assert f"spec.evaluation.datasets[0].{field}: " in line
    assert message in line


@pytest.mark.parametrize(
    ("metrics", "thresholds", "columns"),
    [
        (None, {}, ["string_match"]),
        (None, {"pass_rate": 0.5}, ["string_match(match=substring)"]),
        (["Pass_Rate"], {"string_match": 0.5}, ["string_match(match=substring)"]),
        (["exact_match"], {"pass_rate": 0.5}, ["exact_match", "string_match(match=substring)"]),
        ([{"name": "string_match", "match": "word"}], {}, ["string_match"]),
        (["string_match", "pass_rate"], {}, ["string_match", "string_match(match=substring)"]),
        ([{"name": "exact_match", "range": [0, 1]}], {}, ["exact_match"]),
        ([{"name": "exact_match", "range": [0, 0.5]}], {}, ["exact_match(range=[0, 0.5])"]),
        (["nDCG@5(range=[0, 0.5])"], {}, ["nDCG@5(range=[0, 0.5])"]),
    ],
)
def test_a_column_is_a_metric_with_its_parameters(project, metrics, thresholds, columns):
    project.api["chatEndpoint"] = {"response": {"answer": "$.a", "contextIds": "$.i[*]"}}
    project.dataset("qa", [{"relevant": ["d"]}] if metrics else [{}], **({"metrics": metrics} if metrics else {}))
    project.evaluation["thresholds"] = thresholds
    (dataset,) = build_plan(load_manifest(project.write()), RunOptions(url="http://localhost:1")).datasets
    assert [*dataset.metrics] == columns


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ([], "thresholds.string_match: it is empty"),
        (None, "null lifts "),
        ([0.5, None], "null lifts "),
        ({"min": None, "confidence": 0.9}, "confidence has no effect beside null"),
        ({"slice": "x"}, "a threshold needs min or max"),
        ({}, "a threshold needs min or max"),
        ({"min": None, "max": 0.9}, "min has no value"),
        ({"min": 0.5, "slice": None}, "slice has no value"),
        ({"min": 0.5, "slice": ""}, "it is empty"),
        ({"min": 0.5, "stat": None}, "stat has no value"),
    ],
)
@pytest.mark.parametrize("owner", ["evaluation", "dataset"])
def test_a_threshold_that_says_nothing_is_an_error(project, owner, limit, message):
    project.dataset("qa", [{}], metrics=["string_match"])
    section = project.evaluation if owner == "evaluation" else project.evaluation["datasets"][0]
    section["thresholds"] = {"string_match": limit}
    (line,) = problems(project)
    assert message in line


def test_drops_for_no_metric_are_an_error(project):
    project.dataset("qa", [{}], metrics=["string_match"])
    project.evaluation["ciGate"] = {"baseline": "main", "maxDrop": {}}
    assert any("ciGate.maxDrop" in line and "it is empty" in line for line in problems(project))


@pytest.mark.parametrize(
    ("limits", "warning"),
    [
        ({"toxicity": 0.1}, "toxicity: a minimum of 0.1 on toxicity accepts most failures; its best value is 1"),
        ({"bias": {"min": 0.49}}, "did you mean 0.51?"),
        ({"toxicity": {"max": 0.1}}, "toxicity has only a maximum, but higher is better"),
        ({"hallucination": 0.8}, "did you mean 0.2?"),
        (
            {"error_rate": [{"max": 0.1, "stat": "max"}, 0.9]},
            "thresholds.error_rate[1]: a maximum of 0.9 on error_rate",
        ),
        ({"error_rate": {"min": 0.1}}, "error_rate has only a minimum, but lower is better"),
        ({"string_match": {"max": 0.3, "slice": "basic"}}, "string_match has only a maximum"),
        ({"string_match": 0}, "no value of string_match can fail this threshold"),
        ({"hallucination": 1}, "no value of hallucination can fail this threshold"),
        ({"toxicity": 0.5}, None),
        ({"toxicity": {"min": 0.1, "stat": "min"}}, None),
        ({"hallucination": 0.5}, None),
        ({"string_match": [0.2, {"max": 0.9}]}, None),
        ({"string_match": {"min": 0.2, "max": 1}}, None),
        ({"latency_p95": {"min": 5}}, None),
        ({"tokens_mean": {"min": 5}}, None),
        ({"own": {"max": 0.4}}, None),
    ],
)
def test_a_limit_that_can_hardly_be_meant_is_a_warning(project, limits, warning):
    own = {"name": "own", "scorer": "own:own", "range": [0, 1]}
    (project.folder / "own.py").write_text("def own(exchange): return 0\n")
    metrics = ["string_match", "faithfulness", "toxicity", "bias", own]
    project.dataset("qa", [{"context": ["c"], "tags": ["basic"]}], metrics=metrics, thresholds=limits)
    outcome = project.validate("--no-judge")
    assert outcome.code == 0
    if warning is None:
        assert outcome.err == ""
    else:
        (line,) = outcome.err.splitlines()
        assert line.startswith("warning: agent.yaml:")
        assert warning in line


def test_a_gate_without_a_threshold_could_never_fail(project):
    project.dataset("qa", [{}], metrics=["string_match"])
    project.evaluation["ciGate"] = True
    (line,) = problems(project)
    assert "spec.evaluation.ciGate: ciGate is on, but there is no threshold" in line


@pytest.mark.parametrize(
    ("metric", "given", "missing"),
    [
        ("string_match", {"expected": " "}, "expected"),
        ("faithfulness", {}, "context"),
        ("context_recall", {"context": ["c"]}, "reference_contexts"),
        ("non_llm_context_recall", {"context": ["c"], "reference_contexts": []}, "reference_contexts"),
    ],
)
def test_needed_fields_are_checked_for_every_sample(project, metric, given, missing):
    good = {"context": ["c"], "reference_contexts": ["r"]}
    samples = [good, given, good, given]
    project.dataset("qa", [sample | {"id": str(n)} for n, sample in enumerate(samples)], metrics=[metric])
    project.evaluation["judge"] = {"model": "any"}
    (line,) = problems(project)
    assert line.startswith(
        f"qa.jsonl:2: {missing}: missing or empty, needed by {metric} (also lines 4; 2 of 4 samples)"
    )


def test_fields_that_only_skipped_metrics_need_are_not_required(project):
    project.dataset("qa", [{"expected": "x"}], metrics=["faithfulness", "context_recall", "string_match"])
    outcome = project.validate("--no-judge")
    assert (outcome.code, outcome.err) == (0, "")
    project.evaluation["datasets"][0]["metrics"] += ["non_llm_context_recall"]
    lines = problems(project, "--no-judge")
    assert [re.split("[.;]", line.partition(", needed by ")[2])[0] for line in lines] == ["non_llm_context_recall"] * 2


AGENTSPEC_API = {
    "type": "rest", "port": 8000, "pathPrefix": "/api/v1", "auth": {"type": "jwt", "jwksUri": "$env:JWKS_URI"},
    "rateLimit": {"requestsPerMinute": 60}, "streaming": True, "healthEndpoint": "/health",
    "metricsEndpoint": "/metrics", "corsOrigins": ["*"], "x-team": "search",
}  # fmt: skip


def test_an_agentspec_manifest_without_datasets_is_valid_and_has_nothing_to_evaluate(project):
    project.api |= AGENTSPEC_API
    project.evaluation = {
        "framework": "custom", "metrics": ["faithfulness", "answer_relevancy"], "x-note": 1,
        "thresholds": {"faithfulness": 0.75}, "ciGate": True,
    }  # fmt: skip
    outcome = project.validate()
    assert (outcome.code, outcome.out) == (0, "agent.yaml is valid: 0 datasets, 0 samples\n")
    datasets, framework = outcome.err.splitlines()
    assert "spec.evaluation.datasets: there is no dataset, so there is nothing to evaluate. add one" in datasets
    assert "framework 'custom' is accepted, but judged metrics use ragas" in framework
    for command in ("evaluate", "plan"):
        refused = project(command, "agent.yaml")
        assert refused.code == 2
        assert "there is no dataset, so there is nothing to evaluate" in refused.err
    project.evaluation |= {"metrics": ["faithfullness"], "thresholds": {"bias": 0.9}}
    metric, threshold = problems_only(project)
    assert "metrics[0]" in metric and "did you mean 'faithfulness'" in metric
    assert "thresholds.bias: no dataset computes bias" in threshold


@pytest.mark.parametrize(
    ("api", "message"),
    [
        ({"comand": ["x"]}, "spec.api.comand: unknown key 'comand'. did you mean 'command'?"),
        ({"chatEndpont": {}}, "spec.api.chatEndpont: unknown key 'chatEndpont'. did you mean 'chatEndpoint'?"),
        ({"chatEndpoint": {"pth": "/"}}, "did you mean 'path'?"),
    ],
)
def test_typos_in_the_api_are_found(project, api, message):
    project.dataset("qa", [{}], metrics=["string_match"])
    project.api |= api
    (line,) = problems(project)
    assert message in line


def test_of_many_samples_without_a_field_the_first_are_named(project):
    project.dataset("qa", [{"id": str(n), "expected": ""} for n in range(12)], metrics=["string_match"])
    (line,) = problems(project)
    assert "(also lines 2, 3, 4, 5, 6, 7, 8, 9 and 3 more; 12 of 12 samples)" in line


def test_samples_are_checked_without_being_kept(project):
    """Slices, metadata keys and judged documents of the whole file count, whatever is in memory of it."""
    samples: list[dict[str, Any]] = [
        {"id": str(n), "context": ["x" * 20_000], "relevant": [f"d{n}"]} for n in range(1000)
    ]
    samples[-1] |= {"tags": ["last"], "metadata": {"tenant": "t"}}
    (project.folder / "corpus.jsonl").write_text('{"_id": "d999", "text": "t"}\n')
    config = {"metrics": ["string_match"], "corpus": "corpus.jsonl", "cluster": "tenant"}
    project.dataset("qa", samples, thresholds={"string_match": {"min": 0.5, "slice": "last"}}, **config)
    tracemalloc.start()
    outcome = project.validate()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert outcome.out == "agent.yaml is valid: 1 dataset, 1,000 samples\n"
    assert "999 of 1000 judged documents are not in the corpus" in outcome.err
    assert peak < 10_000_000, "the file has 20 MB"


def test_context_recall_against_the_gold_answer_needs_no_gold_passages(project):
    project.dataset("qa", [{"context": ["c"]}], metrics=[{"name": "context_recall", "reference": "expected"}])
    assert project.validate("--no-judge").code == 0


def test_retrieval_needs_mapped_ids_and_judged_relevance(project):
    project.dataset("qa", [{"relevant": ["a"]}, {"id": "z"}], metrics=["recall@5", "mrr"])
    lines = problems(project)
    assert any("qa.jsonl:2: relevant: missing or empty, needed by Recall@5, RR" in line for line in lines)
    assert any("response.contextIds: Recall@5, RR of dataset 'qa' need the ids" in line for line in lines)


def test_mapped_contexts_stand_in_for_the_samples_own(project):
    project.api["chatEndpoint"] = {"response": {"answer": "$.a", "contexts": "$.c[*]", "contextIds": "$.i[*]"}}
    project.dataset("qa", [{"relevant": ["a"]}], metrics=["faithfulness", "Recall@5"])
    assert project.validate("--no-judge").code == 0


@pytest.mark.parametrize(
    ("endpoint", "field"),
    [
        ({"response": {"answer": "$.[", "contexts": "$.x"}}, "response.answer"),
        ({"protocol": "custom", "request": {"q": "{{inptu}}"}, "response": {"answer": "$.a"}}, "request"),
    ],
)
def test_templates_and_queries(project, endpoint, field):
    project.api["chatEndpoint"] = endpoint
    project.dataset("qa", [{}], metrics=["string_match"])
    (line,) = problems(project)
    assert f"spec.api.chatEndpoint.{field}: " in line


def test_without_a_judge_judged_metrics_are_an_error_unless_left_out(project, monkeypatch):
    project.dataset("qa", [{"context": ["c"]}], metrics=["faithfulness", "toxicity", "string_match"])
    (line,) = problems(project)
    assert "no judge is configured, but faithfulness, toxicity need one" in line
    assert project.validate("--no-judge").code == 0
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert project.validate().code == 0


def test_other_datasets_are_not_read_where_one_is_named(project):
    project.dataset("qa", [{}], metrics=["string_match"])
    project.dataset("broken", b"{", metrics=["string_match"])
    assert project.validate("--dataset", "qa").code == 0
    (line,) = problems(project, "--dataset", "qaa")
    assert line == "--dataset: no dataset is named 'qaa'. did you mean 'qa'?"


def test_frameworks_other_than_ragas_are_accepted_with_a_warning(project):
    project.dataset("qa", [{}], metrics=["string_match"])
    project.evaluation["framework"] = "deepeval"
    outcome = project.validate("--json")
    assert outcome.code == 0
    assert "judged metrics use ragas" in outcome.document["warnings"][0]["message"]


@pytest.mark.parametrize("key", ["done", "contexts"])
def test_a_filter_of_the_whole_reply_is_a_warning(project, key):
    query = "$[?@.type == 'end']"
    mapping = {"answer": "$.a", key: {"path": query} if key == "done" else query}
    project.api = {"url": "http://127.0.0.1:9", "chatEndpoint": {"response": mapping}}
    project.samples(1)
    outcome = project.validate()
    assert outcome.code == 0
    assert f"spec.api.chatEndpoint.response.{key}: {query} filters the values of the whole reply" in outcome.err
    assert "{path: $.type, equals: end}" in outcome.err


def test_no_metrics_at_all_is_string_match_with_a_warning(project):
    project.dataset("qa", [{}])
    outcome = project.validate()
    assert outcome.code == 0
    assert "evalspec computes string_match" in outcome.err


def test_a_thousand_samples_in_one_file(project):
    project.dataset("qa", [{"id": str(n)} for n in range(1000)], metrics=["string_match"])
    assert json.loads(project.validate("--json").out)["datasets"] == [{"name": "qa", "samples": 1000, "limits": []}]


def test_a_variable_that_is_not_set_here_is_a_warning_because_the_run_may_be_elsewhere(project):
    project.api |= {"url": "$env:AGENT_URL", "chatEndpoint": {"headers": {"X-Key": "${env:AGENT_KEY}"}}}
    project.dataset("qa", [{}], metrics=["string_match"])
    outcome = project.validate()
    assert outcome.code == 0
    assert [line.split(": ")[2] for line in outcome.err.splitlines()] == [
        "spec.api.url",
        "spec.api.chatEndpoint.headers.X-Key",
    ]


def test_judged_metrics_without_ragas_say_what_to_install_and_nothing_else(project, monkeypatch):
    monkeypatch.setattr("evalspec.scoring.judge.services.find_spec", lambda name: None)
    project.dataset("qa", [{"context": ["c"]}], metrics=["faithfulness"], thresholds={"faithfulness": 0.5})
    project.evaluation["judge"] = {"model": "m"}
    (line,) = problems(project)
    command = shlex.split(line.partition("faithfulness needs ragas, which is not installed. ")[2])
    assert command[:2] == ["pip", "install"]
    assert {*command[2:]} == {*project("requirements").out.split()} - {*list_requirements()}
