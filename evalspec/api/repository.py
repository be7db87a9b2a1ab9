"""The git repository of an agent: which platforms build it, and whether a workflow of theirs runs the gate."""

import json
import os
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import yaml
from msgspec import Struct

from evalspec import __version__
from evalspec.base.distribution import NAME, read_origin
from evalspec.base.git import read_git
from evalspec.inputs.manifest.agent_schema import Api
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.references import find_variables
from evalspec.model.checkups import CheckupFinding, CheckupStatus
from evalspec.runs.planning.packages import find_extras
from evalspec.targets.http.routes import is_loopback

GITHUB, GITLAB = "GitHub", "GitLab"
GITLAB_MAIN = ".gitlab-ci.yml"
WHEEL = "vendor/evalspec_runner-*.whl"
"""What a workflow installs that has no other source of evalspec, from the folder of the agent."""
_READ = {GITHUB: ".github/workflows/*.y*ml", GITLAB: GITLAB_MAIN}
"""The files that a platform reads, from the root of a repository."""
_SIGNS = {GITHUB: (".github",), GITLAB: (GITLAB_MAIN, ".gitlab")}
_SSH = re.compile(r"(?:ssh://)?git@([\w.-]+)[:/]([^:]+)$")
_CHANGE_FOLDER = re.compile(r"""\s*cd\s+["']?(?P<folder>[^"'\n]+?)["']?\s*""")
_COMMENT = re.compile(r"(^|\s)#.*")
_EVALUATE = re.compile(r"(?!\s*(?:echo|printf|grep|if|while|!)\s)[^|]*?(?<![\"'])\bevalspec evaluate((?!\S).*)")
_MANIFEST = re.compile(r"""\s["']?([^\s"']+\.ya?ml)\b""")
_OPERATOR = re.compile(r"\|\|?|(?<![>&])&(?![>&\d])")
_HELD = re.compile(
    r"\s*(?:always\(\)|success\(\)|!\s*cancelled\(\)|true|github\.event_name\s*==\s*'pull_request'"
    r"|github\.event\.pull_request\.(?:draft\s*==\s*false|head\.repo\.full_name\s*==\s*github\.repository))\s*"
)
"""Conditions that hold for pull requests, at least for those of the repository itself that are no drafts."""
_REQUEST = re.compile(r"\$CI_COMMIT_BRANCH|\$CI_MERGE_REQUEST_IID|[^&!]*==\s*[\"']merge_request_event[\"']")


class Repository(Struct, frozen=True):
    """`root`: its top folder, or that of the agent if there is no repository. `folder`: of the agent, from the root.

    `platforms`: those that seem to build it; GitHub if nothing says otherwise.
    """

    root: Path
    folder: str
    exists: bool
    platforms: tuple[str, ...]


def find_repository(folder: Path) -> Repository:
    """Return the repository around a folder, which need not exist yet."""
    folder = folder.resolve()
    place = next(path for path in (folder, *folder.parents) if path.is_dir())
    top = read_git(place, "rev-parse", "--show-toplevel")
    root = Path(top).resolve() if top else folder
    host = (top and urlsplit(_secure(read_git(root, "remote", "get-url", "origin") or "")).hostname) or ""
    found = [one for one in _READ if one.lower() in host or any((root / sign).exists() for sign in _SIGNS[one])]
    return Repository(root, Path(os.path.relpath(folder, root)).as_posix(), bool(top), tuple(found) or (GITHUB,))


