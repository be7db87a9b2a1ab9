"""Plan one dataset of a manifest: read its files and choose its metrics. And read recorded replies to its samples."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.base.errors import InvalidInput, Problem
from evalspec.inputs.datasets.base import DATASETS, Source
from evalspec.inputs.datasets.load import LoadedDataset, load_dataset, pass_on
from evalspec.inputs.datasets.located import render_ids
from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.inputs.manifest.metric_spec import split_column
from evalspec.inputs.manifest.references import UnresolvedReference
from evalspec.inputs.manifest.schema import EvaluationConfig
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.model import Need
from evalspec.runs.planning.copies import open_copy_finder
from evalspec.runs.planning.draft import NOT_READ, Draft, PlannedDataset, PlannedRetriever
from evalspec.runs.planning.metrics import MetricFinder
from evalspec.runs.planning.options import SAME
from evalspec.runs.planning.retrievers import add_stages, choose_cutoffs
from evalspec.runs.planning.survey import Survey, watch_checks
from evalspec.scoring.metrics.base import BuildContext, Metric, RelevanceRules
from evalspec.scoring.metrics.columns import find_definition
from evalspec.scoring.metrics.retrieval import compat_formulas
from evalspec.scoring.metrics.sample_checks import CHECKS, CHECKS_ALL
from evalspec.targets.agents.replay import RecordedReply, Replies, find_reply, list_unknown_replies, load_recorded
from evalspec.targets.retrievers.loaders import is_missing, list_loaded_files, list_unloadable

if TYPE_CHECKING:
    from evalspec.runs.planning.queries import InputWatch

_TEXT_METRICS = ("string_match",)
_RETRIEVAL_METRICS = ("Recall", "Precision", "nDCG", "RR", "Success")
_DEFAULT_K = (10,)
_UNKNOWN_SHOWN = 5


def check_compat(draft: Draft, dataset: PlannedDataset) -> None:
    """Report a `compat` value that names no known system."""
    config = dataset.config
    if config.compat is not None and compat_formulas(config.compat) is None:
        names = " or ".join(f"'{known.name}'" for known in DATASETS if known.compat is not None)
        message = f"'{config.compat}' is not one of the accepted values"
        draft.add((*dataset.place, "compat"), message, f"write {names}{DATASETS.note_plugins()}")


def load(draft: Draft, dataset: PlannedDataset, context: BuildContext) -> None:
    """Read the dataset's files. Problems and warnings are added to the draft. `context`: for the samples' checks."""
    config, place = dataset.config, dataset.place
    sections = (draft.loaded.manifest.spec.evaluation, config)
    limits = [limit for section in sections for stated in section.thresholds.values() for limit in stated]
    template = draft.loaded.manifest.spec.api.chat_endpoint.request
    copies = open_copy_finder(draft.loaded.manifest.spec.evaluation, config, template)
    dataset.survey = Survey(frozenset(limit.slice for limit in limits if limit.slice), copies)
    path, corpus = (_path(draft, config.path, (*place, "path")), _path(draft, config.corpus, (*place, "corpus")))
    if path is None:
        return
    if is_missing(path):
        draft.add((*place, "path"), f"{_shown(path)}: no such file", "check the path")
        return
    source = make_source(config, path, corpus, with_replies=draft.options.responses == SAME)
    inputs, checked = _watch_inputs(draft, config), watch_checks(sections, context)
    data = dataset.data = load_dataset(
        source,
        config.format,
        lambda samples: draft.collect(dataset.survey.watch(samples, checked)),
        pass_on if inputs is None else inputs.watch,
    )
    draft.problems.extend(data.problems)
    draft.problems.extend(checked.list_problems(data.shown_as, dataset.survey.count))
    draft.problems.extend(inputs.list_problems(data.shown_as) if inputs is not None else ())
    draft.warnings.extend(data.warnings)
    draft.remarks.extend(data.remarks)
    if source.with_replies and not data.problems:
        _add_replies(draft, config, data)


def make_source(config: DatasetConfig, path: Path, corpus: Path | None, *, with_replies: bool = False) -> Source:
    """Return the source of a dataset of a manifest, whose paths are resolved."""
    compat = compat_formulas(config.compat)
    return Source(
        path=path,
        shown_as=_shown(path),
        corpus=corpus,
        corpus_shown_as=_shown(corpus) if corpus else "",
        retrieval_gt_1d=config.retrieval_gt_1d or (compat.flat_ids if compat else None),
        fields=config.fields,
        with_replies=with_replies,
    )


def _add_replies(draft: Draft, config: DatasetConfig, data: LoadedDataset) -> None:
    """Add the replies of a dataset's own file."""
    if not data.replies:
        fix = "name a file of replies with --responses FILE, or their column with `fields: {response: COLUMN}`"
        draft.problems.append(Problem(f"dataset '{config.name}' has no recorded replies", fix, data.shown_as))
    found = {(config.name, name): RecordedReply(reply, is_beside=True) for name, reply in data.replies.items()}
    draft.replies.update(found)


