"""Results of a run: datasets with their samples, and the run itself, also as HTML and as a data frame in notebooks."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import force_setattr, replace

from evalspec.model.base import Number, Record
from evalspec.model.corrections import Controls
from evalspec.model.curation import Curation
from evalspec.model.diagnosis import Diagnosis
from evalspec.model.fingerprints import Fingerprint, RetrieverMode
from evalspec.model.scores import Cause, SampleResult, SampleStatus
from evalspec.model.summaries import RepeatSummary, SliceResult, StatedLimit, Summaries, Summary, Threshold
from evalspec.model.usage import JudgeUsage
from evalspec.model.verdicts import MeasurementChange, RegressionOutcome, VerdictStatus

_WORST_FIRST = (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE, VerdictStatus.NOT_GATED, VerdictStatus.PASS)


class RetrieverSettings(Record, frozen=True):
    """The settings with which the queries of a dataset were sent to a retriever."""

    name: Annotated[str, Meta(description="The retriever's name in the manifest, with the variant of a grid.")]
    mode: Annotated[RetrieverMode, Meta(description="`retrieve`, or `retrieve+rerank`.")]
    top_k: Annotated[int, Meta(description="Number of distinct documents in each ranking, unless a query has its own.")]
    rerank_top_k: Annotated[int | None, Meta(description="Number of candidates to rerank; null: no reranking.")] = None
    scope_prefix: Annotated[str, Meta(description="Prefix of the ids that are searched; empty: everything.")] = ""
    depth: Annotated[
        int, Meta(description="Rank down to which missing documents are searched for; 0: no such search.")
    ] = 0
    min_grade: Annotated[int, Meta(description="The lowest grade that counts as relevant.")] = 1
    origins: Annotated[
        Mapping[str, str],
        Meta(
            description="Where `mode`, `topK`, `rerankTopK` and `scopePrefix` were set, such as `--top-k`, `dataset` "
            "or `default`."
        ),
    ] = {}


class StageLatency(Record, frozen=True):
    """The latency of one stage, in ms."""

    stage: Annotated[
        str,
        Meta(
            description="`first_token` of an agent; `embed`, `retrieve`, `rerank` or another stage of a retriever; or "
            "`total`."
        ),
    ]
    count: Annotated[int, Meta(description="Number of attempts with a known latency of this stage.")]
    p50: Annotated[Number, Meta(description="Median, in ms.")]
    p95: Annotated[Number, Meta(description="95th percentile, in ms.")]
    p99: Annotated[Number, Meta(description="99th percentile, in ms.")]


class Dataset(Record, frozen=True, kw_only=True):
    """What the plan of a run says about a dataset, and its report too."""

    name: Annotated[str, Meta(description="Name of the dataset in the manifest.")]
    file: Annotated[
        str | None, Meta(description="Its file, as written in the manifest; null: not from a manifest.")
    ] = None
    source_id: Annotated[str | None, Meta(description="The id in its file; null: the file has none.")] = None
    description: Annotated[str | None, Meta(description="The description in its file; null: none.")] = None
    thresholds: Annotated[
        tuple[Threshold, ...], Meta(description="The limits on this dataset and its slices, with their outcomes.")
    ] = ()
    limits: Annotated[
        tuple[StatedLimit, ...],
        Meta(description="Each limit that the manifest or the dataset's file states for it, enforced or not."),
    ] = ()
    retriever: Annotated[
        RetrieverSettings | None, Meta(description="How the retriever was queried; null: the target is an agent.")
    ] = None
    cluster: Annotated[
        str | None, Meta(description="The metadata key that groups dependent samples; null: samples are independent.")
    ] = None
    gold: Annotated[
        Curation | None,
        Meta(description="Agreement and quality of a gold set at the time of the run; null: not a gold set."),
    ] = None

    def state(self) -> dict[str, Any]:
        """Return these fields, by name, to make a result of a plan."""
        return {name: getattr(self, name) for name in Dataset.__struct_fields__}


class DatasetResult(Dataset, frozen=True, kw_only=True):
    """One dataset of a run."""

    selected: Annotated[int, Meta(description="Samples of this run, after tags and sampling.")] = -1
    answered: Annotated[int, Meta(description="Samples with a usable reply to every attempt.")] = -1
    metrics: Summaries
    slices: Annotated[
        tuple[SliceResult, ...],
        Meta(
            description="Parts by tag and metadata, worst first, small ones last. `slices` of the dataset selects the "
            "keys."
        ),
    ] = ()
    repeats: Annotated[
        RepeatSummary | None,
        Meta(description="Pass rates and variances; null: one attempt per sample, and one grading per reply."),
    ] = None
    stages: Annotated[
        tuple[StageLatency, ...],
        Meta(
            description="Latencies of the stages of the retriever, or to the first token of streams, and the total. "
            "Empty: not known."
        ),
    ] = ()
    diagnosis: Annotated[
        Diagnosis | None,
        Meta(
            description="Why rankings miss relevant documents; null: no retriever, or the run was made with "
            "--no-content."
        ),
    ] = None
    samples: Annotated[
        tuple[SampleResult, ...],
        Meta(description="A result for each sample; empty after `evalspec score` without `--per-query`."),
    ]

    def __post_init__(self) -> None:
        """Count the samples, unless their counts are given: a report of many may leave them out."""
        if self.selected < 0:
            force_setattr(self, "selected", len(self.samples))
        if self.answered < 0:
            answered = sum(sample.status is SampleStatus.ANSWERED for sample in self.samples)
            force_setattr(self, "answered", answered)

    def is_own(self, threshold: Threshold, slice: str | None = None) -> bool:
        """Return whether a threshold limits the value of the metric's summary, in the whole dataset or in a slice."""
        summary = self.metrics.get(threshold.metric)
        return summary is not None and threshold.slice == slice and threshold.stat in (None, summary.statistic)

    def own_threshold(self, metric: str, slice: str | None = None) -> Threshold | None:
        """Return the tightest of a metric's own thresholds, with the worst of their statuses. None if it has none."""
        own = [limit for limit in self.thresholds if limit.metric == metric and self.is_own(limit, slice)]
        if not own:
            return None
        lowest = [limit.min for limit in own if limit.min is not None]
        highest = [limit.max for limit in own if limit.max is not None]
        status = min((limit.status for limit in own), key=_WORST_FIRST.index)
        return Threshold(metric, max(lowest, default=None), min(highest, default=None), slice, status=status)

    def is_stopped(self, metric: str) -> bool:
        """Return whether the run stopped before all scores of a metric."""
        of_samples = (scores for one in self.samples for scores in (one.scores, *(a.scores for a in one.attempts)))
        return any(scores[metric].cause is Cause.STOPPED for scores in of_samples if metric in scores)

    def with_limits(self) -> "DatasetResult":
        """Return a copy with the limit of each metric in its summary, and whether the value is within it."""
        slices = tuple(replace(part, metrics=self._limit(part.metrics, part.name)) for part in self.slices)
        return replace(self, metrics=self._limit(self.metrics), slices=slices)

    def _limit(self, metrics: Mapping[str, Summary], slice: str | None = None) -> dict[str, Summary]:
        return {name: summary.within(self.own_threshold(name, slice)) for name, summary in metrics.items()}


