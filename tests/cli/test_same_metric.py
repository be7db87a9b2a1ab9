"""What makes a run comparable with a baseline: the same metric, the same samples, the same number of attempts."""

import json
from collections import Counter

import pytest

from baselines import seal
from servers.scripted_judge import ScriptedJudge
from stored_log import keep_records

SCORER = "from rules import right\n\n\ndef grade(exchange):\n    return exchange.response == right\n"
RUBRIC = {"name": "tone", "rubric": "Is it kind? [grade: good]", "labels": {"good": 1, "bad": 0}}


def lines(count=12, **changed):
    return [{"id": f"s{n}", "input": f"q{n}", "expected": "Paris"} | changed.get(f"s{n}", {}) for n in range(count)]


def rewrite(project, samples):
    text = "".join(json.dumps(sample) + "\n" for sample in samples)
    (project.folder / "qa.jsonl").write_text(text, encoding="utf-8")


def promote(project, *arguments):
    """Evaluate, and make the run both the gate's baseline and the run `old`."""
    project.evaluate(*arguments)
    assert project("runs", "label", "latest", "old").code == 0
    assert project("runs", "promote", "latest", "--as", "main").code == 0
    project.evaluation["ciGate"] = {"baseline": "main"}


def outcome_of(project, metric, *arguments):
    """Exit code, status and reason of the regression gate on one metric."""
    outcome = project.evaluate("--json", *arguments)
    found = {one["metric"]: one for one in outcome.document["regressions"]}
    return outcome.code, found[metric]["status"], found[metric]["reason"]


@pytest.fixture
def asked(project, agent):
    project.api = {"url": agent.url}
    agent.reply = {"response": "Paris"}
    return project


@pytest.fixture
def scored(asked):
    """A baseline by the user's own scorer, which imports a neighbour."""
    (asked.folder / "grading.py").write_text(SCORER)
    (asked.folder / "rules.py").write_text("right = 'Paris'\n")
    entry = {"name": "own", "scorer": "grading:grade", "range": [0, 1]}
    asked.dataset("qa", lines(), metrics=[entry, "string_match"])
    promote(asked)
    return asked


def test_a_changed_scorer_is_not_blamed_on_the_agent(scored):
    (scored.folder / "rules.py").write_text("right = 'Rome!'\n")
    code, status, reason = outcome_of(scored, "own")
    assert (code, status) == (3, "INCOMPLETE")
    assert "its scorer grading:grade changed" in reason
    assert outcome_of(scored, "string_match")[1] == "PASS"


def test_compare_refuses_a_changed_scorer_unless_allowed(scored):
    (scored.folder / "grading.py").write_text(SCORER + "# now stricter\n")
    scored.evaluate()
    refused = scored("compare", "old", "latest")
    assert refused.code == 2
    assert "latest: dataset qa: own: its scorer grading:grade changed" in refused.err
    assert scored("compare", "old", "latest", "--metric", "string_match").code == 0
    assert scored("compare", "old", "latest", "--allow-mismatch").code == 0


def test_a_file_that_the_scorer_does_not_import_changes_nothing(scored):
    (scored.folder / "other.py").write_text("right = 'Rome'\n")
    assert outcome_of(scored, "own")[:2] == (0, "PASS")


def test_another_version_of_a_metric_is_another_metric(scored):
    path = scored.folder / "evals" / "baselines" / "main.json"
    document = json.loads(path.read_text())
    document["fingerprint"]["datasets"][0]["metricIdentities"]["string_match"]["version"] = "0"
    path.write_text(json.dumps(seal(document)))
    code, status, reason = outcome_of(scored, "string_match")
    assert (code, status) == (3, "INCOMPLETE")
    assert "its version changed: 0 and 3" in reason
    assert outcome_of(scored, "own")[1] == "PASS"


def test_a_baseline_without_identities_is_compared_by_what_it_has(scored):
    path = scored.folder / "evals" / "baselines" / "main.json"
    document = json.loads(path.read_text())
    for dataset in document["fingerprint"]["datasets"]:
        del dataset["metricIdentities"]
    for sample in document["datasets"][0]["samples"]:
        del sample["digest"]
    path.write_text(json.dumps(seal(document)))
    assert outcome_of(scored, "own")[:2] == (0, "PASS")
    compared = scored("compare", str(path), "latest")
    assert compared.code == 0
    assert "the same way (no record in the baseline)" in " ".join(compared.out.split())
    rewrite(scored, lines(13))
    assert "its content changed" in outcome_of(scored, "own")[2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda entry, judge: entry.update(rubric="Is it rude? [grade: bad]"), "the judge's prompt changed"),
        (lambda entry, judge: entry.update(labels={"good": 1, "bad": 0.5}), "its options changed"),
        (lambda entry, judge: judge.update(model="other"), "the judge changed: scripted and other"),
        (lambda entry, judge: judge.update(temperature=0.5), "the judge scripted changed"),
    ],
)
def test_another_rubric_or_judge_is_another_metric(change, said, asked):
    with ScriptedJudge() as server:
        judge = {"model": "scripted", "baseUrl": server.url, "apiKey": "k"}
        entry = dict(RUBRIC)
        asked.evaluation["judge"] = judge
        asked.dataset("qa", lines(6), metrics=[entry, "string_match"])
        promote(asked)
        assert outcome_of(asked, "tone")[1] == "PASS"
        assert outcome_of(asked, "tone", "--judge-repeat", "2")[1] == "PASS", "asking twice measures the same"
        change(entry, judge)
        code, status, reason = outcome_of(asked, "tone")
        assert (code, status) == (3, "INCOMPLETE")
        assert said in reason
        assert outcome_of(asked, "string_match")[1] == "PASS"