def _watch_inputs(draft: Draft, config: DatasetConfig) -> "InputWatch | None":
    if not draft.loaded.manifest.spec.evaluation.retrievers:
        return None
    from evalspec.runs.planning.queries import watch_inputs

    return watch_inputs(draft, config)


def check_loaders(draft: Draft, dataset: PlannedDataset) -> None:
    """Report documents to ingest whose texts nothing can load."""
    config, place = dataset.config, dataset.place
    documents, path = dataset.data.content.documents or (), _path(draft, config.path, ())
    if draft.options.no_ingest or draft.options.has_replies or path is None:
        return
    lost = [] if config.loader is not None else list_unloadable(documents)
    if lost:
        message = f"only a loader can read the loaderRef of {len(lost)} documents: {render_ids(lost)}"
        draft.add(place, message, "write file:PATH in the dataset, or set loader to a function of your own")
    missing = [file for file in list_loaded_files(documents, path.parent) if is_missing(file)]
    if missing:
        named = render_ids(map(_shown, missing))
        draft.add(place, f"files of documents are missing: {named}", "add them, or correct their loaderRef")


def find_files(draft: Draft, dataset: PlannedDataset) -> tuple[Path, ...]:
    """Return the files that are read in addition to the dataset's own: corpus, queries, documents, those of metrics."""
    data, folder = dataset.data, draft.loaded.path.parent
    path = _path(draft, dataset.config.path, ()) if data is not NOT_READ else None
    documents = () if path is None else list_loaded_files(data.content.documents or (), path.parent)
    of_metrics = (folder / name for metric in dataset.metrics.values() for name in metric.files.values())
    return (*data.files, *documents, *of_metrics)


def _path(draft: Draft, given: str | None, place: Place) -> Path | None:
    try:
        return None if given is None else draft.loaded.references.path(given)
    except UnresolvedReference as error:
        draft.add(place, error.message, error.fix)
        return None


def _shown(path: Path) -> str:
    """Return the path relative to the working directory if it is inside, else the path as it is."""
    absolute, here = Path(os.path.realpath(path)), Path.cwd()  # reading the file reports a loop of links
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(path)


def find_metrics(draft: Draft, finder: MetricFinder, dataset: PlannedDataset) -> dict[str, Metric]:
    """Return the metrics of a dataset: its own list, else the evaluation's, else defaults for its samples."""
    evaluation, rules = draft.loaded.manifest.spec.evaluation, dataset.rules
    config, place, planned = dataset.config, dataset.place, dataset.retriever
    cutoffs = choose_cutoffs(draft, dataset)
    finder.dataset = dataset.name
    if config.metrics is not None:
        metrics = finder.find_all(config.metrics, (*place, "metrics"), rules, cutoffs)
    elif evaluation.metrics is not None:
        metrics = finder.find_all(evaluation.metrics, ("spec", "evaluation", "metrics"), rules, cutoffs)
    else:
        entries = _sensible(dataset.survey, planned, _find_spellings(evaluation))
        named = ", ".join(entry.name for entry in entries)
        draft.warn(place, f"no metrics are configured; evalspec computes {named}", "list them under metrics")
        metrics = finder.find_all(entries, place, rules, cutoffs or _DEFAULT_K)
    if _has_unanswerable(dataset.survey, rules) and any(Need.RETRIEVED_IDS in m.needs for m in metrics.values()):
        no_answer = finder.find(MetricEntry(name="no_answer"), place, rules)
        metrics |= {no_answer.name: no_answer} if no_answer else {}
    beside = [CHECKS.name, CHECKS_ALL.name] if dataset.survey.has_checks else []
    beside += ["user_error_rate"] if dataset.survey.users.count else []
    for name in beside:
        found = None if name in metrics else finder.find(MetricEntry(name=name), place, rules)
        metrics |= {name: found} if found else {}
    return add_stages(finder, metrics, dataset) if planned and planned.reranks else metrics


