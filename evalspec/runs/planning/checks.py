"""Check the whole manifest and its datasets: all problems at once, no calls, no secrets resolved."""

from collections.abc import Sequence

from msgspec.structs import replace

from evalspec.base.errors import Problem, split_fix
from evalspec.base.plural import counted, pluralize
from evalspec.base.registry import near_miss
from evalspec.inputs.datasets.filters import TAGS
from evalspec.inputs.datasets.load import Collect, discard
from evalspec.inputs.datasets.spooling import spool
from evalspec.inputs.manifest.credentials import find_literals
from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.inputs.user_code.calls import check_target
from evalspec.model import Need, Sample, StatedLimit
from evalspec.model.corrections import LABEL_SUFFIXES
from evalspec.runs.planning.copies import CopyFinder, set_units
from evalspec.runs.planning.datasets import check_compat, check_loaders, find_files, find_metrics, load
from evalspec.runs.planning.draft import Draft, PlannedDataset, PlannedRetriever, keep_samples, needs_of, start_draft
from evalspec.runs.planning.expectations import find_undeclared, find_unread
from evalspec.runs.planning.inputs import check_anchors, check_baseline, list_columns
from evalspec.runs.planning.metrics import STANDARD, MetricFinder
from evalspec.runs.planning.options import RunOptions
from evalspec.runs.planning.passes import check_rules
from evalspec.runs.planning.retrievers import (
    RETRIEVERS_PLACE,
    check_retrievers,
    name_variants,
    plan_asking,
    resolve_retriever,
)
from evalspec.runs.planning.selecting import refuse_dropped, select_datasets
from evalspec.runs.planning.services import (
    API_PLACE,
    EMBEDDINGS_PLACE,
    ENDPOINT_PLACE,
    JUDGE_PLACE,
    USER_PLACE,
    check_endpoint,
    check_environment,
    check_limits,
    check_model_wires,
    check_tools,
    check_traces,
    choose_traces,
    explain_bad_url,
    needs_from_mapping,
    read_price,
    resolve_judge,
)
from evalspec.runs.planning.survey import check_needs, describe_others
from evalspec.runs.planning.thresholds import ThresholdFinder
from evalspec.runs.planning.trust_checks import check_services, check_trust
from evalspec.targets.agents.request_template import list_metadata_keys
from evalspec.targets.agents.wire import DEFAULT_WIRE, WIRES, ToolPart
from evalspec.verdict.summary import reply_limits

DATASETS_PLACE: Place = ("spec", "evaluation", "datasets")
_METRICS_PLACE: Place = ("spec", "evaluation", "metrics")
_NO_DATASETS = "there is no dataset, so there is nothing to evaluate"
_ADD_DATASET = "add one, for example: datasets: [{name: core, path: $file:evals/core.jsonl}]"


def check_datasets(loaded: LoadedManifest, options: RunOptions) -> list[PlannedDataset]:
    """Return the selected datasets with metrics, thresholds and all samples, without resolving secrets or any call.

    Raises:
        InvalidInput: with all problems.
    """
    draft = start_draft(loaded, options)
    require_datasets(draft)
    return _check_wanted(draft)


def validate_manifest(
    loaded: LoadedManifest, options: RunOptions, collect: Collect | None = None
) -> tuple[list[Problem], list[Problem], dict[str, int], dict[str, tuple[StatedLimit, ...]]]:
    """Check the manifest and every selected dataset without resolving secrets or calling anything.

    Return warnings, remarks, and by dataset the number of samples and the stated limits. `collect`: gets the samples.
    Without it, samples are kept only if the options select some of them: then their number is returned.

    Raises:
        InvalidInput: with all problems, or no sample is selected.
    """
    draft = start_draft(loaded, options, collect or (keep_samples if options.is_selective else discard))
    if not loaded.manifest.spec.evaluation.datasets:
        draft.warn(DATASETS_PLACE, _NO_DATASETS, _ADD_DATASET)
    url = loaded.manifest.spec.api.url
    if isinstance(url, str) and "$" not in url and (fault := explain_bad_url(url)) is not None:
        draft.add((*API_PLACE, "url"), *fault)
    wanted = _check_wanted(draft)
    options.parse_selection()
    draft.warnings.extend(_unresolved(loaded, wanted))
    limits = {dataset.name: tuple(dataset.limits) for dataset in wanted}
    counts = {dataset.name: dataset.available for dataset in wanted}
    if options.is_selective and wanted:
        counts = {found.name: len(found.samples) for found in select_datasets(draft, wanted)}
    return draft.warnings, draft.remarks, counts, limits


