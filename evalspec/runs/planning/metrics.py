"""Resolve the metric entries of a dataset to metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from evalspec.base.errors import InvalidInput, MissingPackage, Problem, install_fix, split_fix
from evalspec.base.json_text import compute_digest
from evalspec.inputs.manifest.environment_schema import EnvironmentConfig
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.inputs.manifest.metric_spec import MetricSpec, parse_metric_spec, split_column
from evalspec.inputs.manifest.tool_schema import Tools
from evalspec.inputs.manifest.yaml_source import Place
from evalspec.model import JudgePrice, Need
from evalspec.runs.planning.packages import find_extras
from evalspec.scoring.judge.panel import form_panel
from evalspec.scoring.judge.services import JudgeServices
from evalspec.scoring.metrics.base import (
    METRICS,
    Bounds,
    BuildContext,
    Metric,
    MetricDefinition,
    RelevanceRules,
    build_scorer,
)
from evalspec.scoring.metrics.columns import ParameterError, find_definition, name_column, read_values
from evalspec.scoring.metrics.own import check_rubric, check_scorer, define_rubric, define_scorer
from evalspec.scoring.metrics.parameters import RANGE, RESERVED, TURNS, Value, render_value

STANDARD = RelevanceRules()


def _lies_within(given: Bounds, bounds: Bounds) -> bool:
    (low, high), (lowest, highest) = given, bounds
    above = lowest is None or (low is not None and low >= lowest)
    return above and (highest is None or (high is not None and high <= highest))


def _describe_own(entry: MetricEntry) -> dict[str, Any]:
    """Return what an entry says about a metric that it defines, as JSON."""
    return entry.model_dump(mode="json", exclude_none=True, include={*RESERVED} - {"name"})


def _digest_tools(tools: Tools | None) -> str | None:
    """Return a hash of what metrics read of the declared tools."""
    return None if tools is None else compute_digest({name: tool.parameters for name, tool in tools.items()})


class MetricFinder(Struct):
    """Resolves entries to metrics. Errors go to `problems`, with the entry's line."""

    loaded: LoadedManifest
    services: JudgeServices
    no_judge: bool
    problems: list[Problem]
    tools: Tools | None = None
    price: JudgePrice | None = None
    unusable: set[str] = field(default_factory=set)
    """Printed names of known metrics that cannot be built. Each is reported once."""
    own: dict[str, MetricDefinition] = field(default_factory=dict)
    """The metrics that the manifest defines, by name."""
    dataset: str = ""
    """The dataset whose metrics are resolved now."""

    @property
    def context(self) -> BuildContext:
        """What scorers may use of the manifest and the run."""
        return BuildContext(
            None,
            self.loaded.path.parent,
            self.services,
            tools=self.tools,
            environment=self.environment,
            dataset=self.dataset,
            price=self.price,
        )

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
                if metric.name in metrics:
                    self._add((*place, index), f"{metric.name} is duplicated", "remove one")
                metrics[metric.name] = metric
        return metrics

    def check_parameters(self, entries: Sequence[MetricEntry], place: Place) -> None:
        """Check the keys of metrics that no dataset computes."""
        for index, entry in enumerate(entries):
            spec = split_column(entry.name)
            definition = None if entry.rubric or entry.scorer else find_definition(spec.base)
            if definition is not None:
                self._read_values(entry, spec, definition, (*place, index))

    def _expand(self, entry: MetricEntry, cutoffs: Sequence[int]) -> list[MetricEntry]:
        spec = split_column(entry.name)
        known = None if spec.cutoff else find_definition(spec.base)
        if not cutoffs or known is None or not known.takes_cutoff or entry.rubric or entry.scorer:
            return [entry]
        return [entry.model_copy(update={"name": str(replace(spec, cutoff=cutoff))}) for cutoff in cutoffs]

    def find(self, entry: MetricEntry, place: Place, rules: RelevanceRules = STANDARD) -> Metric | None:
        """Return a metric, or None after adding the reason to the problems."""
        column = entry.name
        try:
            spec = parse_metric_spec(entry.name)
            definition = self._define(entry, spec, place)
            values = None if definition is None else self._read_values(entry, spec, definition, place)
            if definition is None or values is None:
                return None
            column = str(name_column(definition, spec, values))
            return replace(self._build(entry, spec, definition, values, rules), entry=entry)
        except ValueError as error:
            self._add(place, str(error))
        except InvalidInput as error:
            self.unusable.add(column)
            problems = error.problems
            if isinstance(error, MissingPackage):  # one command for all that the manifest needs
                fix = install_fix(*find_extras(self.loaded.manifest, no_judge=self.no_judge) | {error.extra: ()})
                problems = tuple(replace(problem, fix=fix) for problem in problems)
            for problem in problems:
                self._keep(problem if problem.file else self.loaded.problem(place, problem.message, problem.fix))
        return None

    def _define(self, entry: MetricEntry, spec: MetricSpec, place: Place) -> MetricDefinition | None:
        known = find_definition(spec.base)
        if entry.rubric or entry.scorer:
            return self._define_own(entry, spec, known, place)
        if known is None:
            hint, own = METRICS.hint(spec.base), "{name: …, rubric: …, labels: …} or {name: …, scorer: module:function}"
            others = "" if hint.endswith("?") else f" (`evalspec metrics` lists all), or declare it: {own}"
            self._add(place, f"unknown metric '{entry.name}'", hint + others)
            return None
        if spec.cutoff is not None and not known.takes_cutoff:
            self._add(place, f"{known.name} takes no cutoff", f"use {known.name}")
            return None
        if known.reads_environment and self.environment is None:
            fix = "declare how to see the state of the world, or remove the metric"
            self._refuse(place, known.name, "spec.evaluation.environment", fix)
            return None
        if known.reads_tools and self.tools is None and Need.CHECKS not in known.needs:
            fix = "declare the tools of the agent, or remove the metric"
            self._refuse(place, known.name, "spec.evaluation.tools", fix)
            return None
        return known

    def _refuse(self, place: Place, name: str, need: str, fix: str) -> None:
        """Report a metric that lacks something. Its thresholds have no other problem."""
        self.unusable.add(name)
        self._add(place, f"{name} needs {need}", fix)

    def _read_values(
        self, entry: MetricEntry, spec: MetricSpec, definition: MetricDefinition, place: Place
    ) -> dict[str, Value] | None:
        """Return the parameters of an entry, or None after adding the reason to the problems."""
        is_own = bool(entry.rubric or entry.scorer)
        narrowed = {RANGE: entry.range} if entry.range and not is_own else {}
        try:
            values = read_values(definition, spec, (entry.model_extra or {}) | narrowed)
        except ParameterError as error:
            self.unusable.add(definition.name)
            message, fix = split_fix(str(error))
            self._add((*place, error.key), message, fix)
            return None
        narrow = values.get(RANGE)
        if isinstance(narrow, tuple) and not _lies_within(narrow, definition.bounds):
            own = render_value(definition.bounds)
            fix = "narrow yours, or remove it"
            self._add((*place, RANGE), f"the range of {definition.name} is {own} already", fix)
            return None
        return values

    def _define_own(
        self, entry: MetricEntry, spec: MetricSpec, known: MetricDefinition | None, place: Place
    ) -> MetricDefinition | None:
        if known is not None:
            self._add(place, f"'{entry.name}' is the name of a built-in metric", "choose another name")
            return None
        if str(spec) != spec.base:
            what = "parameters" if spec.parameters else "a cutoff"
            fix = "write them as keys" if spec.parameters else "choose another name"
            self._add(place, f"'{entry.name}' has {what}, which only names of built-in metrics may have", fix)
            return None
        folder = self.loaded.path.parent
        found = check_rubric(entry.rubric) if entry.rubric else check_scorer(entry, folder)
        for message in found:
            self._add((*place, "rubric" if entry.rubric else "scorer"), message)
        if found:
            return None
        self.own[entry.name] = define_rubric(entry) if entry.rubric else define_scorer(entry, folder)
        return self.own[entry.name]

    def _build(
        self,
        entry: MetricEntry,
        spec: MetricSpec,
        definition: MetricDefinition,
        values: Mapping[str, Value],
        rules: RelevanceRules,
    ) -> Metric:
        needs = definition.needs_of(values) if definition.needs_of else definition.needs
        root = self._root(definition, rules)
        if root is not None:
            needs = root.needs
        skip = "no judge (--no-judge)" if self.no_judge and Need.JUDGE in needs else None
        narrow, own = values.get(RANGE), {key: value for key, value in values.items() if key not in (RANGE, TURNS)}
        bounds = definition.bounds_of(rules) if definition.bounds_of else definition.bounds
        context = replace(self.context, cutoff=spec.cutoff, rules=rules, parameters=own)
        return Metric(
            name=str(name_column(definition, spec, values)),
            definition=definition,
            scorer=build_scorer(definition, needs, context) if not skip else None,
            needs=needs,
            bounds=narrow if isinstance(narrow, tuple) else bounds,
            root=root,
            skip_reason=skip,
            panel=form_panel(self.loaded.manifest.spec.evaluation.judge) if Need.JUDGE in needs else None,
            settings={
                "entry": _describe_own(entry) if entry.rubric or entry.scorer else {},
                "parameters": dict(values),
                "rules": asdict(rules),
                **({"environment": self._describe_environment()} if definition.reads_environment else {}),
                **({"tools": _digest_tools(self.tools)} if definition.reads_tools else {}),
                **({"price": self.price and asdict(self.price)} if definition.reads_price else {}),
            },
        )

    @property
    def environment(self) -> EnvironmentConfig | None:
        """The world that the agent acts on."""
        return self.loaded.manifest.spec.evaluation.environment

    def _describe_environment(self) -> dict[str, Any]:
        """Return what scores depend on of the environment."""
        kept = {"nothing_else", "ignore"}
        return self.environment.model_dump(mode="json", include=kept) if self.environment else {}

    def _root(self, definition: MetricDefinition, rules: RelevanceRules) -> Metric | None:
        """Return the metric that this one is derived from."""
        if definition.base is None:
            return None
        base = METRICS.find(definition.base)
        if base is None:
            raise ValueError(f"{definition.name} is derived from '{definition.base}', which is not registered")
        return self._build(MetricEntry(name=base.name), MetricSpec(base.name), base, {}, rules)

    def _add(self, place: Place, message: str, fix: str = "") -> None:
        self._keep(self.loaded.problem(place, message, fix))

    def _keep(self, problem: Problem) -> None:
        if problem not in self.problems:  # the evaluation's metrics are resolved again for each dataset
            self.problems.append(problem)
