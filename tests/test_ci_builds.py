"""The CI build of a run: what each service documents, and nothing secret or unknown."""

import json

import pytest
from msgspec import to_builtins

import evalspec
from evalspec.runs.runner.ci_variables import detect_ci_build

GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_EVENT_NAME": "push",
    "GITHUB_REF": "refs/heads/main",
    "GITHUB_SHA": "abc",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "shop/bot",
    "GITHUB_RUN_ID": "12",
}
URL = "https://ci.example/7"
KNOWN = {
    "github": (GITHUB, ("main", "abc", None, "https://github.com/shop/bot/actions/runs/12")),
    "github pull request": (
        GITHUB | {"GITHUB_REF": "refs/pull/7/merge", "GITHUB_HEAD_REF": "fix/1"},
        ("fix/1", "abc", "7", "https://github.com/shop/bot/actions/runs/12"),
    ),
    "github pull_request_target": (
        GITHUB | {"GITHUB_EVENT_NAME": "pull_request_target", "GITHUB_HEAD_REF": "main"},  # of a fork
        ("main", "abc", "?", "https://github.com/shop/bot/actions/runs/12"),
    ),
    "github tag": (GITHUB | {"GITHUB_REF": "refs/tags/v1/2", "GITHUB_RUN_ID": ""}, (None, "abc", None, None)),
    "gitlab": ({"GITLAB_CI": "true", "CI_COMMIT_BRANCH": "main", "CI_COMMIT_SHA": "abc", "CI_JOB_URL": URL},
               ("main", "abc", None, URL)),
    "gitlab merge request": (
        {"GITLAB_CI": "true", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "fix", "CI_MERGE_REQUEST_IID": "7"},
        ("fix", None, "7", None)),
    "azure": (
        {"TF_BUILD": "True", "BUILD_SOURCEBRANCH": "refs/pull/7/merge", "BUILD_SOURCEVERSION": "abc",
         "SYSTEM_PULLREQUEST_SOURCEBRANCH": "refs/heads/fix", "SYSTEM_PULLREQUEST_PULLREQUESTID": "7",
         "SYSTEM_TEAMFOUNDATIONCOLLECTIONURI": "https://dev.azure.com/o/", "SYSTEM_TEAMPROJECT": "my bot",
         "BUILD_BUILDID": "12"},
        ("fix", "abc", "7", "https://dev.azure.com/o/my%20bot/_build/results?buildId=12")),
    "circle": (
        {"CIRCLECI": "true", "CIRCLE_BRANCH": "fix", "CIRCLE_SHA1": "abc", "CIRCLE_BUILD_URL": URL,
         "CIRCLE_PULL_REQUEST": "https://github.com/shop/bot/pull/7"},
        ("fix", "abc", "7", URL)),
    "bitbucket": (
        {"BITBUCKET_BUILD_NUMBER": "12", "BITBUCKET_BRANCH": "fix", "BITBUCKET_COMMIT": "abc", "BITBUCKET_PR_ID": "7",
         "BITBUCKET_GIT_HTTP_ORIGIN": "https://bitbucket.org/shop/bot"},
        ("fix", "abc", "7", "https://bitbucket.org/shop/bot/pipelines/results/12")),
    "buildkite": (
        {"BUILDKITE": "true", "BUILDKITE_BRANCH": "main", "BUILDKITE_COMMIT": "abc", "BUILDKITE_PULL_REQUEST": "false",
         "BUILDKITE_BUILD_URL": URL},
        ("main", "abc", None, URL)),
    "jenkins": ({"JENKINS_URL": "x", "GIT_BRANCH": "origin/main", "GIT_COMMIT": "abc", "BUILD_URL": URL},
                ("main", "abc", None, URL)),
    "jenkins pull request": (
        {"JENKINS_URL": "x", "BRANCH_NAME": "PR-7", "CHANGE_BRANCH": "fix", "CHANGE_ID": "7"},
        ("fix", None, "7", None)),
    "jenkins tag": ({"JENKINS_URL": "x", "BRANCH_NAME": "v1", "TAG_NAME": "v1"}, (None, None, None, None)),
}  # fmt: skip


