"""Decide how a dataset queries its retriever, and check that the retriever takes the whole input of every query.

Each setting has its origin. The inputs are checked while the samples are read.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from evalspec.base.errors import Problem
from evalspec.base.json_schema import Found, Matcher, build_matcher, find_schema_problems
from evalspec.base.patterns import CannotCheck
from evalspec.inputs.datasets.base import DatasetFormat, input_finder, list_input_keys, settings_finder
from evalspec.inputs.datasets.query_input import QueryInput
from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.inputs.manifest.metric_spec import parse_metric_spec
from evalspec.inputs.manifest.retriever_schema import HttpTarget, RetrieverTarget
from evalspec.inputs.manifest.yaml_source import Place, render_path
from evalspec.model import RetrieverSettings, Sample
from evalspec.runs.planning.draft import Draft, PlannedDataset, PlannedRetriever
from evalspec.runs.planning.options import choose_first
from evalspec.runs.planning.retriever_targets import find_placeholders
from evalspec.runs.planning.retrievers import RETRIEVERS_PLACE, find_target
from evalspec.runs.planning.survey import Lacking, describe_others
from evalspec.targets.retrievers.agent import DEFAULT, DEFAULT_TOP_K, RERANK_FACTOR, QueryOverrides, QuerySettings
from evalspec.targets.retrievers.ingest_plan import OWN_BEGINNING, check_outsiders
from evalspec.targets.retrievers.query_input import QUERY, list_unfilled, list_untaken
from evalspec.targets.retrievers.stores import is_in_memory

_UNFIT_FOR_A_SCOPE = re.compile(r"[^A-Za-z0-9_.-]+")


def plan_queries(draft: Draft, dataset: PlannedDataset, planned: PlannedRetriever) -> PlannedRetriever:
    """Return how a dataset queries its retriever. The documents to ingest are not loaded yet."""
    config, data = dataset.config, dataset.data
    documents = data.content.documents
    is_left = draft.options.no_ingest and not is_in_memory(planned.target)
    ingested = tuple(documents) if documents and not is_left else None
    own_prefix = data.content.defaults.settings.get("scopePrefix", "")
    draft.problems.extend(check_outsiders(ingested or (), own_prefix, data.shown_as))
    scope = "" if ingested is None else _default_scope(config.name)
    query_settings = QuerySettings(
        settings=_settle(draft, dataset, planned, scope),
        filters=config.filters,
        overrides=read_overrides(data.samples),
        corpus=frozenset(document.id for document in documents) if documents else None,
        timeout_seconds=draft.options.timeout,
        find_input=input_finder(data.format),
        folder=data.folder,
    )
    return replace(planned, query_settings=query_settings, documents=ingested)


def _settle(draft: Draft, dataset: PlannedDataset, planned: PlannedRetriever, scope: str) -> RetrieverSettings:
    """Return the query settings, each from its first source: command line, retriever, dataset, dataset file.

    `scope`: the default scope prefix.
    """
    config, defaults = dataset.config, dataset.data.content.defaults
    options, said, target = draft.options, defaults.settings, planned.target
    of_file = max(defaults.k, default=0)
    cutoffs = {name: parse_metric_spec(name).cutoff or 0 for name in dataset.metrics}
    deepest = max(cutoffs, key=cutoffs.__getitem__, default="")
    looked_at = cutoffs.get(deepest, 0)
    top_k = choose_first(
        (options.top_k, "--top-k"),
        (target.top_k, "retriever"),
        (config.top_k, "dataset"),
        (of_file if of_file >= max(looked_at, 1) else None, "dataset file"),
        (looked_at or None, "metrics"),
        (DEFAULT_TOP_K, DEFAULT),
    )
    if looked_at > top_k[0]:
        message = f"{deepest} needs {looked_at} ranks, but {planned.name} returns {top_k[0]} documents ({top_k[1]})"
        draft.warnings.append(Problem(f"dataset '{config.name}': {message}", "raise topK"))
    rerank_top_k = choose_first(
        (options.rerank_top_k, "--rerank-top-k"),
        (target.rerank_top_k, "retriever"),
        (config.rerank_top_k, "dataset"),
        (said.get("rerankTopK"), "dataset file"),
        (RERANK_FACTOR * top_k[0], DEFAULT),
    )
    scope_prefix = choose_first(
        (options.scope_prefix, "--scope-prefix"),
        (config.scope_prefix, "dataset"),
        (said.get("scopePrefix"), "dataset file"),
        (scope, DEFAULT),
    )
    decided = {"topK": top_k, "scopePrefix": scope_prefix}
    if planned.reranks:
        decided["rerankTopK"] = rerank_top_k
    return replace(
        planned.settings,
        top_k=top_k[0],
        rerank_top_k=max(top_k[0], rerank_top_k[0]) if planned.reranks else None,
        scope_prefix=scope_prefix[0],
        depth=options.depth,
        min_grade=config.min_grade,
        origins={**planned.settings.origins, **{setting: origin for setting, (_, origin) in decided.items()}},
    )


def read_overrides(samples: Iterable[Sample]) -> dict[str, QueryOverrides]:
    """Return the settings that single queries override, by sample, if their format supports that."""
    find_settings = settings_finder()
    found = {}
    for sample in samples:
        own = find_settings(sample.metadata)
        overrides = QueryOverrides(own.get("topK"), own.get("rerankTopK"), own.get("scopePrefix"))
        if overrides != QueryOverrides():
            found[sample.id] = overrides
    return found


def _default_scope(dataset: str) -> str:
    return f"{OWN_BEGINNING}{_UNFIT_FOR_A_SCOPE.sub('-', dataset)}:"


PROBLEMS_SHOWN = 20
"""Maximum number of distinct problems of one dataset. The others are counted."""


def watch_inputs(draft: Draft, config: DatasetConfig) -> "InputWatch | None":
    """Return the check of a dataset's queries; None if no retriever is queried, or if its name is unknown."""
    found = None if draft.options.has_replies else find_target(draft, config)
    if found is None:
        return None
    name, key, target = found
    schema = target.input_schema
    is_valid = schema is not None and not find_schema_problems(schema)
    return InputWatch(
        retriever=name,
        names=find_placeholders(target),
        matcher=build_matcher(schema) if schema is not None and is_valid else None,
        request=_name_request(target, (*RETRIEVERS_PLACE, key)),
    )


