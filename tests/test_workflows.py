"""The files for GitHub as data: what `init` writes, action.yml, and the workflows of ci.md and of this project.

Their shell steps run here as its runner runs them, with evalspec from a wheel or a checkout.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
import yaml

from built_wheel import ROOT, build_wheel, copy_source
from evalspec.reports.github import render_check_run
from evalspec.reports.json_report import render_json
from evalspec.reports.markdown import render_fields
from reporters.sample_run import sample_run
from reporters.small_runs import run_full_of
from reporters.test_markdown import Skeleton

COMMENT = "Check the workflow that made the report", "Install", "Read the fields", "Comment"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
GUIDE = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
CI = yaml.load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"), yaml.BaseLoader)
OWN = {"GITHUB", "EVALSPEC", "OPENAI", "PYTHON", "CI"}
MODULES = ("evalspec", "click", "pip", "yaml")
"""Of the tool itself. `python -m` in a checkout that has files of these names would import them from there."""


class Runner:
    """Runs the steps of a job in a folder, with an environment that has the dependencies but not evalspec."""

    def __init__(self, place):
        self.folder, environment = place / "project", place / "environment"
        self.folder.mkdir()
        for name in MODULES:
            (self.folder / f"{name}.py").write_text("open('replaced', 'a').close()\nraise SystemExit(0)\n")
        self.temporary = place / "temporary"
        self.temporary.mkdir()
        venv.create(environment, with_pip=True)
        (packages,) = environment.glob("lib/python*/site-packages")
        (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        kept = {key: text for key, text in os.environ.items() if key.partition("_")[0] not in OWN}
        self.outputs = place / "outputs"
        self.environment = kept | {
            "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PIP_NO_DEPS": "1",
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(self.outputs),
            "RUNNER_TEMP": str(self.temporary),
        }

    def __call__(self, step, **variables):
        script = step["run"]
        assert "${{" not in script  # what others chose is a variable, never a part of a script
        strict = ["-eo", "pipefail"] if "shell" in step else ["-e"]
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", *strict, "-c", script],
            cwd=self.folder,
            env=self.environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not (self.folder / "replaced").exists(), script
        return done


@pytest.fixture
def runner(tmp_path):
    return Runner(tmp_path)


def run_steps(job):
    return {step.get("name"): step for step in job["steps"] if "run" in step}


def test_the_workflow_of_init_installs_the_wheel_of_the_repository(runner, tmp_path, project):
    assert project("init", str(runner.folder)).code == 0
    workflow = yaml.safe_load((runner.folder / ".github/workflows/evalspec.yml").read_text())
    install, validate, evaluate = run_steps(workflow["jobs"]["evaluate"]).values()
    refused = runner(install, **install["env"])
    assert refused.returncode == 1
    assert "'vendor/evalspec_runner-*.whl' looks like a filename, but the file does not exist" in refused.stderr
    (runner.folder / "vendor").mkdir()
    (tmp_path / "wheel").mkdir()
    shutil.copy(build_wheel(tmp_path / "wheel"), runner.folder / "vendor")
    done = [runner(install, **install["env"]), runner(validate), runner(evaluate, OPENAI_API_KEY="")]
    assert [one.returncode for one in done] == [0, 0, 0], done
    kept = workflow["jobs"]["evaluate"]["steps"][-1]["with"]["path"]
    assert Path(kept.replace("${{ runner.temp }}", str(runner.temporary))).is_file()


def test_the_workflow_of_init_gives_the_key_to_one_step(project):
    assert project("init").code == 0
    (job,) = yaml.safe_load(Path(".github/workflows/evalspec.yml").read_text())["jobs"].values()
    assert [step.get("name") for step in job["steps"] if "secrets." in str(step)] == ["Evaluate"]
    assert "env" not in job
    (checkout,) = [step["with"] for step in job["steps"] if "checkout" in step.get("uses", "")]
    assert checkout == {"persist-credentials": False}


@pytest.fixture
def action(runner, tmp_path, project):
    """Runs the steps of action.yml on what `init` writes, until one fails; returns the last step's result."""
    assert project("init", str(runner.folder)).code == 0
    known = {f"inputs.{key}": one["default"] for key, one in ACTION["inputs"].items()}
    known["github.action_path"] = str(copy_source(tmp_path))

    def fill(text):
        return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: known[found[1]], text)

    def run(**chosen):
        known.update({f"inputs.{key}": text for key, text in chosen.items()})
        for step in (one for one in ACTION["runs"]["steps"] if "run" in one):
            assert step["shell"] == "bash"
            done = runner(step, **{key: fill(text) for key, text in step["env"].items()})
            if done.returncode:
                break
        return done

    return run


