"""`evalspec plan`: what a run would call and what its comparison could detect, with nothing called."""

import socket

import numpy as np
import pytest
from msgspec.structs import replace

from comparison.small_runs import make_dataset, run_of
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.model import Attempt, SampleResult, SampleStatus, Score, VerdictStatus
from evalspec.verdict.attempts import combine_attempts
from evalspec.verdict.comparison.baseline import Baseline, render_baseline
from evalspec.verdict.comparison.regression import decide_regressions
from servers.scripted_judge import ScriptedJudge

CONTEXT = ["Paris is the capital of France.", "Lyon is a city in France.", "The Seine flows through Paris."]
RUBRIC = {"name": "tone", "rubric": "Is this polite? {response}", "labels": {"good": 1, "bad": 0}}


def plan(project, *arguments):
    """The document of `evalspec plan --json` on the manifest as it is now."""
    project.write()
    outcome = project("plan", "agent.yaml", "--json", *arguments)
    assert outcome.code == 0, outcome.err
    return outcome.document


def metric_of(document, name="string_match"):
    return next(one for dataset in document["datasets"] for one in dataset["metrics"] if one["metric"] == name)


def write_baseline(project, scores, name="main", metric="string_match", repeat=None, **fields):
    """A promoted baseline `name` of the samples s0, s1, …; `scores`: the attempts of each."""
    dataset = make_dataset(make_samples(scores, metric, **fields))
    path = project.folder / "evals" / "baselines" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    fingerprint = {"repeats": {"agent": repeat}} if repeat else {}
    path.write_text(render_baseline(Baseline(run_of(dataset, run_id="earlier", fingerprint=fingerprint))))


def make_samples(scores, metric="string_match", groups=None):
    found = []
    for number, attempts in enumerate(scores):
        metadata = {} if groups is None else {"doc": int(groups[number])}
        asked = [Attempt(SampleStatus.ANSWERED, scores={metric: Score.scored(value)}) for value in attempts]
        found.append(
            combine_attempts(SampleResult(id=f"s{number}", status=SampleStatus.ANSWERED, metadata=metadata), asked, ())
        )
    return found


@pytest.fixture
def no_connection(monkeypatch):
    """Nothing may open a connection."""

    def refuse(*_arguments):
        raise AssertionError("something was called")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)


def test_it_needs_neither_url_nor_key_and_calls_nothing(project, no_connection):
    project.samples(8, metrics=("string_match", "faithfulness", "latency_p95"), context=CONTEXT)
    project.dataset("docs", [{"relevant": ["d1"]}], metrics=["Recall@5"], retriever="search")
    search = {"path": "/", "request": {"q": "{{query}}"}, "response": {"ids": "$.ids[*]"}}
    project.evaluation["retrievers"] = {"search": {"http": {"url": "$env:NOT_SET", "search": search}}}
    document = plan(project, "--repeat", "3", "--judge-repeat", "2")
    assert (document["agentRequests"], document["retrieverQueries"], document["judgeCalls"]) == (24, 3, 96)
    assert [one["metric"] for one in document["datasets"][0]["metrics"]] == ["string_match", "faithfulness"]
    assert plan(project, "--repeat", "3", "--no-judge", "--dataset", "qa")["judgeCalls"] == 0
    outcome = project("plan", "agent.yaml")
    assert outcome.code == 0
    assert "8 agent requests, 1 retriever query, about 16 judge calls without retries" in outcome.out


def test_the_selection_is_that_of_evaluate(project):
    project.dataset("qa", [{"id": f"s{n}", "tags": ["even"] if n % 2 == 0 else []} for n in range(20)])
    assert plan(project, "--tag", "even", "--sample-size", "6")["agentRequests"] == 6
    assert plan(project, "--exclude-tag", "even")["datasets"][0]["samples"] == 10


def test_the_judge_calls_are_those_of_a_run(project, agent):
    agent.reply = {"response": "Paris is the capital of France."}
    project.api = {"url": agent.url}
    metrics = ("faithfulness", "hallucination", "context_precision", "noise_sensitivity", "factual_correctness")
    project.samples(3, metrics=(*metrics, "toxicity", RUBRIC), expected="Paris is the capital.", context=CONTEXT)
    with ScriptedJudge() as judge:
        project.evaluation["judge"] = {"model": "scripted", "baseUrl": judge.url, "apiKey": "k"}
        document = plan(project, "--repeat", "2", "--judge-repeat", "2")
        assert judge.chats == []
        ran = project.evaluate("--repeat", "2", "--judge-repeat", "2", "--json").document
        calls = {name: usage["calls"] for name, usage in ran["judgeUsage"].items()}
        assert document["datasets"][0]["judgeCalls"] == calls
        assert (document["judgeCalls"], document["agentRequests"]) == (len(judge.chats), len(agent.requests))


