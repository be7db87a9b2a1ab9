"""What a metric is: data, and one function that builds its scorer. One registry holds them all."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspec.manifest.schema import MetricEntry
from evalspec.model import STAGES, Direction, Exchange, Need, Score
from evalspec.registry import Registry, near_miss

if TYPE_CHECKING:
    from evalspec.judge.services import JudgeServices

Scorer = Callable[[Exchange], Score | Awaitable[Score]]
"""Scores one exchange. It may return a Score of any status, or raise MetricError, which is recorded as failed."""

Bounds = tuple[float | None, float | None]
"""Lowest and highest value; None means that there is no limit."""

_STAGED = tuple(f"{stage}." for stage in ("retrieved", "gain", *STAGES))
"""Prefixes of the metrics of one stage of a retriever."""


@dataclass(frozen=True, slots=True)
class RelevanceRules:
    """How a dataset wants its retrieval measured.

    `min_grade`: the lowest grade that is relevant. `compat`: the system whose formulas replace the standard's.
    `zero_without_relevant`: a query without relevant documents is a 0 in the mean, not "not applicable".
    """

    min_grade: int = 1
    compat: str | None = None
    zero_without_relevant: bool = False


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What a metric may ask for when its scorer is built: nothing in here is opened before it is used.

    `services`: the judge and the embeddings of the run. `folder`: the manifest's, where a user's own module is found.
    """

    entry: MetricEntry
    cutoff: int | None
    folder: Path
    services: "JudgeServices"
    rules: RelevanceRules = RelevanceRules()


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric as it is known by name. `metrics.functions` makes one of a function."""

    name: str
    summary: str
    """One line for lists."""
    engine: str
    """The distribution or module that computes it, and after a comma the version of its prompt."""
    build: Callable[[BuildContext], Scorer] | None = None
    """Make the scorer of one dataset; None for a metric that is derived from another."""
    needs: frozenset[Need] = frozenset()
    """What `evalspec validate` checks for every sample."""
    direction: Direction = Direction.HIGHER
    bounds: Bounds = (0.0, 1.0)
    """A score outside fails, and a threshold outside is an error."""
    is_binary: bool = False
    """Every score of one reply is 0 or 1."""
    scores_answers: bool = True
    """It reads the text of the answer, which a retriever under test does not give."""
    version: int = 1
    """Raise it when the same reply may get another score: stored scores no longer count then."""

    # Names and options in the manifest
    aliases: tuple[str, ...] = ()
    alias_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of the entry that an alias stands for, by alias."""
    options: frozenset[str] = frozenset()
    """Which of the options `match` and `reference` its entry may have."""
    takes_cutoff: bool = False
    """`NAME@10` is understood."""
    implicit: bool = False
    """A threshold alone is enough for it to be computed, because it costs nothing."""
    usual_limits: Bounds = (None, None)
    """A minimum below the first or a maximum above the second is a warning: it is hardly meant."""

    # Numbers
    statistic: str = "mean"
    """How scores become the value of a dataset: mean, or a percentile such as p95."""
    attains_bounds: bool = True
    """Scores do reach both bounds, so that intervals may count on them; a cosine does not come near −1."""
    scores_failures: bool = False
    """Samples without a reply are scored too."""

    # Costs
    judge_calls: Callable[[int], int] | None = None
    """Requests to the judge for a sample, from the number of its contexts; None without a judge."""
    imports: tuple[str, ...] = ()
    """Modules that the first score would import: they are imported before latency is measured."""

    # What depends on another metric, on the entry, or on the dataset
    base: str | None = None
    """The metric whose score this one is derived from."""
    derive: Callable[[Score], Score] | None = None
    """The score, from that of `base`."""
    needs_of: Callable[[MetricEntry], frozenset[Need]] | None = None
    """`needs` of an entry, if an option changes them."""
    bounds_of: Callable[[RelevanceRules], Bounds] | None = None
    """`bounds` under the rules of a dataset, if these change them."""

    @property
    def is_staged(self) -> bool:
        """Whether it is the metric of one stage of a retriever, `stage.metric`; lists name the prefixes only."""
        return self.name.startswith(_STAGED)

    def register(self, registry: "Registry[MetricDefinition]") -> None:
        """Make it known under its name and aliases.

        Raises:
            ValueError: a name is taken.
        """
        registry.add(self.name, self, self.aliases)


class MetricRegistry(Registry[MetricDefinition]):
    """All metrics. Those of the stages are found like the others, and proposed to none who wrote no dot."""

    def hint(self, name: str) -> str:
        """What to write instead of an unknown name: a list of all would be mostly the same names with a prefix."""
        names = [metric.name for metric in self if "." in name or not metric.is_staged]
        return near_miss(name, names) + self.note_plugins()

    def _list_things(self, source: Any) -> Iterator[MetricDefinition]:
        return super()._list_things(vars(source).get("definition") if isfunction(source) else source)


METRICS = MetricRegistry("metric", "evalspec.metrics", "evalspec.metrics", MetricDefinition)


def build_scorer(definition: MetricDefinition, needs: frozenset[Need], context: BuildContext) -> Scorer | None:
    """The scorer of a metric; None for one that is derived from another.

    Raises:
        MissingPackage: what its needs take is not installed.
        InvalidInput: it cannot be built, or is another package's and raised.
    """
    context.services.check_installed(definition.name, needs)
    with METRICS.blaming(definition.name):
        return definition.build(context) if definition.build else None


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as one dataset computes it: a definition, its printed name and its scorer.

    `root`: the metric whose score this one is derived from, None for most. `skip_reason`: set where the metric is
    declared but not computed in this run. `settings`: what the manifest says of how it is computed, ready for JSON.
    """

    name: str
    definition: MetricDefinition
    scorer: Scorer | None
    needs: frozenset[Need]
    bounds: Bounds
    root: "Metric | None" = None
    skip_reason: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
