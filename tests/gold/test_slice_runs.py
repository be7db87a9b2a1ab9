"""Runs of slices and of the held-out share: what is selected, logged, compared, and how much signal is kept."""

import json

import numpy as np
import pytest

import evalspec
from evalspec import gold
from evalspec.curation.gold.slices import read_uses

COUNT = 60


@pytest.fixture
def rfp(write_set, project):
    """A set of 60 triples in the manifest, a slice of 12, and replies that are right."""
    root = write_set({f"t{n:02}": {"domain": "ab"[n % 2]} for n in range(COUNT)})
    gold.draw_slice(root, "q4", 12, "ada")
    gold.draw_slice(root, "q5", 12, "ada")
    write_replies(project, [1] * COUNT)
    return root


def write_replies(project, right):
    lines = [{"id": f"t{n:02}", "response": f"t{n:02}" if ok else "wrong"} for n, ok in enumerate(right)]
    (project.folder / "replies.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def evaluate(project, *arguments):
    outcome = project("evaluate", "agent.yaml", "--responses", "replies.jsonl", "--json", *arguments)
    assert outcome.code in (0, 3), outcome.err
    return outcome


def ids_of(outcome):
    return {sample["id"] for sample in outcome.document["datasets"][0]["samples"]}


def members(root, name):
    return set(gold.read_slices(root)[name].revisions)


def test_a_run_of_a_slice_has_its_triples_and_says_its_cost(rfp, project):
    outcome = evaluate(project, "--dataset", "rfp", "--slice", "q4")
    assert ids_of(outcome) == members(rfp, "q4")
    assert "rfp: slice q4: 12 of 60 triples, 12 of 60 requests: 20 % of the full set" in outcome.document["notes"]
    selection = outcome.document["fingerprint"]["selection"]
    assert (selection["slice"], "heldOut" in selection) == ("q4", False)
    assert outcome.document["partial"]
    assert len(ids_of(evaluate(project))) == COUNT, "without the option, the full set"


def test_what_a_slice_has_lost_is_counted_in_the_run(rfp, project):
    lost = sorted(members(rfp, "q4"))[0]
    path = rfp / "triples" / f"{lost}.yaml"
    path.write_text(path.read_text().replace("consensus", "pending"))
    outcome = evaluate(project, "--slice", "q4")
    assert ids_of(outcome) == members(rfp, "q4") - {lost}
    assert f"slice 'q4': 1 of 12 triples are left out: 1 pending ({lost})" in outcome.err
    assert any("1 of the 12 drawn are left out: 1 pending" in note for note in outcome.document["notes"])


def test_the_plan_has_the_calls_and_the_share(rfp, project):
    document = project("plan", "agent.yaml", "--slice", "q4", "--repeat", "2", "--json").document
    assert document["agentRequests"] == 24
    assert document["part"] == {
        "name": "slice q4",
        "triples": 12,
        "fullTriples": 60,
        "requests": 24,
        "fullRequests": 120,
        "judgeCalls": 0,
        "fullJudgeCalls": 0,
        "share": 0.2,
    }
    said = project("plan", "agent.yaml", "--slice", "q4").out
    assert "slice q4: 12 of 60 triples, 12 of 60 requests: 20 % of the full set" in said
    assert project("plan", "agent.yaml", "--json").document["part"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--slice", "q44"), "--slice: there is no slice 'q44'. did you mean 'q4'?"),
        (("--slice", "q4", "--held-out"), "choose one of --slice and --held-out"),
        (("--slice", "q4", "--dataset", "plain"), "--slice: dataset 'plain' is no gold set"),
        (("--held-out", "--dataset", "rfp", "--dataset", "plain"), "choose gold sets: --dataset rfp"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "plan", "validate"])
def test_a_wrong_use_is_one_clear_line(rfp, project, command, arguments, message):
    project.samples(2, "plain")
    project.write()
    given = arguments if "--dataset" in arguments else (*arguments, "--dataset", "rfp")
    replies = ("--responses", "replies.jsonl") if command == "evaluate" else ()
    outcome = project(command, "agent.yaml", *replies, *given)
    assert outcome.code == 2
    said = [line for line in (outcome.out + outcome.err).splitlines() if message in line]
    assert len(said) == 1, outcome.err
    assert read_uses(rfp) == []


def test_each_use_of_the_held_out_share_is_logged_and_counted(rfp, project, monkeypatch):
    first = evaluate(project, "--held-out")
    assert ids_of(first) == {entry.id for entry in gold.list_held_out(gold.open_set(rfp))}
    assert ids_of(first).isdisjoint(members(rfp, "q4") | members(rfp, "q5"))
    assert "was not used before" in first.err
    project("plan", "agent.yaml", "--held-out")
    project("validate", "agent.yaml", "--held-out")
    second = evaluate(project, "--held-out")
    assert "was used once before, last on " in second.err
    assert any("uses of the share before this one: 1" in note for note in second.document["notes"])
    assert [use.run for use in read_uses(rfp)] == [first.document["runId"], second.document["runId"]]
    resumed = project("evaluate", "agent.yaml", "--resume", "--json")
    assert (resumed.code, ids_of(resumed)) == (0, ids_of(second)), resumed.err
    assert len(read_uses(rfp)) == 2, "a resumed run is the same use"


def test_a_use_that_cannot_be_logged_stops_the_run_before_its_first_request(rfp, project):
    (rfp / "held-out").write_text("no folder")
    outcome = project("evaluate", "agent.yaml", "--responses", "replies.jsonl", "--held-out")
    assert outcome.code in (2, 3)
    assert "held-out" in outcome.err
    assert "string_match" not in outcome.out


def test_a_resumed_run_keeps_its_slice(rfp, project):
    run = evaluate(project, "--slice", "q4").document["runId"]
    gold.draw_slice(rfp, "q6", 3, "ada")
    outcome = project("evaluate", "agent.yaml", "--resume", run, "--json")
    assert (outcome.code, ids_of(outcome)) == (0, members(rfp, "q4")), outcome.err
    changed = project("evaluate", "agent.yaml", "--resume", run, "--slice", "q5")
    assert "selection: the samples of dataset rfp changed" in changed.err


@pytest.mark.parametrize(("one", "other"), [("q4", "q5"), ("q4", None), (None, "q4"), ("q4", "held out")])
def test_different_parts_are_never_compared(rfp, project, one, other):
    def arguments(part):
        return () if part is None else ("--held-out",) if part == "held out" else ("--slice", part)

    runs = [evaluate(project, *arguments(part)).document["runId"] for part in (one, other)]
    for more in ((), ("--allow-mismatch",)):
        outcome = project("compare", *runs, *more)
        assert outcome.code == 2
        assert "which are different samples of triples" in outcome.err


def test_two_runs_of_a_slice_are_paired(rfp, project):
    runs = [evaluate(project, "--slice", "q4").document["runId"] for _ in range(2)]
    outcome = project("compare", *runs, "--json")
    assert outcome.code == 0
    assert outcome.document["candidates"][0]["datasets"][0]["pairs"] == 12


def test_the_gate_does_not_compare_a_slice_with_a_baseline_of_the_full_set(rfp, project):
    evaluate(project)
    assert "only runs of that part" not in project("runs", "promote", "latest", "--as", "main").err
    project.evaluation["ciGate"] = {"baseline": "main", "maxDrop": 0.0}
    project.write()
    outcome = evaluate(project, "--slice", "q4")
    assert outcome.document["verdict"] == "INCOMPLETE"
    assert "the baseline used the full set and this run slice q4" in outcome.document["regressions"][0]["reason"]
    assert any(
        "slice q4" in line for line in project("plan", "agent.yaml", "--slice", "q4", "--json").document["incomplete"]
    )
    promoted = project("runs", "promote", "latest", "--as", "main")
    assert "used slice q4, so only runs of that part are compared with this baseline" in promoted.err
    assert evaluate(project, "--slice", "q4").document["regressions"][0]["status"] == "PASS"


def test_options_of_the_library(rfp, project):
    run = evalspec.evaluate("agent.yaml", responses="replies.jsonl", slice="q4")
    assert {sample.id for sample in run.datasets[0].samples} == members(rfp, "q4")
    evalspec.evaluate("agent.yaml", responses="replies.jsonl", held_out=True)
    assert len(read_uses(rfp)) == 1
    assert evalspec.plan("agent.yaml", slice="q4").part.triples == 12
    assert "no slice 'q9'" in evalspec.validate("agent.yaml", slice="q9").problems[0].message


def full_runs(project, rng, count, shared=0.0):
    """Evaluate `count` configurations of rising quality on the full set. Return what each answers right."""
    ease, found = rng.random(COUNT), []
    for number in range(count):
        right = ease < 0.2 + 0.06 * number + shared * rng.random(COUNT)
        write_replies(project, right)
        evaluate(project)
        found.append(right)
    return np.array(found, dtype=float)


def test_the_signal_of_a_slice_is_the_correlation_over_full_runs(rfp, project):
    rng = np.random.default_rng(0)
    right = full_runs(project, rng, 7, shared=0.2)
    evaluate(project, "--slice", "q5")
    evaluate(project, "--where", "domain=a")
    found = project("gold", "slice", "--show", "q4")
    assert "signal of the full set: unknown: 7 of 8 full runs stored" in found.out
    right = np.vstack([right, full_runs(project, rng, 1, shared=0.9)])
    signal = project("gold", "slice", "--show", "q4", "--json").document["signal"]
    inside = [n for n in range(COUNT) if f"t{n:02}" in members(rfp, "q4")]
    expected = np.corrcoef(right.mean(axis=1), right[:, inside].mean(axis=1))[0, 1]
    assert signal["correlation"] == pytest.approx(expected)
    assert signal["interval"][0] <= expected <= signal["interval"][1]
    assert (signal["metric"], signal["runs"], signal["configurations"]) == ("string_match", 8, 8)
    assert (signal["triples"], signal["fullTriples"]) == (12, 60)


def test_repeats_of_a_configuration_are_no_configurations(rfp, project):
    for _ in range(9):
        evaluate(project)
    signal = project("gold", "slice", "--show", "q4", "--json").document["signal"]
    assert (signal["configurations"], signal["runs"], signal["correlation"]) == (1, 9, None)
    assert signal["reason"] == "1 of 8 configurations with a full run stored (9 runs)"


def test_runs_with_another_metric_are_excluded_and_counted(rfp, project):
    evaluate(project)
    project.evaluation["datasets"][0]["metrics"] = ["exact_match"]
    project.write()
    evaluate(project)
    signal = project("gold", "slice", "--show", "q4", "--json").document["signal"]
    assert (signal["metric"], signal["runs"]) == ("exact_match", 1)
    assert signal["excludedRuns"] == {"another metric or judge": 1}


def test_runs_that_computed_the_metric_in_another_way_are_excluded_and_counted(rfp, project):
    replies = [{"id": f"t{n:02}", "retrieved_context_ids": [f"b-t{n:02}"]} for n in range(COUNT)]
    (project.folder / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    project.evaluation["datasets"][0] |= {"metrics": ["Recall@5"]}
    for rule in ("notApplicable", "zero"):
        project.evaluation["datasets"][0]["emptyQrels"] = rule
        project.write()
        evaluate(project)
    signal = project("gold", "slice", "--show", "q4", "--json").document["signal"]
    assert (signal["metric"], signal["runs"]) == ("Recall@5", 1)
    assert signal["excludedRuns"] == {"another metric or judge": 1}
