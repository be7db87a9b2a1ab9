"""The CI build of this process, from the variables that CI services document."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import MsgspecError, Struct
from msgspec.json import decode

from evalspec.model.base import built
from evalspec.model.fingerprints import CiBuild
from evalspec.runs.store.ci_builds import clean_ci_build, clean_url

_REFS = "refs/"
_BRANCH_REF = "refs/heads/"
_PULL_REF = "refs/pull/"
_REMOTE = "origin/"
_NO_NUMBER = "?"
_GITHUB = "GitHub Actions"
_OF_REF = ("create", "deployment", "merge_group", "push", "release", "schedule", "workflow_dispatch")
"""Events of GitHub whose GITHUB_REF is what is built. With others it is the default branch, whatever is checked out."""


class _Repository(Struct):
    full_name: str


class _Build(Struct):
    event: str
    head_branch: str
    head_sha: str
    head_repository: _Repository
    pull_requests: list[dict[str, Any]] = []


class _BuildEvent(Struct):
    """An event `workflow_run` of GitHub: another build, which may be of a fork."""

    workflow_run: _Build
    repository: _Repository


class _Service(Struct, frozen=True):
    """The variables in which one service says what it builds. The first variable that has a value counts.

    `sign`: the variable that only this service sets. `tag`: if it has a value, a tag is built and no branch.
    `only_pull`: if it has a value, a pull request is built, also if the number is unknown. `url`: the address of the
    build; variables are in braces. `query`: added to it.
    """

    name: str
    sign: str
    branch: Sequence[str]
    commit: str
    pull_request: Sequence[str]
    url: str
    query: str = ""
    tag: str = ""
    only_pull: str = ""


_SERVICES = (
    _Service(
        _GITHUB,
        "GITHUB_ACTIONS",
        branch=("GITHUB_HEAD_REF", "GITHUB_REF"),
        commit="GITHUB_SHA",
        pull_request=("GITHUB_REF",),
        url="{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}",
        only_pull="GITHUB_HEAD_REF",  # GITHUB_REF is the target of pull_request_target
    ),
    _Service(
        "GitLab CI",
        "GITLAB_CI",
        branch=("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_BRANCH"),
        commit="CI_COMMIT_SHA",
        pull_request=("CI_MERGE_REQUEST_IID",),
        url="{CI_JOB_URL}",
    ),
    _Service(
        "Azure Pipelines",
        "TF_BUILD",
        branch=("SYSTEM_PULLREQUEST_SOURCEBRANCH", "BUILD_SOURCEBRANCH"),
        commit="BUILD_SOURCEVERSION",
        pull_request=("SYSTEM_PULLREQUEST_PULLREQUESTNUMBER", "SYSTEM_PULLREQUEST_PULLREQUESTID"),
        url="{SYSTEM_TEAMFOUNDATIONCOLLECTIONURI}{SYSTEM_TEAMPROJECT}/_build/results",
        query="?buildId={BUILD_BUILDID}",
    ),
    _Service(
        "CircleCI",
        "CIRCLECI",
        branch=("CIRCLE_BRANCH",),
        commit="CIRCLE_SHA1",
        pull_request=("CIRCLE_PULL_REQUEST",),
        url="{CIRCLE_BUILD_URL}",
        tag="CIRCLE_TAG",
    ),
    _Service(
        "Bitbucket Pipelines",
        "BITBUCKET_BUILD_NUMBER",
        branch=("BITBUCKET_BRANCH",),
        commit="BITBUCKET_COMMIT",
        pull_request=("BITBUCKET_PR_ID",),
        url="{BITBUCKET_GIT_HTTP_ORIGIN}/pipelines/results/{BITBUCKET_BUILD_NUMBER}",
        tag="BITBUCKET_TAG",
    ),
    _Service(
        "Buildkite",
        "BUILDKITE",
        branch=("BUILDKITE_BRANCH",),
        commit="BUILDKITE_COMMIT",
        pull_request=("BUILDKITE_PULL_REQUEST",),
        url="{BUILDKITE_BUILD_URL}",
        tag="BUILDKITE_TAG",
    ),
    _Service(
        "Jenkins",
        "JENKINS_URL",
        branch=("CHANGE_BRANCH", "BRANCH_NAME", "GIT_BRANCH"),
        commit="GIT_COMMIT",
        pull_request=("CHANGE_ID",),
        url="{BUILD_URL}",
        tag="TAG_NAME",
    ),
)
"""Jenkins is the last, because its variables are also set on machines that other services use."""


def detect_ci_build(environment: Mapping[str, str]) -> CiBuild | None:
    """Return the CI build that the environment describes. None: this is no CI service that evalspec knows."""
    service = next((one for one in _SERVICES if environment.get(one.sign)), None)
    if service is None:
        return None
    if service.name == _GITHUB:
        environment = _resolve_github(environment)
    values = {
        "service": service.name,
        "branch": None if environment.get(service.tag) else _find_branch(service, environment),
        "commit": environment.get(service.commit),
        "pull_request": _find_pull_request(service, environment),
        "url": _find_url(service, environment),
    }
    return clean_ci_build(values)


def _resolve_github(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables as they are in the build that an event is about. An unknown ref or commit is empty."""
    name = environment.get("GITHUB_EVENT_NAME")
    if environment.get("GITHUB_HEAD_REF") or name in _OF_REF:
        return environment
    unknown = {**environment, "GITHUB_REF": "", "GITHUB_SHA": ""}
    if name != "workflow_run":
        return unknown
    try:
        event = decode(Path(environment.get("GITHUB_EVENT_PATH", "")).read_bytes(), type=built(_BuildEvent))
    except (OSError, MsgspecError):
        return unknown
    build = event.workflow_run
    known = unknown | {"GITHUB_SHA": build.head_sha}
    if build.event.startswith("pull_request"):
        refs = [f"{_PULL_REF}{one.get('number')}/merge" for one in build.pull_requests[:1]]
        return known | {"GITHUB_HEAD_REF": build.head_branch, "GITHUB_REF": "".join(refs)}
    is_own = build.event in _OF_REF and build.head_repository == event.repository
    return known | ({"GITHUB_REF": f"{_BRANCH_REF}{build.head_branch}"} if is_own else {})


def _find_branch(service: _Service, environment: Mapping[str, str]) -> str | None:
    for name in service.branch:
        text = environment.get(name, "")
        if text.startswith(_BRANCH_REF):
            return text.removeprefix(_BRANCH_REF)
        if text and not text.startswith(_REFS):
            return text.removeprefix(_REMOTE) if name == "GIT_BRANCH" else text
    return None


def _find_pull_request(service: _Service, environment: Mapping[str, str]) -> str | None:
    """Return the number, which is the last numeric part of `refs/pull/7/merge` and of an address."""
    for name in service.pull_request:
        text = environment.get(name, "")
        numbers = [part for part in text.split("/") if part.isdecimal()]
        if numbers and (text.startswith(_PULL_REF) or not text.startswith(_REFS)):
            return numbers[-1]
    return _NO_NUMBER if environment.get(service.only_pull) else None


def _find_url(service: _Service, environment: Mapping[str, str]) -> str | None:
    """Return the address of the build. Queries that are not ours are left out, because they may have tokens."""
    known = {name: text for name, text in environment.items() if text}
    try:
        found = clean_url(service.url.format_map(known).replace(" ", "%20"))
        query = service.query.format_map(known)
    except KeyError:
        return None
    return None if found is None else f"{found.partition('?')[0]}{query}"
