"""What `evalspec plan` says of a run: its calls, and what its comparison with a baseline can detect."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from evalspec.base.errors import Problem
from evalspec.model.base import Record
from evalspec.model.summaries import Direction
from evalspec.model.verdicts import RegressionRule


class NoiseBasis(StrEnum):
    """How the noise of a metric is known."""

    MEASURED = "measured"
    ASSUMED = "assumed"


class UsageBasis(StrEnum):
    """Where the tokens per call are from: earlier runs of the manifest, or the texts of the samples."""

    MEASURED = "measured"
    ESTIMATED = "estimated"


class MetricForecast(Record, frozen=True):
    """The smallest drop of a metric that the gate detects."""

    metric: Annotated[str, Meta(description="Name of the metric.")]
    direction: Direction
    max_drop: Annotated[float, Meta(description="Its `maxDrop`.")]
    pairs: Annotated[int, Meta(description="Samples with scores in both runs.")] = 0
    units: Annotated[int, Meta(description="The independent ones of them, or clusters.")] = 0
    detectable: Annotated[
        tuple[float, float] | None,
        Meta(
            description="The smallest drop that is detected in four of five runs, with the least and the most noise "
            "that is plausible; null: see `reason`."
        ),
    ] = None
    advice: Annotated[
        str | None, Meta(description="What the confirmation of drops costs, and what wins it back; null: little.")
    ] = None
    samples_needed: Annotated[
        int | None,
        Meta(description="About how many samples exclude a drop of `maxDrop` if nothing changed; null: unknown."),
    ] = None
    noise: Annotated[NoiseBasis | None, Meta(description="How the noise is known; null: nothing is tested.")] = None
    noise_source: Annotated[str | None, Meta(description="Where the noise comes from, in a sentence.")] = None
    reason: Annotated[str | None, Meta(description="Why nothing is detected; null: it is.")] = None


Range = tuple[float, float]


class JudgeForecast(Record, frozen=True, kw_only=True):
    """What a metric will use of the judge, from the least to the most. Retries are not foreseen."""

    metric: Annotated[str, Meta(description="Name of the metric.")]
    scores: Annotated[int, Meta(description="Number of scores, with attempts and gradings.")]
    cached: Annotated[
        int,
        Meta(
            description="At most so many come from the judge's cache: if replies, metric and judge are the same again."
        ),
    ]
    calls: Annotated[tuple[int, int], Meta(description="Calls: with these scores from the cache, and without cache.")]
    input_tokens: Annotated[Range, Meta(description="Tokens of the prompts.")]
    output_tokens: Annotated[Range, Meta(description="Tokens of the answers; `maxTokens` each at most.")]
    cost: Annotated[Range | None, Meta(description="In the currency of `judge.price`; null: see `costReason`.")]
    cost_reason: Annotated[str | None, Meta(description="Why the cost is unknown; null: it is known.")]
    seconds: Annotated[
        Range | None, Meta(description="Wall time, from that of earlier runs per call; null: see `secondsReason`.")
    ]
    seconds_reason: Annotated[str | None, Meta(description="Why the time is unknown; null: it is known.")]
    source: Annotated[
        UsageBasis,
        Meta(description="Where tokens per call are from: earlier runs of the manifest, or the texts of the samples."),
    ]


class LabelForecast(Record, frozen=True):
    """How many labels decide a limit of a judged metric in four of five runs, if people say what is assumed.

    It holds whatever the judge says. With a good judge, fewer labels decide.
    """

    metric: Annotated[str, Meta(description="Name of the metric.")]
    limit: Annotated[float, Meta(description="The limit on its mean.")]
    people: Annotated[float, Meta(description="The mean of people's scores that is assumed.")]
    labels: Annotated[int | None, Meta(description="Blind labels of random replies; null: more than there are.")]
    replies: Annotated[int, Meta(description="Number of replies that can be labelled.")]
    is_calibrated: Annotated[bool, Meta(description="Whether `people` is from the newest calibration.")]


class DatasetForecast(Record, frozen=True):
    """A dataset of a planned run."""

    name: Annotated[str, Meta(description="Name of the dataset in the manifest.")]
    samples: Annotated[int, Meta(description="Number of selected samples.")]
    units: Annotated[int, Meta(description="Number of independent ones, or of clusters.")]
    units_needed: Annotated[
        int | None,
        Meta(description="How many units must change for a drop to be significant; null: nothing is tested."),
    ]
    cluster: Annotated[str | None, Meta(description="The metadata key that groups dependent samples; null: none.")]
    only_in_this_run: Annotated[int, Meta(description="Selected samples that the baseline lacks.")]
    retriever: Annotated[str | None, Meta(description="The retriever that is queried; null: the agent is.")]
    agent_requests: Annotated[int, Meta(description="Requests to the agent: one a turn, at most those of `maxTurns`.")]
    retriever_queries: Annotated[int, Meta(description="Queries to the retriever.")]
    judge_calls: Annotated[
        Mapping[str, int],
        Meta(description="Estimated calls of the judge by metric, and most of the `simulated user`, without retries."),
    ]
    metrics: Annotated[tuple[MetricForecast, ...], Meta(description="The metrics with a `maxDrop`.")]
    judge: Annotated[tuple[JudgeForecast, ...], Meta(description="What each judged metric will use.")] = ()
    controls: Annotated[
        tuple[JudgeForecast, ...], Meta(description="What the tests of the judge will use: control cases and anchors.")
    ] = ()
    labels: Annotated[
        tuple[LabelForecast, ...], Meta(description="The labels that decide limits of judged metrics.")
    ] = ()

    @property
    def requests(self) -> int:
        """The number of requests, to the agent or to the retriever."""
        return self.agent_requests + self.retriever_queries


class PartForecast(Record, frozen=True):
    """A part of gold sets, with its calls and those of the full sets."""

    name: Annotated[str, Meta(description="`slice 2026Q4`, or `the held-out share`.")]
    triples: Annotated[int, Meta(description="Triples of the part.")]
    full_triples: Annotated[int, Meta(description="Triples of the whole sets.")]
    requests: Annotated[int, Meta(description="Requests for the part.")]
    full_requests: Annotated[int, Meta(description="Requests for the whole sets.")]
    judge_calls: Annotated[int, Meta(description="Calls of the judge for the part.")]
    full_judge_calls: Annotated[int, Meta(description="Calls of the judge for the whole sets.")]
    share: Annotated[float, Meta(description="Share of the triples.")]


class ForecastBaseline(Record, frozen=True):
    """The baseline of a forecast."""

    name: Annotated[str, Meta(description="Name of the baseline.")]
    run_id: Annotated[str, Meta(description="The run that was promoted.")]


class ForecastRepeats(Record, frozen=True):
    """Attempts per sample, and judge calls per reply."""

    agent: Annotated[int, Meta(description="Attempts per sample.")]
    judge: Annotated[int, Meta(description="Gradings per reply.")]


class Forecast(Record, frozen=True, kw_only=True):
    """A planned run and its comparison with a baseline."""

    schema_version: Annotated[Literal[1], Meta(description="Version of this document.")] = 1
    exit_code: Annotated[Literal[0], Meta(description="The exit code of the command.")] = 0
    summary: Annotated[str, Meta(description="What the comparison detects, in a sentence.")]
    baseline: Annotated[ForecastBaseline | None, Meta(description="null: no baseline.")]
    alpha: Annotated[float | None, Meta(description="The significance level of the gate; null: nothing is tested.")]
    regression: Annotated[RegressionRule, Meta(description="How the gate compares.")]
    power: Annotated[float, Meta(description="Share of runs in which a detectable drop is detected.")]
    tests: Annotated[int, Meta(description="Number of tests that are adjusted together.")]
    repeats: ForecastRepeats
    agent_requests: Annotated[int, Meta(description="Requests to the agent.")]
    retriever_queries: Annotated[int, Meta(description="Queries to retrievers.")]
    judge_calls: Annotated[int, Meta(description="Estimated calls of judge and `simulated user`, without retries.")]
    may_confirm: Annotated[
        bool, Meta(description="Whether second attempts, with as many calls again, would confirm a drop.")
    ]
    part: Annotated[PartForecast | None, Meta(description="The part of gold sets; null: whole datasets.")]
    datasets: Annotated[tuple[DatasetForecast, ...], Meta(description="The selected datasets.")]
    notes: Annotated[tuple[str, ...], Meta(description="What the numbers assume.")]
    warnings: Annotated[tuple[Problem, ...], Meta(description="What is suspicious in the manifest or the datasets.")]
    incomplete: Annotated[
        tuple[str, ...], Meta(description="Why the verdict cannot be PASS, whatever is measured; empty: it can.")
    ]

    @property
    def metrics(self) -> list[tuple[DatasetForecast, MetricForecast]]:
        """The metrics with a maxDrop, each with its dataset."""
        return [(dataset, metric) for dataset in self.datasets for metric in dataset.metrics]
