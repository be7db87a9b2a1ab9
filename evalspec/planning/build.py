"""Build a plan from a manifest and options, or report all problems."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evalspec.agents.base import AgentTarget
from evalspec.agents.replay import load_recorded, unknown_ids
from evalspec.datasets.selection import select_samples
from evalspec.datasets.spooling import spool
from evalspec.errors import InvalidInput, Problem
from evalspec.http.routes import check_certificates, check_proxy
from evalspec.judge.services import JudgeServices
from evalspec.manifest.loader import LoadedManifest
from evalspec.manifest.schema import CiGate, JudgeConfig
from evalspec.model import AgentReply, Need, Sample
from evalspec.planning.checks import check_judge, check_manifest
from evalspec.planning.draft import Draft, PlannedDataset, needs_of, start_draft
from evalspec.planning.inputs import existing_baseline
from evalspec.planning.opening import open_retrievers
from evalspec.planning.options import RunOptions
from evalspec.planning.services import (
    EMBEDDINGS_PLACE,
    JUDGE_PLACE,
    resolve_config,
    resolve_embeddings,
    resolve_judge,
    resolve_target,
    resolve_url,
)
from evalspec.reporters.wording import counted
from evalspec.retrievers.base import Retriever
from evalspec.retrievers.vectors import KnownVectors

_STRANGERS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked plan of a run.

    At most one of `target` and `replies` is set; neither is if all replies are stored or all datasets use retrievers.
    `baseline`: the gate's baseline file, if it has one and the file exists.
    """

    loaded: LoadedManifest
    options: RunOptions
    datasets: tuple[PlannedDataset, ...]
    policy: CiGate
    services: JudgeServices
    judge: JudgeConfig | None
    url: str | None
    target: AgentTarget | None
    replies: dict[str, AgentReply] | None
    warnings: tuple[Problem, ...]
    partial: bool
    baseline: Path | None = None

    @property
    def total(self) -> int:
        """Return the number of attempts: samples times repeats."""
        return sum(len(dataset.samples) for dataset in self.datasets) * self.options.repeat

    @property
    def opened(self) -> list[Retriever]:
        """Return the opened retrievers without duplicates. The caller must close them."""
        found = [dataset.retriever.opened for dataset in self.datasets if dataset.retriever is not None]
        return list({id(one): one for one in found if one is not None}.values())

    @property
    def judged(self) -> bool:
        """Return whether any score needs the judge."""
        return Need.JUDGE in needs_of(self.datasets)

    @property
    def gates_latency(self) -> bool:
        """Return whether a threshold limits latency."""
        return any("latency_" in t.metric for d in self.datasets for t in d.thresholds)


def build_plan(loaded: LoadedManifest, options: RunOptions, known: KnownVectors | None = None) -> Plan:
    """Check the manifest, select the samples, and resolve the services that this run needs.

    `known`: document vectors from other plans of the same command; new ones are added.

    Raises:
        InvalidInput: with all problems, before the first request.
    """
    draft = start_draft(loaded, options)
    judge = loaded.manifest.spec.evaluation.judge  # may be an argument of the caller, in place of the file's
    loaded.references.learn([loaded.source.data, judge.api_key if judge else None])
    if options.responses is not None and options.repeat > 1:
        fix = "query a live agent, or remove the option"
        draft.problems.append(Problem("recorded replies are the same each time", fix, field="--repeat"))
    replies = _replies(draft)
    checked = check_manifest(draft)
    check_judge(draft, checked)
    wanted = [dataset for dataset in checked if draft.wants(dataset.name)]
    needs_url = options.needs_url and any(dataset.is_at_agent for dataset in wanted)
    url = resolve_url(loaded, options.url, draft.problems) if needs_url else None
    draft.raise_problems()
    if replies is not None:
        _warn_of_strangers(draft, replies, wanted)
        _check_overlap(draft, replies, wanted)
        draft.raise_problems()
    datasets = select_datasets(draft, wanted)
    asks_agent = any(dataset.retriever is None for dataset in datasets)
    target = resolve_target(loaded, url, options.timeout, draft.problems) if url and asks_agent else None
    needs = needs_of(datasets)
    judge = _resolve_services(draft, needs)
    _check_routes(draft, target, judge, needs)
    draft.raise_problems()
    if not options.has_replies:
        datasets = open_retrievers(draft, datasets, url, {} if known is None else known)
    draft.raise_problems()
    return Plan(
        loaded=loaded,
        options=options,
        datasets=datasets,
        policy=loaded.manifest.spec.evaluation.ci_gate,
        services=draft.services,
        judge=judge,
        url=url,
        target=target,
        replies=replies,
        warnings=tuple(draft.warnings),
        partial=len(datasets) < len(wanted) or any(len(one.samples) < one.available for one in datasets),
        baseline=existing_baseline(loaded),
    )


def _replies(draft: Draft) -> dict[str, AgentReply] | None:
    path = draft.options.responses
    if path is None:
        return None
    try:
        return load_recorded(path, str(path), draft.warnings)
    except InvalidInput as error:
        draft.problems.extend(error.problems)
        return {}


