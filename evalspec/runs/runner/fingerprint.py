"""The fingerprint of a run's inputs, stored in run.json. It is used to compare, resume and audit runs."""

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from evalspec import __version__
from evalspec.base.json_text import compute_digest
from evalspec.base.text import strip_userinfo
from evalspec.inputs.manifest.agent_schema import UNUSED_API_KEYS
from evalspec.inputs.manifest.references import is_public
from evalspec.inputs.manifest.schema import Manifest
from evalspec.model.fingerprints import (
    AgentDigest,
    DatasetDigest,
    Fingerprint,
    ManifestDigest,
    Repeats,
    RepliesFile,
    ReplyCounts,
)
from evalspec.model.shards import Shard
from evalspec.runs.planning.build import Plan
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.outlining import (
    describe_embeddings,
    describe_judge,
    describe_model,
    describe_retrievers,
    hash_module,
    identify_metric,
    identify_passes,
)
from evalspec.runs.planning.passes import list_passes
from evalspec.runs.runner.ci_variables import detect_ci_build
from evalspec.runs.runner.command_code import describe_code
from evalspec.scoring.judge.limits import SpendingLimits
from evalspec.verdict.outline import RunOutline

_ENGINES = ("ragas", "wordllama", "sacrebleu", "rapidfuzz")
_DIGEST_LENGTH = 12


def compute_fingerprint(plan: Plan, started: datetime) -> Fingerprint:
    """Return what a run of a plan measures, and with what. References are resolved and not yet redacted."""
    options, loaded = plan.options, plan.loaded
    judge, retrievers = describe_judge(plan), describe_retrievers(plan)
    embeddings = describe_embeddings(plan)
    return Fingerprint(
        started_at=started.isoformat(timespec="seconds"),
        manifest=ManifestDigest(
            str(loaded.path), sha256(loaded.path.read_bytes()).hexdigest(), _digest_fields(_dump_spec(loaded.manifest))
        ),
        agent=_describe_agent(plan),
        responses=_describe_responses(plan),
        recorded=options.responses is not None,
        replies=ReplyCounts(unchecked=plan.unchecked),
        shard=_describe_shard(plan),
        datasets=tuple(_describe_dataset(plan, dataset) for dataset in plan.datasets),
        selection=options.describe_selection(),
        retrievers=retrievers,
        retrievers_sha256=compute_digest(to_builtins(retrievers)),
        repeats=Repeats(options.repeat, options.judge_repeat),
        no_judge=options.no_judge,
        no_content=options.no_content,
        no_cache=options.no_cache,
        fresh=options.fresh,
        judge=judge,
        judge_sha256=compute_digest(to_builtins(judge)),
        judge_price=plan.price,
        user=None if plan.user is None else describe_model(plan.user),
        user_price=plan.user_price,
        limits=describe_limits(options),
        embeddings=embeddings,
        embeddings_sha256=compute_digest(embeddings),
        versions=list_versions(),
        ci=detect_ci_build(os.environ),
        baseline=None if loaded.fetched is None else loaded.fetched[1],
    )


def list_versions() -> dict[str, str]:
    """Return the versions of evalspec, Python and the packages that compute scores."""
    return {"evalspec": __version__, "python": platform.python_version(), **_engines()}


def _describe_shard(plan: Plan) -> Shard | None:
    shard = plan.options.shard
    if shard is None:
        return None
    whole = {one.name: digest_selection((sample.id, sample.digest) for sample in one.selected) for one in plan.datasets}
    return replace(shard, selection_sha256=digest_whole(whole))


