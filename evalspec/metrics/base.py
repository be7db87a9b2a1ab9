"""What a metric is: data, and one function that builds its scorer. One registry holds them all."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspec.manifest.schema import MetricEntry
from evalspec.model import Direction, Exchange, Need, Score
from evalspec.registry import Registry, near_miss

if TYPE_CHECKING:
    from evalspec.judge.services import JudgeServices

Scorer = Callable[[Exchange], Score | Awaitable[Score]]
"""Scores one exchange. It may return a Score of any status, or raise MetricError, which is recorded as failed."""


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
    """One metric as it is known by name.

    `bounds`: lowest and highest value, None where there is no limit; a threshold outside is an error. `attains_bounds`:
    scores do reach both, so that intervals may count on them; a cosine does not come near −1. `engine`: whose
    code computes it. `statistic`: how scores become the dataset's value (mean, or a percentile such as p95).
    `implicit`: a threshold alone is enough for it to be computed, because it costs nothing. `base`: the metric that it
    is derived from, with `derive` from one score to the other. `scores_failures`: it is asked about samples without a
    reply too. `judge_calls`: judge requests a sample, from the number of
    its contexts; None for a metric without a judge. `takes_reference`: the entry option `reference` is understood;
    `takes_match`: the option `match` is. `alias_options`: entry options that an alias stands for, by alias. `version`:
    raise it when the same reply may get another score. `usual_limits`: a minimum below the first, or a maximum above
    the second, can hardly be meant and is a warning. `needs_of`: what it needs given its entry, where that differs from
    `needs`. `imports`: modules that the first score would import, so that they can be there before latency is measured.
    `bounds_of`: its bounds under the rules of a dataset, where they differ from `bounds`. `scores_answers`: it looks at
    the answer's text, which a retriever under test does not give. `staged`: it is another metric on one stage of a
    retriever, named `stage.metric`; whoever lists metrics tells the prefixes instead. `is_binary`: every score of one
    reply is 0 or 1.
    """

    name: str
    summary: str
    engine: str
    build: Callable[[BuildContext], Scorer] | None = None
    needs: frozenset[Need] = frozenset()
    direction: Direction = Direction.HIGHER
    bounds: tuple[float | None, float | None] = (0.0, 1.0)
    attains_bounds: bool = True
    aliases: tuple[str, ...] = ()
    takes_cutoff: bool = False
    statistic: str = "mean"
    implicit: bool = False
    base: str | None = None
    derive: Callable[[Score], Score] | None = None
    scores_failures: bool = False
    judge_calls: Callable[[int], int] | None = None
    takes_reference: bool = False
    takes_match: bool = False
    alias_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    version: int = 1
    usual_limits: tuple[float | None, float | None] = (None, None)
    needs_of: Callable[[MetricEntry], frozenset[Need]] | None = None
    imports: tuple[str, ...] = ()
    bounds_of: Callable[[RelevanceRules], tuple[float | None, float | None]] | None = None
    scores_answers: bool = True
    staged: bool = False
    is_binary: bool = False


class MetricRegistry(Registry[MetricDefinition]):
    """All metrics. Those of the stages are found like the others, and proposed to none who wrote no dot."""

    def hint(self, name: str) -> str:
        """What to write instead of an unknown name: a list of all would be mostly the same names with a prefix."""
        names = [metric.name for metric in self if "." in name or not metric.staged]
        return near_miss(name, names) + self.note_plugins()


METRICS = MetricRegistry("metric", "evalspec.metrics")


def register(definition: MetricDefinition) -> MetricDefinition:
    """Make a metric known under its name and aliases.

    Raises:
        ValueError: a name is taken.
    """
    return METRICS.add(definition.name, definition, definition.aliases)


def per_sample(compute: Callable[[Exchange], Score]) -> Callable[[BuildContext], Scorer]:
    """Build for a metric that has no settings: the function is the scorer."""
    return lambda _context: compute


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
    bounds: tuple[float | None, float | None]
    root: "Metric | None" = None
    skip_reason: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
