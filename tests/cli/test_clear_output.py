"""What the commands say first, what they say once, and where they lead to the reason."""

import json
from typing import Any

import pytest

from evalspec.cli.commands import COMMANDS

QUESTIONS = [
    {"id": "trial", "input": "How long is the trial?", "expected": "21 days", "tags": ["billing"]},
    {"id": "refund", "input": "How long does a refund take?", "expected": "5 business days", "tags": ["billing"]},
]
REPLIES = [{"id": "trial", "response": "The trial lasts 14 days"}, {"id": "refund", "response": "5 business days"}]
SPEC: dict[str, Any] = {
    "datasets": [{"name": "qa", "path": "$file:qa.jsonl", "metrics": ["string_match", "rouge"]}],
    "thresholds": {"rouge": 0.1, "string_match": 0.9},
    "ciGate": {"minSamples": 1},
}


@pytest.fixture
def shop(project):
    """A project with recorded replies, one of which is wrong. Functions write it again with changes."""

    def write(name="agent.yaml", replies=REPLIES, **changes):
        head = {"apiVersion": "agentspec.io/v1", "kind": "AgentSpec", "metadata": {"name": "shop"}}
        text = json.dumps(head | {"spec": {"evaluation": SPEC | changes}}, indent=1)
        (project.folder / name).write_text(text)
        for file, lines in (("qa.jsonl", QUESTIONS), ("replies.jsonl", replies)):
            (project.folder / file).write_text("".join(json.dumps(line) + "\n" for line in lines))

    write()
    project.write = write
    return project


def evaluate(shop, *options):
    return shop("evaluate", "--responses", "replies.jsonl", *options)


def test_fail_leads_to_the_reason(shop):
    outcome = evaluate(shop)
    lines = outcome.out.splitlines()
    assert outcome.code == 1
    assert lines[0] == lines[-1] == "FAIL  shop  1 of 2 thresholds broken"
    table = [line.split()[0] for line in lines if line.startswith("  ") and "/2" in line]
    assert table[:2] == ["string_match", "rouge"], "the broken metric is first"
    card = outcome.out.partition("Worst samples")[2]
    assert "trial: string_match 0.000 is below 0.90" in card
    assert "question  How long is the trial?" in card
    assert "expected  *21* days" in card
    assert "got       *The trial lasts 14* days" in card
    shown = shop("show", "trial")
    assert shown.out.startswith("trial  beyond 1 limit  qa  qa.jsonl:1  billing\n")
    assert "got       *The trial lasts 14* days" in shown.out
    assert "≥ 0.90 ✗" in shown.out
    document = shop("show", "latest", "trial", "--json").document
    assert document["attempts"][0]["response"] == "The trial lasts 14 days"
    assert "did you mean 'trial'?" in shop("show", "trail").err


def test_one_line_has_the_first_reason(shop):
    assert evaluate(shop, "-q").out == "FAIL  shop  1 of 2 thresholds broken: qa: string_match: 0.5 is below 0.9\n"


def test_a_sample_of_value_0_says_what_its_answer_lacks(shop):
    card = evaluate(shop).out.partition("Worst samples")[2]
    assert "why       does not contain '21 days'" in card
    assert "does not contain '21 days'" in shop("show", "trial").out


def test_an_id_is_accepted_as_it_is_shown_and_names_in_fixes_are_quoted(shop):
    files = {"first one": "qa.jsonl", "second": "odd.jsonl"}
    datasets = [{"name": name, "path": f"$file:{file}", "metrics": ["rouge"]} for name, file in files.items()]
    shop.write(datasets=datasets, thresholds={"rouge": 0.1})
    odd: dict[str, list[Any]] = {"odd.jsonl": [QUESTIONS[0], QUESTIONS[1] | {"id": "a\x07b"}]}
    odd["replies.jsonl"] = [*REPLIES, {"id": "a\x07b", "response": "5 business days"}]
    for file, lines in odd.items():
        (shop.folder / file).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert evaluate(shop).code == 0
    assert shop("show", "a\\x07b").out.startswith("a\\x07b  within its limits  second")
    assert "add --dataset 'first one'" in shop("show", "trial").err
    said = shop("show", "--help").out
    assert "Print all slices" not in said and "the state of the sample" in said


def test_a_run_has_no_differences_from_itself(shop):
    evaluate(shop)
    evaluate(shop)
    first, second = sorted(folder.name for folder in (shop.folder / ".evalspec/runs").iterdir())[:2]
    assert shop("compare", first, second).out.startswith("no differences in 2 samples\n")


def test_the_start_of_an_id_is_enough_to_show_a_sample(shop):
    others = [{"id": name, "input": f"{name}?", "expected": "yes"} for name in ("rebate", "refunds")]
    (shop.folder / "qa.jsonl").write_text("\n".join(map(json.dumps, [*QUESTIONS, *others])))
    evaluate(shop)
    assert shop("show", "tri").out == shop("show", "trial").out
    assert shop("show", "refund").out.startswith("refund "), "a whole id is not the start of another"
    assert "3 samples begin with 're': write more of the id, such as refund" in shop("show", "re").err.replace(
        ". ", ": "
    )
    assert "has no sample ''" in shop("show", "").err