def digest_whole(selections: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the digest of all samples of a run. `selections`: of its datasets, by name."""
    return compute_digest([(name, found["samples_sha256"]) for name, found in selections.items()])


def digest_selection(samples: Iterable[tuple[str, str | None]]) -> dict[str, Any]:
    """Return what a DatasetDigest says about its selected samples. `samples`: their ids, with their digests."""
    contents = dict(samples)
    return {
        "selected": len(contents),
        "selection_sha256": compute_digest(list(contents)),
        "samples_sha256": compute_digest(list(contents.items())),
    }


def describe_limits(options: RunOptions) -> dict[str, float]:
    """Return the options that limit what a run may use, by name."""
    given = {name: getattr(options, name) for name in SpendingLimits.__struct_fields__}
    return {name: value for name, value in given.items() if value is not None}


def _describe_agent(plan: Plan) -> AgentDigest:
    metadata = plan.loaded.manifest.metadata
    url = strip_userinfo(plan.target.url) if plan.target else None
    known = AgentDigest(
        name=metadata.name,
        version=metadata.version,
        url=url,
        sha256=compute_digest(url) if url else None,
        function=_name_agent(plan),
        code_sha256=hash_module(plan.loaded.path.parent, plan.own_agent) if plan.own_agent else None,
        endpoint_sha256=_digest_endpoint(plan),
    )
    return replace(known, **describe_code(plan))


def _describe_dataset(plan: Plan, dataset: PlannedDataset) -> DatasetDigest:
    return DatasetDigest(
        name=dataset.name,
        file=dataset.file,
        sha256=dataset.data.sha256,
        available=dataset.available,
        **digest_selection((sample.id, sample.digest) for sample in dataset.samples),
        metrics=tuple(dataset.metrics),
        metric_identities={
            **{name: identify_metric(plan, metric) for name, metric in dataset.metrics.items()},
            **{str(one.spec): identify_passes(plan, dataset, one) for one in list_passes(dataset)},
        },
        part=dataset.part,
    )


def _dump_spec(manifest: Manifest) -> dict[str, Any]:
    """Return the given fields of `spec.api` and `spec.evaluation`, except those that change no measurement: `reuse`,
    limits, prices, and the keys of AgentSpec that are not used.

    They are parts of a dump of the whole manifest, because dumping a part by itself would build a serializer for it.
    """
    read: Any = {"spec": {"api", "evaluation"}}
    ignored: Any = {
        "spec": {
            "api": {"reuse", "headers", *UNUSED_API_KEYS},
            "evaluation": {"limits": True, "run": True, "judge": {"price"}, "user": {"price"}},
        }
    }
    return manifest.model_dump(mode="json", by_alias=True, exclude_unset=True, include=read, exclude=ignored)


def public_part(fingerprint: Fingerprint) -> Fingerprint:
    """Return the fingerprint for reports, without the digests of single fields and values."""
    manifest = fingerprint.manifest and replace(fingerprint.manifest, fields={})
    return replace(fingerprint, manifest=manifest, references={})


def list_changes(stored: Fingerprint, now: Fingerprint) -> list[str]:
    """Return the changes since a run was started, one line per change. Empty if the run can be resumed."""
    return [*_manifest_changes(stored, now), *_dataset_changes(stored, now), *_other_changes(stored, now)]


def _manifest_changes(stored: Fingerprint, now: Fingerprint) -> Iterator[str]:
    before, after = ((one.manifest or ManifestDigest()).fields for one in (stored, now))
    for field in sorted(before.keys() | after.keys()):
        if before.get(field) != after.get(field):
            change = "was added" if field not in before else "was removed" if field not in after else "changed"
            yield f"manifest: {field} {change}"


def _dataset_changes(stored: Fingerprint, now: Fingerprint) -> Iterator[str]:
    before = {dataset.name: dataset for dataset in stored.datasets}
    after = {dataset.name: dataset for dataset in now.datasets}
    for name in sorted(before.keys() ^ after.keys()):
        yield f"selection: dataset {name} was {'not ' if name in after else ''}part of the run"
    for name in sorted(before.keys() & after.keys()):
        if before[name].samples_sha256 != after[name].samples_sha256:
            is_same_file = before[name].sha256 == after[name].sha256
            what = "selection: the samples of dataset {}" if is_same_file else f"dataset {{}}: {after[name].file}"
            yield f"{what.format(name)} changed"


def _other_changes(stored: Fingerprint, now: Fingerprint) -> Iterator[str]:
    if stored.shard != now.shard:
        yield f"selection: the run was {_name_shard(stored)} and is now {_name_shard(now)}"
    yield from _agent_changes(stored.agent or AgentDigest(), now.agent or AgentDigest())
    before, after = ((one.responses and one.responses.sha256) for one in (stored, now))
    if before != after:
        yield "agent: the recorded replies changed"
    if stored.retrievers_sha256 != now.retrievers_sha256:
        for name in sorted(stored.retrievers.keys() | now.retrievers.keys()):
            if stored.retrievers.get(name) != now.retrievers.get(name):
                yield f"retriever: the retriever of dataset {name} or its settings changed"
    if stored.judge_sha256 != now.judge_sha256:
        yield "judge: model, address or parameters changed"
    if stored.embeddings_sha256 != now.embeddings_sha256:
        yield "embeddings: provider, model or address changed"
    yield from _option_changes(stored, now)


def _name_shard(fingerprint: Fingerprint) -> str:
    return f"shard {fingerprint.shard}" if fingerprint.shard else "no shard"


def _agent_changes(stored: AgentDigest, now: AgentDigest) -> Iterator[str]:
    if stored.sha256 != now.sha256:
        yield f"agent: the url was {stored.url} and is now {now.url}"
    elif stored.endpoint_sha256 != now.endpoint_sha256:
        around = "a file or code of spec.evaluation.tools or environment"
        yield f"agent: a file or variable that spec.api.chatEndpoint refers to changed, or {around}"
    if stored.function != now.function:
        yield "agent: the function changed"
    elif stored.code_sha256 != now.code_sha256:
        yield f"agent: the code of {now.function or 'spec.api.command'} changed"
    if stored.git_sha256 not in (None, now.git_sha256):
        newest = ", ".join(now.git_newest or ["see git log"])
        yield f"agent: files of the project changed (last: {newest}); .gitignore may name what the agent writes"


def _option_changes(stored: Fingerprint, now: Fingerprint) -> Iterator[str]:
    flags = {
        "--no-content": (stored.no_content, now.no_content),
        "--no-judge": (stored.no_judge, now.no_judge),
    }
    for option, (before, after) in flags.items():
        if before != after:
            yield f"{option} was given when the run began" if before else f"the run began without {option}"
    old, new = (one.repeats or Repeats() for one in (stored, now))
    for option, was, is_now in ("--repeat", old.agent, new.agent), ("--judge-repeat", old.judge, new.judge):
        if was != is_now:
            yield f"{option} was {was} and is now {is_now}"


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
    """Return a digest of the endpoint with references resolved, and of what evalspec plays around the agent.

    None without both. Headers are omitted because tokens may change daily. Headers with `:public` values are included:
    if a tenant changed midway, the run would measure two agents.
    """
    played = _describe_played(plan)
    if plan.target is None:
        return compute_digest(played) if played else None
    asked = plan.target.endpoint.model_dump(mode="json", exclude={"headers", "auth", "poll", "timeout_seconds"})
    for part, key in ((asked, "parameters"), (asked["response"], "done"), (asked["response"], "error")):
        if part and not part[key]:  # runs of releases without these keys can be resumed
            del part[key]
    written = plan.loaded.manifest.spec.api.chat_endpoint.headers
    public = {name: plan.target.headers[name] for name, text in written.items() if is_public(text)}
    hidden = plan.loaded.references.redact_data(public)
    return compute_digest(asked | ({"headers": hidden} if public else {}) | played)


def _describe_played(plan: Plan) -> dict[str, Any]:
    """Return the tools that evalspec plays, and the code of tools and of the world: others would be another agent."""
    player, world = plan.target and plan.target.player, plan.environment
    played = [*player.tools.values()] if player else []
    tools = {tool.name: tool.model_dump(mode="json", exclude_unset=True) for tool in played}
    named = [tool.python for tool in played]
    named += [call.python for call in (world.state, world.reset) if call] if world else []
    targets = sorted({one for one in named if one})
    code = {target: hash_module(plan.loaded.path.parent, target) for target in targets}
    return {key: value for key, value in (("tools", tools), ("code", code)) if value}


def _describe_responses(plan: Plan) -> RepliesFile | None:
    if plan.options.responses is None or plan.replies is None:
        return None
    replies = [[*key, to_builtins(found.reply), found.error] for key, found in plan.replies.items()]
    return RepliesFile(str(plan.options.responses), compute_digest(replies))


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


@cache  # the metadata of a package takes a millisecond or two to read
def _engines() -> Mapping[str, str]:
    found = {}
    for package in _ENGINES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