def _warn_of_strangers(draft: Draft, replies: dict[str, AgentReply], datasets: Sequence[PlannedDataset]) -> None:
    """Warn about recorded replies that match no sample, a sign of the wrong file."""
    strangers = unknown_ids(replies, {sample.id for dataset in datasets for sample in dataset.samples})
    if strangers:
        shown = ", ".join(strangers[:_STRANGERS_SHOWN]) + (", …" if len(strangers) > _STRANGERS_SHOWN else "")
        message = f"{len(strangers)} of {len(replies)} recorded replies match no sample: {shown}"
        draft.warnings.append(Problem(message, file=str(draft.options.responses)))


def _check_overlap(draft: Draft, replies: dict[str, AgentReply], datasets: Sequence[PlannedDataset]) -> None:
    """Reject recorded rankings that share no id with the ground truth: every score would silently be 0."""
    for dataset in datasets:
        judged = {document for sample in dataset.samples for document in sample.qrels or ()}
        answers = [replies[sample.id] for sample in dataset.samples if sample.id in replies]
        retrieved = [document for reply in answers for document in reply.retrieved_context_ids or ()]
        if judged and retrieved and judged.isdisjoint(retrieved):
            message = f"no retrieved id occurs in the ground truth of '{dataset.name}': '{retrieved[0]}' against "
            fix = "use the same document ids in both files"
            problem = Problem(f"{message}'{min(judged)}'", fix, str(draft.options.responses))
            draft.problems.append(problem)


def _resolve_services(draft: Draft, needs: set[Need]) -> JudgeConfig | None:
    """Resolve the configs of the services that this run needs."""
    evaluation = draft.loaded.manifest.spec.evaluation
    judge = resolve_judge(evaluation.judge) if Need.JUDGE in needs else None
    if judge is not None:
        judge = resolve_config(judge, JUDGE_PLACE, draft.loaded, draft.problems)
    embeddings = resolve_embeddings(evaluation.embeddings)
    if Need.EMBEDDINGS in needs:
        embeddings = resolve_config(embeddings, EMBEDDINGS_PLACE, draft.loaded, draft.problems)
    draft.services.configure(judge, embeddings)
    return judge


def _check_routes(draft: Draft, target: AgentTarget | None, judge: JudgeConfig | None, needs: set[Need]) -> None:
    """Check the proxies and certificates of the environment before the first request."""
    embeddings = draft.services.embeddings
    urls = [target.url] if target else []
    urls += [judge.base_url] if judge else []
    urls += [embeddings.base_url] if Need.EMBEDDINGS in needs and embeddings.provider != "local" else []
    found = (check_proxy(url) or check_certificates(url) for url in urls)
    draft.problems.extend(dict.fromkeys(problem for problem in found if problem is not None))


def _stored_ones(draft: Draft, dataset: PlannedDataset) -> Sequence[Sample]:
    """Return the samples chosen by id, or those with stored replies, if the run is limited to them."""
    chosen = (draft.options.only or {}).get(dataset.name)
    if chosen is not None:
        return spool(sample for sample in dataset.samples if sample.id in chosen)
    if draft.options.stored is None:
        return dataset.samples
    wanted = draft.options.stored[dataset.name]
    known = {sample.id for sample in dataset.samples}
    gone = wanted - known
    if gone:
        message = f"{len(gone)} of the stored run's samples are no longer in dataset '{dataset.name}': skipped"
        draft.warnings.append(Problem(message, file=dataset.file))
    return dataset.samples if wanted == known else spool(one for one in dataset.samples if one.id in wanted)


def select_datasets(draft: Draft, chosen: Sequence[PlannedDataset]) -> tuple[PlannedDataset, ...]:
    """Return the selected datasets with their selected samples. Empty ones are skipped with a warning."""
    options = draft.options
    selected = []
    for dataset in chosen:
        if options.stored is not None and dataset.name not in options.stored:
            draft.warnings.append(Problem(f"dataset '{dataset.name}' is not part of the stored run: skipped"))
            continue
        samples = select_samples(
            _stored_ones(draft, dataset),
            tags=options.tags,
            exclude_tags=options.exclude_tags,
            size=options.sample_size,
            seed=options.seed,
        )
        if not samples:
            draft.warnings.append(Problem(f"dataset '{dataset.name}' has no sample with the selected tags: skipped"))
            continue
        if options.sample_size is not None and options.sample_size > len(samples):
            message = f"dataset '{dataset.name}' has only {counted(len(samples), 'sample')}: all are used"
            draft.warnings.append(Problem(message, field="--sample-size"))
        selected.append(replace(dataset, samples=samples))
    if not selected:
        tags = sorted({tag for dataset in chosen for sample in dataset.samples for tag in sample.tags})
        raise InvalidInput("no sample is selected", f"tags of the datasets: {', '.join(tags) or 'none'}")
    return tuple(selected)