def test_it_says_how_many_labels_decide_a_limit_of_a_judged_metric(project):
    metrics = ("string_match", "faithfulness", "hallucination", "answer_relevancy")
    project.samples(200, metrics=metrics, context=CONTEXT)
    limits = {"faithfulness": 0.8, "hallucination": {"max": 0.1}, "answer_relevancy": 0.5, "string_match": 0.5}
    project.evaluation["thresholds"] = limits
    found = plan(project)["datasets"][0]["labels"]
    assert [(one["metric"], one["limit"], round(one["people"], 3), one["labels"]) for one in found] == [
        ("faithfulness", 0.8, 0.85, None), ("faithfulness", 0.8, 0.9, 107), ("faithfulness", 0.8, 0.95, 41),
        ("hallucination", 0.1, 0.075, None), ("hallucination", 0.1, 0.05, None), ("hallucination", 0.1, 0.025, 85),
    ]  # fmt: skip
    said = " ".join(project("plan", "agent.yaml").out.split())
    assert "more than all 200 if people say 0.85, 107 if people say 0.9, 41 if people say 0.95" in said
    project.evaluation["ciGate"] = {"judge": "off"}
    assert plan(project)["datasets"][0]["labels"] == []


def test_contexts_that_only_the_reply_has_are_assumed_and_said(project):
    project.api = {"chatEndpoint": {"response": {"answer": "$.response", "contexts": "$.contexts[*].text"}}}
    project.samples(4, metrics=("context_precision",))
    document = plan(project)
    assert document["judgeCalls"] == 20
    assert any("4 samples without context" in note for note in document["notes"])


