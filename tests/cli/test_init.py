"""`evalspec init`: what it writes runs as it is, what is there is left alone."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from evalspec.inputs.manifest.loader import load_manifest
from evalspec.scoring.metrics.base import METRICS
from installed import pretend_origin

DATA_AND_CI = {"evals/rag.jsonl", "evals/regression.jsonl", ".github/workflows/evalspec.yml"}


def written(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and ".evalspec" not in str(path)
    }


def edit(path: Path, pattern: str, replacement: str) -> None:
    text, changes = re.subn(pattern, replacement, path.read_text(), flags=re.MULTILINE)
    assert changes, pattern
    path.write_text(text)


@pytest.fixture(autouse=True)
def origin(monkeypatch, tmp_path_factory):
    """evalspec is installed from a wheel."""
    pretend_origin(monkeypatch, tmp_path_factory.mktemp("installed"), {"url": "file:///w/evalspec.whl"})


@pytest.fixture
def scaffold(project):
    """A fresh `evalspec init`, its agent on a port of its own."""
    project.outcome = project("init")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        edit(project.folder / "agent.yaml", "8918", str(taken.getsockname()[1]))
    return project


def test_says_what_it_wrote_and_what_comes_next(scaffold):
    assert scaffold.outcome.code == 0
    assert written(scaffold.folder) == {"agent.yaml", "agent.py", *DATA_AND_CI}
    for name in written(scaffold.folder):
        assert f"wrote {name}" in scaffold.outcome.out
    assert scaffold.outcome.out.endswith(
        "Next:\n  evalspec validate agent.yaml\n  evalspec evaluate agent.yaml\n\n"
        "The workflow installs evalspec from a wheel. Build it before the first pull request, and commit it:\n"
        "  pip wheel --no-deps -w vendor /w/evalspec.whl\n"
        "There is no git repository here. The workflow is where its root has to be.\n"
    )


def test_is_valid_without_a_warning(scaffold):
    outcome = scaffold("validate", "agent.yaml")
    assert (outcome.code, "warning" in outcome.err) == (0, False)


@pytest.mark.parametrize("options", [(), ("--no-judge",)], ids=str)
def test_passes_at_once_without_a_key(scaffold, options):
    outcome = scaffold("evaluate", "agent.yaml", "--json", *options)
    assert outcome.code == 0, outcome
    assert (outcome.document["verdict"], outcome.document["partial"]) == ("PASS", False)
    scores = [s["scores"]["string_match"]["value"] for s in outcome.document["datasets"][0]["samples"]]
    assert 0.0 in scores, "a report without one mistake shows nobody what a mistake looks like"


def test_a_worse_agent_fails_the_gate(scaffold):
    edit(scaffold.folder / "agent.py", r"PASSAGES\[key\]\} for", r"'no idea'} for")
    assert scaffold("evaluate", "agent.yaml").code == 1


def test_uses_only_what_a_plain_install_computes(scaffold):
    evaluation = load_manifest(scaffold.folder / "agent.yaml").manifest.spec.evaluation
    names = [metric.name.partition("@")[0] for dataset in evaluation.datasets for metric in dataset.metrics]
    assert {METRICS.find(name).engine for name in names} == {"evalspec"}


def test_judged_metrics_are_a_few_comments_away(scaffold):
    edit(scaffold.folder / "agent.yaml", r"^( *)# (- )?(faithfulness|context_recall)\b", r"\1\2\3")
    assert scaffold("validate", "agent.yaml").code == 0
    without_key = scaffold("evaluate", "agent.yaml")
    assert without_key.code == 2
    assert without_key.err.count("\n") == 1
    assert "OPENAI_API_KEY is not set" in without_key.err
    skipped = scaffold("evaluate", "agent.yaml", "--no-judge", "--json")
    assert skipped.code == 0
    assert (skipped.document["verdict"], skipped.document["partial"]) == ("PASS", True)
    assert {"faithfulness", "context_recall"} <= set(skipped.document["datasets"][0]["metrics"])


def test_with_a_url_the_own_agent_is_asked(project, agent):
    agent.reply = {"response": "30 days, 5 business days, 50 euros, 9 euros, 6 months, 2 years, 3 years, from 9 to 17, "
                   "3 to 5 working days"}  # fmt: skip
    done = project("init", "my shop", "--url", agent.url)
    assert done.code == 0 and f"requests go to POST {agent.url}/v1/chat; to change that, edit url and" in done.out
    assert written(project.folder / "my shop") == {"agent.yaml", *DATA_AND_CI}
    api = load_manifest(Path("my shop/agent.yaml")).manifest.spec.api
    assert (api.url, api.command, api.chat_endpoint.protocol) == (agent.url, None, None)
    assert project("validate", "my shop/agent.yaml").code == 0
    assert project("evaluate", "my shop/agent.yaml").code == 0


def test_next_commands_can_be_pasted(project):
    said = project("init", "my shop").out
    assert "evalspec validate 'my shop/agent.yaml'" in said
    assert "pip wheel --no-deps -w 'my shop/vendor' /w/evalspec.whl" in said


BOT = 'def answer(question):\n    return "21 days" if "trial" in question else "no idea"\n'
QUESTIONS = "question,ground_truth\nHow long is the trial?,21 days\nWho pays?,the owner\n"


@pytest.fixture
def shop(project):
    """A project with a bot in Python and a CSV, in a folder `shop` and its parent."""
    (project.folder / "shop").mkdir()
    (project.folder / "shop" / "bot.py").write_text(BOT)
    (project.folder / "questions.csv").write_text(QUESTIONS)
    return project


def test_own_questions_and_a_function_make_a_gate_that_explains_its_failure(shop):
    done = shop("init", "shop", "--agent", "bot:answer", "--data", "questions.csv")
    assert (done.code, done.err) == (0, "")
    assert "questions.csv: 2 samples, 2 with a right answer (format csv); the right answers are short" in done.out
    assert written(shop.folder / "shop") == {"agent.yaml", "bot.py", ".github/workflows/evalspec.yml"}
    assert shop("validate", "shop/agent.yaml").out == "shop/agent.yaml is valid: 1 dataset, 2 samples\n"
    failed = shop("evaluate", "shop/agent.yaml")
    assert failed.code == 1
    for line in ("Worst samples (1)", "question  Who pays?", "expected  the owner", "got       no idea"):
        assert line in failed.out
    assert "Who pays?" not in shop("evaluate", "shop/agent.yaml", "--no-content").out
    again = shop("report")
    assert again.code == 1 and "Who pays?" not in again.out


@pytest.mark.parametrize(
    ("text", "fields", "metric"),
    [
        ("question,ground_truth\nq,It is the owner of the shop who pays\n", (), "rouge: 0.4"),
        ("question,ground_truth\nq,a\nr,\n", (), "error_rate: {max: 0}"),
        ("Ticket,Lösung: \nq,a\n", ("--field", "input=Ticket", "--field", "expected=Lösung:"), "string_match: 0.8"),
    ],
)
def test_the_first_metric_fits_the_right_answers(shop, text, fields, metric):
    Path("data.csv").write_text(text, encoding="utf-8")
    assert shop("init", "shop", "--agent", "bot:answer", "--data", "data.csv", *fields).code == 0
    assert f"      {metric} #" in Path("shop/agent.yaml").read_text()
    assert shop("evaluate", "shop/agent.yaml").code in (0, 1)


CALLS = [{"name": "book", "arguments": {"seats": 2}}]
CHECKS = [{"name": "contains", "value": "AF12"}]


@pytest.mark.parametrize(
    ("lines", "metrics"),
    [
        ([{"input": "q", "expected": "", "expected_tools": []}], ["tool_calls_exact"]),
        (
            [{"input": "q", "expected": "a", "expected_tools": CALLS, "checks": CHECKS}],
            ["string_match", "checks_all", "tool_calls_exact"],
        ),
        (
            [{"turns": [{"user": "q", "expected": "a"}, {"user": "r", "checks": CHECKS}]}],
            ["string_match", "checks_all"],
        ),
        ([{"turns": [{"user": "q", "expected_tools": CALLS}]}], ["tool_calls_exact"]),
        ([{"input": "q", "expected": "a", "checks": CHECKS}, {"input": "r", "expected": "b"}], ["string_match"]),
        ([{"input": "q", "expected": "", "checks": CHECKS}, {"input": "r", "expected": "b"}], ["error_rate"]),
    ],
)
def test_the_metrics_fit_what_every_sample_expects(shop, lines, metrics):
    Path("data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = shop("init", "shop", "--agent", "bot:answer", "--data", "data.jsonl").out
    assert re.findall(r"metric is (\w+)", said) == metrics
    evaluation = yaml.safe_load(Path("shop/agent.yaml").read_text())["spec"]["evaluation"]
    assert evaluation["datasets"][0]["metrics"] == list(evaluation["thresholds"]) == metrics
    assert shop("validate", "shop/agent.yaml").code == 0


def test_a_gate_that_does_not_look_at_the_answers_is_announced(shop):
    Path("data.csv").write_text("question,ground_truth\nq,a\nr,\n", encoding="utf-8")
    said = shop("init", "shop", "--agent", "bot:answer", "--data", "data.csv").out.splitlines()[0]
    assert said.endswith(
        "so the metric is error_rate, which does not look at the answers. "
        "to gate on them, move the other samples to another file"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--agent", "bot"), "--agent: 'bot' is not module:function. name yours, as in bot:answer"),
        (("--agent", "bto:answer"), "--agent: there is no module 'bto' beside 'shop/agent.yaml'"),
        (("--agent", "bot:answr"), "--agent: bot.py does not define 'answr'. did you mean 'answer'?"),
        (("--agent", "bot:answer", "--url", "http://h"), "--agent: --url and --agent name two agents"),
        (("--data", "questions.csv"), "--data: the example agent knows nothing about these questions"),
        (("--field", "input=question"), "--field: there is no file whose columns it could name"),
        (("--agent", "bot:answer", "--data", "no.csv"), "no.csv: no such file"),
    ],
)
def test_what_init_cannot_start_from_is_one_line(shop, options, says):
    done = shop("init", "shop", *options)
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert says in done.err
    assert written(shop.folder / "shop") == {"bot.py"}


def test_columns_with_other_names_are_named_by_options_before_anything_is_written(shop):
    Path("fragen.csv").write_text("Kundenfrage,Antwort,Nummer\nWer zahlt?,der Halter,1\nWann?,morgen,2\n")
    start = ("init", "shop", "--agent", "bot:answer", "--data", "fragen.csv")
    unnamed = shop(*start)
    assert unnamed.code == 2 and "--field input=COLUMN --field expected=COLUMN" in unnamed.err
    assert "fields:" not in unnamed.err and "convert" not in unnamed.err
    half = shop(*start, "--field", "input=Kundenfrage")
    assert half.code == 2 and half.err.count("\n") == 1, half.err
    assert "fragen.csv: no right answers found. add --field expected=COLUMN (Antwort" in half.err
    assert written(shop.folder / "shop") == {"bot.py"}
    done = shop(*start, "--field", "input=Kundenfrage", "--field", "expected=Antwort")
    assert done.code == 0 and "string_match" in Path("shop/agent.yaml").read_text()


def test_a_name_of_a_file_is_no_place_of_the_template(shop):
    for name in ("URL-GIVEN-TO-INIT", "METRIC-OF-DATA # x", "PYTHON-GIVEN-TO-INIT"):
        Path(f"{name}.csv").write_text(QUESTIONS)
        assert shop("init", "shop", "--agent", "bot:answer", "--data", f"{name}.csv", "--force").code == 0
        assert shop("validate", "shop/agent.yaml").out == "shop/agent.yaml is valid: 1 dataset, 2 samples\n"


def test_a_name_that_no_manifest_can_have_is_refused(shop):
    name = os.fsdecode(b"\xff.csv")
    Path(name).write_text(QUESTIONS)
    done = shop("init", "shop", "--agent", "bot:answer", "--data", name)
    assert (done.code, "--data: the path is not UTF-8 text" in done.err) == (2, True), done.err
    assert written(shop.folder / "shop") == {"bot.py"}


@pytest.mark.parametrize("url", ["localhost:4000", "ftp://host", "http://", "http://host:x", "http://[::1", ""])
def test_refuses_what_is_no_url(project, url):
    outcome = project("init", "--url", url)
    assert outcome.code == 2
    assert "--url" in outcome.err
    assert written(project.folder) == set()


def test_any_url_survives_yaml(project):
    url = "http://host/a'b#c: {d}\\e é"
    project("init", "--url", url)
    assert load_manifest(Path("agent.yaml")).manifest.spec.api.url == url


def test_names_all_that_exists_and_writes_nothing(project):
    Path("agent.yaml").write_text("mine")
    Path("evals").mkdir()
    Path("evals/rag.jsonl").write_text("mine")
    outcome = project("init")
    assert outcome.code == 2
    assert [line.split(":")[1].strip() for line in outcome.err.splitlines()] == ["agent.yaml", "evals/rag.jsonl"]
    assert written(project.folder) == {"agent.yaml", "evals/rag.jsonl"}
    assert Path("agent.yaml").read_text() == "mine"
    assert project("init", "--force").code == 0
    assert "apiVersion" in Path("agent.yaml").read_text()


def test_something_else_in_the_way_is_named_even_with_force(project):
    Path("evals").write_text("mine")
    Path("agent.py").mkdir()
    outcome = project("init", "--force")
    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        "evalspec: agent.py: is a folder. move it away, or choose another directory",
        "evalspec: evals: is a file where a folder is needed. move it away",
    ]
    assert not Path("agent.yaml").exists()


def test_a_folder_that_cannot_be_written(project, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)  # the suite may run as root, whom no folder refuses
    outcome = project("init", "shop")
    assert outcome.code == 2
    assert outcome.err.startswith("evalspec: shop/agent.yaml: cannot be written: Permission denied")


@pytest.fixture
def workflow(scaffold):
    """The steps of the written GitHub workflow."""
    return yaml.safe_load(Path(".github/workflows/evalspec.yml").read_text())["jobs"]["evaluate"]["steps"]


@pytest.mark.parametrize(("key", "told"), [("", True), ("sk-of-a-test", False)], ids=["no key", "key"])
def test_the_workflow_runs_as_written(workflow, scaffold, key, told, tmp_path):
    """Its own commands, with the shell that GitHub uses; installing is left out, as this is what is tested."""
    scripts = [step["run"] for step in workflow if "run" in step and step["name"] != "Install"]
    assert len(scripts) == 2
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for script in scripts:
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        environment = {**os.environ, "PATH": path, "OPENAI_API_KEY": key, "CI": "true", "RUNNER_TEMP": str(temporary)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert ("judged metrics are skipped" in done.stdout) is told
    assert (temporary / "report.json").exists()
    assert not Path("report.json").exists()


def test_the_workflow_keeps_the_report_of_a_failed_gate(workflow):
    upload = workflow[-1]
    assert upload["if"] == "always()"
    assert upload["with"]["path"] == "${{ runner.temp }}/report.json"
