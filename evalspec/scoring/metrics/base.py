"""Metric definitions (data and a function that builds the scorer) and their registry."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import StrEnum
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from evalspec.base.errors import check_packages
from evalspec.base.registry import Registry, near_miss
from evalspec.model import STAGES, Direction, Exchange, JudgePrice, Need, Sample, Score
from evalspec.scoring.metrics.parameters import RANGE, TURNS, Parameter, Value

if TYPE_CHECKING:
    from evalspec.inputs.manifest.environment_schema import EnvironmentConfig
    from evalspec.inputs.manifest.metric_schema import MetricEntry
    from evalspec.inputs.manifest.tool_schema import Tools
    from evalspec.scoring.judge.panel import Panel
    from evalspec.scoring.judge.services import JudgeServices

Scorer = Callable[[Exchange], Score | Awaitable[Score]]
"""Scores one exchange. It may return a Score of any status, or raise MetricError, which is recorded as failed."""

Bounds = tuple[float | None, float | None]
"""Lowest and highest value; None means unbounded."""

LONG_TEXTS = 500_000
"""Characters that metrics read whose time or memory per character is high: at this length, 3 s and 200 MB."""

_STAGED = tuple(f"{stage}." for stage in ("retrieved", "gain", *STAGES))
"""Prefixes of the metrics of a retriever stage."""


class RelevanceRules(Struct, frozen=True):
    """The settings of a dataset's retrieval metrics.

    `min_grade`: the lowest relevant grade. `compat`: the system whose formulas replace the standard ones.
    `zero_without_relevant`: whether a query without relevant documents counts as 0 instead of "not applicable".
    """

    min_grade: int = 1
    compat: str | None = None
    zero_without_relevant: bool = False


class ControlKind(StrEnum):
    """How known-bad cases of a judged metric are made: with the ANSWER of another sample, with an added sentence that
    lacks SUPPORT, or with the PASSAGES of another sample."""

    ANSWER = "answer"
    SUPPORT = "support"
    PASSAGES = "passages"


class BuildContext(Struct, frozen=True):
    """What a metric may use to build its scorer. Nothing is opened before it is used.

    `services`: the judge and the embeddings of the run. `folder`: the manifest's folder, which contains user modules.
    `parameters`: the values that the manifest sets. `tools`: those that the agent has; None: not declared.
    `environment`: the world that it acts on. `dataset`: its name; empty: unknown. `price`: of the agent's tokens; None:
    not known.
    """

    cutoff: int | None
    folder: Path
    services: "JudgeServices"
    rules: RelevanceRules = RelevanceRules()
    parameters: Mapping[str, Value] = {}
    tools: "Tools | None" = None
    environment: "EnvironmentConfig | None" = None
    dataset: str = ""
    price: JudgePrice | None = None


class MetricDefinition(Struct, frozen=True):
    """A metric as registered by name. `metrics.functions` creates one from a function."""

    name: str
    summary: str
    """A one-line summary for lists."""
    engine: str
    """The distribution or module that computes it, and after a comma the version of its prompt."""
    build: Callable[[BuildContext], Scorer] | None = None
    """Builds the scorer of a dataset; None for a metric derived from another."""
    needs: frozenset[Need] = frozenset()
    """What `evalspec validate` checks for every sample."""
    direction: Direction = Direction.HIGHER
    bounds: Bounds = (0.0, 1.0)
    """Scores outside these bounds fail, and thresholds outside are errors."""
    is_binary: bool = False
    """Whether every reply scores 0 or 1."""
    explain_expected: Callable[[Sample], str | None] | None = None
    """Returns why the expected answers of a sample cannot be compared with, and a fix; None: any text can."""
    scores_answers: bool = True
    """Whether it reads the answer, which a retriever under test does not return."""
    scores_calls: bool = False
    """Whether a reply that ends in calls of tools, and so has no answer, has a score."""
    is_of_whole: bool = False
    """Whether it scores a conversation as a whole, not turn by turn."""
    reads_environment: bool = False
    """Whether scores depend on what the manifest says about the environment."""
    from_trace: tuple[str, ...] = ()
    """The fields of the reply that it reads, beside its needs, and that a trace may give."""
    reads_tools: bool = False
    """Whether scores depend on the declared tools."""
    reads_price: bool = False
    """Whether scores depend on what the agent's tokens cost."""
    version: int = 1
    """Increase this if the same reply may get another score, which invalidates stored scores."""

    # Names and options in the manifest
    aliases: tuple[str, ...] = ()
    alias_parameters: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """The parameters that an alias implies, by alias."""
    parameters: tuple[Parameter, ...] = ()
    """The parameters that its entry may set, beside `range`. Those of a function are its keyword-only arguments."""
    takes_cutoff: bool = False
    """Whether `NAME@10` is valid."""
    implicit: bool = False
    """Whether a threshold is enough to compute it, because it is free."""
    usual_limits: Bounds = (None, None)
    """A minimum below the first value, or a maximum above the second, is suspicious and gets a warning."""

    # Numbers
    statistic: str = "mean"
    """The statistic that combines the scores of a dataset: mean, or a percentile such as p95."""
    scores_failures: bool = False
    """Whether samples without a reply are scored too."""

    # Costs
    reads_at_most: int | None = None
    """Characters of answer, expected answers and contexts together, so that time and memory of a score are bounded.
    Scores of longer texts fail; None: any length."""
    judge_calls: Callable[[int], int] | None = None
    """Judge calls per sample, given the number of its contexts; None without a judge."""
    judge_draws: int = 1
    """Judge calls per sample that draw answers to one question. Some endpoints give all of them in one request."""
    control: ControlKind | None = None
    """How cases that are known to be good or bad are made, which test the judge; None: they cannot be made."""
    judged_part: Callable[[Score], float] | None = None
    """Returns the part of a score that is the judge's word, by which control cases are compared; None: all of it."""
    imports: tuple[str, ...] = ()
    """Modules that scoring needs. They are imported before latency is measured."""
    extra: str = ""
    """The extra of the distribution that has their packages, if a slim installation lacks them."""

    # Dependencies on another metric, on the parameters, or on the dataset
    base: str | None = None
    """The metric from whose score this one is derived."""
    derive: Callable[[Score], Score] | None = None
    """Computes the score from that of `base`."""
    needs_of: Callable[[Mapping[str, Value]], frozenset[Need]] | None = None
    """Returns the `needs` with some parameters, if these change them."""
    bounds_of: Callable[[RelevanceRules], Bounds] | None = None
    """Returns the `bounds` under the rules of a dataset, if these change them."""

    @property
    def is_staged(self) -> bool:
        """Return whether this is a metric of a retriever stage, `stage.metric`. Lists show only the prefixes."""
        return self.name.startswith(_STAGED)

    @property
    def settable(self) -> dict[str, Parameter]:
        """Return everything that an entry may set, by name: the parameters, and those of all metrics."""
        of_all = [Parameter(RANGE, tuple, default=self.bounds)]
        of_all += [] if self.is_of_whole else [Parameter(TURNS, str, ("mean", "worst"), "mean")]
        return {one.name: one for one in (*self.parameters, *of_all)}

    def register(self, registry: "Registry[MetricDefinition]") -> None:
        """Register the metric under its name and aliases.

        Raises:
            ValueError: a name is taken.
        """
        registry.add(self.name, self, self.aliases)