SETTINGS = {
    "0/1 scores": {"binary": True},
    "clusters": {"clusters": 40},
    "two attempts": {"clusters": 40, "repeat": 2},
    "two attempts of 0/1 scores": {"binary": True, "repeat": 2},
    "a maxDrop above what noise hides": {"clusters": 40, "limit": 0.1},
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_a_drop_of_the_detectable_size_is_found_in_four_of_five_runs(setting, project):
    """Simulated: a baseline is drawn and planned with, and a worse agent runs twice: it fails if both runs show it.

    The range is about a noise that is estimated: four in five lie between its ends.
    """
    count, baselines, runs = 80, 5, 15
    binary, clusters, repeat = setting.get("binary", False), setting.get("clusters"), setting.get("repeat", 1)
    metric = "string_match" if binary else "rouge"
    groups = np.arange(count) // (count // clusters) if clusters else np.arange(count)
    cluster = {"cluster": "doc"} if clusters else {}
    project.dataset(
        "qa",
        [{"id": f"s{n}", "metadata": {"doc": int(group)}} for n, group in enumerate(groups)],
        metrics=[metric],
        **cluster,
    )
    limits = {"maxDrop": {metric: setting.get("limit", 0.0)}}
    project.evaluation["ciGate"] = {"baseline": "main", **limits}
    policy = load_manifest(project.write()).manifest.spec.evaluation.ci_gate
    rng = np.random.default_rng(7)
    truth = rng.choice([0.95, 0.5], count, p=[0.8, 0.2]) if binary else rng.uniform(0.55, 0.65, count)

    def draw(drop, attempts):
        if binary:
            scores = rng.random((count, attempts)) < (truth * (1 - drop / truth.mean()))[:, None]
        else:
            noise = rng.normal(0, 0.08, (count, attempts)) + rng.normal(0, 0.05, (count, attempts))[groups]
            scores = truth[:, None] - drop + noise
        return make_samples(scores.astype(float).tolist(), metric, groups)

    found = [0, 0]
    for _ in range(baselines):
        write_drawn(project, draw(0, 2))
        detectable = metric_of(plan(project, "--repeat", str(repeat)), metric)["detectable"]
        for end, drop in enumerate(detectable):
            for _ in range(runs):
                before = run_of(make_dataset(draw(0, 2), **cluster))
                again = [make_dataset(draw(drop, repeat), **cluster) for _ in range(2)]
                outcomes = [
                    decide_regressions(Baseline(before), [after], policy, before.fingerprint)[0] for after in again
                ]
                found[end] += all(outcome.status is VerdictStatus.FAIL for outcome in outcomes)
    shares = [count / (baselines * runs) for count in found]
    assert shares[0] <= 0.85 and shares[1] >= 0.75, shares
    assert shares[1] - shares[0] <= 0.4, shares


def write_drawn(project, samples):
    path = project.folder / "evals" / "baselines" / "main.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_baseline(Baseline(run_of(make_dataset(samples), run_id="drawn"))))


def test_what_the_noise_rests_on(project):
    """Measured where a baseline has attempts, else assumed and said."""
    project.samples(40)
    project.evaluation["ciGate"] = {"baseline": "main"}
    bare = metric_of(plan(project))
    assert (bare["noise"], bare["pairs"]) == ("assumed", 40)
    assert "5 % of the 0/1 scores flip each way" in bare["noiseSource"]

    write_baseline(project, [[n % 2] for n in range(40)])
    once = metric_of(plan(project))
    assert once["noise"] == "assumed"
    assert "25 % of the scores are redrawn" in once["noiseSource"]
    assert "--repeat 2" in once["noiseSource"]

    write_baseline(project, [[1, n >= 2] for n in range(40)])
    twice = metric_of(plan(project))
    assert (twice["noise"], twice["noiseSource"]) == ("measured", "noise measured on 2 attempts of the baseline")
    assert twice["detectable"] < once["detectable"]
    write_baseline(project, [[n % 2, n % 3 > 0] for n in range(40)])
    single, repeated = metric_of(plan(project)), metric_of(plan(project, "--repeat", "2"))
    assert repeated["noiseSource"] == single["noiseSource"]
    assert repeated["detectable"] < single["detectable"]


def test_more_attempts_than_the_baseline_has_detect_more(project):
    project.samples(40)
    write_baseline(project, [[n % 2, n % 3 > 0] for n in range(40)])
    two, five = (plan(project, "--baseline", "main", "--repeat", count) for count in ("2", "5"))
    assert metric_of(five)["detectable"][1] < metric_of(two)["detectable"][1], "all attempts of both sides count"
    assert not two["notes"] + five["notes"]


@pytest.mark.parametrize(("attempts", "repeat"), [(1, 3), (2, 4), (3, 2), (4, 2), (2, 2), (1, 1)])
def test_runs_with_other_numbers_of_attempts_are_compared_over_the_first(attempts, repeat, project):
    """As the gate does: what the planned run will have is the scores of each attempt."""
    project.samples(40)
    write_baseline(project, [[(n + k) % 5 > 0 for k in range(attempts)] for n in range(40)], repeat=attempts)
    document = plan(project, "--baseline", "main", "--repeat", str(repeat))
    assert (metric_of(document)["reason"], document["incomplete"]) == (None, [])
    assert metric_of(document)["detectable"] is not None


def test_a_baseline_that_has_only_the_means_of_its_attempts_is_compared_with_as_many(project):
    project.samples(40)
    write_baseline(project, [[(n % 4) / 3] for n in range(40)], metric="rouge", repeat=3)
    project.evaluation["datasets"][0]["metrics"] = ["rouge"]
    document = plan(project, "--baseline", "main", "--repeat", "2")
    said = "repeats: 3 and 2 attempts per sample, but the baseline has only the means of its attempts"
    assert metric_of(document, "rouge")["reason"] == f"{said}: promote a new baseline"
    assert document["incomplete"] == [f"qa: {said}: promote a new baseline"]
    assert metric_of(plan(project, "--baseline", "main", "--repeat", "3"), "rouge")["reason"] is None


def test_samples_that_the_dataset_no_longer_has_make_the_verdict_incomplete(project):
    project.samples(30)
    write_baseline(project, [[n % 2, n % 3 > 0] for n in range(40)])
    said = (
        "qa: 10 samples of the baseline are gone from the dataset, which could change the outcome: promote a new "
        "baseline, or allow the share with maxRemoved"
    )
    document = plan(project, "--baseline", "main")
    assert document["incomplete"] == [said]
    assert metric_of(document)["detectable"] is not None, "a drop beyond all doubt fails all the same"
    outcome = project("plan", "agent.yaml", "--baseline", "main")
    assert f"The verdict will not be PASS: {said}" in " ".join(outcome.out.split())
    assert plan(project, "--baseline", "main", "--sample-size", "20")["incomplete"] == [said], "gone all the same"
    project.evaluation["ciGate"] = {"baseline": "main", "maxRemoved": 0.3}
    assert plan(project)["incomplete"] == []


def test_a_dataset_and_a_metric_that_the_run_lacks_make_the_verdict_incomplete(project):
    project.samples(12, metrics=("string_match", "rouge", "faithfulness"), context=CONTEXT)
    both = make_samples([[n % 2, n % 3 > 0] for n in range(12)])
    for metric in ("chrf", "faithfulness"):
        both = [
            replace(
                one,
                scores={**one.scores, metric: Score.scored(0.5)},
                attempts=tuple(replace(a, scores={**a.scores, metric: Score.scored(0.5)}) for a in one.attempts),
            )
            for one in both
        ]
    path = project.folder / "evals" / "baselines" / "main.json"
    path.parent.mkdir(parents=True)
    path.write_text(render_baseline(Baseline(run_of(make_dataset(both), make_dataset(both, "old")))))
    document = plan(project, "--baseline", "main", "--no-judge")
    assert document["incomplete"] == [
        "qa: chrf: the baseline has it, but this run does not compute it: promote a new baseline",
        "old: the baseline has this dataset, but the run does not: promote a new baseline",
    ]
    assert len(plan(project, "--baseline", "main", "--no-judge", "--dataset", "qa")["incomplete"]) == 1


def test_what_plan_calls_incomplete_the_gate_calls_incomplete(project, agent):
    project.api = {"url": agent.url}
    project.samples(12)
    agent.reply = lambda body: {"response": "Paris"}
    project.evaluate()
    assert project("runs", "promote", "latest", "--as", "main").code == 0
    project.evaluation["ciGate"] = {"baseline": "main"}
    lines = (project.folder / "qa.jsonl").read_text().splitlines(keepends=True)
    (project.folder / "qa.jsonl").write_text("".join(lines[:8]))
    project.evaluation["ciGate"]["alpha"] = None
    (foreseen,) = plan(project)["incomplete"]
    reasons = project.evaluate("--json").document["reasons"]
    assert any(foreseen.removeprefix("qa: ") in reason for reason in reasons)


def test_with_clusters_a_drop_in_few_of_them_is_said_to_be_never_significant(project):
    groups = [n // 4 for n in range(40)]
    project.dataset("qa", [{"id": f"s{n}", "metadata": {"doc": group}} for n, group in enumerate(groups)],
                    metrics=["string_match"], cluster="doc")  # fmt: skip
    project.evaluation["ciGate"] = {"baseline": "main"}
    project.write()
    said = "a drop confined to at most {} clusters is never significant, however large"
    assert said.format(4) in " ".join(project("plan", "agent.yaml").out.split())
    project.evaluation["ciGate"]["alpha"] = 0.01
    project.write()
    assert said.format(6) in " ".join(project("plan", "agent.yaml").out.split())
    project.evaluation["ciGate"]["alpha"] = None
    project.write()
    assert "never significant" not in project("plan", "agent.yaml").out


def test_samples_are_those_that_both_have(project):
    project.samples(40)
    write_baseline(project, [[n % 2, n % 3 > 0] for n in range(30)])
    document = plan(project, "--baseline", "main")
    assert (document["datasets"][0]["onlyInThisRun"], metric_of(document)["pairs"]) == (10, 30)
    assert "10 samples of 40 not in the baseline" in project("plan", "agent.yaml", "--baseline", "main").out


def test_a_run_of_the_store_is_a_baseline_too(project, agent):
    project.api = {"url": agent.url}
    project.samples(12)
    agent.reply = lambda body: {"response": "Paris" if len(agent.requests) % 3 else "Lyon"}
    run = project.evaluate("--repeat", "2", "--json").document["runId"]
    asked = len(agent.requests)
    for name in ("latest", run, f".evalspec/runs/{run}/report.json"):
        document = plan(project, "--baseline", name)
        assert (document["baseline"], metric_of(document)["noise"]) == ({"name": name, "runId": run}, "measured")
    assert len(agent.requests) == asked


@pytest.mark.parametrize(
    ("gate", "count", "said"),
    [
        ({}, 4, "4 samples cannot show a change at alpha 0.05: at least 5 are needed"),
        ({"maxDrop": {"latency_p95": 100}}, 40, "decided by value"),
    ],
)
def test_what_cannot_be_detected_has_a_reason(gate, count, said, project):
    project.samples(count, metrics=("string_match", "latency_p95"))
    project.evaluation["ciGate"] = {"baseline": "main", **gate}
    document = plan(project)
    (metric,) = document["datasets"][0]["metrics"]
    assert (metric["detectable"], said in metric["reason"]) == (None, True)
    assert said in document["summary"]


def test_a_changed_sample_and_a_new_metric_want_a_new_baseline(project, agent):
    project.api = {"url": agent.url}
    project.samples(12)
    project.evaluate("--no-judge")
    changed = (project.folder / "qa.jsonl").read_text().replace('"s3", ', '"s3", "tags": ["x"], ', 1)
    (project.folder / "qa.jsonl").write_text(changed)
    assert metric_of(plan(project, "--baseline", "latest"))["reason"] is None, "tags change no question"
    (project.folder / "qa.jsonl").write_text(changed.replace("Capital of France?", "Capital?", 1))
    assert metric_of(plan(project, "--baseline", "latest"))["reason"] is None, "it only leaves the comparison"
    (project.folder / "qa.jsonl").write_text(changed)
    project.evaluation["datasets"][0]["metrics"] += ["rouge"]
    assert "rouge of qa is not compared" in plan(project, "--baseline", "latest")["notes"][0]
    project.evaluation["ciGate"] = {"baseline": "main", "maxDrop": {"rouge": 0.1}}
    assert "no scores for" in metric_of(plan(project, "--baseline", "latest"), "rouge")["reason"]


@pytest.mark.parametrize(("metric", "score"), [("rouge", 0.5), ("string_match", 1.0)])
@pytest.mark.parametrize(("repeat", "least"), [("1", 3), ("2", 2)])
def test_noise_that_was_never_seen_is_not_known(metric, score, repeat, least, project):
    """Scores of 0 and 1 had a number, as if it were certain that none ever flips."""
    project.samples(40, metrics=(metric,))
    write_baseline(project, [[score, score]] * 40, metric=metric)
    found = metric_of(plan(project, "--baseline", "main", "--repeat", repeat), metric)
    assert (found["detectable"], found["samplesNeeded"]) == (None, None)
    assert f"a change in at least {least} samples is detected" in found["reason"]
    assert f"{metric}: no noise was observed" in project("plan", "agent.yaml", "--baseline", "main").out


def test_more_metrics_and_fewer_clusters_need_larger_drops(project):
    scores = [[0.5 + 0.01 * (n % 10), 0.5 + 0.01 * (n * 7 % 10)] for n in range(40)]
    project.dataset("qa", [{"id": f"s{n}", "metadata": {"doc": n // 4}} for n in range(40)], metrics=["rouge"])
    write_baseline(project, scores, metric="rouge")
    alone = metric_of(plan(project, "--baseline", "main"), "rouge")["detectable"]
    project.evaluation["datasets"][0]["metrics"] += ["bleu", "chrf"]
    project.evaluation["ciGate"] = {"baseline": "none", "maxDrop": {"rouge": 0, "bleu": 0, "chrf": 0}}
    assert plan(project)["tests"] == 3
    three = metric_of(plan(project), "rouge")["detectable"]
    project.evaluation["ciGate"]["maxDrop"] = {"rouge": 0}
    assert metric_of(plan(project), "rouge")["detectable"] < three
    project.evaluation["datasets"][0] |= {"cluster": "doc", "metrics": ["rouge"]}
    clustered = plan(project, "--baseline", "main")
    assert metric_of(clustered, "rouge")["units"] == clustered["datasets"][0]["units"] == 10
    assert metric_of(clustered, "rouge")["detectable"] != alone
    assert "40 samples in 10 clusters detect a drop of" in clustered["summary"]


@pytest.mark.parametrize("regression", ["drop", "notWorse"])
def test_the_samples_that_exclude_max_drop(regression, project):
    project.samples(40, metrics=("rouge",))
    project.evaluation["ciGate"] = {"baseline": "main", "maxDrop": 0.02, "regression": regression}
    document = plan(project)
    needed = metric_of(document, "rouge")["samplesNeeded"]
    assert f"excluding 0.02 (maxDrop) needs about {two_digits(needed)} samples" in document["summary"]
    project.evaluation["datasets"].clear()
    project.samples(int(needed * 1.1), metrics=("rouge",))
    enough = metric_of(plan(project), "rouge")
    assert enough["samplesNeeded"] == pytest.approx(needed, rel=0.05)
    assert f"~{two_digits(enough['samplesNeeded'])} ✓" in project("plan", "agent.yaml").out


def two_digits(count):
    return f"{int(float(f'{count:.1e}')):,}"


def test_without_alpha_the_value_alone_decides(project):
    project.samples(40, metrics=("rouge",))
    project.evaluation["ciGate"] = {"baseline": "main", "alpha": None, "maxDrop": 0.1}
    metric = metric_of(plan(project), "rouge")
    ends = [0.1 + 0.8416 * 0.2 * factor**0.5 / 40**0.5 for factor in (0.4, 1.6)]
    assert metric["detectable"] == pytest.approx(ends, rel=0.05)
    assert metric["samplesNeeded"] is None


def test_an_anchor_has_most_of_the_level_and_what_it_detects_counts(project):
    """A baseline of two attempts that took the place of one of five: the anchor of five detects more."""
    project.samples(60)
    project.evaluation["ciGate"] = {"baseline": "main"}
    runs = [
        run_of(make_dataset(make_samples([[n % 5 > 0 or (n + k) % 2 for k in range(attempts)] for n in range(60)])))
        for attempts in (5, 2)
    ]
    path = project.folder / "evals" / "baselines" / "main.json"
    path.parent.mkdir(parents=True)
    found = {}
    for name, baseline in {
        "last": Baseline(runs[1]),
        "both": Baseline(runs[1], runs[0]),
        "first": Baseline(runs[0]),
    }.items():
        path.write_text(render_baseline(baseline))
        document = plan(project)
        found[name] = metric_of(document)["detectable"][1]
        assert any("of the significance level" in note for note in document["notes"]) is (name == "both")
    assert found["both"] == pytest.approx(found["first"], rel=0.15)
    assert found["both"] < found["last"]
    project.evaluation["ciGate"] |= {"regression": "notWorse", "maxDrop": 0.01}
    ends = []
    for baseline in (Baseline(runs[1]), Baseline(runs[1], runs[0])):
        path.write_text(render_baseline(baseline))
        ends.append(metric_of(plan(project))["detectable"])
    assert ends[0] == ends[1], "the anchor has no share then"


@pytest.mark.parametrize("width", ["20", "60", "100"])
def test_the_table_fits_and_keeps_names_whole(width, project, monkeypatch):
    monkeypatch.setenv("COLUMNS", width)
    project.samples(40, name="a-dataset-with-a-long-name", metrics=("answer_relevancy", "non_llm_context_recall"),
                    context=CONTEXT, reference_contexts=CONTEXT)  # fmt: skip
    project.evaluation["ciGate"] = {"baseline": "main", "maxDrop": 0.02}
    project.write()
    lines = project("plan", "agent.yaml").out.splitlines()
    assert max(map(len, lines)) <= max(40, int(width))
    assert any("non_llm_context_recall" in line for line in lines)
    assert " ".join(lines).startswith("40 samples detect a drop of 0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--baseline", "mian"], "--baseline: no baseline or run is named 'mian'. did you mean 'main'?"),
        (["--baseline", "other.json"], "other.json: no such file"),
        (["--dataset", "qx"], "--dataset: no dataset is named 'qx'. known: qa"),
        (["--tag", "x"], "no sample is selected"),
        (["--repeat", "0"], "--repeat"),
    ],
)
def test_errors_are_one_line_with_place_and_fix(arguments, said, project):
    project.samples(5)
    write_baseline(project, [[1]] * 5)
    project.write()
    outcome = project("plan", "agent.yaml", *arguments)
    assert (outcome.code, outcome.out, len(outcome.err.splitlines())) == (2, "", 1)
    assert said in outcome.err
    document = project("plan", "agent.yaml", "--json", *arguments).document
    assert document["exitCode"] == 2