def _find_spellings(evaluation: EvaluationConfig) -> dict[str, str]:
    """Return the manifest's own names of metrics, by printed name. An alias such as pass_rate may score differently."""
    sections = (evaluation, *evaluation.datasets)
    names = [name for section in sections for name in section.thresholds]
    names += [entry.name for section in sections for entry in section.metrics or ()]
    found: dict[str, str] = {}
    for name, spec in zip(names, map(split_column, names), strict=True):
        definition = None if spec.cutoff else find_definition(spec.base)
        if definition is not None and found.get(definition.name) != definition.name:
            found[definition.name] = name
    return found


def _sensible(survey: Survey, planned: PlannedRetriever | None, spellings: Mapping[str, str]) -> list[MetricEntry]:
    """Return metrics for the expected answers and judgements of the samples. None needs a judge."""
    names = _RETRIEVAL_METRICS if planned or survey.has_judgements else ()
    has_answers = survey.has_answers and not (survey.has_only_checks and survey.lacks(Need.EXPECTED))
    if (planned is None and has_answers) or not (names or survey.has_checks):
        names = (*_TEXT_METRICS, *names)
    if survey.has_checks:
        names = (*names, CHECKS.name, CHECKS_ALL.name)
    return [MetricEntry(name=spellings.get(name, name)) for name in names]


def _has_unanswerable(survey: Survey, rules: RelevanceRules) -> bool:
    """Return whether some query has no relevant document and the rules do not score such queries."""
    if rules.compat is not None or rules.zero_without_relevant:
        return False
    return survey.lowest_best is not None and survey.lowest_best < rules.min_grade


def read_replies(draft: Draft) -> Replies | None:
    """Return the recorded replies of a file; None without one. Problems go to the draft."""
    path = draft.options.replies_file
    if path is None:
        return None
    try:
        return load_recorded(path, str(path), draft.warnings)
    except InvalidInput as error:
        draft.problems.extend(error.problems)
        return {}


def warn_of_unknown_replies(draft: Draft, replies: Replies, datasets: Sequence[PlannedDataset]) -> None:
    """Warn about recorded replies that match no sample, a sign of the wrong file."""
    known = {(dataset.name, sample.id) for dataset in datasets for sample in dataset.samples}
    unknown = list_unknown_replies(replies, known)
    if unknown:
        shown = ", ".join(unknown[:_UNKNOWN_SHOWN]) + (", …" if len(unknown) > _UNKNOWN_SHOWN else "")
        message = f"{len(unknown)} of {len(replies)} recorded replies match no sample: {shown}"
        draft.warnings.append(Problem(message, file=str(draft.options.responses)))


def check_questions(draft: Draft, replies: Replies, datasets: Sequence[PlannedDataset]) -> int:
    """Refuse replies to another question than their sample asks. Return how many do not say what was asked.

    A ranking without an answer belongs to the id of its query, as in judgements.
    """
    unchecked = 0
    for dataset in datasets:
        for sample in dataset.samples:
            found = find_reply(replies, dataset.name, sample.id)
            answers = True if found is None else found.answers(sample)
            unchecked += answers is None and (found is None or found.reply is None or found.reply.answer is not None)
            if answers is False and found is not None:
                message = f"the reply to '{sample.id}' answers another question than the sample asks now"
                fix = "record it again, or restore the question"
                field = "input" if found.question_digest is None else "question_digest"
                draft.problems.append(Problem(message, fix, str(draft.options.responses), found.line, field))
    return unchecked


def check_overlap(draft: Draft, replies: Replies, datasets: Sequence[PlannedDataset]) -> None:
    """Reject recorded rankings that share no id with the ground truth: every score would silently be 0."""
    has_rankings = any(found.reply and found.reply.retrieved_context_ids for found in replies.values())
    for dataset in datasets if has_rankings else ():
        judged = {document for sample in dataset.samples for document in sample.qrels or ()}
        found = [find_reply(replies, dataset.name, sample.id) for sample in dataset.samples]
        answers = [one.reply for one in found if one and one.reply]
        retrieved = [document for reply in answers for document in reply.retrieved_context_ids or ()]
        if judged and retrieved and judged.isdisjoint(retrieved):
            message = f"no retrieved id occurs in the ground truth of '{dataset.name}': '{retrieved[0]}' against "
            fix = "use the same document ids in both files"
            draft.problems.append(Problem(f"{message}'{min(judged)}'", fix, str(draft.options.responses)))