class MetricRegistry(Registry[MetricDefinition]):
    """All metrics. Stage metrics are suggested only for names with a dot."""

    def hint(self, name: str) -> str:
        """Return a hint for an unknown name. A list of all metrics would mostly repeat names with prefixes."""
        names = [metric.name for metric in self if "." in name or not metric.is_staged]
        return near_miss(name, names) + self.note_plugins()

    def _list_things(self, source: Any) -> Iterator[MetricDefinition]:
        return super()._list_things(vars(source).get("definition") if isfunction(source) else source)


METRICS = MetricRegistry("metric", "evalspec.metrics", ("evalspec.scoring.metrics",), MetricDefinition)


def read_text(name: str) -> str:
    """Return what the user has to know of a metric, from the Markdown beside its module; empty if nothing is there.

    It has the definition, when to use the metric, and an example as JSON, which the tests score.
    """
    section = re.compile(rf"^## {re.escape(name)}\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    pages = sorted(Path(__file__).parent.glob("*.md"))
    found = (section.search(page.read_text(encoding="utf-8")) for page in pages)
    return next((one[1].strip() for one in found if one), "")


def build_scorer(definition: MetricDefinition, needs: frozenset[Need], context: BuildContext) -> Scorer | None:
    """Return the scorer of a metric; None for a metric derived from another.

    Raises:
        MissingPackage: a required package is not installed.
        InvalidInput: the metric cannot be built, or a metric of another package raised.
    """
    context.services.check_installed(definition.name, needs)
    if definition.extra:
        check_packages(definition.name, {module.partition(".")[0] for module in definition.imports}, definition.extra)
    with METRICS.attribute_errors(definition.name):
        return definition.build(context) if definition.build else None


_TRACED = {
    Need.CONTEXT: "retrieved_contexts",
    Need.RETRIEVED_IDS: "retrieved_context_ids",
    Need.CANDIDATE_IDS: "candidate_ids",
}


class Metric(Struct, frozen=True):
    """A metric of a dataset: its definition, printed name and scorer.

    `root`: the metric from whose score this one is derived, None for most. `skip_reason`: why the metric is declared
    but not computed in this run. `settings`: its settings in the manifest, as JSON. `panel`: the judges, if several
    score it. `entry`: what it was resolved from, so that another process can resolve it too; None: it is a root.
    """

    name: str
    definition: MetricDefinition
    scorer: Scorer | None
    needs: frozenset[Need]
    bounds: Bounds
    root: "Metric | None" = None
    skip_reason: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    panel: "Panel | None" = None
    entry: "MetricEntry | None" = None

    @property
    def takes_worst_turn(self) -> bool:
        """Whether a conversation has the score of its worst turn, instead of the mean over its turns."""
        return bool(self.settings.get("parameters", {}).get(TURNS) == "worst")

    @property
    def traced(self) -> set[str]:
        """The fields of a reply that it reads and a trace may give."""
        return {_TRACED[need] for need in self.needs if need in _TRACED}.union(self.definition.from_trace)

    @property
    def files(self) -> dict[str, str]:
        """The files that its scores depend on, relative to the manifest, by parameter."""
        given = self.settings.get("parameters", {})
        files = (one.name for one in self.definition.parameters if one.is_file)
        return {name: given[name] for name in files if isinstance(given.get(name), str)}