def test_nothing_is_said_of_texts_that_are_not_stored(shop):
    assert "got " not in evaluate(shop, "--no-content").out
    assert "the texts of this sample are not stored" in shop("show", "trial").out


def test_equal_warnings_are_one_line_with_a_count(shop):
    line = json.dumps({"input": "a?", "expected_output": "b"})
    lines = [line.replace("a?", f"{number}?") for number in range(2000)]
    (shop.folder / "qa.jsonl").write_text("\n".join(lines))
    told = shop("validate")
    assert told.err.splitlines() == [
        "warning: qa.jsonl:1: expected_output: expected_output is read as expected. rename it (and 1,999 more places)"
    ]
    assert len(shop("validate", "--json").document["warnings"]) == 2000


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"judgee": {}}, "unknown key 'judgee'"),
        ({"ciGate": 5}, "5 is not accepted here"),
        ({"datasets": [SPEC["datasets"][0] | {"metrcs": ["rouge"]}]}, "unknown key 'metrcs'"),
    ],
)
def test_validate_reports_an_error_of_the_manifest_and_those_of_its_datasets(shop, changes, problem):
    shop.write(**changes)
    (shop.folder / "qa.jsonl").write_text('{"input": "a?"}\n')
    lines = shop("validate").out.splitlines()
    assert problem in lines[0]
    assert "qa.jsonl:1: expected: this key is required. add it, as in expected: TEXT" in lines
    assert lines[-1] == f"agent.yaml is not valid: {len(lines) - 1} errors"


