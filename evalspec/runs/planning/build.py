"""Build a plan from a manifest and options, or report all problems."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem, ServiceError
from evalspec.base.output_files import Input
from evalspec.inputs.manifest.environment_schema import EnvironmentConfig
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.inputs.manifest.judge_schema import JudgeConfig, ModelConfig, UserConfig
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.inputs.manifest.tool_schema import PLACE as TOOLS_PLACE
from evalspec.inputs.manifest.tool_schema import list_destructive
from evalspec.inputs.manifest.traces_schema import TracesConfig
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.inputs.user_code.calls import UserCode, describe_value
from evalspec.inputs.user_code.modules import claim_module, is_imported_here, renew_module
from evalspec.model import JudgePrice, Need
from evalspec.runs.planning.checks import (
    DATASETS_PLACE,
    check_judge,
    check_manifest,
    open_metric_finder,
    require_datasets,
)
from evalspec.runs.planning.datasets import check_overlap, check_questions, read_replies, warn_of_unknown_replies
from evalspec.runs.planning.draft import Draft, PlannedDataset, needs_of, start_draft
from evalspec.runs.planning.inputs import (
    existing_baseline,
    find_policy,
    list_inputs,
    list_removed,
    read_gate_baseline,
)
from evalspec.runs.planning.options import SAME, RunOptions
from evalspec.runs.planning.passes import check_attempts
from evalspec.runs.planning.selecting import select_datasets
from evalspec.runs.planning.services import (
    API_PLACE,
    EMBEDDINGS_PLACE,
    ENDPOINT_PLACE,
    ENVIRONMENT_PLACE,
    JUDGE_PLACE,
    USER_PLACE,
    check_auth,
    check_batch,
    choose_traces,
    locate_keys,
    name_limit,
    read_price,
    resolve_config,
    resolve_embeddings,
    resolve_judge,
    resolve_target,
    resolve_url,
    resolve_user,
)
from evalspec.runs.planning.sharding import check_place, find_place
from evalspec.runs.planning.shares import Config, choose_limits, share_pace
from evalspec.scoring.judge.limits import SpendingLimits
from evalspec.scoring.judge.services import JudgeServices
from evalspec.targets.agents.base import AgentTarget
from evalspec.targets.agents.call_thread import find_owner
from evalspec.targets.agents.entry import describe_misfit, is_agent
from evalspec.targets.agents.replay import Replies

if TYPE_CHECKING:
    from evalspec.targets.retrievers.base import Retriever
    from evalspec.targets.retrievers.vectors import KnownVectors
from evalspec.targets.retrievers.base import Retriever
from evalspec.targets.retrievers.vectors import KnownVectors
from evalspec.verdict.wording import is_latency

_LOADING = RLock()
"""Held from the import of an agent until its module is claimed."""


class Plan(Struct, frozen=True):
    """A checked plan of a run.

    At most one of `target`, `agent` (the user's code) and `replies` is set; none is if all replies are stored or all
    datasets use retrievers. `own_agent`: `agent` as module:object, if the manifest names it. `owns_agent`: whether it
    was created for this run, which has to close it. `baseline`: the gate's baseline file, if it has one and the file
    exists. `unchecked`: number of recorded replies that do not say which question they answer. `user`: the model that
    plays the users of samples with goals; None: nobody is played. `traces`: how spans of the agent are received; None:
    they are not.
    """

    loaded: LoadedManifest
    options: RunOptions
    datasets: tuple[PlannedDataset, ...]
    policy: CiGate
    services: JudgeServices
    judge: JudgeConfig | None
    url: str | None
    target: AgentTarget | None
    replies: Replies | None
    agent: Any
    own_agent: str | None
    owns_agent: bool
    warnings: tuple[Problem, ...]
    partial: bool = False
    baseline: Path | None = None
    unchecked: int = 0
    environment: EnvironmentConfig | None = None
    user: UserConfig | None = None
    traces: TracesConfig | None = None

    @property
    def placed_on(self) -> str | None:
        """Return where attempts are worked on, as `ray` or `ray:HOST:PORT`; None: in this process."""
        return find_place(self.loaded, self.options)

    @property
    def total(self) -> int:
        """Return the number of attempts: samples times repeats."""
        return sum(len(dataset.samples) for dataset in self.datasets) * self.options.repeat

    @property
    def opened(self) -> "list[Retriever]":
        """Return the opened retrievers without duplicates. The caller must close them."""
        found = [dataset.retriever.opened for dataset in self.datasets if dataset.retriever is not None]
        return list({id(one): one for one in found if one is not None}.values())

    @property
    def inputs(self) -> list[Input]:
        """Return the files that the run reads."""
        return list_inputs(self.loaded, self.datasets, self.options.replies_file)

    @property
    def judged(self) -> bool:
        """Return whether any score needs the judge."""
        return Need.JUDGE in needs_of(self.datasets)

    @property
    def price(self) -> JudgePrice | None:
        """Return what the judge costs; None if the manifest does not say."""
        return read_price(None if self.judge is None else self.judge.price)

    @property
    def user_price(self) -> JudgePrice | None:
        """Return what the model costs that plays the users; None if the manifest does not say."""
        return read_price(None if self.user is None else self.user.price)

    @property
    def limit_names(self) -> dict[str, str]:
        """Return what sets each limit of the run."""
        return {name: name_limit(name, self.options) for name in SpendingLimits.__struct_fields__}

    @property
    def limits(self) -> SpendingLimits:
        """Return what the run may use at most. Options take the place of the manifest's limits."""
        return choose_limits(self.loaded, self.options)

    @property
    def gates_latency(self) -> bool:
        """Return whether a threshold limits latency."""
        return any(is_latency(t.metric) for d in self.datasets for t in d.thresholds)


def build_plan(
    loaded: LoadedManifest, options: RunOptions, known: "KnownVectors | None" = None, *, is_probe: bool = False
) -> Plan:
    """Check the manifest, select the samples, and resolve the services that this run needs.

    `known`: document vectors from other plans of the same command; new ones are added. `is_probe`: the plan only names
    the services to ask, so it needs no attempts.

    Raises:
        InvalidInput: with all problems, before the first request.
    """
    draft = start_draft(loaded, options)
    judge = loaded.manifest.spec.evaluation.judge  # may be an argument of the caller, in place of the file's
    loaded.references.learn(loaded.source.data)
    loaded.references.learn({"judge": judge.model_dump(by_alias=True, exclude_unset=True)} if judge else {})
    if options.responses is not None and options.repeat > 1:
        fix = "query a live agent, or remove the option"
        draft.problems.append(Problem("recorded replies are the same each time", fix, field="--repeat"))
    replies = read_replies(draft)
    require_datasets(draft)
    checked = check_manifest(draft)
    replies = draft.replies if options.responses == SAME else replies
    check_judge(draft, checked)
    wanted = [dataset for dataset in checked if draft.wants(dataset.name)]
    draft.problems.extend(() if is_probe else check_attempts(loaded, wanted, options.repeat))
    needs_url = draft.needs_url and any(dataset.is_at_agent for dataset in wanted)
    url = resolve_url(loaded, options.url, draft.problems) if needs_url else None
    draft.raise_problems()
    if replies is not None:
        warn_of_unknown_replies(draft, replies, wanted)
        check_overlap(draft, replies, wanted)
        draft.raise_problems()
    baseline = existing_baseline(loaded)
    datasets = select_datasets(draft, list_removed(wanted, read_gate_baseline(baseline)))
    unchecked = check_questions(draft, replies or {}, datasets)
    check_place(draft, datasets)
    plan = _complete(draft, datasets, find_policy(loaded, checked), url, replies, {} if known is None else known)
    partial = len(datasets) < len(wanted) or any(len(one.selected) < one.available for one in datasets)
    return replace(plan, partial=partial, baseline=baseline, unchecked=unchecked)


def build_part(loaded: LoadedManifest, options: RunOptions, metrics: Mapping[str, Sequence[MetricEntry]]) -> Plan:
    """Return a plan that scores these metrics, by dataset, and asks the agent. It reads no dataset: it has no samples.

    Raises:
        InvalidInput: with all problems, before the first request.
    """
    draft = start_draft(loaded, options)
    loaded.references.learn(loaded.source.data)
    finder = open_metric_finder(draft)
    datasets = []
    for index, config in enumerate(loaded.manifest.spec.evaluation.datasets):
        if config.name in metrics:
            dataset = PlannedDataset(config, (*DATASETS_PLACE, index))
            finder.dataset = config.name
            found = (finder.find(entry, dataset.place, dataset.rules) for entry in metrics[config.name])
            dataset.metrics = {metric.name: metric for metric in found if metric is not None}
            datasets.append(dataset)
    url = resolve_url(loaded, options.url, draft.problems) if draft.needs_url else None
    draft.raise_problems()
    return _complete(draft, tuple(datasets), loaded.manifest.spec.evaluation.ci_gate, url)


def _complete(
    draft: Draft,
    datasets: tuple[PlannedDataset, ...],
    policy: CiGate,
    url: str | None,
    replies: Replies | None = None,
    known: "KnownVectors | None" = None,
) -> Plan:
    """Return the plan of checked datasets, with the services that it needs resolved."""
    loaded, options = draft.loaded, draft.options
    asks_agent = any(dataset.retriever is None for dataset in datasets)
    target = resolve_target(loaded, url, options.timeout, draft.problems, draft.tools) if url and asks_agent else None
    needs = needs_of(datasets)
    judge = _resolve_services(draft, needs)
    user = _resolve_user(draft, datasets) if asks_agent else None
    _check_routes(draft, target, [one for one in (judge, user) if one is not None], needs)
    draft.raise_problems()
    asks_agent = asks_agent and not options.dry_run
    if asks_agent and draft.own_agent is not None:
        with _LOADING:
            renew_module(loaded.path.parent, _name_module(draft.own_agent))  # before retrievers import from it
    if not options.has_replies and any(dataset.retriever is not None for dataset in datasets):
        from evalspec.runs.planning.opening import open_retrievers

        datasets = open_retrievers(draft, datasets, url, {} if known is None else known)
    draft.raise_problems()
    agent, owns_agent = _load_agent(draft) if asks_agent else (options.agent, False)
    return Plan(
        loaded=loaded,
        options=options,
        datasets=datasets,
        policy=policy,
        services=draft.services,
        judge=judge,
        url=url,
        target=target,
        replies=replies,
        agent=agent,
        own_agent=draft.own_agent if asks_agent or options.dry_run else None,
        owns_agent=owns_agent,
        warnings=tuple(draft.warnings),
        environment=_resolve_environment(draft) if asks_agent else None,
        user=user,
        traces=choose_traces(loaded, options) if asks_agent else None,
    )


def _resolve_user(draft: Draft, datasets: Sequence[PlannedDataset]) -> UserConfig | None:
    """Return the model that plays users, with its references resolved; None if the run has no such user."""
    config = resolve_user(draft.loaded.manifest.spec.evaluation.user)
    if config is None or draft.options.has_replies or not any(one.survey.users.count for one in datasets):
        return None
    return _resolve_model(draft, config, USER_PLACE)


def _resolve_model(draft: Draft, config: Config, place: Place) -> Config:
    """Return a model with its references resolved, and with this shard's part of its pace."""
    resolved = resolve_config(config, place, draft.loaded, draft.problems)
    return share_pace(resolved, place, draft.options.shard, draft.loaded, draft.problems)


def _resolve_environment(draft: Draft) -> EnvironmentConfig | None:
    """Return the environment with its references resolved.

    Raises:
        InvalidInput: a reference has no value, or a tool that destroys has no world that can be reset.
    """
    config = draft.loaded.manifest.spec.evaluation.environment
    if config is not None:
        config = resolve_config(config, ENVIRONMENT_PLACE, draft.loaded, draft.problems)
    destructive = list_destructive(draft.loaded, draft.tools)
    if (config is None or config.reset is None) and destructive and not draft.options.allow_actions:
        missing = "no environment is declared" if config is None else "the environment has no reset"
        fix = (
            "declare spec.evaluation.environment with reset, or pass --allow-actions if the agent acts on nothing real"
        )
        draft.add(TOOLS_PLACE, f"the tool {destructive[0]} can destroy, and {missing}", fix)
    draft.raise_problems()
    return config


def _name_module(target: str) -> str:
    return target.partition(":")[0]


def _load_agent(draft: Draft) -> tuple[Any, bool]:
    """Return the agent in the user's code, or None, and whether it was created for this run, which has to close it.

    Raises:
        InvalidInput: importing the module raises, or the object is no agent.
    """
    target, folder = draft.own_agent, draft.loaded.path.parent
    if target is None:
        return draft.options.agent, False
    module = _name_module(target)
    with _LOADING:
        agent = _import_agent(draft, target)
        if find_owner(agent) is None or not is_imported_here(folder, module):
            return agent, False
        if not claim_module(folder, module):  # a run that began at the same time has it
            renew_module(folder, module)
            agent = _import_agent(draft, target)
            claim_module(folder, module)
        return agent, True


def _import_agent(draft: Draft, target: str) -> Any:
    """Return the agent of the manifest. Imports its module, which runs it."""
    place = (*API_PLACE, "python")
    try:
        agent = UserCode(target, draft.loaded.path.parent, ServiceError).load()
    except ServiceError as error:
        raise InvalidInput(draft.loaded.problem(place, f"{target} cannot be imported: {error}")) from error
    if not is_agent(agent):
        message = f"{target} is {describe_value(agent)}"
        raise InvalidInput(draft.loaded.problem(place, message, "name a function, or an object that can be called"))
    misfit = describe_misfit(agent)
    if misfit is not None:
        message = f"{target} cannot be called with one question: {misfit}"
        fix = "name a function of one question, or a class with __call__(self, question)"
        raise InvalidInput(draft.loaded.problem(place, message, fix))
    return agent


def _resolve_services(draft: Draft, needs: set[Need]) -> JudgeConfig | None:
    evaluation = draft.loaded.manifest.spec.evaluation
    judge = resolve_judge(evaluation.judge) if Need.JUDGE in needs else None
    if judge is not None:
        judge = _resolve_model(draft, judge, JUDGE_PLACE)
    check_batch(judge, draft.options, draft.problems)
    embeddings = resolve_embeddings(evaluation.embeddings)
    if Need.EMBEDDINGS in needs:
        embeddings = resolve_config(embeddings, EMBEDDINGS_PLACE, draft.loaded, draft.problems)
    draft.services.configure(judge, embeddings, locate_keys(draft.loaded))
    return judge


def _check_routes(draft: Draft, target: AgentTarget | None, models: Sequence[ModelConfig], needs: set[Need]) -> None:
    """Check the proxies, the certificates and the credentials before the first request."""
    embeddings = draft.services.embeddings
    named = [(target.url, target.endpoint.auth, ENDPOINT_PLACE)] if target else []
    for one in models:
        members = one.members if isinstance(one, JudgeConfig) else [one]
        place = JUDGE_PLACE if isinstance(one, JudgeConfig) else USER_PLACE
        named += [(member.base_url, member.auth, place) for member in members]
    if Need.EMBEDDINGS in needs and embeddings.provider != "local":
        named.append((embeddings.base_url, embeddings.auth, EMBEDDINGS_PLACE))
    if not named:
        return
    urls = [url for url, _, _ in named]
    for _, auth, place in () if draft.problems else named:
        check_auth(auth, place, draft.loaded, draft.problems)
    from evalspec.targets.http.routes import check_certificates, check_proxy

    found = (check_proxy(url) or check_certificates(url) for url in urls)
    draft.problems.extend(dict.fromkeys(problem for problem in found if problem is not None))