def find_source() -> tuple[str | None, str | None]:
    """Return what pip can install evalspec from on any machine, and the local file or folder that it came from here.

    The first is a release, or the commit of a repository that a server has; None: only this machine has this version.
    """
    origin = read_origin()
    if origin == {}:
        return f"{NAME}=={__version__}", None
    known = origin or {}
    url, commit = known.get("url", ""), known.get("vcs_info", {}).get("commit_id")
    path = Path(url2pathname(urlsplit(url).path)) if url.startswith("file:") else None
    if path is not None and path.is_dir():
        commit = read_git(path, "rev-parse", "HEAD") or ""
        is_pushed = read_git(path, "branch", "--remotes", "--contains", commit)
        url = read_git(path, "remote", "get-url", "origin") if is_pushed else None
    secure = _secure(url or "")
    is_public = secure.startswith("https://") and "@" not in secure  # a name or a token may be in it
    return f"git+{secure}@{commit}" if commit and is_public else None, None if path is None else str(path)


def _secure(url: str) -> str:
    """Return the address of a repository by HTTPS if it is that of git's SSH."""
    return _SSH.sub(r"https://\1/\2", url)


def check_gate(loaded: LoadedManifest) -> Iterator[CheckupFinding]:
    """Yield whether pull requests are gated, as far as the files show it, and the packages that the manifest needs."""
    needed = [f"{extra} for {', '.join(names)}" for extra, names in find_extras(loaded.manifest).items()]
    yield CheckupFinding("packages", CheckupStatus.OK, "; ".join(["needs a slim installation", *needed]))
    if loaded.manifest.spec.evaluation.ci_gate.enabled:
        yield CheckupFinding("gate", CheckupStatus.OK, "ciGate is on")
    else:
        yield _warn("gate", "ciGate is off, so no threshold fails a pull request", "set spec.evaluation.ciGate: true")
    yield from _check_workflows(loaded.path, _list_variables(loaded))
    yield from _check_address(loaded.manifest.spec.api)
    said = "not visible from here: whether the platform requires the job before a merge; see its settings"
    yield CheckupFinding("branch protection", CheckupStatus.SKIPPED, said)


def _check_address(api: Api) -> Iterator[CheckupFinding]:
    if api.url and api.command is None and is_loopback(urlsplit(api.url).hostname or ""):
        message = f"in CI nothing answers at {api.url} unless the workflow starts the agent"
        yield _warn("address", message, "set spec.api.command, which starts it, or a url that CI reaches")


def _list_variables(loaded: LoadedManifest) -> list[str]:
    """Return the variables that a run needs: those of a judge only if a metric is judged."""
    spec = _get(loaded.source.data, "spec")
    idle = () if "judge" in find_extras(loaded.manifest) else ("judge",)
    evaluation = {key: value for key, value in _get(spec, "evaluation").items() if key not in idle}
    return find_variables(json.dumps({"api": spec.get("api"), "evaluation": evaluation}))


def _check_workflows(manifest: Path, variables: Sequence[str]) -> Iterator[CheckupFinding]:
    repository = find_repository(manifest.parent)
    root, add = repository.root, f"`evalspec init --ci {shlex.quote(str(manifest.parent))}` writes one"
    if not repository.exists:
        yield _warn("workflow", f"{root} is in no git repository", f"run `git init`; then {add}")
        return
    wanted = _join(repository.folder, manifest.name)
    for platform in repository.platforms:
        unread = [] if repository.folder == "." else [*(root / repository.folder).glob(_READ[platform])]
        for path in unread:
            message = f"{path.relative_to(root).as_posix()} is not where {platform} reads workflows"
            yield _warn("workflow", message, f"remove it; {add} at {root}")
        files = [path for path in sorted(root.glob(_READ[platform])) if _evaluates(wanted, _list_parts(root, path))]
        if not files:
            parts = [path for path in root.glob(".gitlab/*.yml") if platform == GITLAB and _evaluates(wanted, [path])]
            include = [f"add `- local: .gitlab/{path.name}` below `include:` of {GITLAB_MAIN}" for path in parts]
            yield _warn("workflow", f"no workflow of {platform} was found that evaluates {wanted}", [*include, add][0])
        yield from (_check_workflow(repository, path, wanted, variables) for path in files)


