"""The files for GitHub as data: what `init` writes, action.yml, and the workflows of ci.md and of this project.

Their shell steps run here as its runner runs them, with evalspec from a wheel or a checkout.
"""

import json
import os
import re
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest
import yaml

from built_wheel import ROOT, build_wheel, copy_source

COMMENT = "Check the workflow that made the report", "Comment"
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


@pytest.mark.timeout(600)
def test_the_workflow_of_init_installs_the_wheel_of_the_repository(runner, tmp_path, project):
    assert project("init", str(runner.folder)).code == 0
    workflow = yaml.safe_load((runner.folder / ".github/workflows/evalspec.yml").read_text())
    install, validate, evaluate = run_steps(workflow["jobs"]["evaluate"]).values()
    refused = runner(install, **install["env"])
    assert refused.returncode == 1
    assert refused.stdout.startswith("::error::vendor/evalspec_runner-*.whl is missing: commit the wheel")
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


@pytest.mark.timeout(600)
def test_the_action_installs_itself_and_evaluates(runner, action):
    done = action(options="--no-judge\n--dataset\nrag\n")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = Path(read_output(runner, "report"))
    assert {path.name for path in folder.iterdir()} == {"report.json", "report.md", "results.junit.xml"}
    report = json.loads((folder / "report.json").read_text())
    assert [dataset["name"] for dataset in report["datasets"]] == ["rag"]
    written = runner.outputs.read_text()
    for name, output in ACTION["outputs"].items():
        assert output["value"] == f"${{{{ steps.evaluate.outputs.{name} }}}}"
        assert re.search(rf"^{name}(=|<<)", written, re.MULTILINE), name
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
ARTIFACT = {"base": "main 123\n", "report.md": "# FAIL\n@everyone\n"}
NO_REPORT = "<!-- evalspec -->\nevalspec has no report for abc that can be trusted. The log of the run says why.\n"


@pytest.fixture
def comment(tmp_path):
    """Runs the steps of evalspec-comment with a gh that answers from a table; returns the exit code and the post."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    (job,) = [yaml.safe_load(block)["jobs"]["comment"] for block in blocks if "name: evalspec-comment" in block]
    steps = run_steps(job)
    assert tuple(steps) == COMMENT
    check, post = steps.values()
    assert post["if"] == "always()"
    assert post["env"]["CHECKED"] == f"${{{{ steps.{check['id']}.outcome }}}}"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gh").write_text(GH)
    (tmp_path / "bin" / "gh").chmod(0o755)
    environment = os.environ | RUN | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}

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
        code = execute(post, CHECKED="failure" if checked else "success", **dict(variables))
        posted = tmp_path / "posted"
        return checked or code, posted.read_text() if posted.exists() else None

    return run


def test_a_trusted_report_becomes_one_comment(comment):
    code, posted = comment()
    assert code == 0
    assert posted.startswith("pr comment 7 --repo o/r")
    assert posted.endswith(
        "<!-- evalspec -->\nevalspec of abc against main 123: failure\n\n    # FAIL\n    @everyone\n"
    )
    assert "--method PATCH repos/o/r/issues/comments/99 " in comment(before="12\n99")[1]


def test_a_long_report_fits_into_a_comment(comment):
    code, posted = comment(artifact=ARTIFACT | {"report.md": "# FAIL\n" + "x\n" * 100_000})
    assert code == 0
    assert 50_000 < len(posted) < 65_536


@pytest.mark.parametrize(
    "changed",
    [
        {"theirs": "s2"},
        {"variables": {"RAN": ".github/workflows/other.yml"}.items()},
        {"artifact": None},
        {"artifact": {"base": "main 123\n"}},
        {"artifact": ARTIFACT | {"base": "lenient 123\n"}},
    ],
    ids=["its workflow is changed", "another workflow of the same name", "no artifact", "no report", "another base"],
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


def test_every_supported_python_is_tested():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    pythons = CI["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert pythons == ["3.11", "3.12", "3.13", "3.14"]
    assert f'requires-python = ">={pythons[0]}"' in project
    assert re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project) == pythons[:1]  # where the tests ran


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
