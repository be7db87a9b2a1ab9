"""The fingerprint of a run's inputs, stored in run.json. It is used to compare, resume and audit runs."""

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from evalspec import __version__
from evalspec.base.json_text import compute_digest
from evalspec.base.text import strip_userinfo
from evalspec.inputs.manifest.agent_schema import UNUSED_API_KEYS
from evalspec.inputs.manifest.references import is_public
from evalspec.inputs.manifest.schema import Manifest
from evalspec.model import Sample
from evalspec.model.fingerprints import UNCHECKED
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.outlining import (
    describe_embeddings,
    describe_judge,
    describe_retrievers,
    hash_module,
    identify_metric,
)
from evalspec.runs.runner.ci_variables import describe_ci_build
from evalspec.runs.runner.command_code import describe_code
from evalspec.verdict.outline import RunOutline

_ENGINES = ("ragas", "wordllama", "sacrebleu", "rapidfuzz")
_DIGEST_LENGTH = 12


def compute_fingerprint(plan: Plan, started: datetime) -> dict[str, Any]:
    """Return manifest, datasets, selection, agent, judge and versions as JSON values.

    References are resolved and not yet redacted. A value that may be redacted or is too large to store has a digest.
    """
    options, loaded = plan.options, plan.loaded
    url = strip_userinfo(plan.target.url) if plan.target else None
    judge, retrievers = describe_judge(plan), describe_retrievers(plan)
    ci = describe_ci_build(os.environ)
    return {
        "startedAt": started.isoformat(timespec="seconds"),
        "manifest": {
            "path": str(loaded.path),
            "sha256": sha256(loaded.path.read_bytes()).hexdigest(),
            "fields": _digest_fields(_dump_spec(loaded.manifest)),
        },
        "agent": {
            "name": loaded.manifest.metadata.name,
            "version": loaded.manifest.metadata.version,
            "url": url,
            "sha256": compute_digest(url) if url else None,
            "function": _name_agent(plan),
            "codeSha256": hash_module(plan, plan.own_agent) if plan.own_agent else None,
            "endpointSha256": _digest_endpoint(plan),
            **describe_code(plan),
        },
        "responses": _describe_responses(plan),
        "recorded": plan.options.responses is not None,
        "replies": {UNCHECKED: plan.unchecked},
        "datasets": [
            {
                "name": dataset.name,
                "file": dataset.file,
                "sha256": dataset.sha256,
                "available": dataset.available,
                "selected": len(dataset.samples),
                **_digest_samples(dataset.samples),
                "metrics": [metric.name for metric in dataset.metrics],
                "metricIdentities": {metric.name: identify_metric(plan, metric) for metric in dataset.metrics},
                **({} if dataset.part is None else {"part": dict(dataset.part)}),
            }
            for dataset in plan.datasets
        ],
        "selection": options.describe_selection(),
        "retrievers": retrievers,
        "retrieversSha256": compute_digest(retrievers),
        "repeats": {"agent": options.repeat, "judge": options.judge_repeat},
        "noJudge": options.no_judge,
        "noContent": options.no_content,
        "judge": judge,
        "judgeSha256": compute_digest(judge),
        "embeddings": describe_embeddings(plan),
        "embeddingsSha256": compute_digest(describe_embeddings(plan)),
        "versions": {"evalspec": __version__, "python": platform.python_version(), **_engines()},
        **({} if ci is None else {"ci": ci}),
    }


def _digest_samples(samples: Iterable[Sample]) -> dict[str, str]:
    """Return a digest of the ids of the selected samples, and one of their contents too."""
    contents = {sample.id: sample.digest for sample in samples}
    return {"selectionSha256": compute_digest(list(contents)), "samplesSha256": compute_digest(list(contents.items()))}


def _dump_spec(manifest: Manifest) -> dict[str, Any]:
    """Return the given fields of `spec.api` and `spec.evaluation`, except `reuse` and the keys
    of AgentSpec that are not used.

    They are parts of a dump of the whole manifest, because dumping a part by itself would build a serializer for it.
    """
    read: Any = {"spec": {"api", "evaluation"}}
    ignored: Any = {"spec": {"api": {"reuse", "headers", *UNUSED_API_KEYS}}}
    return manifest.model_dump(mode="json", by_alias=True, exclude_unset=True, include=read, exclude=ignored)