def require_datasets(draft: Draft) -> None:
    """Add a problem if the manifest has no dataset, which is valid but leaves nothing to evaluate."""
    if not draft.loaded.manifest.spec.evaluation.datasets:
        draft.add(DATASETS_PLACE, _NO_DATASETS, _ADD_DATASET)


def _check_wanted(draft: Draft) -> list[PlannedDataset]:
    checked = check_manifest(draft)
    check_judge(draft, checked)
    draft.raise_problems()
    return [dataset for dataset in checked if draft.wants(dataset.name)]


def _unresolved(loaded: LoadedManifest, wanted: Sequence[PlannedDataset]) -> list[Problem]:
    """Return a warning per reference that cannot be resolved here, because the run may be on another machine."""
    spec, needs = loaded.manifest.spec, needs_of(wanted)
    scratch = replace(loaded, references=loaded.references.renew())
    found: list[Problem] = []
    scratch.resolve(spec.api.url, (*API_PLACE, "url"), found)
    scratch.resolve(spec.api.chat_endpoint.model_dump(by_alias=True), ENDPOINT_PLACE, found)
    if Need.EMBEDDINGS in needs:
        scratch.resolve(spec.evaluation.embeddings.model_dump(by_alias=True), EMBEDDINGS_PLACE, found)
    if Need.JUDGE in needs and spec.evaluation.judge is not None:
        scratch.resolve(spec.evaluation.judge.model_dump(by_alias=True), JUDGE_PLACE, found)
    if spec.evaluation.user is not None:
        scratch.resolve(spec.evaluation.user.model_dump(by_alias=True), USER_PLACE, found)
    variants = name_variants(spec.evaluation)
    for name in dict.fromkeys(dataset.retriever.settings.name for dataset in wanted if dataset.retriever is not None):
        key, target = variants[name]
        scratch.resolve(target.model_dump(by_alias=True), (*RETRIEVERS_PLACE, key), found)
    return found


def check_manifest(draft: Draft) -> list[PlannedDataset]:
    """Check the whole manifest, and return the selected datasets. Other datasets are not read."""
    check_trust(draft)
    check_endpoint(draft.loaded, draft.problems, draft.warnings)
    check_environment(draft.loaded, draft.problems)
    check_tools(draft.loaded, draft.tools, draft.problems)
    check_traces(draft.loaded, draft.options, draft.problems, is_python=not draft.needs_url)
    check_model_wires(draft.loaded, draft.problems)
    check_limits(draft.loaded, draft.options, draft.problems)
    for found in check_target(draft.loaded.path.parent, draft.own_agent) if draft.own_agent else ():
        message, fix = split_fix(found)
        draft.add((*API_PLACE, "python"), message, fix)
    if draft.loaded.manifest.spec.api.headers is not None:
        draft.warn((*API_PLACE, "headers"), "these headers are not sent", "move them to spec.api.chatEndpoint.headers")
    for place, _ in find_literals(draft.loaded.source.data):
        fix = "export it as a variable, and write $env:NAME, or ${env:NAME} within a text"
        draft.warn(place, "a credential is written in the manifest", fix)
    check_retrievers(draft)
    checked = _check_datasets(draft)
    _check_gate(draft, checked)
    return checked


