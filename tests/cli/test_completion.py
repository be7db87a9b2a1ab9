"""What a shell is offered after TAB. A shell inserts it unquoted."""

import shutil

from click.shell_completion import ShellComplete

from evalspec.cli.main import group

HOSTILE = "20270101T000000.000Z-$(touch PWNED)"


def offer(*words: str, incomplete: str = ""):
    found = ShellComplete(group, {}, "evalspec", "_EVALSPEC_COMPLETE").get_completions(list(words), incomplete)
    return [one.value for one in found]


def make_run(project, agent, *ids: str):
    project.api = {"url": agent.url}
    project.dataset("qa", [{"id": name} for name in ids], metrics=["string_match"])
    project.dataset("b; touch PWNED", [{}], metrics=["string_match"])
    return project.evaluate("--dataset", "qa", "--json").document["runId"]


def test_nothing_is_offered_that_a_shell_would_execute(project, agent):
    id = make_run(project, agent, "s1", "$(touch PWNED)", "a b", "-v")
    runs = project.folder / ".evalspec" / "runs"
    shutil.copytree(runs / id, runs / HOSTILE)
    assert offer("report") == ["latest", id]
    assert offer("show") == ["latest", id, "s1"]
    assert offer("show", id) == ["s1"]
    assert offer("evaluate", "--dataset") == offer("evaluate", "agent.yaml", "--dataset") == ["qa"]


def test_every_argument_that_is_a_run_or_a_command_completes(project, agent):
    id = make_run(project, agent, "s1")
    for words in (("compare",), ("compare", id), ("runs", "rm"), ("runs", "rm", id), ("runs", "promote")):
        assert offer(*words, incomplete="20") == [id], words
    assert offer("labels", "list", incomplete="la") == ["latest"]
    assert offer("help", incomplete="eva") == ["evaluate"]
    assert offer("help", "runs", incomplete="pro") == ["promote"]