def public_part(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fingerprint for reports, without the digests of single fields and values."""
    manifest = {key: value for key, value in fingerprint.get("manifest", {}).items() if key != "fields"}
    return {key: value for key, value in fingerprint.items() if key != "references"} | {"manifest": manifest}


def list_changes(stored: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the changes since a run was started, one line per change. Empty if the run can be resumed."""
    return [*_manifest_changes(stored, now), *_dataset_changes(stored, now), *_other_changes(stored, now)]


def _manifest_changes(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    before, after = stored["manifest"]["fields"], now["manifest"]["fields"]
    for field in sorted(before.keys() | after.keys()):
        if before.get(field) != after.get(field):
            change = "was added" if field not in before else "was removed" if field not in after else "changed"
            yield f"manifest: {field} {change}"


def _dataset_changes(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    before = {dataset["name"]: dataset for dataset in stored["datasets"]}
    after = {dataset["name"]: dataset for dataset in now["datasets"]}
    for name in sorted(before.keys() ^ after.keys()):
        yield f"selection: dataset {name} was {'not ' if name in after else ''}part of the run"
    for name in sorted(before.keys() & after.keys()):
        if before[name]["samplesSha256"] != after[name]["samplesSha256"]:
            is_same_file = before[name]["sha256"] == after[name]["sha256"]
            what = "selection: the samples of dataset {}" if is_same_file else f"dataset {{}}: {after[name]['file']}"
            yield f"{what.format(name)} changed"


def _other_changes(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if stored["agent"]["sha256"] != now["agent"]["sha256"]:
        yield f"agent: the url was {stored['agent']['url']} and is now {now['agent']['url']}"
    elif stored["agent"]["endpointSha256"] != now["agent"]["endpointSha256"]:
        yield "agent: a file or variable that spec.api.chatEndpoint refers to changed"
    if stored["agent"].get("function") != now["agent"]["function"]:
        yield "agent: the function changed"
    elif stored["agent"].get("codeSha256") != now["agent"]["codeSha256"]:
        yield f"agent: the code of {now['agent']['function'] or 'spec.api.command'} changed"
    if stored["agent"].get("gitSha256") not in (None, now["agent"].get("gitSha256")):
        newest = ", ".join(now["agent"].get("gitNewest") or ["see git log"])
        yield f"agent: files of the project changed (last: {newest}); .gitignore may name what the agent writes"
    if (stored["responses"] or {}).get("sha256") != (now["responses"] or {}).get("sha256"):
        yield "agent: the recorded replies changed"
    for name in sorted(_retrievers_changed(stored, now)):
        yield f"retriever: the retriever of dataset {name} or its settings changed"
    for key, what in _COMPARED.items():
        if stored[key] != now[key]:
            yield what
    yield from _option_changes(stored, now)


def _option_changes(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for key, option in _FLAGS.items():
        if stored[key] != now[key]:
            yield f"{option} was given when the run began" if stored[key] else f"the run began without {option}"
    for key, option in _COUNTS.items():
        if stored["repeats"][key] != now["repeats"][key]:
            yield f"{option} was {stored['repeats'][key]} and is now {now['repeats'][key]}"


def _retrievers_changed(stored: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Return the names of datasets with another retriever or other settings.

    Empty for runs of releases that did not store retrievers.
    """
    if stored.get("retrieversSha256") in (None, now["retrieversSha256"]):
        return set()
    before, after = stored["retrievers"], now["retrievers"]
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


_COMPARED = {
    "judgeSha256": "judge: model, address or parameters changed",
    "embeddingsSha256": "embeddings: provider, model or address changed",
}
_FLAGS = {"noContent": "--no-content", "noJudge": "--no-judge"}
_COUNTS = {"agent": "--repeat", "judge": "--judge-repeat"}


def list_metric_changes(stored: RunOutline, now: RunOutline) -> list[str]:
    """Return metrics whose code or packages changed although the manifest did not, one line per metric."""
    before = {(dataset.name, metric.name): metric.key for dataset in stored.datasets for metric in dataset.metrics}
    return [
        f"metric {metric.name} of dataset {dataset.name}: its code or a package that computes it changed"
        for dataset in now.datasets
        for metric in dataset.metrics
        if before.get((dataset.name, metric.name), metric.key) != metric.key
    ]


def _name_agent(plan: Plan) -> str | None:
    return plan.own_agent or (None if plan.agent is None else _name_function(plan.agent))


def _name_function(function: Callable[..., Any]) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{named.__qualname__}"


def _digest_endpoint(plan: Plan) -> str | None:
    """Return a digest of the endpoint with references resolved, or None without a target.

    Headers are omitted because tokens may change daily. Headers with `:public` values are included: if a tenant changed
    midway, the run would measure two agents.
    """
    if plan.target is None:
        return None
    asked = plan.target.endpoint.model_dump(mode="json", exclude={"headers", "timeout_seconds"})
    for part, key in ((asked, "parameters"), (asked["response"], "done"), (asked["response"], "error")):
        if part and not part[key]:  # runs of releases without these keys can be resumed
            del part[key]
    written = plan.loaded.manifest.spec.api.chat_endpoint.headers
    public = {name: plan.target.headers[name] for name, text in written.items() if is_public(text)}
    hidden = plan.loaded.references.redact_data(public)
    return compute_digest(asked | ({"headers": hidden} if public else {}))


def _describe_responses(plan: Plan) -> dict[str, Any] | None:
    if plan.options.responses is None or plan.replies is None:
        return None
    replies = [[*key, _to_plain(found.reply), found.error] for key, found in plan.replies.items()]
    return {"path": str(plan.options.responses), "sha256": compute_digest(replies)}


def _to_plain(value: Any) -> Any:
    """Return a record, with nested records, as JSON values by field name."""
    return {key: _to_plain(part) for key, part in asdict(value).items()} if isinstance(value, Struct) else value


def _digest_fields(values: Mapping[str, Any]) -> dict[str, str]:
    """Return each field with a digest of its value: enough to detect a change, too short to reveal a secret."""
    return {path: compute_digest(value)[:_DIGEST_LENGTH] for path, value in _leaves(values, "")}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, value


def _engines() -> dict[str, str]:
    found = {}
    for package in _ENGINES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