def _check_workflow(repository: Repository, path: Path, wanted: str, variables: Sequence[str]) -> CheckupFinding:
    root, name = repository.root, path.relative_to(repository.root).as_posix()
    parts = _list_parts(root, path)
    if path.name == GITLAB_MAIN:  # its jobs have all variables of the project
        faults = _list_unknown_stages(root, parts, wanted)
    else:
        faults = _list_faults_at_github(path, name, parts, wanted, variables)
    is_weak = (
        _warn("workflow", f"{name} evaluates {wanted}, but {why}", _FIX_WEAK) for why in _find_weak(parts, wanted)
    )
    fault = next(chain(is_weak, faults, _list_uncommitted(repository, parts, wanted)), None)
    limits = _get(_read_yaml(path), "on", "pull_request")
    only = "; ".join(f"`{key}: {', '.join(_list(limits[key]))}`" for key in limits if key.startswith("branches"))
    said = f"{name} evaluates {wanted}{only and f', for pull requests with {only}'}"
    return fault or CheckupFinding("workflow", CheckupStatus.OK, said)


def _list_faults_at_github(
    path: Path, name: str, parts: Sequence[Path], wanted: str, variables: Sequence[str]
) -> Iterator[CheckupFinding]:
    events = _read_yaml(path).get("on", ())
    if "pull_request" not in _list(events):
        yield _warn("workflow", f"{name} does not run for pull requests", "add pull_request to its `on`")
    limits = _get(events, "pull_request")
    if "synchronize" not in _list(limits.get("types", "synchronize")):
        message = f"{name} does not run when commits are added to a pull request"
        yield _warn("workflow", message, "add synchronize to `types` of `pull_request`")
    if not _matches(wanted, limits.get("paths", "**")) or _matches(wanted, limits.get("paths-ignore", ())):
        message = f"{name} does not run for a pull request that changes {wanted}"
        yield _warn("workflow", message, f"let `paths` of `pull_request` have {wanted} and the agent's files")
    text = "\n".join(map(_read_code, parts))
    lost = [one for one in variables if not re.search(rf"\b{one}\b[\"']?\s*:", text)]
    if lost:
        lines = ", ".join(f"`{one}: ${{{{ secrets.{one} }}}}`" for one in lost)
        message = f"{name} does not pass {', '.join(lost)}, to which {wanted} refers"
        yield _warn("workflow", message, f"add {lines} to `env` of the step that evaluates")


def _list_unknown_stages(root: Path, parts: Sequence[Path], wanted: str) -> Iterator[CheckupFinding]:
    stages, jobs = read_stages(root), [job for part in parts for job in _read_yaml(part).values() if _get(job)]
    used = [str(job.get("stage", "test")) for job in jobs if wanted in dict(_find_evaluations(job, "."))]
    for stage in used if stages else ():
        if stage not in (*stages, ".pre", ".post"):
            fix = f"write `stage: {stages[-1]}` in the job that evaluates"
            yield _warn("workflow", f"`stages` of {GITLAB_MAIN} has no {stage}, the stage of the job", fix)


def _list_uncommitted(repository: Repository, parts: Sequence[Path], wanted: str) -> Iterator[CheckupFinding]:
    root, wheel = repository.root, _join(repository.folder, WHEEL)
    needed = [*parts, root / wanted, *(root / wheel for part in parts if WHEEL in part.read_text(errors="replace"))]
    for one in (file.relative_to(root).as_posix() for file in needed):
        if not read_git(root, "ls-files", "--", one):
            build = f"`pip wheel --no-deps -w {shlex.quote(posixpath.dirname(wheel))} PATH_TO_EVALSPEC` makes it; "
            yield _warn("workflow", f"{one} is not in git", f"{build if one == wheel else ''}commit and push it")


def _warn(name: str, message: str, fix: str) -> CheckupFinding:
    return CheckupFinding(name, CheckupStatus.WARNING, message, fix)