@pytest.mark.parametrize(("environment", "wanted"), KNOWN.values(), ids=KNOWN)
def test_each_service_says_what_it_builds(environment, wanted):
    found = detect_ci_build(environment)
    got = tuple(getattr(found, key) for key in ("branch", "commit", "pull_request", "url"))
    assert got == wanted


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, ("main", "def", None)),
        ({"event": "pull_request", "head_branch": "fix", "pull_requests": [{"number": 7}]}, ("fix", "def", "7")),
        ({"event": "pull_request", "head_repository": {"full_name": "fork/bot"}}, ("main", "def", "?")),
        ({"head_repository": {"full_name": "fork/bot"}}, (None, "def", None)),
        ({"event": "issue_comment"}, (None, "def", None)),
        ({"head_branch": None}, (None, None, None)),
    ],
    ids=["push", "pull request", "fork", "push of a fork", "after a comment", "no branch"],
)
def test_a_github_build_after_another_is_of_what_that_was_of(changed, wanted, tmp_path):
    """GITHUB_REF and GITHUB_SHA are those of the default branch then, also if a fork's commit is built."""
    of = {"event": "push", "head_branch": "main", "head_sha": "def", "head_repository": {"full_name": "shop/bot"}}
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"workflow_run": of | changed, "repository": {"full_name": "shop/bot"}}))
    started = GITHUB | {"GITHUB_EVENT_NAME": "workflow_run", "GITHUB_EVENT_PATH": str(event)}
    found = detect_ci_build(started)
    assert (found.branch, found.commit, found.pull_request) == wanted
    event.unlink()
    for event_name in ("workflow_run", "issue_comment"):  # nobody knows what such a build has checked out
        unknown = detect_ci_build(started | {"GITHUB_EVENT_NAME": event_name})
        assert (unknown.branch, unknown.commit, unknown.pull_request) == (None, None, None)


def test_no_service_no_build():
    assert detect_ci_build({"CI": "true", "BUILD_URL": URL, "GITHUB_REF": "refs/heads/main"}) is None


@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        ("BUILDKITE_BUILD_URL", "javascript:alert(1)", "url"),
        ("BUILDKITE_BUILD_URL", "https://[", "url"),
        ("BUILDKITE_BUILD_URL", "https://ci.example/\x1b[2J", "url"),
        ("BUILDKITE_BRANCH", "a\nb", "branch"),
        ("BUILDKITE_BRANCH", "a\u202eb", "branch"),
        ("BUILDKITE_BRANCH", "a" * 301, "branch"),
    ],
)
def test_what_no_build_has_is_unknown(name, text, key):
    assert getattr(detect_ci_build({"BUILDKITE": "true", name: text}), key) is None


def test_addresses_have_no_secrets():
    found = detect_ci_build({"BUILDKITE": "true", "BUILDKITE_BUILD_URL": "https://u:pw@ci.example/7?token=x#y"})
    assert found.url == "https://ci.example/7"


def test_a_run_keeps_its_build_and_a_rescored_run_that_of_its_replies(project, monkeypatch):
    project.dataset("qa", [{"id": "a"}], metrics=["string_match"])
    project.write()
    for name, text in (GITHUB | {"GITHUB_REF": "refs/heads/bad\udce4"}).items():
        monkeypatch.setenv(name, text)
    first = evalspec.evaluate("agent.yaml", agent=lambda _: "Paris")
    assert first.fingerprint.ci.branch == "bad\\udce4"
    stored = json.loads((project.folder / ".evalspec" / "runs" / first.id / "report.json").read_text())
    assert stored["fingerprint"]["ci"] == to_builtins(first.fingerprint.ci)
    monkeypatch.setenv("GITHUB_REF", "refs/heads/other")
    assert evalspec.rescore(first.id, "agent.yaml").fingerprint.ci == first.fingerprint.ci
    other = evalspec.evaluate("agent.yaml", agent=lambda _: "Paris")
    (compared,) = evalspec.compare(first.id, other.id).candidates
    assert (compared.mismatches, compared.differences) == ((), ())
    monkeypatch.delenv("GITHUB_ACTIONS")
    local = evalspec.evaluate("agent.yaml", agent=lambda _: "Paris")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert evalspec.rescore(local.id, "agent.yaml").fingerprint.ci is None