def _check_datasets(draft: Draft) -> list[PlannedDataset]:
    """Return every selected dataset, with its metrics, samples, required fields and thresholds checked."""
    evaluation = draft.loaded.manifest.spec.evaluation
    if evaluation.framework != "ragas":
        message = f"framework '{evaluation.framework}' is accepted, but judged metrics use ragas"
        draft.warn(("spec", "evaluation", "framework"), message, "write framework: ragas")
    finder = open_metric_finder(draft)
    thresholds = ThresholdFinder(draft.loaded, finder, draft.warnings)
    _check_names(draft)
    if not evaluation.datasets and evaluation.metrics:
        alone = PlannedDataset(DatasetConfig.model_construct(name="", path=""))
        alone.metrics = finder.find_all(evaluation.metrics, _METRICS_PLACE, STANDARD)
        alone.listed = frozenset(alone.metrics)
        thresholds.shared([alone], evaluation.thresholds)
        return []
    if all(config.metrics is not None for config in evaluation.datasets):
        finder.check_parameters(evaluation.metrics or (), _METRICS_PLACE)
    datasets = [PlannedDataset(config, (*DATASETS_PLACE, index)) for index, config in enumerate(evaluation.datasets)]
    for dataset in datasets:
        _read(draft, dataset, finder)
        thresholds.own(dataset)
        thresholds.add_metrics_of_file(dataset)
    thresholds.shared(datasets, evaluation.thresholds)
    for dataset in datasets:
        thresholds.of_file(dataset)
        thresholds.check_lifts(dataset)
        draft.problems.extend(check_rules(draft.loaded, dataset))
    for dataset in datasets:
        if dataset.retriever is not None or dataset.config.retriever is None or draft.options.has_replies:
            _check_needs(draft, dataset)
        _check_keys(draft, dataset)
        if dataset.retriever is None:
            _check_expectations(draft, dataset)
    for dataset in datasets:
        dataset.retriever = plan_asking(draft, dataset)
        dataset.files = find_files(draft, dataset)
        dataset.passages = _list_passages(draft, dataset)
        dataset.data = dataset.data.keep(_mark_copies(draft, dataset))
    return datasets


def open_metric_finder(draft: Draft) -> MetricFinder:
    """Return what resolves the metrics of a draft. Its problems go to those of the draft."""
    price = read_price(draft.loaded.manifest.spec.api.price)
    return MetricFinder(draft.loaded, draft.services, draft.options.no_judge, draft.problems, draft.tools, price)


def _list_passages(draft: Draft, dataset: PlannedDataset) -> dict[str, str]:
    """Return the texts of the corpus by id, if spans may need them, which often have ids only."""
    is_traced = draft.loaded.manifest.spec.api.traces is not None or draft.options.traces
    documents = (dataset.data.content.documents if is_traced else None) or ()
    return {document.id: document.text for document in documents}


def _read(draft: Draft, dataset: PlannedDataset, finder: MetricFinder) -> None:
    """Read the files of a dataset, if it is selected, and find its retriever and its metrics."""
    check_compat(draft, dataset)
    if draft.wants(dataset.name):
        load(draft, dataset, finder.context)
    dataset.retriever = resolve_retriever(draft, dataset)
    if dataset.retriever is not None:
        check_loaders(draft, dataset)
    dataset.metrics = find_metrics(draft, finder, dataset)
    dataset.listed = frozenset(dataset.metrics)


def _mark_copies(draft: Draft, dataset: PlannedDataset) -> Sequence[Sample]:
    """Return the samples of a dataset. Copies know their unit, and a warning says how many there are."""
    units = dataset.survey.copies.find_units()
    dataset.survey.copies = CopyFinder()  # it has an entry per sample
    if not units:
        return dataset.samples
    count, found = dataset.available, len(set(units.values())) - len(units)
    said = f"{counted(count, 'sample')} of '{dataset.name}' are {count + found:,} independent ones"
    draft.warn(dataset.place, f"{said}: copies of a question count as one", "remove the copies, or add other questions")
    return spool(set_units(dataset.samples, units))


def _check_names(draft: Draft) -> None:
    known = [dataset.name for dataset in draft.loaded.manifest.spec.evaluation.datasets]
    for name in draft.options.datasets:
        if name not in known:
            draft.problems.append(Problem(f"no dataset is named '{name}'", near_miss(name, known), field="--dataset"))


