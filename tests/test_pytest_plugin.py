"""`pytest agent.yaml`, against an agent on loopback: most sessions within this process."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from evalspec import gold
from servers.scripted_judge import ScriptedJudge

CAPITALS = {"France": "Paris", "Norway": "Oslo", "Peru": "Lima", "Spain": "Madrid"}


@pytest.fixture
def qa(project, agent):
    """A project that asks for four capitals; the agent knows all but Spain's."""
    project.api = {"url": agent.url, "chatEndpoint": {"protocol": "custom", "request": {"message": "{{input}}"}}}
    project.api["chatEndpoint"] |= {"response": {"answer": "$.response"}, "maxRetries": 0}
    lines = [
        {"id": place, "input": f"Capital of {place}?", "expected": city, "tags": [] if place == "Peru" else ["eu"]}
        for place, city in CAPITALS.items()
    ]
    project.dataset("qa", lines, metrics=["string_match"])
    project.evaluation |= {"thresholds": {"string_match": 0.5}, "ciGate": True}
    agent.reply = lambda body: {
        "response": next(city for place, city in CAPITALS.items() if place in body["message"])[:5],
        "contexts": [{"text": "A passage."}],
    }
    project.write()
    return project


@dataclass
class Session:
    """What one pytest session said. `cases`: the tags of each test case in its JUnit file."""

    code: int
    out: str
    cases: dict[str | None, list[str]]


def read_session(folder: Path, code: int, out: str) -> Session:
    junit = folder / "junit.xml"
    cases = ElementTree.parse(junit).iter("testcase") if junit.exists() else ()
    return Session(
        code, out, {case.get("name"): [child.tag for child in case if child.tag != "properties"] for case in cases}
    )


@pytest.fixture
def session(monkeypatch, capsys):
    """Runs a session in this process, in a folder, without the other plug-ins of the environment."""

    def run(folder, *arguments, plugins=("-p", "no:cacheprovider")):
        (folder / "junit.xml").unlink(missing_ok=True)
        options = ("-p", "evalspec.pytest_plugin", *plugins, "--import-mode=importlib", "--junitxml=junit.xml")
        capsys.readouterr()
        with monkeypatch.context() as patched:
            patched.chdir(folder)
            patched.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
            code = pytest.main([*options, *arguments])
        return read_session(folder, code, "".join(capsys.readouterr()))

    return run


def start_session(folder: Path, *arguments: str, **environment: str) -> Session:
    """Run a session in a process of its own."""
    (folder / "junit.xml").unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=junit.xml", *arguments]
    env = os.environ | environment
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    return read_session(folder, done.returncode, done.stdout + done.stderr)


