"""Every command, given hostile text in every field: on both streams, in a terminal and in CI, it arrives as text."""

import json
import os
from pathlib import Path

import pytest

from hostile_texts import HOSTILE, commands, steering
from servers.faulty_agent import status

IDS = {name: text for name, text in HOSTILE.items() if name != "surrogates"}
"""What a dataset may hold: halves of surrogate pairs are refused."""
OWN = ("error", "warning", "notice")
"""Commands to GitHub that are ours."""

MODULE = """
from pathlib import Path

class Retriever:
    def search(self, request):
        raise ValueError(Path("text").read_text())

retriever = Retriever()
"""


def as_argument(text: str) -> str:
    """The text as the system passes it to a process, no longer than a file name may be."""
    return os.fsdecode(text.replace("\0", "").encode("utf-8", "surrogatepass"))[:100]


@pytest.fixture
def step(project, monkeypatch):
    """A project in a step of GitHub Actions, on a branch with a hostile name."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for name in ("GITHUB_HEAD_REF", "GITHUB_REF_NAME"):
        monkeypatch.setenv(name, HOSTILE["lines of commands"])
    return project


@pytest.fixture(params=["terminal", "actions"])
def anywhere(request, project):
    """A project on a terminal, and the same in GitHub Actions."""
    return request.getfixturevalue("step") if request.param == "actions" else project


def check(outcome, *, own=()):
    """Nothing acts. `own`: the commands to GitHub that are expected."""
    for text in (outcome.out, outcome.err):
        assert not steering(text), text
    assert "bug in evalspec" not in outcome.err, outcome.err
    assert "Traceback" not in outcome.err, outcome.err
    if os.environ.get("GITHUB_ACTIONS"):
        assert not commands(outcome.out), outcome.out
        assert set(commands(outcome.err)) <= set(own), outcome.err
    return outcome


@pytest.fixture
def full(anywhere):
    """A dataset with each hostile text in every field of a sample, and recorded replies with the same texts."""
    lines = [
        {
            "id": text,
            "input": text,
            "expected": text,
            "context": [text],
            "tags": [text],
            "metadata": {"key": text, text: 1},
            "relevant": [text],
        }
        for text in IDS.values()
    ]
    metrics = ["string_match", "Recall@5"]
    anywhere.dataset("qa", lines, metrics=metrics, slices=["key"])
    replies = [
        {
            "id": text,
            "response": "?" + text[1:],
            "retrieved_contexts": [text, text],
            "retrieved_context_ids": [text + "?", text],
        }
        for text in IDS.values()
    ]
    (anywhere.folder / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    anywhere.evaluation["ciGate"] = True
    anywhere.evaluation["thresholds"] = {"string_match": 0.9}
    anywhere.write()
    return anywhere


def test_through_every_command(full):
    check(full("validate"))
    check(full("plan"))
    check(full("metrics"))
    for arguments in ([], ["--json"]):
        outcome = check(full("evaluate", "--responses", "replies.jsonl", *arguments), own=OWN)
        assert outcome.code == 1, outcome.err
    assert [sample["id"] for sample in outcome.document["datasets"][0]["samples"]] == list(IDS.values())
    for command in (
        ["evaluate", "--responses", "replies.jsonl", "--dry-run"],
        ["report"],
        ["report", "--json"],
        ["rescore", "latest"],
        ["compare", "latest", "latest", "--samples", "50"],
        ["compare", "latest", "latest", "--json"],
        ["plan", "--baseline", "latest"],
        ["plan", "--baseline", "latest", "--json"],
        ["runs", "list"],
        ["runs", "list", "--json"],
        ["runs", "show", "latest"],
        ["runs", "promote", "latest", "--as", "main"],
        ["runs", "verify"],
        ["score", "qa.jsonl", "replies.jsonl", "--per-query"],
        ["score", "qa.jsonl", "replies.jsonl", "--per-query", "--json"],
        ["convert", "qa.jsonl", "out", "--to", "trec"],
        ["convert", "qa.jsonl", "out", "--to", "trec", "--lossy", "--json"],
        ["convert", "qa.jsonl", "out.json", "--to", "unrag", "--lossy"],
        ["runs", "prune", "--keep", "0"],
    ):
        outcome = check(full(*command), own=OWN)
        if "--json" in command or command[:2] == ["runs", "show"]:
            json.loads(outcome.out)


def test_through_recorded_replies_that_fit_no_sample(step):
    for name, text in HOSTILE.items():
        step.evaluation.clear()
        step.samples(1)
        step.write()
        lines = [{"id": "s0", "response": "Paris"}, {"id": text, "response": text}]
        (step.folder / "replies.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        outcome = check(step("evaluate", "--responses", "replies.jsonl", "--dry-run"))
        assert outcome.code == 2 or outcome.err.count("\n") == 1, (name, outcome)


def test_through_the_keys_and_values_of_a_manifest_and_a_dataset(step):
    for text in HOSTILE.values():
        for sample, config in (({text: 1}, {}), ({"id": text, "expected": 1}, {}), ({}, {"cluster": text})):
            step.evaluation.clear()
            step.dataset("qa", [sample], metrics=["string_match"], **config)
            for arguments in ([], ["--json"]):
                outcome = check(step.validate(*arguments))
                if arguments:
                    assert outcome.document["schemaVersion"] == 1
        step.evaluation.clear()
        step.samples(1, metrics=(text,))
        step.evaluation["datasets"][0] |= {"name": text, text: 1}
        step.evaluation |= {"thresholds": {text: 1.0}, text: 1}
        assert check(step.validate()).code == 2
        for command in ("evaluate", "plan"):
            assert check(step(command, "agent.yaml")).code == 2


def test_through_the_names_of_datasets(step):
    """Each runs, or is refused by one line."""
    names = []
    for text in HOSTILE.values():
        step.evaluation.clear()
        step.samples(1, name="qa")
        step.evaluation["datasets"][0]["name"] = text
        outcome = check(step.validate())
        assert outcome.code == 0 or outcome.out.count("\n") == 2, outcome
        names += [text] if outcome.code == 0 else []
    assert len(names) > 20
    step.evaluation["datasets"] = [step.evaluation["datasets"][0] | {"name": name} for name in names]
    step.write()
    (step.folder / "replies.jsonl").write_text('{"id": "s0", "response": "Lyon"}\n')
    for command in (
        ["evaluate", "--responses", "replies.jsonl"],
        ["evaluate", "--responses", "replies.jsonl", "--dry-run"],
        ["plan"],
        ["runs", "list"],
        ["compare", "latest", "latest"],
    ):
        assert check(step(*command), own=OWN).code == 0


def test_through_arguments(step):
    step.samples(1)
    step.write()
    for text in HOSTILE.values():
        name = as_argument(text)
        for command in (
            ["validate", name],
            ["evaluate", "--dataset", name],
            ["evaluate", "--tag", name, "--responses", name],
            ["evaluate", "-o", f"{name}.pdf"],
            ["evaluate", "--resume", name],
            ["report", name],
            ["compare", name, name],
            ["compare", "a.json", "b.json", "-o", name],
            ["score", name, name],
            ["score", "qa.jsonl", "qa.jsonl", "-m", name],
            ["convert", name, name, "--to", "jsonl"],
            ["convert", "qa.jsonl", "out.jsonl", "--to", name],
            ["remap", name, name, name],
            ["runs", "show", name],
            ["runs", "label", "latest", name],
            ["runs", "rm", "--", name],
            ["runs", name],
            ["schema", name],
            ["init", "--url", name],
            ["retrievers", "check", name],
            ["--", name],
        ):
            assert check(step(*command)).code in (2, 3), command


def test_through_file_names(step):
    step.samples(1)
    step.write()
    (step.folder / "replies.jsonl").write_text('{"id": "s0", "response": "Lyon"}\n')
    for text in HOSTILE.values():
        name = as_argument(text).replace("/", "")
        check(step("init", name))
        data = Path(f"{name}.jsonl")
        data.write_text('{"id": "s0", "input": "q", "expected": "a"}\n')
        check(step("convert", str(data), f"{name}.out", "--to", "jsonl"))
        check(step("remap", str(data), str(data), str(data)))
        check(
            step("evaluate", "--responses", "replies.jsonl", "-o", f"{name}/{name}.json", "-o", "/proc/x.json"),
            own=OWN,
        )
        check(step("runs", "promote", "latest", "--as", f"{name}.json"))


def test_through_the_store(step):
    step.samples(1)
    step.write()
    (step.folder / "replies.jsonl").write_text('{"id": "s0", "response": "Lyon"}\n')
    check(step("evaluate", "--responses", "replies.jsonl"))
    (run,) = (step.folder / ".evalspec" / "runs").glob("*-*")
    description = json.loads((run / "run.json").read_text())
    for text in HOSTILE.values():
        document = json.loads(json.dumps(description))
        document["fingerprint"]["datasets"][0]["name"] = text
        document["fingerprint"]["retrievers"] = {text: {"name": text}}
        (run / "run.json").write_text(json.dumps(document))
        for command in (
            ["runs"],
            ["runs", "list"],
            ["runs", "list", "--json"],
            ["runs", "show", "latest"],
            ["report"],
            ["runs", "verify"],
        ):
            check(step(*command))
        (run / "run.json").write_text(json.dumps(text))
        listed = check(step("runs", "list")).out.splitlines()
    assert len([line for line in listed if not line.startswith("  ")]) == 1


def test_through_what_an_agent_answers(step, agent):
    step.api |= {"url": agent.url, "chatEndpoint": {"maxRetries": 0}}
    step.samples(len(HOSTILE))
    for arguments in ([], ["--json"]):
        agent.script = [status(400, {}, json.dumps({"error": {"message": text}})) for text in HOSTILE.values()]
        outcome = check(step.evaluate(*arguments), own=OWN)
        assert outcome.code == 3
    errors = [sample["error"] for sample in outcome.document["datasets"][0]["samples"]]
    assert sum("owned" in error for error in errors) > 5


def test_what_a_module_raises(step):
    step.evaluation["retrievers"] = {"mine": {"python": "own:retriever"}}
    step.dataset("qa", [{"relevant": ["d1"]}], metrics=["Recall@1"], retriever="mine")
    (step.folder / "own.py").write_text(MODULE)
    step.write()
    for text in IDS.values():
        Path("text").write_text(text)
        outcome = check(step("evaluate", "--no-ingest", "--retriever", "mine"), own=OWN)
        assert outcome.code == 3


def test_debugging_shows_where_without_acting(step, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError(HOSTILE["lines of commands"] + HOSTILE["osc52"])

    monkeypatch.setenv("EVALSPEC_DEBUG", "1")
    monkeypatch.setattr("evalspec.cli.validate.validate", fail)
    outcome = step.validate()
    assert "Traceback" in outcome.err
    assert not steering(outcome.err)
    if os.environ.get("GITHUB_ACTIONS"):
        assert not commands(outcome.err)