def test_a_judge_whose_model_is_redacted_is_the_same_judge(asked, monkeypatch):
    monkeypatch.setenv("JUDGE_MODEL", "scripted")
    with ScriptedJudge() as server:
        asked.evaluation["judge"] = {"model": "$env:JUDGE_MODEL", "baseUrl": server.url, "apiKey": "k"}
        asked.dataset("qa", lines(6), metrics=[RUBRIC])
        promote(asked)
        assert outcome_of(asked, "tone")[1] == "PASS"
        monkeypatch.setenv("JUDGE_MODEL", "another")
        assert "the judge changed: [redacted:env:JUDGE_MODEL] and" in outcome_of(asked, "tone")[2]


def test_changed_samples_are_named_and_left_out(asked):
    asked.dataset("qa", lines(), metrics=["string_match"])
    promote(asked)
    rewrite(asked, lines(s3={"expected": "Rome"}, s7={"input": "another"}, s8={"tags": ["new"]}))
    code, status, reason = outcome_of(asked, "string_match")
    assert (code, status) == (0, "PASS")
    assert "(10 samples, 2 edited)" in reason, "edited samples are not compared"
    (found,) = asked("compare", "old", "latest", "--json").document["candidates"][0]["datasets"]
    assert found["pairs"] == 10
    assert {one["id"] for one in found["samples"] if one["kind"] == "edited in the dataset"} == {"s3", "s7"}


def test_a_grown_dataset_and_a_selection_are_compared_over_what_both_have(asked):
    asked.dataset("qa", lines(), metrics=["string_match"])
    promote(asked)
    rewrite(asked, [{"id": "new", "input": "q", "expected": "Paris"}, *lines()])
    code, status, reason = outcome_of(asked, "string_match")
    assert (code, status) == (0, "PASS")
    assert "12 samples, 1 only in this run" in reason
    assert asked("compare", "old", "latest").code == 0
    assert outcome_of(asked, "string_match", "--sample-size", "6")[:2] == (0, "PASS")
    selected = asked("compare", "old", "latest", "--json").document["candidates"][0]
    assert selected["mismatches"] == []
    assert "dataset qa: 12 and 6 samples selected" in selected["differences"]


@pytest.mark.parametrize("texts", [True, False])
def test_digests_are_of_the_samples_before_redaction(texts, asked, monkeypatch):
    """Neither withheld texts nor a secret, even one that is part of a digest, make it another sample."""
    monkeypatch.setenv("CITY", "Paris")
    asked.api["chatEndpoint"] = {"headers": {"X-City": "${env:CITY}"}}
    asked.dataset("qa", lines(6), metrics=["string_match"])
    promote(asked, *([] if texts else ["--no-content"]))
    stored = asked("report", "old", "--json").document["datasets"][0]["samples"]
    assert [len(sample["digest"]) for sample in stored] == [16] * 6
    assert len({sample["digest"] for sample in stored}) == 6
    monkeypatch.setenv("CITY", stored[0]["digest"][:8])
    assert outcome_of(asked, "string_match")[:2] == (0, "PASS")
    again = asked("report", "latest", "--json").document["datasets"][0]["samples"]
    assert [sample["digest"] for sample in again] == [sample["digest"] for sample in stored]


