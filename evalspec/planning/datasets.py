"""One dataset of a manifest: its files read, and the metrics that are computed on it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from evalspec.datasets.base import DATASETS, DatasetContent, Source
from evalspec.datasets.load import LoadedDataset, load_dataset
from evalspec.datasets.spooling import spool
from evalspec.manifest.references import UnresolvedReference
from evalspec.manifest.schema import DatasetConfig, EvaluationConfig, MetricEntry
from evalspec.manifest.yaml_source import Place
from evalspec.metrics.base import Metric, RelevanceRules
from evalspec.metrics.retrieval import compat_formulas
from evalspec.model import Need, Sample
from evalspec.planning.draft import Draft
from evalspec.planning.metrics import MetricFinder, find_definition
from evalspec.planning.retrievers import ResolvedRetriever, add_stages, choose_cutoffs
from evalspec.retrievers.loaders import list_loaded_files

NOT_READ = LoadedDataset("", DatasetContent(()), "", (), ())
"""Stands for a dataset that the run is not about."""

_TEXT_METRICS = ("string_match",)
_RETRIEVAL_METRICS = ("Recall", "Precision", "nDCG", "RR", "Success")
_DEFAULT_K = (10,)


def rules_of(config: DatasetConfig) -> RelevanceRules:
    """The dataset's rules for retrieval metrics."""
    compat = config.compat if compat_formulas(config.compat) else None
    return RelevanceRules(config.min_grade, compat, config.empty_qrels == "zero")


def check_compat(draft: Draft, config: DatasetConfig, place: Place) -> None:
    """Refuse the name of a system whose formulas are not known."""
    if config.compat is not None and compat_formulas(config.compat) is None:
        names = " or ".join(f"'{known.name}'" for known in DATASETS if known.compat is not None)
        message = f"'{config.compat}' is not one of the accepted values"
        draft.add((*place, "compat"), message, f"write {names}{DATASETS.note_plugins()}")


def load(draft: Draft, config: DatasetConfig, place: Place) -> LoadedDataset:
    """Read the dataset's files; what is wrong with them is among the draft's problems."""
    path, corpus = (_path(draft, config.path, (*place, "path")), _path(draft, config.corpus, (*place, "corpus")))
    if path is None:
        return NOT_READ
    source = Source(path, _shown(path), corpus, _shown(corpus) if corpus else "", config.retrieval_gt_1d)
    data = load_dataset(source, config.format, spool)
    draft.problems.extend(data.problems)
    draft.warnings.extend(data.warnings)
    return data


def find_files(draft: Draft, config: DatasetConfig, data: LoadedDataset) -> tuple[Path, ...]:
    """What is read beside the dataset's own file: its corpus, its queries, documents that it refers to."""
    path = _path(draft, config.path, ()) if data is not NOT_READ else None
    return data.files if path is None else (*data.files, *list_loaded_files(data.content.documents or (), path.parent))


def _path(draft: Draft, given: str | None, place: Place) -> Path | None:
    try:
        return None if given is None else draft.loaded.references.path(given)
    except UnresolvedReference as error:
        draft.add(place, error.message, error.fix)
        return None


def _shown(path: Path) -> str:
    """The path as the user would write it from where they stand."""
    absolute, here = Path(os.path.realpath(path)), Path.cwd()  # a loop of links is found where it is read
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(path)


def find_metrics(
    draft: Draft,
    finder: MetricFinder,
    config: DatasetConfig,
    place: Place,
    data: LoadedDataset,
    asked: ResolvedRetriever | None,
) -> dict[str, Metric]:
    """The metrics of a dataset: its own list, else the evaluation's, else what its samples make sensible."""
    evaluation, rules = draft.loaded.manifest.spec.evaluation, rules_of(config)
    cutoffs = choose_cutoffs(draft, config, data) if asked else tuple(config.k or data.content.defaults.k)
    if config.metrics is not None:
        metrics = finder.find_all(config.metrics, (*place, "metrics"), rules, cutoffs)
    elif evaluation.metrics is not None:
        metrics = finder.find_all(evaluation.metrics, ("spec", "evaluation", "metrics"), rules, cutoffs)
    else:
        entries = _sensible(data.samples, asked, _find_spellings(evaluation))
        named = ", ".join(entry.name for entry in entries)
        draft.warn(place, f"no metrics are named; computed are {named}", "list them under metrics")
        metrics = finder.find_all(entries, place, rules, cutoffs or _DEFAULT_K)
    if any(Need.RETRIEVED_IDS in m.needs for m in metrics.values()) and _has_unanswerable(data.samples, rules):
        no_answer = finder.find(MetricEntry(name="no_answer"), place, rules)
        metrics |= {no_answer.name: no_answer} if no_answer else {}
    return add_stages(finder, metrics, place, rules) if asked and asked.reranks else metrics


def _find_spellings(evaluation: EvaluationConfig) -> dict[str, str]:
    """By printed name, how the manifest itself names metrics: an alias such as pass_rate may score differently."""
    sections = (evaluation, *evaluation.datasets)
    names = [name for section in sections for name in section.thresholds]
    names += [entry.name for section in sections for entry in section.metrics or ()]
    found = {name: find_definition(name) for name in names}
    return {definition.name: name for name, definition in found.items() if definition is not None}


def _sensible(
    samples: Sequence[Sample], asked: ResolvedRetriever | None, spellings: Mapping[str, str]
) -> list[MetricEntry]:
    """What can be computed from what the samples say is right, without a judge."""
    names = _RETRIEVAL_METRICS if asked or any(sample.qrels for sample in samples) else ()
    if not names or (asked is None and any(sample.references for sample in samples)):
        names = (*_TEXT_METRICS, *names)
    return [MetricEntry(name=spellings.get(name, name)) for name in names]


def _has_unanswerable(samples: Sequence[Sample], rules: RelevanceRules) -> bool:
    """Whether some query has no relevant document, and is to be told apart for it."""
    if rules.compat is not None or rules.zero_without_relevant:
        return False
    return any(s.qrels is not None and not any(g >= rules.min_grade for g in s.qrels.values()) for s in samples)
