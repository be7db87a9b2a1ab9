"""Workflows of repositories with the agent in a subfolder: what `init` writes, and what `doctor` says about it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from evalspec import __version__
from evalspec.api.repository import find_source
from evalspec.base.distribution import list_requirements
from installed import pretend_origin

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PINNED = {"url": "https://example.com/o/evalspec.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}
PIN = f"git+https://example.com/o/evalspec.git@{COMMIT}"
BOT = 'def answer(question):\n    return "21 days"\n'


def git(*arguments, folder="."):
    who = ("-c", "user.name=n", "-c", "user.email=e@example.com")
    return subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def shop(project, tmp_path_factory, monkeypatch):
    """A repository with a bot in the folder `bots/shop`, and evalspec from a commit."""
    pretend_origin(monkeypatch, tmp_path_factory.mktemp("installed"), PINNED)
    Path("bots/shop").mkdir(parents=True)
    Path("bots/shop/bot.py").write_text(BOT)
    Path("q.csv").write_text("question,ground_truth\nHow long is the trial?,21 days\n")
    git("init", "--quiet")
    return project


def start(project, *options):
    done = project("init", "bots/shop", "--agent", "bot:answer", "--data", "q.csv", *options)
    assert done.code == 0, done.err
    return done.out


def examine(project, manifest="bots/shop/agent.yaml"):
    """The findings about the gate, as lines."""
    done = project("doctor", manifest, "--json")
    assert done.code == 0
    found = [one for one in done.document["findings"] if one["name"] in ("packages", "gate", "workflow")]
    return [f"{one['status']}: {one['message']}{'; ' + one['fix'] if one['fix'] else ''}" for one in found]


def check_commands(lines):
    """The slim set comes first, then what the manifest needs; nothing else is installed."""
    installs = [line for line in lines if line.startswith("pip install")]
    assert installs[0].endswith("--no-deps $EVALSPEC")
    assert [line.partition(" > ")[0] for line in lines if line.startswith("evalspec requirements")] == [
        "evalspec requirements --slim",
        "evalspec requirements agent.yaml",
    ]
    assert all("--requirement" in line for line in installs[1:]) and len(installs) == 3


def test_github_runs_the_gate_of_a_subfolder(shop):
    said = start(shop)
    assert f"The workflow installs {PIN}." in said and "wrote .github/workflows/evalspec-bots--shop.yml" in said
    assert not Path("bots/shop/.github").exists()
    workflow = yaml.safe_load(Path(".github/workflows/evalspec-bots--shop.yml").read_text())
    ((name, job),) = workflow["jobs"].items()
    assert (name, job["defaults"]["run"]["working-directory"]) == ("evaluate-bots--shop", "bots/shop")
    steps = {step.get("name", step.get("uses")): step for step in job["steps"]}
    assert steps["Install"]["env"] == {"EVALSPEC": PIN}
    check_commands(steps["Install"]["run"].splitlines())
    cached = steps["actions/setup-python@v7"]["with"]
    assert cached["cache"] == "pip" and all(Path(one).is_file() for one in cached["cache-dependency-path"].split("\n"))
    kept = [
        steps[name]["with"]["path"].split("\n") for name in ("Save them", *(name for name in steps if "copies" in name))
    ]
    assert kept == [["bots/shop/.evalspec/cache", "bots/shop/.evalspec/baselines"]] * 2
    assert shop("requirements", "bots/shop/agent.yaml").out.split() == list_requirements()

    added = ".github/workflows/evalspec-bots--shop.yml"
    ok = ["ok: needs a slim installation", "ok: ciGate is on"]
    assert examine(shop) == [*ok, f"warning: {added} is not in git; commit and push it"]
    git("add", ".")
    assert examine(shop) == [*ok, f"ok: {added} evaluates bots/shop/agent.yaml"]
    Path(added).write_text(Path(added).read_text().replace("  pull_request:\n", ""))
    assert examine(shop)[2].startswith(f"warning: {added} does not run for pull requests")


def test_a_workflow_that_github_does_not_read_is_reported(shop):
    start(shop)
    Path(".github").rename("bots/shop/.github")
    manifest = Path("bots/shop/agent.yaml")
    manifest.write_text(manifest.read_text().replace("ciGate: true", "ciGate: false"))
    _, gate, lost, missing = examine(shop)
    assert gate.startswith("warning: ciGate is off, so no threshold fails a pull request; set")
    assert lost.startswith(
        "warning: bots/shop/.github/workflows/evalspec-bots--shop.yml is not where GitHub reads workflows; remove it"
    )
    assert missing.startswith("warning: no workflow of GitHub was found that evaluates bots/shop/agent.yaml; `evalspec")
    assert shop("init", "--ci", "bots/shop").out.startswith("wrote .github/workflows/evalspec-bots--shop.yml\n")
    assert (
        shop("init", "--ci", "bots").err == "evalspec: bots/agent.yaml: no such file. without --ci, init creates it\n"
    )
    assert "--ci: it is for the agent.yaml that is there" in shop("init", "--ci", "--url", "http://h").err


def test_github_passes_the_variables_of_the_manifest(shop, monkeypatch):
    for name in ("BOT_TOKEN", "BOT_KEY"):
        monkeypatch.setenv(name, f"s3cr3t-of-{name}")
    start(shop)
    manifest, (workflow,) = Path("bots/shop/agent.yaml"), Path(".github/workflows").iterdir()
    endpoint = {"path": "/a", "headers": {"Authorization": "$env:BOT_TOKEN", "X-Key": "Key ${env:BOT_KEY}"}}
    content = yaml.safe_load(manifest.read_text())
    content["spec"]["api"] = {"url": "http://localhost:9", "chatEndpoint": endpoint}
    manifest.write_text(yaml.safe_dump(content) + "# $env:NOT_MEANT\n")
    git("add", ".")
    assert [line for line in doctor_lines(shop) if "workflow" in line] == [
        f"workflow: {workflow} does not pass BOT_KEY, BOT_TOKEN, to which bots/shop/agent.yaml refers; add "
        "`BOT_KEY: ${{ secrets.BOT_KEY }}`, `BOT_TOKEN: ${{ secrets.BOT_TOKEN }}` to `env` of the step that evaluates",
        "address: in CI nothing answers at http://localhost:9 unless the workflow starts the agent; "
        "set spec.api.command, which starts it, or a url that CI reaches",
    ]
    shop("init", "--ci", "--force", "bots/shop")
    steps = yaml.safe_load(workflow.read_text())["jobs"]["evaluate-bots--shop"]["steps"]
    (env,) = (step["env"] for step in steps if step.get("name", "").startswith("Evaluate"))
    assert env == {name: f"${{{{ secrets.{name} }}}}" for name in ("OPENAI_API_KEY", "BOT_KEY", "BOT_TOKEN")}
    content["spec"]["api"]["command"] = ["python", "-m", "agent"]
    manifest.write_text(yaml.safe_dump(content))
    assert not [line for line in doctor_lines(shop) if "workflow" in line]


def doctor_lines(project):
    """The warnings of `doctor`, whether or not the agent answers."""
    found = project("doctor", "bots/shop/agent.yaml", "--json").document["findings"]
    return [f"{one['name']}: {one['message']}; {one['fix']}" for one in found if one["status"] == "warning"]


@pytest.mark.parametrize(
    ("stages", "stage"),
    [("[lint, check]", "check"), ("[test, deploy]", None), ("[a, !reference [x]]", "a"), (None, None)],
)
def test_the_gitlab_job_is_in_a_stage_that_exists(shop, stages, stage):
    part, main = Path(".gitlab/evalspec-bots--shop.yml"), Path(".gitlab-ci.yml")
    main.write_text(f"stages: {stages}\n" if stages else "")
    start(shop)
    ((_, job),) = yaml.safe_load(part.read_text()).items()
    assert job.get("stage") == stage
    main.write_text(main.read_text() + f"include: [{{local: {part}}}]\n")
    git("add", ".")
    assert examine(shop)[-1].startswith("ok: .gitlab-ci.yml")
    part.write_text(part.read_text().replace(f"  stage: {json.dumps(stage)}\n", ""))
    expected = "warning: `stages` of .gitlab-ci.yml has no test, the stage of the job" if stage else "ok: "
    assert examine(shop)[-1].startswith(expected)


def test_an_existing_gitlab_file_is_not_edited(shop):
    git("remote", "add", "origin", "git@gitlab.example.com:team/shop.git")
    mine = "include:\n  - local: /ci/other.yml\nlint: {script: [ruff check, !reference [.a, script]]}\n"
    Path(".gitlab-ci.yml").write_text(mine)
    said = start(shop)
    assert Path(".gitlab-ci.yml").read_text() == mine and not Path(".github").exists()
    assert said.endswith("include:\n  - local: .gitlab/evalspec-bots--shop.yml\n")
    ((name, job),) = yaml.safe_load(Path(".gitlab/evalspec-bots--shop.yml").read_text()).items()
    assert name == "evalspec-bots--shop" and job["variables"]["EVALSPEC"] == PIN and job["cache"]["paths"]
    assert job["script"][1] == "cd bots/shop"
    check_commands(job["script"])
    git("add", ".")
    line = "`- local: .gitlab/evalspec-bots--shop.yml` below `include:` of .gitlab-ci.yml"
    assert (
        examine(shop)[2] == f"warning: no workflow of GitLab was found that evaluates bots/shop/agent.yaml; add {line}"
    )
    Path(".gitlab-ci.yml").write_text(
        mine.replace("other.yml\n", "other.yml\n  - local: .gitlab/evalspec-bots--shop.yml\n")
    )
    assert examine(shop)[2] == "ok: .gitlab-ci.yml evaluates bots/shop/agent.yaml"


def test_the_gitlab_job_runs_as_written(shop, tmp_path, monkeypatch):
    """Its own commands; installing is left out, as this is what is tested."""
    git("remote", "add", "origin", "https://gitlab.com/team/shop.git")
    start(shop)
    assert yaml.safe_load(Path(".gitlab-ci.yml").read_text()) == {
        "include": [{"local": ".gitlab/evalspec-bots--shop.yml"}]
    }
    (job,) = yaml.safe_load(Path(".gitlab/evalspec-bots--shop.yml").read_text()).values()
    script = "\n".join(line for line in job["script"] if not line.startswith("pip install"))
    monkeypatch.setenv("CI_PROJECT_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    done = subprocess.run(["bash", "-e", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(Path(job["artifacts"]["paths"][0]).read_text())
    assert report["verdict"] == "PASS" and Path(job["artifacts"]["reports"]["junit"]).is_file()


def test_both_platforms_get_a_workflow_if_the_repository_has_both(shop):
    Path(".github").mkdir()
    Path(".gitlab-ci.yml").write_text("")
    start(shop)
    assert Path(".github/workflows/evalspec-bots--shop.yml").is_file()
    assert Path(".gitlab/evalspec-bots--shop.yml").is_file()


def test_a_wheel_that_nobody_built_is_reported(shop, tmp_path_factory, monkeypatch):
    pretend_origin(monkeypatch, tmp_path_factory.mktemp("other"), {"url": "file:///w/evalspec.whl", "archive_info": {}})
    assert "pip wheel --no-deps -w bots/shop/vendor /w/evalspec.whl" in start(shop)
    git("add", ".")
    assert examine(shop)[2] == (
        "warning: bots/shop/vendor/evalspec_runner-*.whl is not in git; "
        "`pip wheel --no-deps -w bots/shop/vendor PATH_TO_EVALSPEC` makes it; commit and push it"
    )
    Path("bots/shop/vendor").mkdir()
    Path("bots/shop/vendor/evalspec_runner-0-py3-none-any.whl").touch()
    git("add", ".")
    assert examine(shop)[2].startswith("ok: ")


@pytest.mark.parametrize(
    ("script", "evaluates"),
    [
        ("cd bots/shop\nevalspec evaluate --no-judge agent.yaml", True),
        ("python -m evalspec evaluate bots/shop/agent.yaml -o r.json", True),
        ("evalspec evaluate agent.yaml", False),
        ("# evalspec evaluate bots/shop/agent.yaml", False),
        ("evalspec validate bots/shop/agent.yaml", False),
        ("cd bots && cd shop && evalspec evaluate 'agent.yaml' # | tee log", True),
        ("set -o pipefail\nevalspec evaluate \\\n  bots/shop/agent.yaml | tee log", True),
        ("echo evalspec evaluate bots/shop/agent.yaml", False),
        ("evalspec evaluate bots/shop/agent.yaml --help", False),
        ("evalspec evaluate bots/shop/agent.yaml || true", False),
        ("evalspec evaluate bots/shop/agent.yaml | tee log", False),
        ("uv run evalspec evaluate bots/shop/agent.yaml > log 2>&1", True),
        ("set +e\nevalspec evaluate bots/shop/agent.yaml\ncode=$?\nexit $code", True),
        ("set +e\nevalspec evaluate bots/shop/agent.yaml\necho done", False),
        ("if evalspec evaluate bots/shop/agent.yaml; then echo ok; fi", False),
        ("test -f skip || evalspec evaluate bots/shop/agent.yaml", False),
        ("grep 'evalspec evaluate bots/shop/agent.yaml' README.md", False),
        ("evalspec evaluate bots/shop/agent.yaml &", False),
        ("evalspec evaluate bots/shop/agent.yaml --dry-run", False),
    ],
)
def test_commands_of_own_workflows_are_read(shop, script, evaluates):
    start(shop)
    (path,) = Path(".github/workflows").iterdir()
    path.write_text(json.dumps({"on": ["pull_request"], "jobs": {"a": {"steps": [{"run": script}]}}}))
    git("add", ".")
    assert examine(shop)[2].startswith("ok: ") is evaluates
    uses = {"uses": "o/evalspec@main", "with": {"working-directory": "bots/shop"}}
    path.write_text(json.dumps({"on": ["pull_request"], "jobs": {"a": {"steps": [uses]}}}))
    assert examine(shop)[2].startswith("ok: ")


GATE = {"run": "evalspec evaluate bots/shop/agent.yaml"}
ON = ["pull_request"]
HEAD = "github.event.pull_request.head.repo.full_name"


@pytest.mark.parametrize(
    ("on", "job", "step", "said"),
    [
        (ON, {}, {"if": "always()"}, ""),
        (ON, {"if": "github.event_name == 'pull_request'"}, {}, ""),
        ({"pull_request": {"paths": ["bots/**"], "types": ["opened", "synchronize"]}}, {}, {}, ""),
        (ON, {"if": f"github.event_name != 'pull_request' || {HEAD} == github.repository"}, {}, ""),
        (ON, {"if": "${{ !cancelled() && github.event.pull_request.draft == false }}"}, {}, ""),
        (ON, {"if": "github.event_name == 'pull_request' && github.actor == 'me'"}, {}, "because of `if: github."),
        (ON, {"env": {"run": "evalspec evaluate bots/shop/agent.yaml"}}, {"run": "true"}, "no workflow of GitHub was"),
        ({"pull_request": {"paths": ["*.yaml"]}}, {}, {}, "does not run for a pull request that changes bots/shop/a"),
        ({"pull_request": {"paths": ["**", "!bots/**"]}}, {}, {}, "does not run for a pull request that changes"),
        ({"pull_request": {"paths-ignore": ["bots/**"]}}, {}, {}, "does not run for a pull request that changes"),
        ("pull_request_target", {}, {}, "does not run for pull requests; "),
        ({"pull_request": {"types": ["closed"]}}, {}, {}, "does not run when commits are added to a pull request; "),
        ({"pull_request": {"paths": ["docs/**"]}}, {}, {}, "does not run for a pull request that changes bots/shop/a"),
        (
            ON,
            {},
            {"if": False},
            "evaluates bots/shop/agent.yaml, but not sure to fail a pull request, because of `if: f",
        ),
        (ON, {"if": "github.event_name == 'push'"}, {}, "because of `if: github.event_name == 'push'`; "),
        (ON, {"continue-on-error": True}, {}, "because of `continue-on-error: true`; "),
    ],
)
def test_a_gate_of_github_that_may_fail_nobody_is_reported(shop, on, job, step, said):
    start(shop)
    (path,) = Path(".github/workflows").iterdir()
    path.write_text(json.dumps({"on": on, "jobs": {"a": {**job, "steps": [{**GATE, **step}]}}}))
    git("add", ".")
    line = examine(shop)[2]
    assert (line.startswith("warning: ") and said in line) if said else line.startswith("ok: "), line


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"rules": [{"if": "$CI_PIPELINE_SOURCE == 'merge_request_event'"}]}, ""),
        ({"only": ["merge_requests"]}, ""),
        ({"extends": ".gate", "script": ["evalspec evaluate bots/shop/agent.yaml"]}, ""),
        ({"allow_failure": True}, "`allow_failure: true`"),
        ({"when": "manual"}, "`when: manual`"),
        ({"rules": [{"if": "$CI_COMMIT_TAG"}, {"when": "never"}]}, "`rules`"),
        ({"only": ["tags"]}, "`only`"),
    ],
)
def test_a_gate_of_gitlab_that_may_fail_nobody_is_reported(shop, job, said):
    Path(".gitlab-ci.yml").touch()
    start(shop)
    gate = {"script": ["evalspec evaluate bots/shop/agent.yaml"], **job}
    Path(".gitlab-ci.yml").write_text(json.dumps({"gate": gate}))
    git("add", ".")
    line = examine(shop)[2]
    assert (line.startswith("warning: ") and said in line) if said else line.startswith("ok: "), line
    Path(".gitlab-ci.yml").write_text(json.dumps({".gate": gate}))
    assert "no workflow of GitLab was found" in examine(shop)[2], "a template runs only in what extends it"
    Path(".gitlab-ci.yml").write_text(json.dumps({".gate": gate, "gate": {"extends": [".gate"]}}))
    assert "no workflow of GitLab was found" not in examine(shop)[2]


@pytest.mark.parametrize(
    ("jobs", "is_ok"),
    [
        ({"workflow": {"rules": [{"if": "$CI_COMMIT_TAG"}]}}, False),
        ({"workflow": {"rules": [{"if": "$CI_COMMIT_TAG", "when": "never"}, {"when": "always"}]}}, True),
        ({"gate": {"rules": [{"if": "$CI_MERGE_REQUEST_IID", "changes": ["bots/**/*"]}]}}, True),
        ({"gate": {"rules": [{"if": "$CI_MERGE_REQUEST_IID", "changes": ["docs/**/*"]}]}}, False),
        ({"gate": {"rules": [{"if": "$CI_MERGE_REQUEST_IID", "allow_failure": True}]}}, False),
        ({"gate": {"rules": [{"if": "$CI_MERGE_REQUEST_IID", "when": "never"}, {"when": "always"}]}}, False),
        ({"gate": {"rules": [{"if": '$CI_PIPELINE_SOURCE != "merge_request_event"'}]}}, False),
        ({"gate": {"except": ["merge_requests"]}}, False),
        ({"gate": {"allow_failure": {"exit_codes": 3}}}, True),
        ({"gate": {"allow_failure": {"exit_codes": [1, 3]}}}, False),
        ({".a": {"allow_failure": True}, ".b": {"extends": ".a"}, "gate": {"extends": ".b"}}, False),
    ],
)
def test_rules_of_gitlab_are_read_in_order(shop, jobs, is_ok):
    Path(".gitlab-ci.yml").touch()
    start(shop)
    gate = {"script": [["evalspec evaluate bots/shop/agent.yaml"]], **jobs.get("gate", {})}
    Path(".gitlab-ci.yml").write_text(json.dumps({**jobs, "gate": gate}))
    git("add", ".")
    line = examine(shop)[2]
    assert line.startswith("ok: ") is is_ok, line


def test_branches_of_a_workflow_and_actions_of_the_repository_are_read(shop):
    start(shop)
    (path,) = Path(".github/workflows").iterdir()
    on = {"pull_request": {"branches": ["main"]}}
    path.write_text(json.dumps({"on": on, "jobs": {"a": {"steps": [{"uses": "./ci/gate"}]}}}))
    Path("ci/gate").mkdir(parents=True)
    Path("ci/gate/action.yml").write_text(json.dumps({"runs": {"using": "composite", "steps": [GATE]}}))
    git("add", ".")
    assert examine(shop)[2].endswith("evaluates bots/shop/agent.yaml, for pull requests with `branches: main`")


def test_folders_with_similar_names_have_workflows_of_their_own(shop):
    folders = ["a/b", "a-b", "a--b", "a_b", "é", "ü", "a/-b", "."]
    for folder in folders:
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, "bot.py").write_text(BOT)
        done = shop("init", folder, "--agent", "bot:answer", "--data", "q.csv", "--force")
        assert done.code == 0, done.err
    names = [path.name for path in Path(".github/workflows").iterdir()]
    assert len(names) == len(folders) and {"evalspec-a--b.yml", "evalspec-a-b.yml", "evalspec.yml"} <= {*names}
    assert all(name.isascii() for name in names)


@pytest.mark.parametrize("origin", [None, PINNED, PINNED | {"url": "https://user:token@example.com/o/e"}])
def test_what_is_installed_is_what_exists(origin, tmp_path, monkeypatch):
    pretend_origin(monkeypatch, tmp_path, origin)
    wanted = f"evalspec-runner=={__version__}" if origin is None else PIN if origin is PINNED else None
    assert find_source()[0] == wanted


def test_a_checkout_is_pinned_to_its_commit_if_the_server_has_it(tmp_path, monkeypatch):
    server, mine = tmp_path / "server.git", tmp_path / "mine"
    git("init", "--quiet", "--bare", str(server), folder=tmp_path)
    git("clone", "--quiet", str(server), str(mine), folder=tmp_path)
    git("commit", "--quiet", "--allow-empty", "-m", "1", folder=mine)
    pretend_origin(monkeypatch, tmp_path / "installed", {"url": mine.as_uri(), "dir_info": {"editable": True}})
    assert find_source() == (None, str(mine))
    git("push", "--quiet", "origin", "HEAD", folder=mine)
    assert find_source() == (None, str(mine)), "a path of this machine is no source elsewhere"
    git("remote", "set-url", "origin", "git@example.com:o/evalspec.git", folder=mine)
    commit = git("rev-parse", "HEAD", folder=mine).strip()
    assert find_source()[0] == f"git+https://example.com/o/evalspec.git@{commit}"
    git("commit", "--quiet", "--allow-empty", "-m", "2", folder=mine)
    assert find_source()[0] is None, "not pushed"


def test_requirements_follow_what_the_manifest_declares(project):
    project.api["traces"] = {}
    project.evaluation["embeddings"] = {"provider": "local"}
    project.evaluation["retrievers"] = {"words": {"builtin": "bm25"}}
    own = {"name": "tone", "rubric": "Is it polite?", "labels": {"yes": 1, "no": 0}}
    project.dataset("qa", [{}], metrics=["string_match", "hallucination", "answer_similarity", "chrf", own])
    project.evaluation["datasets"].append({"name": "t", "path": "t.parquet", "metrics": ["rouge"]})
    path = project.write().name
    document = project("requirements", path, "--json").document
    assert document["extras"] == {
        "bleu": ["chrf"],
        "judge": ["hallucination", "tone"],
        "local": ["answer_similarity"],
        "parquet": ["t.parquet"],
        "retrievers": ["words"],
        "traces": ["spec.api.traces"],
    }
    names = {line.partition("=")[0].rstrip("<>") for line in document["requirements"]}
    assert {"ragas", "wordllama", "sacrebleu", "bm25s", "pyarrow", "opentelemetry-proto", "numpy"} <= names
    assert "judge" not in project("requirements", path, "--no-judge", "--json").document["extras"]