def _check_needs(draft: Draft, dataset: PlannedDataset) -> None:
    metrics, file = dataset.computed, dataset.file
    if dataset.retriever is not None:
        given = dataset.retriever.given
        _refuse_answers(draft, dataset, dataset.retriever)
    elif not draft.needs_url:
        given = frozenset({Need.CONTEXT, Need.RETRIEVED_IDS})
    else:
        endpoint, keys = draft.loaded.manifest.spec.api.chat_endpoint, dataset.survey.keys
        given = needs_from_mapping(endpoint)
        for key in (key for key in list_metadata_keys(endpoint) if key not in keys):
            message = f"spec.api.chatEndpoint has {{{{metadata.{key}}}}}, but no sample has metadata '{key}'"
            fix = near_miss(key, keys) if keys else "add it to the samples, or take it out of the request"
            draft.problems.append(Problem(message, fix, file, field="metadata"))
        if not draft.options.is_selective:
            refuse_dropped(draft, dataset.survey.conversations, dataset.available, file)
    if dataset.retriever is None and choose_traces(draft.loaded, draft.options) is not None:
        given |= {Need.CONTEXT, Need.RETRIEVED_IDS, Need.CANDIDATE_IDS}
    _check_users(draft, dataset)
    _check_words(draft, dataset)
    if not any(found.field.startswith("fields.") for found in dataset.data.problems):
        draft.problems.extend(check_needs(dataset.survey, metrics, file, given))
    staged = [metric.name for metric in metrics if Need.CANDIDATE_IDS in metric.needs - given]
    if staged:
        message = f"{', '.join(staged)} of dataset '{dataset.name}' need rankings before and after reranking"
        draft.add((*dataset.place, "mode"), message, "use a retriever that reranks, and mode: retrieve+rerank")
    unmapped = [m.name for m in metrics if Need.RETRIEVED_IDS in m.needs - given and m.name not in staged]
    if unmapped:
        place = ("spec", "api", "chatEndpoint", "response", "contextIds")
        message = f"{', '.join(unmapped)} of dataset '{dataset.name}' need the ids of the retrieved documents"
        fix = "map contextIds, for example: contextIds: $.contexts[*].id, or receive its traces (spec.api.traces)"
        draft.add(place, message, fix)


def _check_expectations(draft: Draft, dataset: PlannedDataset) -> None:
    """Warn about expectations that nothing can compare, and about calls that replies do not show."""
    expectations, file = dataset.survey.expectations, dataset.file
    draft.warnings.extend(find_unread(expectations, dataset.computed, file, dataset.available))
    if draft.tools is not None:
        draft.warnings.extend(find_undeclared(expectations, list(draft.tools), file))
    endpoint = draft.loaded.manifest.spec.api.chat_endpoint
    wire, mapping = WIRES.find(endpoint.protocol or DEFAULT_WIRE), endpoint.response
    blind = [metric.name for metric in dataset.computed if "tool_calls" in metric.definition.from_trace]
    shows_calls = (
        wire is None or ToolPart.CALLS in wire.shows or (mapping is not None and mapping.tool_calls is not None)
    )
    is_traced = choose_traces(draft.loaded, draft.options) is not None
    if draft.needs_url and blind and not shows_calls and not is_traced:
        verb = pluralize(len(blind), "needs", "need")
        message = f"{', '.join(blind)} of dataset '{dataset.name}' {verb} the calls of tools, which no reply shows"
        place = (*ENDPOINT_PLACE, "response", "toolCalls")
        fix = "map toolCalls, for example: toolCalls: $.messages, or receive its traces (spec.api.traces)"
        draft.warn(place, message, fix)


def _check_users(draft: Draft, dataset: PlannedDataset) -> None:
    """Add a problem if a sample has a goal, and nobody plays its user."""
    users = dataset.survey.users
    if not users.count or draft.options.has_replies:
        return
    others = describe_others(users, dataset.available)
    if dataset.retriever is not None:
        found = f"a retriever holds no conversation{others}", "write the query as input"
    elif draft.loaded.manifest.spec.evaluation.user is None:
        found = f"no model plays the user{others}", "set spec.evaluation.user: {model: …}, or write turns"
    else:
        return
    draft.problems.append(Problem(*found, dataset.file, users.first[0].line, "user"))


def _check_words(draft: Draft, dataset: PlannedDataset) -> None:
    """Add a problem if a query has no words, and an agent or a reranker would be asked with them."""
    wordless, planned = dataset.survey.wordless, dataset.retriever
    if not wordless.count or draft.options.has_replies or (planned is not None and not planned.reranks):
        return
    asked, fix = ("an agent", "set retriever: NAME") if planned is None else ("a reranker", "use mode: retrieve")
    message = f"the query has no words, but {asked} takes a text{describe_others(wordless, dataset.available)}"
    draft.problems.append(Problem(message, f"{fix}, or add a text to it", dataset.file, wordless.first[0].line))