def read_output(runner, name):
    return re.findall(rf"^{name}=(.*)$", runner.outputs.read_text(), re.MULTILINE)[-1]


def test_the_action_installs_itself_and_evaluates(runner, action):
    done = action(options="--no-judge\n--dataset\nrag\n")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = Path(read_output(runner, "report"))
    files = {"evalspec.check.json", "report.json", "report.md", "results.junit.xml"}
    assert {path.name for path in folder.iterdir()} == files
    report = json.loads((folder / "report.json").read_text())
    assert [dataset["name"] for dataset in report["datasets"]] == ["rag"]
    written = runner.outputs.read_text()
    for name, output in ACTION["outputs"].items():
        assert output["value"] == f"${{{{ steps.evaluate.outputs.{name} }}}}"
        is_pushed = name == "run-url"
        assert is_pushed or re.search(rf"^{name}(=|<<)", written, re.MULTILINE), name
    # Another use in the same job does not report the files of this one, nor what the repository has.
    refused = action(options="--dataset\nnone\n")
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert list(Path(read_output(runner, "report")).iterdir()) == []
    (upload,) = [step["with"]["path"] for step in ACTION["runs"]["steps"] if "upload" in step.get("uses", "")]
    assert upload == "${{ steps.evaluate.outputs.report }}"


GH = """#!/usr/bin/env python3
import json, os, sys
told, words = json.load(open("answers.json")), sys.argv[1:]
if words[:2] == ["pr", "comment"] or "PATCH" in words:
    open("posted", "w").write(" ".join(words) + "\\n" + open("comment.md").read())
elif words[:4] == ["api", "--method", "GET", "repos/o/r/pulls"]:
    assert {"state=open", "base=main", "head=them:fix"} <= set(words)
    print(told["pulls"])
elif "contents" in words[1]:
    print(told["theirs" if "?ref=" in words[1] else "ours"])
else:
    print(told["before"])
"""
RUN = {
    "REPOSITORY": "o/r",
    "COMMIT": "abc",
    "BASE": "main",
    "BRANCH": "them:fix",
    "FORK": "them/r",
    "CONCLUSION": "failure",
    "RAN": ".github/workflows/evalspec-fork.yml",
}
TRUSTED = {"ours": "s1", "theirs": "s1", "pulls": "abc them/r2 5\ndef them/r 6\nabc them/r 7", "before": ""}
ARTIFACT = {"base": "main 123\n", "report.md": "# FAIL\n@everyone\n", "report.json": render_json(sample_run())}
FIELDS = render_fields(sample_run())
NO_REPORT = "<!-- evalspec -->\nevalspec has no report for abc that can be trusted. The log of the run says why.\n"