@pytest.mark.parametrize("command", ["validate", "evaluate"])
def test_no_error_of_the_manifest_hides_those_of_its_datasets(command, shop):
    text = (shop.folder / "agent.yaml").read_text()
    api = '"specs": {"api": {"ulr": "http://localhost", "readyTimeoutSeconds": "9"},'
    for old, new in (
        ("io/v1", "io/v2"),
        ('"spec": {', api),
        ('{\n  "name": "shop"\n }', "{}"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (shop.folder / "agent.yaml").write_text(text)
    (shop.folder / "qa.jsonl").write_text('{"input": "a?"}\n')
    done = shop(command)
    said = [line.removeprefix("evalspec: ") for line in (done.out + done.err).splitlines()]
    wanted = [
        "agent.yaml:5: specs: unknown key 'specs'. did you mean 'spec'?",
        "agent.yaml:2: apiVersion: 'agentspec.io/v2' is not one of the accepted values. write \"agentspec.io/v1\"",
        "agent.yaml:4: metadata.name: this key is required. add it, as in name: my-agent",
        "agent.yaml:5: spec.api.readyTimeoutSeconds: '9' is text. remove the quotes",
        "agent.yaml:5: spec.api.ulr: unknown key 'ulr'. did you mean 'url'?",
        "qa.jsonl:1: expected: this key is required. add it, as in expected: TEXT",
    ]
    assert done.code == 2
    assert [line for line in said if "is not valid" not in line] == wanted


def test_what_follows_from_an_error_is_not_reported_as_another(shop):
    shop.write(datasets=[{"name": "qa", "path": 5, "metrics": ["string_match"]}])
    assert len(shop("validate").out.splitlines()) == 2


def test_a_misspelled_key_hides_nothing(shop):
    shop.write()
    text = (shop.folder / "agent.yaml").read_text()
    (shop.folder / "agent.yaml").write_text(
        text.replace('"datasets"', '"datsets"').replace('"rouge": 0.1', '"bleu": 0.1')
    )
    lines = shop("validate").out.splitlines()
    assert "did you mean 'datasets'?" in lines[0]
    assert "no dataset computes bleu" in lines[1]
    assert len(lines) == 3


def test_agent_yml_is_found(shop):
    (shop.folder / "agent.yaml").rename(shop.folder / "agent.yml")
    found = shop("validate")
    assert (found.out, found.err) == ("agent.yml is valid: 1 dataset, 2 samples\n", "")
    (shop.folder / "agent.yaml").write_text((shop.folder / "agent.yml").read_text())
    both = shop("validate")
    assert both.out == "agent.yaml is valid: 1 dataset, 2 samples\n"
    assert both.err.count("\n") == 1 and "agent.yml is beside agent.yaml and is not read" in both.err
    assert shop("validate", "agent.yaml").err == shop("validate", "--help").err == ""


def test_resume_of_a_finished_run_says_so(shop):
    evaluate(shop)
    told = evaluate(shop, "--resume")
    assert told.code == 1
    assert "is already finished: it is shown again" in told.err


def test_runs_list_shows_values_and_their_trend(shop):
    evaluate(shop)
    shop.write(replies=[REPLIES[1] | {"id": "trial", "response": "21 days"}, REPLIES[1]])
    evaluate(shop)
    shown = shop("runs", "list").out
    assert "string_match 1.000" in shown
    assert "qa, 2 runs on the same samples, oldest first" in shown
    (trend,) = [line for line in shown.splitlines() if line.startswith("  string_match")]
    assert trend.split() == ["string_match", "▁█", "0.500", "→", "1.000"]
    newest, oldest = shop("runs", "list", "--json").document["runs"]
    values = [run["datasets"][0]["metrics"]["string_match"]["value"] for run in (newest, oldest)]
    assert values == [1, 0.5]


def test_a_value_over_some_of_the_samples_is_no_point_of_a_trend(shop):
    for replies in ([REPLIES[1] | {"id": "trial", "response": "21 days"}, REPLIES[1]], REPLIES[1:], REPLIES):
        shop.write(replies=replies)
        evaluate(shop)
    shown = shop("runs", "list").out
    assert " (1/2 scored)" in shown
    assert "oldest first; values over only some of them, or measured differently, are left out" in shown
    (trend,) = [line for line in shown.splitlines() if line.startswith("  string_match")]
    assert len(trend.split()[1]) == 2, trend


def test_runs_on_other_samples_are_no_trend(shop):
    evaluate(shop)
    evaluate(shop, "--sample-size", "1")
    assert "runs on the same samples" not in shop("runs", "list").out


def test_a_trend_has_only_what_is_measured_as_in_the_newest_run(shop):
    metrics = ["rouge", {"name": "own", "scorer": "own_metrics:own"}]
    shop.write(datasets=[SPEC["datasets"][0] | {"metrics": metrics}], thresholds={"rouge": 0.1})
    for value in ("0.1", "0.2", "0.3", "0.3 + 0"):
        (shop.folder / "own_metrics.py").write_text(f"def own(exchange):\n    return {value.partition(' ')[0]}\n")
        assert evaluate(shop).code == 0
    lines = shop("runs", "list").out.splitlines()
    assert "qa, 4 runs on the same samples, oldest first; values over only some of them, or measured" in lines[5]
    trends = {line.split()[0]: len(line.split()[1]) for line in lines[6:]}
    assert trends == {"rouge": 4, "own": 2}


def test_a_partial_verdict_is_listed_as_such(shop):
    evaluate(shop)
    evaluate(shop, "--sample-size", "1")
    newest, oldest = shop("runs", "list").out.splitlines()[:2]
    assert newest.split("  ")[1] in ("PASS (PARTIAL)", "FAIL (PARTIAL)") and "PARTIAL" not in oldest
    assert [run["partial"] for run in shop("runs", "list", "--json").document["runs"]] == [True, False]


def test_repeats_without_noise_have_no_deviation():
    from evalspec.verdict.stats.repeats import compute_variance_components

    found = compute_variance_components([[[0.1], [0.1], [0.1]], [[0.7], [0.7], [0.7 + 1e-16]]])
    assert found.replies == 0


@pytest.mark.parametrize("name", ["nDCG@0", "nDCG@", "F0.5@x"])
def test_a_metric_without_a_cut_off_after_its_sign_is_none(project, name):
    shown = project("metrics", name)
    assert shown.code == 2 and f"'{name}' has no cut-off; a cut-off is at least 1" in shown.err


def test_a_weight_of_f_is_a_metric(project):
    assert "F0.5[@k]" in project("metrics", "F0.5@3").out


def test_help_and_metrics_by_name(project):
    assert project("help", "runs", "promote").out == project("runs", "promote", "--help").out
    assert "did you mean 'evaluate'?" in project("help", "evalute").err
    assert "thresholds: {nDCG@10: {min: 0.8}}" in project("metrics", "ndcg@5").out
    assert project("metrics", "faithfulness", "--json").document["needs"] == ["context", "judge"]
    assert "did you mean 'rouge'?" in project("metrics", "roug").err


def test_help_of_evaluate_is_in_groups_and_says_once_how_to_set_variables(project):
    lines = project("evaluate", "--help").out.splitlines()
    titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles[0] == "Samples:"
    assert {"Agent and judge:", "Output:", "Server:", "Retrievers:"} <= set(titles)
    assert sum("EVALSPEC_DATASET" in line for line in lines) == 1
    convert = project("convert", "--help").out
    assert convert.index("\nOptions:") < convert.index("--to FORMAT ") < convert.index("\nSamples:")
    assert "Server:" not in convert


def test_the_help_of_every_command_fits_on_a_terminal(project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ((), *((name,) for name in COMMANDS)):
        assert [line for line in project(*command, "--help").out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(project, shell, monkeypatch):
    assert "_EVALSPEC_COMPLETE" in project("completion", shell).out
    monkeypatch.setenv("_EVALSPEC_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "evalspec val")
    monkeypatch.setenv("COMP_CWORD", "val" if shell == "fish" else "1")
    with pytest.raises(SystemExit):
        project()
    assert "validate" in project.capsys.readouterr().out
