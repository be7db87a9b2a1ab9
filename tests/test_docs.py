"""What the documents say, held against the code: keys, defaults, metrics, exit codes, examples, links, the picture."""

import json
import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from evalspec.base import json_matching
from evalspec.base.errors import ExitCode
from evalspec.cli.commands import COMMANDS
from evalspec.cli.main import group
from evalspec.model import Need
from evalspec.scoring.metrics.base import METRICS, read_text
from evalspec.scoring.metrics.text import compute_word_match
from evalspec.targets.agents.wire import WIRES, ToolPart

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [README, ROOT / "CHANGELOG.md", *(page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "metrics")]
TEXTS = sorted((ROOT / "evalspec").rglob("formats/**/*.md"))
SCAFFOLD = ROOT / "evalspec" / "cli" / "scaffold"
LISTED = [metric.name for metric in METRICS if not metric.is_staged]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def sections(page: Path, level: int) -> dict[str, str]:
    """The text under each heading of a level, up to the next heading of that level or a higher one."""
    parts = re.split(rf"^#{{1,{level}}} (.*)$", page.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str) -> list[list[str]]:
    """The cells of the tables in a text, headings and rules left out."""
    lines = [line.strip().strip("|") for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split(" | ")] for line in lines]
    return [row for row in cells if not set("".join(row)) <= set("-| ")][1:]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_explained(command):
    implementation = group.get_command(click.Context(group), command)
    assert implementation is not None, f"{command} is listed and does not exist"
    assert "Examples:" in implementation.help
    assert f"evalspec {command}" in "".join(page.read_text() for page in PAGES)


@pytest.mark.parametrize(("what", "least"), [("manifest", 150), ("dataset", 30)])
def test_every_key_has_a_meaning(what, least, project):
    schema = project("schema", what).document
    definitions = schema["$defs"] | {"top": schema}
    keys = [(name, key, one) for name, found in definitions.items() for key, one in found.get("properties", {}).items()]
    bare = [(name, key) for name, key, one in keys if "description" not in one and "$ref" not in json.dumps(one)]
    referred = [definitions[name] for name in re.findall(r"#/\$defs/(\w+)", json.dumps(keys))]
    assert len(keys) > least
    assert bare == []
    assert [one for one in referred if "description" not in one and "properties" in one] == []


def test_the_table_of_string_match_is_what_it_computes():
    table = rows(read_text("string_match"))
    documented = {(expected, response): match for expected, response, match, _ in table}
    computed = {
        pair: "yes" if compute_word_match(pair[1].strip("`"), [pair[0].strip("`")]) else "no" for pair in documented
    }
    assert documented == computed
    assert len(table) > 20


def test_every_stage_is_defined_with_its_facts():
    table = rows(sections(DOCS / "reference" / "metrics.md", 2)["Stages of a retriever"])
    documented = {(prefix.strip("`"), limits, needs) for prefix, _, _, limits, needs in table}
    assert documented == {(f"{m.name.partition('.')[0]}.", *facts_of(m)) for m in METRICS if m.is_staged}


def facts_of(metric) -> tuple[str, str]:
    """Its range and its needs, in words."""
    low, high = ("…" if bound is None else f"{bound:g}" for bound in metric.bounds)
    return f"{low} to {high}", ", ".join(need for need in Need if need in metric.needs) or "nothing but a reply"


def test_the_table_of_matchers_is_what_they_do():
    matchers, head, cases = sections(DOCS / "reference" / "datasets.md", 2)["Matchers"].partition("| expected |")
    shown = [cell.strip("`").replace("[…]", "[]").replace("{…}", "{}").replace("…", "1") for cell, _ in rows(matchers)]
    keys = {frozenset(json.loads(one)) for one in shown}
    assert keys == json_matching._MATCHERS.keys() - {frozenset({"near"})}
    computed = {(expected, actual): match for expected, actual, match, *_ in rows(head + cases)}
    for (expected, actual), match in computed.items():
        matches = json_matching.matches(json.loads(expected.strip("`")), json.loads(actual.strip("`")))
        assert match == ("yes" if matches else "no"), expected
    assert len(computed) > 10


def test_implicit_metrics_are_named_where_thresholds_are_explained():
    thresholds = sections(DOCS / "reference" / "manifest.md", 2)["thresholds"]
    implicit = {metric.name for metric in METRICS if metric.implicit and not metric.is_staged}
    assert {name for name in LISTED if f"`{name}`" in thresholds} - implicit == {"faithfulness"}
    assert [name for name in implicit if f"`{name}`" not in thresholds] == []


@pytest.mark.parametrize("page", [README, DOCS / "explanation" / "gate.md"], ids=name_of)
def test_exit_codes(page):
    text = page.read_text()
    table = text[text.index("| exit code | meaning |") :].split("\n\n")[0]
    assert [int(row[0]) for row in rows(table)] == [int(code) for code in ExitCode]