@pytest.fixture
def comment(tmp_path):
    """Runs the steps of evalspec-comment with a gh that answers from a table; returns the exit code and the post."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    (job,) = [yaml.safe_load(block)["jobs"]["comment"] for block in blocks if "name: evalspec-comment" in block]
    steps = run_steps(job)
    assert tuple(steps) == COMMENT
    check, install, read, post = steps.values()
    assert install["run"] == 'pip install "evalspec-runner"'
    assert post["if"] == "always()"
    assert post["env"]["CHECKED"] == f"${{{{ steps.{check['id']}.outcome }}}}"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gh").write_text(GH)
    (tmp_path / "bin" / "evalspec").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m evalspec "$@"\n')
    for program in ("gh", "evalspec"):
        (tmp_path / "bin" / program).chmod(0o755)
    variables = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path)}
    environment = os.environ | RUN | variables

    def execute(step, **variables):
        assert step["shell"] == "bash"
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(command, cwd=tmp_path, env=environment | variables, check=False).returncode

    def run(artifact=ARTIFACT, variables=(), **answers):
        (tmp_path / "answers.json").write_text(json.dumps(TRUSTED | answers))
        checked = execute(check, **dict(variables))
        if checked == 0 and artifact:
            (tmp_path / "report").mkdir(exist_ok=True)
            for name, text in artifact.items():
                (tmp_path / "report" / name).write_text(text)
            execute(read)
        code = execute(post, CHECKED="failure" if checked else "success", **dict(variables))
        posted = tmp_path / "posted"
        return checked or code, posted.read_text() if posted.exists() else None

    return run


def test_a_trusted_report_becomes_one_comment(comment):
    code, posted = comment()
    assert code == 0
    assert posted.startswith("pr comment 7 --repo o/r")
    text = "What the report says, as text:\n\n    # FAIL\n    @everyone\n"
    assert posted.endswith(f"<!-- evalspec -->\nevalspec of abc against main 123: failure\n\n{FIELDS}{text}")
    assert "--method PATCH repos/o/r/issues/comments/99 " in comment(before="12\n99")[1]


def test_a_long_report_fits_into_a_comment(comment):
    code, posted = comment(artifact=ARTIFACT | {"report.md": "# FAIL\n" + "x\n" * 100_000})
    assert code == 0
    assert 50_000 < len(posted) < 65_536


def test_what_a_fork_writes_is_code_or_an_indented_block(comment):
    """Neither its JSON nor its Markdown mentions, links or runs anything, in any place of a comment."""
    evil = "x](https://evil.example) @team #1 <img src=x> `y` | z\n\n# h\n```\n"
    report = json.loads(render_json(run_full_of(evil))) | {"notes": [evil], "reasons": [evil], "runId": evil}
    code, posted = comment(artifact=ARTIFACT | {"report.json": json.dumps(report), "report.md": evil})
    assert code == 0
    page = Skeleton(posted.partition("\n")[2])
    assert not [part for part in page.parts if "evil" in part or "@team" in part or "img" in part]
    assert not {"a", "img", "em"} & {part.strip("</>").split()[0] for part in page.parts if part.startswith("<")}


@pytest.mark.parametrize(
    "changed",
    [
        {"theirs": "s2"},
        {"variables": {"RAN": ".github/workflows/other.yml"}.items()},
        {"artifact": None},
        {"artifact": {"base": "main 123\n"}},
        {"artifact": ARTIFACT | {"base": "lenient 123\n"}},
        {"artifact": ARTIFACT | {"report.json": '{"schemaVersion": 1, "runId": 7}'}},
        {"artifact": ARTIFACT | {"report.json": ARTIFACT["report.json"].replace('"exitCode": 1', '"exitCode": 9', 1)}},
    ],
    ids=[
        "its workflow is changed",
        "another workflow of the same name",
        "no artifact",
        "no report",
        "another base",
        "not of the schema",
        "another exit code",
    ],
)
def test_an_earlier_comment_does_not_outlive_a_commit_without_a_report(comment, changed):
    code, posted = comment(before="99", **changed)
    assert code == 1
    first, _, text = posted.partition("\n")
    assert "--method PATCH repos/o/r/issues/comments/99 " in first
    assert text == NO_REPORT


@pytest.mark.parametrize("pulls", ["", "def them/r 7", "abc them/r2 7"], ids=["none", "newer commit", "another fork"])
def test_nothing_is_posted_where_the_commit_is_not_the_newest(comment, pulls):
    assert comment(pulls=pulls) == (0, None)


@pytest.fixture
def own_steps(tmp_path):
    """Runs the steps of the workflow that shows everything, with a gh that keeps what it is given."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    (job,) = [yaml.safe_load(one)["jobs"]["evaluate"] for one in blocks if "checks: write" in one]
    (tmp_path / "bin").mkdir()
    keep = '#!/bin/sh\ncase "$*" in *--paginate*) cat before;; *) echo "$*" > told; cat > given;; esac\n'
    (tmp_path / "bin" / "gh").write_text(keep)
    (tmp_path / "bin" / "gh").chmod(0o755)
    (tmp_path / "before").write_text("")
    (tmp_path / "evalspec").mkdir()
    (tmp_path / "evalspec" / "report.md").write_text("# FAIL\n")
    variables = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path)}

    def run(name, **more):
        step = run_steps(job)[name]
        assert "${{" not in step["run"]
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        subprocess.run(command, cwd=tmp_path, env=os.environ | variables | more, check=True, stdin=subprocess.DEVNULL)

    return run


