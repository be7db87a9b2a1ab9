"""Resolve the metric entries of a dataset to metrics."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from evalspec.base.errors import InvalidInput, Problem
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.inputs.manifest.metric_spec import MetricSpec, parse_metric_spec
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.model import Need
from evalspec.scoring.judge.services import JudgeServices
from evalspec.scoring.metrics.base import METRICS, BuildContext, Metric, MetricDefinition, RelevanceRules, build_scorer
from evalspec.scoring.metrics.custom import check_scorer, define_scorer
from evalspec.scoring.metrics.retrieval import define_f_beta
from evalspec.scoring.metrics.rubric import check_rubric, define_rubric

STANDARD = RelevanceRules()


def write_out(entry: MetricEntry, definition: MetricDefinition) -> MetricEntry:
    """Return the entry with its metric's canonical name and the options that its alias implies."""
    if not definition.alias_options:
        return entry
    options = definition.alias_options.get(entry.name.casefold(), {})
    return entry.model_copy(update={"name": definition.name, **options})


def _lies_within(given: tuple[float, float], bounds: tuple[float | None, float | None]) -> bool:
    low, high = bounds
    return (low is None or given[0] >= low) and (high is None or given[1] <= high)


def describe_entry(entry: MetricEntry, definition: MetricDefinition) -> dict[str, Any]:
    """Return the written-out entry as JSON, without options that its metric does not have."""
    return write_out(entry, definition).model_dump(mode="json", exclude={"match"} - definition.options)


def find_definition(name: str) -> MetricDefinition | None:
    """Return the built-in metric of a name; None if it is unknown or has a cutoff."""
    try:
        spec = parse_metric_spec(name)
    except ValueError:
        return None
    return None if spec.cutoff else METRICS.find(spec.base) or define_f_beta(spec.base)