@pytest.mark.parametrize(("before", "after", "status"), [(3, 1, "PASS"), (1, 3, "FAIL"), (3, 2, "FAIL")])
def test_runs_with_other_numbers_of_repeats_are_compared_over_all_attempts(before, after, status, asked, agent):
    """The agent's second answer to each question is wrong, the others are right."""
    times = Counter()

    def reply(body):
        times[body["message"]] += 1
        return {"response": "Lyon" if times[body["message"]] == 2 else "Paris"}

    agent.reply = reply
    asked.dataset("qa", lines(20), metrics=["string_match", "latency_p95"])
    asked.evaluation["thresholds"] = {"string_match": 0.5}
    promote(asked, "--repeat", str(before), "-j", "1")
    times.clear()
    asked.evaluation["ciGate"] |= {"alpha": None, "maxDrop": 0}
    outcome = asked.evaluate("--repeat", str(after), "-j", "1", "--json")
    (found,) = outcome.document["regressions"]
    means = {1: 1.0, 2: 1 / 2, 3: 2 / 3}
    assert (found["status"], found["delta"]) == (status, pytest.approx(means[after] - means[before]))
    compared = asked("compare", "old", "latest", "--json").document["candidates"][0]
    assert compared["mismatches"] == []
    assert f"repeats: {before} and {after}" in " ".join(compared["differences"])


def test_a_baseline_without_single_attempts_is_not_compared_with_fewer(asked):
    asked.dataset("qa", lines(6), metrics=["string_match", "latency_p95"])
    promote(asked, "--repeat", "3")
    path = asked.folder / "evals" / "baselines" / "main.json"
    document = json.loads(path.read_text())
    for sample in document["datasets"][0]["samples"]:
        sample["scores"]["string_match"] = 1.0
        del sample["passes"]
    path.write_text(json.dumps(seal(document)))
    code, status, reason = outcome_of(asked, "string_match")
    assert (code, status) == (3, "INCOMPLETE")
    assert "3 and 1 attempts" in reason
    assert outcome_of(asked, "string_match", "--repeat", "3")[:2] == (0, "PASS")


def test_promoting_the_best_of_several_runs_is_noted(asked, agent):
    asked.dataset("qa", lines(10), metrics=["string_match"])
    path = asked.folder / "evals" / "baselines" / "main.json"

    def run_with(right, *arguments):
        agent.reply = lambda body: {"response": "Paris" if int(body["message"][1:]) < right else "Lyon"}
        asked.evaluate(*arguments)
        label = f"r{right}" + "".join(arguments).replace("-", "")
        asked("runs", "label", "latest", label)
        return label

    def best_of(label):
        outcome = asked("runs", "promote", label, "--as", "main")
        assert outcome.code == 0
        found = json.loads(path.read_text())["fingerprint"].get("bestOf")
        assert (f"best of {found} runs" in outcome.err) == (found is not None)
        return found

    only = run_with(7)
    assert best_of(only) is None
    best, worse = run_with(9), run_with(6)
    assert best_of(worse) is None
    assert best_of(best) == 3
    assert best_of(run_with(8, "--sample-size", "5")) is None, "other samples are another experiment"
    asked("rescore", worse, "agent.yaml")
    assert best_of(best) == 3, "replies that are scored again are no run of the agent"


def test_runs_that_are_all_the_same_have_no_best(asked):
    asked.dataset("qa", lines(4), metrics=["string_match"])
    asked.evaluate()
    asked.evaluate()
    assert "best of" not in asked("runs", "promote", "latest", "--as", "main").err


def test_a_resumed_run_has_the_digests_of_the_whole_one(asked):
    asked.dataset("qa", lines(3), metrics=["string_match"])
    whole = asked.evaluate("--json").document["datasets"][0]["samples"]
    run = asked.folder / ".evalspec" / "runs" / "latest"
    keep_records(run / "samples.jsonl", lambda record: record.get("id") != "s1")
    (run / "report.json").unlink()
    resumed = asked.evaluate("--resume", "latest", "--json").document["datasets"][0]["samples"]
    assert [sample["digest"] for sample in resumed] == [sample["digest"] for sample in whole]
    assert None not in {sample["digest"] for sample in resumed}


def test_max_drop_knows_the_defaults_of_the_users_own_scorer(asked):
    (asked.folder / "grading.py").write_text("def grade(exchange, *, style: str = 'lax'):\n    return style != 'no'\n")
    entry = {"name": "own", "scorer": "grading:grade"}
    asked.dataset("qa", lines(), metrics=[entry, entry | {"style": "strict"}])
    promote(asked)
    asked.evaluation["ciGate"] |= {"maxDrop": {"own(style=lax)": 0.1, "own(style=strict)": 0.2}}
    outcome = asked.evaluate("--json")
    assert [one["metric"] for one in outcome.document["regressions"]] == ["own", "own(style=strict)"]
    forecast = asked("plan", "agent.yaml", "--json").document
    assert [(one["metric"], one["maxDrop"]) for one in forecast["datasets"][0]["metrics"]] == [
        ("own", 0.1),
        ("own(style=strict)", 0.2),
    ]
    asked.evaluation["ciGate"] |= {"maxDrop": {"own(style=loud)": 0.1}}
    refused = asked.evaluate()
    assert (refused.code, "maxDrop: no dataset computes 'own(style=loud)'" in refused.err) == (2, True)