def _list_parts(root: Path, path: Path) -> list[Path]:
    """Return a workflow, and the files of the repository that it names, which may be parts of it."""
    code = _read_code(path)
    actions = (f"{folder}/action.yml" for folder in re.findall(r"\buses[\"']?:\s*[\"']?(\./[\w./-]*)", code))
    files = (root / name.lstrip("/") for name in chain(re.findall(r"[\w./-]+\.ya?ml\b", code), actions))
    return list(dict.fromkeys([path, *(file for file in files if file.is_file())]))


def _read_code(path: Path) -> str:
    """Return a YAML file without its comments."""
    return _COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))


def read_stages(root: Path) -> list[str]:
    """Return the stages that the repository's .gitlab-ci.yml lists; none if it lists none, or does not exist."""
    path = root / GITLAB_MAIN
    found = _read_yaml(path).get("stages") if path.is_file() else None
    return [one for one in found if isinstance(one, str) and one] if isinstance(found, list) else []


def _evaluates(wanted: str, parts: Sequence[Path]) -> bool:
    return bool(_find_gates(parts, wanted))


def _find_gates(parts: Sequence[Path], wanted: str) -> list[Sequence[str]]:
    """Return why each evaluation of a manifest may fail no pull request; of a good one there is no reason.

    A job of GitLab whose name begins with a dot is a template: it counts in the jobs that extend it.
    """
    read = [_read_yaml(part) for part in parts]
    templates = {name: job for one in read for name, job in one.items() if name.startswith(".")}
    whole = _list_weak(_get(read[0], "workflow"))
    found: list[Sequence[str]] = []
    for one in read:
        jobs = [_leave_changes(_extend(job, templates), wanted) for name, job in one.items() if name not in templates]
        found += [weak for manifest, weak in _find_evaluations(jobs, ".", whole) if manifest == wanted]
    return found


def _leave_changes(job: Any, wanted: str) -> Any:
    """Return a job without the rules that no change of a file fulfils."""
    rules = _get(job).get("rules")
    kept = [one for one in rules or () if _matches(wanted, _get(one).get("changes", "**"))]
    return job | {"rules": kept} if isinstance(rules, list) else job


def _matches(path: str, patterns: Any) -> bool:
    """Return whether a path is among those of a platform's patterns. The last one that fits decides; `!` excludes."""
    last = "!"
    for pattern in _list(_get(patterns).get("paths", patterns)):
        named = re.escape(pattern.lstrip("!")).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*")
        last = pattern if re.fullmatch(named.replace(r"\*", "[^/]*"), path) else last
    return not last.startswith("!")


def _extend(job: Any, templates: dict[str, Any]) -> Any:
    names = [name for name in _list(_get(job).get("extends", ())) if name in templates]
    bases = [_get(_extend(templates[name], {k: v for k, v in templates.items() if k != name})) for name in names]
    return {key: value for one in (*bases, job) for key, value in one.items()} if bases else job


def _find_weak(parts: Sequence[Path], wanted: str) -> Sequence[str]:
    """Return why no evaluation of a manifest is sure to fail a pull request: the reasons of the best one."""
    return min(_find_gates(parts, wanted), key=len, default=())


class _Reader(yaml.BaseLoader):
    """Reads every scalar as text, also `on`, and values with a tag of a platform as none."""


_Reader.add_multi_constructor("!", lambda _reader, _tag, _node: "")


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        return _get(yaml.load(path.read_text(encoding="utf-8", errors="replace"), _Reader))  # noqa: S506 - it makes only texts
    except yaml.YAMLError:
        return {}