def _refuse_answers(draft: Draft, dataset: PlannedDataset, planned: PlannedRetriever) -> None:
    scoring = [metric.name for metric in dataset.computed if metric.definition.scores_answers]
    if scoring:
        verb = pluralize(len(scoring), "scores", "score")
        message = f"{', '.join(scoring)} {verb} an answer, but the retriever '{planned.name}' returns only documents"
        fix = "use retrieval metrics for this dataset, for example [Recall@5, nDCG@10]"
        draft.add((*dataset.place, "metrics"), message, fix)


def _check_keys(draft: Draft, dataset: PlannedDataset) -> None:
    """Add a problem for each metadata key of the manifest that no sample has, as it is probably misspelled."""
    config, keys = dataset.config, dataset.survey.keys
    named: dict[tuple[str | int, ...], str] = {
        ("slices", number): key for number, key in enumerate(config.slices or ())
    }
    if config.cluster is not None:
        named["cluster",] = config.cluster
    for field, key in named.items() if dataset.available else ():
        known = keys if field == ("cluster",) else keys | {TAGS}
        if key not in known:
            draft.add(
                (*dataset.place, *field), f"no sample has the metadata key '{key}'", near_miss(key, sorted(known))
            )


def check_judge(draft: Draft, datasets: Sequence[PlannedDataset]) -> None:
    """Check that judged metrics of the selected datasets have a judge that the run may call."""
    check_services(draft, needs_of([dataset for dataset in datasets if draft.wants(dataset.name)]))
    if draft.options.no_judge or resolve_judge(draft.loaded.manifest.spec.evaluation.judge) is not None:
        return
    judged = {
        metric.name: None
        for dataset in datasets
        if draft.wants(dataset.name)
        for metric in dataset.metrics.values()
        if Need.JUDGE in metric.needs
    }
    if judged:
        fix = "set spec.evaluation.judge, export OPENAI_API_KEY, or skip these metrics with --no-judge"
        need = pluralize(len(judged), "needs", "need")
        draft.add(JUDGE_PLACE, f"no judge is configured, but {', '.join(judged)} {need} one", fix)


def _check_label_file(draft: Draft) -> None:
    labels = draft.loaded.manifest.spec.evaluation.ci_gate.judge.labels
    place = ("spec", "evaluation", "ciGate", "judge", "labels")
    if labels is None:
        return
    if not labels.endswith(LABEL_SUFFIXES):
        draft.add(place, f"labels are in {' or '.join(LABEL_SUFFIXES)} files, not {labels}", "name such a file")
    elif not (draft.loaded.path.parent / labels).is_file():
        fix = f"write it with `evalspec labels export RUN -o {labels}`, or correct the path"
        draft.add(place, f"there is no file {labels}", fix)


def _check_gate(draft: Draft, checked: Sequence[PlannedDataset]) -> None:
    evaluation = draft.loaded.manifest.spec.evaluation
    declared = (evaluation.thresholds, *(dataset.thresholds for dataset in evaluation.datasets))
    check_baseline(draft, list_columns(checked))
    check_anchors(draft)
    _check_label_file(draft)
    limited = any(declared) or any(dataset.thresholds for dataset in checked) or evaluation.ci_gate.baseline
    statistics = {name: one.definition.statistic for dataset in checked for name, one in dataset.metrics.items()}
    held = [limit for dataset in checked for limit in reply_limits(dataset.thresholds, statistics)]
    if evaluation.ci_gate.min_pass_rate is not None and any(d.available for d in checked) and not held:
        fix = "add a threshold on a mean, a minimum or a maximum"
        place = ("spec", "evaluation", "ciGate", "minPassRate")
        draft.add(place, "no threshold applies to a single reply, so none can pass", fix)
    if evaluation.ci_gate.enabled and not limited:
        fix = "add thresholds, or set ciGate: false"
        draft.add(
            ("spec", "evaluation", "ciGate"), "ciGate is on, but there is no threshold, so it can never fail", fix
        )