@pytest.mark.parametrize("page", [*PAGES, *TEXTS], ids=name_of)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor and "reference/generated" not in file.as_posix():  # `make docs` checks those
            headings = re.findall(r"^#+ (.*)$", file.read_text(), flags=re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_what_each_protocol_shows_of_tools():
    table = rows(sections(DOCS / "how-to" / "agents.md", 2)["Tools"])
    said = {name: cells for names, *cells in table for name in re.findall("`(.+?)`", names)}
    assert said == {wire.name: ["yes" if part in wire.shows else "–" for part in ToolPart] for wire in WIRES}


def test_the_name_to_install_is_one_name():
    """`pip install evalspec` would install another project's package of that name."""
    texts = [page.read_text() for page in (*PAGES, *SCAFFOLD.iterdir()) if page.is_file()]
    installed = {name for text in texts for name in re.findall(r"pip install (?:--no-deps )?[\"']?(\w[\w-]*)", text)}
    assert installed == {"evalspec-runner"}


def test_make_demo_runs_the_command_of_the_picture():
    assert "evaluate agent.yaml.example --dataset rag-quality --no-judge" in (ROOT / "Makefile").read_text()


class TestPullRequestsFromForks:
    """The two workflows of ci.md: what may run a stranger's code has no secrets, what has a token runs none."""

    @pytest.fixture
    def workflows(self):
        found = [yaml.load(block, yaml.BaseLoader) for block in blocks(DOCS / "how-to" / "ci.md", "yaml")]
        by_name = {workflow["name"]: workflow for workflow in found if "name" in workflow}
        return by_name["evalspec-fork"], by_name["evalspec-comment"]

    def steps(self, workflow) -> list[dict]:
        return [step for job in workflow["jobs"].values() for step in job["steps"]]

    def test_who_may_do_what(self, workflows):
        evaluating, commenting = workflows
        started_by = evaluating["on"]["pull_request"]
        assert started_by["branches"] == [commenting["jobs"]["comment"]["env"]["BASE"]]
        assert "edited" in started_by["types"]  # the base of a pull request can change
        assert evaluating["permissions"] == {"contents": "read"}
        assert "secrets." not in json.dumps(evaluating)
        assert "github.token" not in json.dumps(evaluating)
        checkouts = [step["with"] for step in self.steps(evaluating) if "checkout" in step.get("uses", "")]
        assert [checkout["persist-credentials"] for checkout in checkouts] == ["false", "false"]
        assert "base.sha" in checkouts[0]["ref"]
        assert commenting["on"]["workflow_run"]["workflows"] == [evaluating["name"]]
        assert set(commenting["permissions"].values()) == {"read", "write"}
        assert "secrets." not in json.dumps(commenting)
        assert not [step for step in self.steps(commenting) if "checkout" in step.get("uses", "")]

    def test_what_a_stranger_chose_is_no_part_of_a_script(self, workflows):
        scripts = [step["run"] for workflow in workflows for step in self.steps(workflow) if "run" in step]
        assert len(scripts) == 8
        assert not [script for script in scripts if "${{" in script]

    def test_pull_requests_of_the_repository_itself_fail_neither(self, workflows):
        evaluating, commenting = (workflow["jobs"] for workflow in workflows)
        assert evaluating["evaluate-fork"]["if"] == "github.event.pull_request.head.repo.full_name != github.repository"
        # Not by the conclusion "skipped": a fork can skip its job too, and then an earlier comment would stay.
        assert "github.event.workflow_run.head_repository.full_name != github.repository" in commenting["comment"]["if"]

    def test_no_file_of_a_repository_passes_as_a_report(self):
        for block in blocks(DOCS / "how-to" / "ci.md", "yaml"):
            removed = re.findall(r"rm -f (.*)", block)
            for path in re.findall(r'-o "?([^\s"]+)', block):
                assert path.startswith("$RUNNER_TEMP/") or path in removed[0].split(), block
            kept = re.findall(r'path: "\$\{\{ runner\.temp \}\}/', block)
            assert len(kept) == block.count("upload-artifact"), block

    def test_the_artifact_of_one_is_what_the_other_takes(self, workflows):
        names = {s["with"]["name"] for w in workflows for s in self.steps(w) if "artifact" in s.get("uses", "")}
        assert names == {"evalspec-report"}

    def test_its_evaluation_runs_on_what_init_writes(self, workflows, project, agent):
        assert project("init", "base").code == 0
        (script,) = [step["run"] for step in self.steps(workflows[0]) if step.get("name") == "Evaluate"]
        for written, here in {"http://127.0.0.1:8918": agent.url, "$RUNNER_TEMP": "temporary", "\\\n": ""}.items():
            script = script.replace(written, here)
        folder, command = script.strip().split("\n")
        (project.folder / shlex.split(folder)[1]).mkdir(parents=True)
        program, *arguments = shlex.split(command)
        done = project(*arguments)
        assert (program, done.code) == ("evalspec", 1), done.err  # the agent here knows Paris only
        assert agent.requests
        assert {path.name for path in (project.folder / "temporary" / "evalspec").iterdir()} == {
            "report.json",
            "report.md",
        }