def test_the_comment_has_the_run_and_the_changes_and_is_updated(own_steps, tmp_path):
    given = {"GITHUB_REPOSITORY": "o/r", "NUMBER": "7", "COMMIT": "abc", "RUN_URL": "https://evals.example.com/runs/1"}
    (tmp_path / "evalspec" / "changes.md").write_text("## 1 degraded\n")
    own_steps("Comment on the pull request", **given)
    assert (tmp_path / "told").read_text().startswith("pr comment 7 --repo o/r ")
    link = "The run on the server: <https://evals.example.com/runs/1>\n"
    assert (
        tmp_path / "comment.md"
    ).read_text() == f"<!-- evalspec -->\n{link}\nCommit abc\n\n# FAIL\n\n## 1 degraded\n"
    (tmp_path / "before").write_text("12\n99\n")
    (tmp_path / "evalspec" / "changes.md").write_text("x\n" * 40_000)
    own_steps("Comment on the pull request", **given | {"RUN_URL": ""})
    assert "--method PATCH repos/o/r/issues/comments/99 " in (tmp_path / "told").read_text()
    said = "What changed since the baseline is in changes.md of the artifact."
    assert (tmp_path / "comment.md").read_text() == f"<!-- evalspec -->\nCommit abc\n\n# FAIL\n\n{said}\n"


def test_the_comment_on_an_earlier_commit_does_not_stay_without_a_report(own_steps, tmp_path):
    (tmp_path / "evalspec" / "report.md").unlink()
    (tmp_path / "before").write_text("99\n")
    own_steps("Comment on the pull request", GITHUB_REPOSITORY="o/r", NUMBER="7", COMMIT="abc", RUN_URL="")
    assert "--method PATCH repos/o/r/issues/comments/99 " in (tmp_path / "told").read_text()
    said = "evalspec has no report for abc. The log of the run says why."
    assert (tmp_path / "comment.md").read_text() == f"<!-- evalspec -->\n{said}\n"


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_a_check_run_is_of_the_commit(own_steps, tmp_path):
    (tmp_path / "evalspec" / "evalspec.check.json").write_text(render_check_run(sample_run()))
    own_steps("Check run", GITHUB_REPOSITORY="o/r", COMMIT="abc")
    assert (tmp_path / "told").read_text() == "api --silent --method POST repos/o/r/check-runs --input -\n"
    given = json.loads((tmp_path / "given").read_text())
    assert given == json.loads(render_check_run(sample_run())) | {"head_sha": "abc"}


def test_every_supported_python_is_tested():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    pythons = CI["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert pythons == ["3.11", "3.12", "3.13", "3.14"]
    assert f'requires-python = ">={pythons[0]}"' in project
    tried = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    assert tried == ["3.11", "3.13"], "name the Pythons where the tests ran"


def test_the_first_evaluation_of_other_systems_passes_here(project):
    (script,) = [step["run"] for step in CI["jobs"]["systems"]["steps"] if step.get("name") == "Evaluate"]
    project.folder.mkdir(exist_ok=True)
    for line in script.splitlines():
        words = line.split()
        if words[0] == "evalspec":
            done = project(*words[1:])
            assert done.code == 0, (line, done.err)
        else:
            assert words == ["cd", "shop"]
            os.chdir("shop")