def start_with_workers(folder: Path, *arguments: str) -> Session:
    """Run a session in processes of its own."""
    options = ("-p", "evalspec.pytest_plugin", "-p", "xdist.plugin", "-n", "2")
    return start_session(folder, *options, *arguments, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def asked(agent):
    return sorted(next(p for p in CAPITALS if p in request.body["message"]) for request in agent.requests)


def test_a_session_of_a_test_deletes_nothing_of_other_sessions(tmp_path, tmp_path_factory):
    (tmp_path / "test_it.py").write_text(
        "from pathlib import Path\ndef test_it(tmp_path):\n    Path('folder.txt').write_text(str(tmp_path))\n"
    )
    assert start_session(tmp_path, "test_it.py", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1").code == 0
    assert Path((tmp_path / "folder.txt").read_text()).is_relative_to(tmp_path_factory.getbasetemp())


def test_a_passing_verdict_is_a_green_session(qa, agent, session):
    is_installed = "evalspec" in entry_points(group="pytest11").names
    loaded = () if is_installed else ("-p", "evalspec.pytest_plugin")
    slow = ("-p", "no:langsmith_plugin", "-p", "no:schemathesis")  # of this environment, and slow to import
    found = start_session(qa.folder, *slow, *loaded, "agent.yaml")
    assert found.code == 0, found.out
    names = ["string_match >= 0.5", "verdict", *(f"sample:{place}" for place in CAPITALS)]
    assert found.cases == {name: [] for name in names}
    assert asked(agent) == sorted(CAPITALS), "one run for all items"
    assert "evalspec: qa: PASS, run 2" in found.out
    assert qa("report", "latest", "--json").document["verdict"] == "PASS"
    qa.evaluation["datasets"][0]["metrics"] = ["string_match", "bias"]
    qa.evaluation["judge"] = {"model": "m", "baseUrl": "http://127.0.0.1:9", "apiKey": "k"}
    qa.write()
    assert "evalspec: qa: PASS (PARTIAL), run 2" in session(qa.folder, "agent.yaml", "--evalspec-no-judge").out


def test_a_broken_limit_is_named_with_the_worst_samples(qa, agent, session):
    qa.evaluation["thresholds"] = {"string_match": 0.9}
    qa.write()
    found = session(qa.folder, "agent.yaml")
    assert found.code == 1
    assert found.cases["string_match >= 0.9"] == ["failure"]
    assert found.cases["verdict"] == ["failure"]
    assert found.cases["sample:Spain"] == []
    assert "qa: string_match >= 0.9: 0.75 is below 0.9" in found.out
    for line in ("  Spain: 0", "    question: Capital of Spain?", "    expected: Madrid", "    got:      Madri\n"):
        assert line in found.out
    assert "France: 1" not in found.out
    assert "Traceback" not in found.out and "pytest_plugin.py" not in found.out


def test_a_sample_fails_only_where_a_limit_holds_each(qa, session):
    qa.evaluation["ciGate"] = {"minPassRate": 1.0}
    qa.write()
    found = session(qa.folder, "agent.yaml", "-k", "sample")
    assert {name: tags for name, tags in found.cases.items() if tags} == {"sample:Spain": ["failure"]}
    for line in ("question: Capital of Spain?", "expected: Madrid", "got:      Madri", "limit:    pass rate >= 1"):
        assert line in found.out


@pytest.mark.parametrize(
    ("chosen", "places"),
    [(("-k", "Norway"), ["Norway"]), (("-m", "eu"), ["France", "Norway", "Spain"]), (("-k", "string_match"), None)],
)
def test_only_what_is_chosen_is_asked(qa, agent, chosen, places, session):
    found = session(qa.folder, "agent.yaml", "--strict-markers", *chosen)
    assert found.code == 0, found.out
    assert asked(agent) == (sorted(CAPITALS) if places is None else places)


def test_what_cannot_be_measured_is_an_error_and_what_was_left_out_is_skipped(qa, agent, session):
    agent.mode = "html"
    found = session(qa.folder, "agent.yaml")
    assert (found.code, found.cases["string_match >= 0.5"], found.cases["verdict"]) == (1, ["error"], ["error"])
    assert "INCOMPLETE" in found.out
    agent.mode = "ok"
    qa.evaluation["datasets"][0]["metrics"] = ["string_match", "faithfulness"]
    qa.evaluation["thresholds"] = {"string_match": 0.5, "faithfulness": 0.5}
    qa.api["chatEndpoint"]["response"]["contexts"] = "$.contexts[*].text"
    qa.write()
    found = session(qa.folder, "agent.yaml", "--evalspec-no-judge")
    assert found.cases["faithfulness >= 0.5"] == ["skipped"], found.out
    assert found.cases["string_match >= 0.5"] == []


def test_no_selection_is_green_where_the_agent_is_down(qa, session):
    qa.api["url"] = "http://127.0.0.1:9"
    qa.write()
    for chosen in (("-m", "eu"), ("-k", "sample and Norway"), ("agent.yaml::qa::sample:Peru",)):
        found = session(qa.folder, *(chosen if "::" in chosen[0] else ("agent.yaml", *chosen)))
        assert found.code == 1, found.out
        assert {tuple(tags) for tags in found.cases.values()} == {("error",)}
    qa.evaluation["ciGate"] = {"minPassRate": 0.5}
    qa.write()
    found = session(qa.folder, "agent.yaml")
    assert {tuple(tags) for tags in found.cases.values()} == {("error",)}, "unknown is no failure"
    assert "no usable reply: cannot connect" in found.out.replace("could not connect", "cannot connect")
    assert len(found.out.splitlines()) < 100, "no tracebacks of pytest and its plugins"


def test_a_sample_that_the_gate_does_without_is_skipped(qa, agent, session):
    answer = agent.reply
    agent.reply = lambda body: {"error": "out of order"} if "Peru" in body["message"] else answer(body)
    qa.evaluation["ciGate"] = {"minCoverage": 0.5, "maxErrorRate": 0.5}
    qa.write()
    found = session(qa.folder, "agent.yaml")
    assert found.cases["verdict"] == [], found.out
    assert (found.code, found.cases["sample:Peru"]) == (0, ["skipped"])


def test_last_failed_runs_only_what_failed(qa, agent, session):
    lines = [
        {"id": place, "input": f"Capital of {place}?", "expected": CAPITALS[place]} for place in ("France", "Spain")
    ]
    qa.evaluation["datasets"].clear()
    qa.dataset("qa", [lines[0], {**lines[1], "id": "Spain [es]::Europe"}], metrics=["string_match"])
    qa.evaluation["ciGate"] = {"minPassRate": 1.0}
    qa.write()
    command = ("agent.yaml", "-k", "sample", "-o", "cache_dir=cache")
    first = session(qa.folder, *command, plugins=())
    assert {name: tags for name, tags in first.cases.items() if tags} == {"sample:Spain (es):Europe": ["failure"]}
    agent.requests.clear()
    again = session(qa.folder, *command, "--lf", plugins=())
    assert list(again.cases) == ["sample:Spain (es):Europe"], again.out
    assert asked(agent) == ["Spain"]


def test_thresholds_that_differ_in_confidence_have_outcomes_of_their_own(qa, session):
    qa.evaluation["thresholds"] = {"string_match": [{"min": 0.7}, {"min": 0.7, "confidence": 0.95}]}
    qa.write()
    found = session(qa.folder, "agent.yaml", "-k", "0.7")
    assert found.cases["string_match >= 0.7"] == []
    assert found.cases["string_match >= 0.7 at 0.95"] in (["failure"], ["error"]), found.out
    assert found.code == 1


def test_a_gate_that_is_off_fails_nothing(qa, session):
    qa.evaluation |= {"thresholds": {"string_match": 0.9}, "ciGate": False}
    qa.write()
    found = session(qa.folder, "agent.yaml")
    assert (found.code, found.cases["string_match >= 0.9"], found.cases["verdict"]) == (
        0,
        ["skipped"],
        ["skipped"],
    )
    assert session(qa.folder, "agent.yaml", "--evalspec-sample-size=-1").code == 4


def test_a_slice_of_a_gold_set_is_collected_and_asked(project, agent, session):
    root = project.folder / "gold"
    (root / "triples").mkdir(parents=True)
    (root / "set.yaml").write_text("name: g\npeople: {ada: {}, ben: {}, cleo: {}}\nrules: {held_out: 0.0}\n")
    for place, city in CAPITALS.items():
        reviewed = "{added_by: ada, reviewed_by: [ben, cleo], resolution: consensus}"
        triple = f"question: Capital of {place}?\nexpected_block: {{block_id: b}}\nexpected_answer: {city}\n"
        (root / "triples" / f"{place}.yaml").write_text(f"{triple}metadata: {reviewed}\n")
    gold.draw_slice(root, "q4", 2, "ada")
    members = sorted(gold.read_slices(root)["q4"].revisions)
    project.api = {"url": agent.url, "chatEndpoint": {"protocol": "custom", "request": {"message": "{{input}}"}}}
    project.api["chatEndpoint"] |= {"response": {"answer": "$.response"}}
    agent.reply = lambda body: {"response": "Paris", "contexts": []}
    project.evaluation["datasets"] = [{"name": "g", "path": "$file:gold", "metrics": ["string_match"]}]
    project.write()
    found = session(project.folder, "agent.yaml", "--evalspec-slice=q4")
    assert [name for name in found.cases if name.startswith("sample:")] == [f"sample:{one}" for one in members]
    assert asked(agent) == members
    assert "there is no slice 'q9'" in session(project.folder, "agent.yaml", "--evalspec-slice=q9").out


def test_a_tag_never_changes_what_pytest_does(qa, session):
    tags = ["xfail", "skip", "skipif", "timeout", "_internal", "__class__", "a:b", "my tag (x)", "usefixtures", "fine"]
    lines = [{"id": "Spain", "input": "Capital of Spain?", "expected": "Madrid", "tags": tags}]
    qa.evaluation["datasets"].clear()
    qa.dataset("qa", lines, metrics=["string_match"])
    qa.evaluation["thresholds"] = {"string_match": [{"min": 0.5, "slice": "xfail"}]}
    qa.write()
    found = session(qa.folder, "agent.yaml", "--strict-markers")
    assert found.cases["string_match(xfail) >= 0.5"] in (["failure"], ["error"]), found.out
    assert found.cases["sample:Spain"] == []
    assert "INTERNALERROR" not in found.out
    assert list(session(qa.folder, "agent.yaml", "-m", "fine").cases) == ["sample:Spain"]


def test_an_evaluation_that_fails_is_not_started_again(qa, session):
    qa.api |= {"url": "http://127.0.0.1:9", "command": [sys.executable, "-c", "open('started', 'a').write('x')"]}
    qa.write()
    for run in (session, start_with_workers):
        (qa.folder / "started").unlink(missing_ok=True)
        found = run(qa.folder, "agent.yaml")
        assert {tuple(tags) for tags in found.cases.values()} == {("error",)}, found.out
        assert (qa.folder / "started").read_text() == "x"


def test_an_id_cannot_steer_a_terminal_or_a_ci_system(qa, session):
    lines = [{"id": "x\n::error file=a.py::INJECTED\x1b[2J", "input": "Capital of Spain?", "expected": "Madrid"}]
    qa.evaluation["datasets"].clear()
    qa.dataset("qa", lines, metrics=["string_match"])
    qa.evaluation |= {"thresholds": {"string_match": 0.5}, "ciGate": {"minPassRate": 1.0}}
    qa.write()
    found = session(qa.folder, "agent.yaml", "-v")
    assert found.code == 1 and "INJECTED" in found.out
    assert "\x1b[2J" not in found.out
    assert not [line for line in found.out.splitlines() if line.lstrip().startswith("::")]


def test_a_dataset_that_only_the_baseline_has_is_an_error(qa, session):
    qa.dataset("more", [{"id": "Peru", "input": "Capital of Peru?", "expected": "Lima"}], metrics=["string_match"])
    qa.write()
    assert qa("evaluate").code in (0, 1)
    assert qa("runs", "promote", "latest", "--as", "main").code == 0
    qa.evaluation["datasets"].pop()
    qa.evaluation["ciGate"] = {"baseline": "main", "maxDrop": 0.5, "minSamples": 1}
    qa.write()
    found = session(qa.folder, "agent.yaml")
    assert found.cases["baseline"] == ["error"], found.out
    assert "the baseline has the dataset 'more'" in found.out


def test_a_plain_session_collects_no_manifest_and_the_flag_does(qa, agent, session):
    (qa.folder / "test_own.py").write_text("def test_own(): pass\n")
    (qa.folder / "other.yaml").write_text("a: 1\n")
    assert list(session(qa.folder).cases) == ["test_own"]
    assert agent.requests == []
    both = session(qa.folder, "--evalspec", "test_own.py")
    assert {"test_own", "verdict"} <= both.cases.keys(), both.out
    (qa.folder / "pytest.ini").write_text("[pytest]\nevalspec_manifests = agent.yaml\n")
    assert "verdict" in session(qa.folder, "--evalspec").cases
    assert session(qa.folder, "other.yaml").code == 4


def test_an_invalid_manifest_is_an_error_of_collection(qa, session):
    qa.evaluation["thresholds"] = {"nothing": 1}
    qa.write()
    found = session(qa.folder, "agent.yaml")
    assert found.code == 2
    assert "agent.yaml:" in found.out and "nothing" in found.out and "Traceback" not in found.out


def test_an_agent_that_is_not_there_is_an_error(qa, session):
    qa.api["url"] = "http://127.0.0.1:9"
    qa.write()
    found = session(qa.folder, "agent.yaml", "-k", "verdict")
    assert found.cases["verdict"] == ["error"]


@pytest.mark.parametrize("distribution", ["load", "each"])
def test_workers_share_one_run(qa, agent, distribution):
    found = start_with_workers(qa.folder, "agent.yaml", f"--dist={distribution}")
    assert found.code == 0, found.out
    assert found.out.count("evalspec: qa: PASS, run 2") == 1
    assert asked(agent) == sorted(CAPITALS)


def test_values_are_properties_of_the_junit_file(qa, session):
    found = session(qa.folder, "agent.yaml")
    assert found.code == 0
    text = (qa.folder / "junit.xml").read_text()
    assert '<property name="value" value="0.75"' in text
    assert json.loads(json.dumps(text)).count('name="string_match"') == 4


DOCUMENTED = (
    (Path(__file__).parents[1] / "docs" / "how-to" / "pytest.md").read_text().split("```python\n")[-1].split("```")[0]
)
OWN_TESTS = """
import asyncio

def test_bad(evalspec_check):
    reply = {"response": "It is on the moon.", "retrieved_contexts": ["Paris is the capital of France."]}
    evalspec_check(reply, input="Where is Paris?", metrics={"faithfulness": 0.5})

def test_in_a_loop(evalspec_check):
    async def main():
        evalspec_check(agent=lambda question: "Oslo", input="Capital?", expected="Oslo", metrics={"exact_match": 1})
    asyncio.run(main())
"""


def test_a_fixture_checks_single_replies_with_the_judge_of_the_manifest(qa, session):
    (qa.folder / "test_own.py").write_text(DOCUMENTED + OWN_TESTS)
    with ScriptedJudge() as judge:
        qa.evaluation["judge"] = {"model": "scripted", "baseUrl": judge.url, "apiKey": "none"}
        qa.write()
        found = session(qa.folder)
        assert judge.chats
        judge.chats.clear()
        (qa.folder / "pytest.ini").write_text("[pytest]\nevalspec_no_judge = true\n")
        without = session(qa.folder)
        assert not judge.chats
        assert without.cases == {"test_capital": ["skipped"], "test_bad": ["skipped"], "test_in_a_loop": []}, (
            without.out
        )
        (qa.folder / "pytest.ini").unlink()
        found = session(qa.folder)
    assert found.cases == {"test_capital": [], "test_bad": ["failure"], "test_in_a_loop": []}, found.out
    assert "faithfulness is 0, expected at least 0.5" in found.out
    properties = [
        (one.get("name"), one.get("value")) for one in ElementTree.parse(qa.folder / "junit.xml").iter("property")
    ]
    assert properties == [("faithfulness", "1.0"), ("faithfulness", "0.0"), ("exact_match", "1.0")]


def test_loading_the_plugin_imports_nothing_heavy():
    program = "import evalspec.pytest_plugin, sys; print({'pydantic', 'msgspec', 'httpx', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("arguments", [["agent.yaml"], ["agent.yaml", "--collect-only"], ["--evalspec"]])
def test_nothing_of_an_untrusted_project_is_imported(qa, monkeypatch, arguments, session):
    code = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\ndef ask(q): return 'Paris'\n"
    for name in ("own", "conftest"):
        (qa.folder / f"{name}.py").write_text(code)
    qa.api = {"python": "own:ask"}
    qa.write()
    assert "passed" in session(qa.folder, "agent.yaml").out
    for file in qa.folder.glob("*.ran"):
        file.unlink()
    monkeypatch.setenv("EVALSPEC_UNTRUSTED", "1")
    found = session(qa.folder, *arguments)
    assert found.code == pytest.ExitCode.USAGE_ERROR
    assert "evalspec: EVALSPEC_UNTRUSTED is set, and pytest runs a project's code" in found.out
    assert not list(qa.folder.glob("*.ran"))