class MetricFinder(Struct):
    """Resolves entries to metrics. Errors go to `problems`, with the entry's line."""

    loaded: LoadedManifest
    services: JudgeServices
    no_judge: bool
    problems: list[Problem]
    unusable: set[str] = field(default_factory=set)
    """Printed names of known metrics that cannot be built. Each is reported once."""
    first_named: dict[str, str] = field(default_factory=dict)
    """The first spelling of each metric in the manifest, by printed name."""

    def find_all(
        self, entries: Sequence[MetricEntry], place: Place, rules: RelevanceRules, cutoffs: Sequence[int] = ()
    ) -> dict[str, Metric]:
        """Return the metrics of a list, by printed name. Metrics without a cutoff get each of `cutoffs`."""
        metrics: dict[str, Metric] = {}
        for index, entry in enumerate(entries):
            for expanded in self._expand(entry, cutoffs):
                metric = self.find(expanded, (*place, index), rules)
                if metric is None:
                    continue
                if not self._is_mixed_up(entry.name, metric, (*place, index)) and metric.name in metrics:
                    self._add((*place, index), f"{metric.name} is duplicated", "remove one")
                metrics[metric.name] = metric
        return metrics

    def _is_mixed_up(self, name: str, metric: Metric, place: Place) -> bool:
        """Return whether the manifest has a metric and an alias of it with other options, under one printed name."""
        first = self.first_named.setdefault(metric.name, name)
        described = [describe_entry(MetricEntry(name=one), metric.definition) for one in (name, first)]
        if not metric.definition.alias_options or described[0] == described[1]:
            return False
        message = f"'{name}' and '{first}' score differently, but reports show both as {metric.name}"
        self._add(place, message, "use one of the two names in the whole manifest")
        return True

    def _expand(self, entry: MetricEntry, cutoffs: Sequence[int]) -> list[MetricEntry]:
        known = find_definition(entry.name)
        if not cutoffs or known is None or not known.takes_cutoff or entry.rubric or entry.scorer:
            return [entry]
        return [entry.model_copy(update={"name": f"{entry.name}@{cutoff}"}) for cutoff in cutoffs]

    def find(self, entry: MetricEntry, place: Place, rules: RelevanceRules = STANDARD) -> Metric | None:
        """Return a metric, or None after adding the reason to the problems."""
        definition = None
        try:
            spec = parse_metric_spec(entry.name)
            definition = self._define(entry, spec, place)
            return None if definition is None else self._build(entry, spec, definition, rules)
        except ValueError as error:
            self._add(place, str(error))
        except InvalidInput as error:
            self.unusable.add(str(MetricSpec(definition.name, spec.cutoff)) if definition else entry.name)
            for problem in error.problems:
                self._add(place, problem.message, problem.fix)
        return None

    def _define(self, entry: MetricEntry, spec: MetricSpec, place: Place) -> MetricDefinition | None:
        known = METRICS.find(spec.base) or define_f_beta(spec.base)
        if entry.rubric or entry.scorer:
            return self._define_own(entry, known, place)
        if known is None:
            own = "or declare it: {name: …, rubric: …, labels: …} or {name: …, scorer: module:function}"
            self._add(place, f"unknown metric '{entry.name}'", f"{METRICS.hint(spec.base)}, {own}")
            return None
        if spec.cutoff is not None and not known.takes_cutoff:
            self._add(place, f"{known.name} takes no cutoff", f"use {known.name}")
            return None
        if entry.reference and "reference" not in known.options:
            self._add(place, f"{known.name} has no option 'reference'", "remove it; context_recall has it")
            return None
        if entry.range and not _lies_within(entry.range, known.bounds):
            own = ", ".join("…" if end is None else f"{end:g}" for end in known.bounds)
            self._add((*place, "range"), f"the range of {known.name} is [{own}] already", "narrow yours, or remove it")
            return None
        return None if self._misuses_match(entry, known, place) else known

    def _misuses_match(self, entry: MetricEntry, known: MetricDefinition, place: Place) -> bool:
        if "match" not in entry.model_fields_set:
            return False
        if "match" not in known.options:
            self._add(place, f"{known.name} has no option 'match'", "remove it; string_match has it")
            return True
        if write_out(entry, known).match != entry.match:
            message = f"{entry.name} is {known.name} with match: {write_out(entry, known).match}"
            self._add(place, message, f"use {{name: {known.name}, match: {entry.match}}}")
            return True
        return False

    def _define_own(self, entry: MetricEntry, known: MetricDefinition | None, place: Place) -> MetricDefinition | None:
        if known is not None:
            self._add(place, f"'{entry.name}' is the name of a built-in metric", "choose another name")
            return None
        if "@" in entry.name:
            self._add(place, f"'{entry.name}' has a cutoff, which only built-in metrics support", "choose another name")
            return None
        folder = self.loaded.path.parent
        found = check_rubric(entry.rubric) if entry.rubric else check_scorer(entry, folder)
        for message in found:
            self._add((*place, "rubric" if entry.rubric else "scorer"), message)
        if found:
            return None
        return define_rubric(entry) if entry.rubric else define_scorer(entry, folder)

    def _build(
        self, entry: MetricEntry, spec: MetricSpec, definition: MetricDefinition, rules: RelevanceRules
    ) -> Metric:
        entry = write_out(entry, definition)
        needs = definition.needs_of(entry) if definition.needs_of else definition.needs
        root = self._root(entry, definition, rules)
        if root is not None:
            needs = root.needs
        skip = "no judge (--no-judge)" if self.no_judge and Need.JUDGE in needs else None
        context = BuildContext(entry, spec.cutoff, self.loaded.path.parent, self.services, rules)
        return Metric(
            name=str(MetricSpec(definition.name, spec.cutoff)),
            definition=definition,
            scorer=build_scorer(definition, needs, context) if not skip else None,
            needs=needs,
            bounds=entry.range or (definition.bounds_of(rules) if definition.bounds_of else definition.bounds),
            root=root,
            skip_reason=skip,
            settings={"entry": describe_entry(entry, definition), "rules": asdict(rules)},
        )

    def _root(self, entry: MetricEntry, definition: MetricDefinition, rules: RelevanceRules) -> Metric | None:
        """Return the metric that this one is derived from."""
        if definition.base is None:
            return None
        base = METRICS.find(definition.base)
        if base is None:
            raise ValueError(f"{definition.name} is derived from '{definition.base}', which is not registered")
        own = entry.model_copy(update={"name": base.name, "range": None})
        return self._build(own, MetricSpec(base.name), base, rules)

    def _add(self, place: Place, message: str, fix: str = "") -> None:
        problem = self.loaded.problem(place, message, fix)
        if problem not in self.problems:  # the evaluation's metrics are resolved again for each dataset
            self.problems.append(problem)