class Run(Record, frozen=True, kw_only=True):
    """One finished run."""

    schema_version: Annotated[Literal[1], Meta(description="Version of the layout. Later releases only add keys.")] = 1
    id: Annotated[str, Meta(description="Id of the run in the run store; `score` after `evalspec score`.")] = field(
        name="runId"
    )
    verdict: Annotated[
        VerdictStatus,
        Meta(
            description="The gate's verdict on the whole run. NOT_GATED: the gate is off, or no limit applies. SHARD: "
            "this is a part of a run; the gate checks the merged run."
        ),
    ] = VerdictStatus.NOT_GATED
    partial: Annotated[bool, Meta(description="Whether declared metrics or thresholds were deliberately skipped.")] = (
        False
    )
    exit_code: Annotated[
        int, Meta(description="Exit code of the command: 0, 1 (a limit is broken) or 3 (not measured).")
    ] = 0
    reasons: Annotated[tuple[str, ...], Meta(description="Why the verdict is not PASS; empty: it is.")] = ()
    notes: Annotated[tuple[str, ...], Meta(description="Notes on how to interpret the numbers.")] = ()
    has_texts: Annotated[
        bool,
        Meta(
            description="Whether errors, notes, reasons of scores, diagnoses and all metadata are included; false: "
            "--no-content withheld them."
        ),
    ] = True
    regressions: Annotated[
        tuple[RegressionOutcome, ...],
        Meta(
            description="Outcomes of the limits on regressions; empty: the gate has no baseline, or no metric has a "
            "limit."
        ),
    ] = ()
    measurement: Annotated[
        tuple[MeasurementChange, ...],
        Meta(description="What changed in the measurement since the baseline, and what makes its numbers doubtful."),
    ] = ()
    fingerprint: Annotated[
        Fingerprint,
        Meta(
            description="What was run: manifest, datasets, selection, target, judge and versions. Secrets are redacted."
        ),
    ] = Fingerprint()
    judge_usage: Annotated[
        Mapping[str, JudgeUsage],
        Meta(description="Usage of the judge by metric, and of the `simulated user`; empty: none."),
    ] = {}
    judge_costs: Annotated[
        Mapping[str, Number | None],
        Meta(
            description="Cost of the judge by metric, and of the `simulated user`, by their prices; null: an answer "
            "has no token count, or there is no price. Empty: no price at all."
        ),
    ] = {}
    controls: Annotated[
        tuple[Controls, ...],
        Meta(description="What the judge makes of known-good and known-bad cases; empty: nothing is judged, or off."),
    ] = ()
    datasets: Annotated[tuple[DatasetResult, ...], Meta(description="A result for each selected dataset.")]

    @property
    def verdict_text(self) -> str:
        """The verdict in words, with PARTIAL if it applies: `NOT GATED (PARTIAL)`."""
        return self.verdict.replace("_", " ") + (" (PARTIAL)" if self.partial else "")

    def __repr__(self) -> str:
        """The run in a line; a full one would have every score of every sample."""
        datasets = ", ".join(f"{dataset.name} ({dataset.selected})" for dataset in self.datasets)
        return f"<Run {self.id}: {self.verdict_text}, {datasets}>"

    def find_dataset(self, name: str) -> DatasetResult | None:
        """Return the dataset of a name, None if the run has none."""
        return next((dataset for dataset in self.datasets if dataset.name == name), None)

    def to_frame(self, library: Literal["pandas", "polars"] | None = None) -> Any:
        """Return a data frame with a row for each sample: dataset, id, status, latency and each score (null: none).

        `library`: default pandas if it is installed, else polars.

        Raises:
            ImportError: The library is not installed.
        """
        return build_frame(self, library)

    def _repr_html_(self) -> str:
        """Return the run as HTML for notebooks: verdict, reasons and a table of the metrics."""
        return render_notebook(self)