def _find_evaluations(node: Any, folder: str, weak: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the manifests that the commands and actions of a workflow evaluate, and why each may fail no pull request.

    `folder`: in which they run. `weak`: the reasons of what they are part of.
    """
    if isinstance(node, list):
        for value in node:
            yield from _find_evaluations(value, folder, weak)
    if not isinstance(node, dict):
        return
    folder = (_get(node, "defaults", "run") or node).get("working-directory", folder)
    weak = (*weak, *_list_weak(node))
    if "/evalspec@" in str(node.get("uses")):
        given = _get(node, "with")
        yield _join(given.get("working-directory", "."), given.get("manifest", "agent.yaml")), weak
    for key in ("run", "script", "before_script"):
        script = "\n".join(_list(node.get(key, ())))
        if re.search(r"\bset \+e\b(?!.*\bexit \W*[$])", script, re.DOTALL):
            weak = (*weak, "`set +e` hides the exit code")
        keeps_code = key != "run" or node.get("shell") == "bash" or "pipefail" in script
        for manifest, operator in _read_script(script, folder):
            is_lost = operator in ("||", "&") or (operator == "|" and not keeps_code)
            yield manifest, (*weak, f"what follows `{operator}` decides the exit code") if is_lost else weak
    for value in (value for key, value in node.items() if key not in ("env", "variables")):
        yield from _find_evaluations(value, folder, weak)


def _read_script(script: str, folder: str) -> Iterator[tuple[str, str]]:
    """Yield the manifests that a script evaluates, and the operator `|`, `||` or `&` behind it; without one: ""."""
    for line in re.split(r"&&|;|\n", script.replace("\\\n", " ")):
        command = _COMMENT.sub("", line)
        change, evaluate = _CHANGE_FOLDER.fullmatch(command), _EVALUATE.fullmatch(command)
        if change:
            folder = _join(folder, change["folder"])
        elif evaluate and not re.search(r"\s(?:--help|-h|--dry-run)\b", evaluate[1]):
            manifest, operator = _MANIFEST.search(evaluate[1]), _OPERATOR.search(evaluate[1])
            yield _join(folder, manifest[1] if manifest else "agent.yaml"), operator[0] if operator else ""


def _runs_for_requests(rules: Any) -> bool:
    """Return whether the first rule of GitLab that is about merge requests lets a job run, and fail.

    What a tag stands for is not visible.
    """
    for rule in map(_get, rules):
        condition = rule.get("if", "").strip()
        if not condition or _REQUEST.fullmatch(condition):
            return rule.get("when", "on_success") in _SURE and rule.get("allow_failure", "false") == "false"
    return False


def _holds(condition: str) -> bool:
    """Return whether a condition of GitHub holds for pull requests."""
    alternatives = re.sub(r"\$\{\{|\}\}", "", condition).split("||")
    return any(all(map(_HELD.fullmatch, one.split("&&"))) for one in alternatives)


_SURE = ("always", "on_success")
_WEAK: Mapping[str, Callable[[Any], bool]] = {
    "if": lambda value: not _holds(str(value)),
    "continue-on-error": lambda value: value != "false",
    "allow_failure": lambda value: value != "false" and "1" in _list(_get(value).get("exit_codes", "1")),
    "when": lambda value: value not in _SURE,
    "rules": lambda value: isinstance(value, list) and not _runs_for_requests(value),
    "except": lambda value: not {"merge_requests", "branches"}.isdisjoint(_list(_get(value).get("refs", value))),
    "only": lambda value: not {"merge_requests", "branches"} & {*_list(_get(value).get("refs", value))},
}
"""Keys of a job or step that may keep a failed gate from failing a pull request, and whether a value does."""
_FIX_WEAK = "change it: every pull request has to run the gate and to fail with it"


def _list_weak(node: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(_describe_key(key, node[key]) for key, is_weak in _WEAK.items() if key in node and is_weak(node[key]))


def _describe_key(key: str, value: Any) -> str:
    shown = f": {value}" if isinstance(value, str) else ""
    return f"not sure to fail a pull request, because of `{key}{shown}`"


def _get(node: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}


def _list(value: Any) -> list[str]:
    """Return a text or the texts of a list, also of lists in it; of a mapping its keys."""
    return [value] if isinstance(value, str) else [text for one in value for text in _list(one)]


def _join(*parts: Any) -> str:
    return posixpath.normpath(posixpath.join(*map(str, parts)))