def _name_request(target: RetrieverTarget, place: Place) -> str | None:
    """Return the place of the template that placeholders belong in; None if the retriever has none."""
    return render_path((*place, "http", "search", "request")) if isinstance(target, HttpTarget) else None


class _Noted(NamedTuple):
    """A problem of one or more queries."""

    field: str
    message: str
    fix: str


class InputWatch(Struct):
    """The inputs of a dataset's queries that do not fit a retriever.

    `names`: the placeholders that the retriever takes; None if it takes everything. `matcher`: of its inputSchema.
    `request`: the place of its template. `noted`: the queries with each problem. `hidden`: the number of further
    problems.
    """

    retriever: str
    names: frozenset[str] | None
    matcher: Matcher | None
    request: str | None
    count: int = 0
    noted: dict[_Noted, Lacking] = field(default_factory=dict)
    hidden: int = 0

    def watch(self, samples: Iterable[Sample], dataset_format: DatasetFormat) -> Iterator[Sample]:
        """Yield the samples and check their inputs."""
        find_input, keys = input_finder(dataset_format.name), list_input_keys()
        questions_fit = self._takes_questions(find_input(Sample("any", "?")))
        for sample in samples:
            self.count += 1
            if not questions_fit or not keys.isdisjoint(sample.metadata):
                for problem in self._find_problems(sample, find_input(sample)):
                    self._add(problem, sample)
            yield sample

    def list_problems(self, shown_as: str) -> list[Problem]:
        """Return the problems, each at the first of its queries. `shown_as`: the dataset's file."""
        found = [
            Problem(
                f"query '{lacking.first[0].id}': {noted.message}{describe_others(lacking, self.count)}",
                noted.fix,
                shown_as,
                lacking.first[0].line,
                noted.field,
            )
            for noted, lacking in self.noted.items()
        ]
        if self.hidden:
            more = f"{self.hidden:,} more inputs do not fit the retriever '{self.retriever}'"
            found.append(Problem(more, "fix those above first", shown_as))
        return found

    def _takes_questions(self, given: QueryInput) -> bool:
        """Return whether every query fits that is only a question. Most are, so this saves a check of each."""
        if self.matcher is not None:
            return False
        return self.names is None or not (list_untaken(self.names, given) or list_unfilled(self.names, given, {}))

    def _add(self, problem: _Noted, sample: Sample) -> None:
        if problem in self.noted or len(self.noted) < PROBLEMS_SHOWN:
            self.noted.setdefault(problem, Lacking()).add(sample)
        else:
            self.hidden += 1

    def _find_problems(self, sample: Sample, given: QueryInput) -> Iterator[_Noted]:
        if given.question_key is None and given.has_words:
            yield _Noted(given.place, "this input does not contain the question", "correct it, or remove it")
            return
        if not given.has_words and QUERY in (self.names or ()):
            message = f"the query has no words, but the retriever '{self.retriever}' searches with {{{{query}}}}"
            wanted = f"write {{{{input}}}} or {{{{input.KEY}}}} instead in {self.request}"
            fix = "query a retriever that takes its input" if self.request is None else wanted
            yield _Noted(given.place, message, f"{fix}, or add a text to it")
            return
        for key in list_untaken(self.names, given) if self.names is not None else ():
            message = f"the retriever '{self.retriever}' does not take this field"
            yield _Noted(_render_field(given, [key]), message, self._fix_untaken(key, key == given.question_key))
        for name in list_unfilled(self.names or (), given, sample.metadata):
            source, _, key = name.partition(".")
            message = f"it has no such value, but the request of the retriever '{self.retriever}' has {{{{{name}}}}}"
            place = name if source == "metadata" else _render_field(given, [key])
            yield _Noted(place, message, "add it (null is a value), or remove the placeholder")
        mismatch = self._find_mismatch(given.fields)
        if mismatch is not None:
            keys, message = mismatch
            message = f"{message} (inputSchema of the retriever '{self.retriever}')"
            yield _Noted(_render_field(given, keys), message, "")

    def _find_mismatch(self, value: Mapping[str, Any]) -> Found | None:
        """Return why the fields do not match the inputSchema. It says nothing of a value that it cannot check."""
        try:
            return self.matcher(value) if self.matcher is not None else None
        except CannotCheck as error:
            return (), str(error)

    def _fix_untaken(self, key: str, is_question: bool) -> str:
        if self.request is None:
            return "query a retriever that takes it, or remove it from the dataset"
        wanted = QUERY if is_question else f"input.{key}"
        return f"add {{{{{wanted}}}}} to {self.request}, or remove it from the dataset"


def _render_field(given: QueryInput, keys: Sequence[str | int]) -> str:
    return given.place if given.is_text else render_path((given.place, *keys))