def describe_reuse(fingerprint: Fingerprint) -> str | None:
    """Return a note if a run used an agent that was running already instead of starting `command`, else None."""
    url = fingerprint.agent and fingerprint.agent.reused_url
    return f"used the agent already running at {url}; `command` was not started" if url else None


def build_frame(run: Run, library: Literal["pandas", "polars"] | None) -> Any:
    """Return a data frame with a row for each sample; see `Run.to_frame`.

    Raises:
        ImportError: The library is not installed.
    """
    metrics = dict.fromkeys(metric for dataset in run.datasets for metric in dataset.metrics)
    rows = [
        {"dataset": dataset.name, "id": sample.id, "status": str(sample.status), "latency_ms": sample.latency_ms}
        | {metric: score.value if (score := sample.scores.get(metric)) else None for metric in metrics}
        for dataset in run.datasets
        for sample in dataset.samples
    ]
    name = library or ("pandas" if find_spec("pandas") else "polars")
    return import_module(name).DataFrame(rows)


def render_notebook(run: Run) -> str:
    """Return verdict, reasons and a table of the metrics as HTML."""
    from html import escape  # with the names of all entities, which other readers of a run do not need

    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in _list_values(run))
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in run.reasons)
    head = "<tr><th>dataset</th><th>metric</th><th>value</th><th>95 % interval</th><th>scored</th></tr>"
    return f"<b>{run.verdict_text}</b> {escape(run.id)}<ul>{reasons}</ul><table>{head}{rows}</table>"


def _list_values(run: Run) -> Iterator[tuple[str, ...]]:
    for dataset in run.datasets:
        for metric, found in dataset.metrics.items():
            value = "–" if found.value is None else f"{found.value:.4g}"
            interval = "–" if found.interval is None else " – ".join(f"{bound:.4g}" for bound in found.interval)
            yield dataset.name, metric, value, interval, f"{found.scored}/{found.expected}"
