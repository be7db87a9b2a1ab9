"""What reports for people tell of asking a retriever: how it was asked, what reranking gained, what the stages took."""

from collections.abc import Mapping
from dataclasses import dataclass

from evalspec.foreign_text import inert
from evalspec.records import DatasetResult, RetrieverSettings, StageLatency, Summary
from evalspec.reporters.wording import UNKNOWN, Show, render_value

INTERVAL = "95 % interval"
RERANKING_TITLES = ("retrieved", "reranked", "gain", INTERVAL, "scored")
STAGE_TITLES = ("p50", "p95", "p99", "n")

_RETRIEVED, _GAIN = "retrieved.", "gain."


@dataclass(frozen=True, slots=True)
class Reranking:
    """One metric before and after reranking, and the difference; None: the dataset does not compute it."""

    metric: str
    retrieved: Summary | None
    reranked: Summary | None
    gain: Summary | None


def describe_settings(settings: RetrieverSettings, show: Show = inert) -> str:
    """`bm25: retrieve+rerank (dataset), topK 10 (--top-k), scope eval:faq: (dataset file)`."""
    told = {
        "mode": ("", show(settings.mode)),
        "topK": ("topK", str(settings.top_k)),
        "rerankTopK": ("rerankTopK", str(settings.rerank_top_k or "")),
        "scopePrefix": ("scope", settings.scope_prefix and show(settings.scope_prefix)),
        "minGrade": ("minGrade", str(settings.min_grade) if settings.min_grade > 1 else ""),
    }
    parts = [
        f"{title} {value}{f' ({show(settings.origins[name])})' if name in settings.origins else ''}".lstrip()
        for name, (title, value) in told.items()
        if value
    ]
    return f"{show(settings.name)}: {', '.join(parts)}"


def find_rerankings(dataset: DatasetResult) -> list[Reranking]:
    """Every metric that is computed before reranking, or as its gain, in the order of the dataset."""
    found = dataset.metrics
    plain = dict.fromkeys(_plain_name(metric) for metric in found if _is_staged(metric, dataset))
    return [Reranking(name, found.get(_RETRIEVED + name), found.get(name), found.get(_GAIN + name)) for name in plain]


def find_plain(dataset: DatasetResult) -> Mapping[str, Summary]:
    """The summaries without those that are told as rerankings; one that a limit is on is told both ways."""
    limited = {outcome.metric for outcome in dataset.thresholds}
    return {
        metric: summary
        for metric, summary in dataset.metrics.items()
        if metric in limited or not _is_staged(metric, dataset)
    }


def reranking_cells(found: Reranking) -> list[str]:
    """What stands under RERANKING_TITLES, none of it foreign. `scored`: of how many samples the gain is known."""
    gain, known = found.gain, found.gain or found.retrieved
    ends = gain.interval if gain else None
    return [
        _value(found.metric, found.retrieved),
        _value(found.metric, found.reranked),
        UNKNOWN if gain is None or gain.value is None else f"{gain.value:+.3f}",
        f"{ends[0]:+.3f} – {ends[1]:+.3f}" if ends else UNKNOWN,
        f"{known.scored:,}/{known.expected:,}" if known else UNKNOWN,
    ]


def stage_cells(stage: StageLatency) -> list[str]:
    """What stands under STAGE_TITLES."""
    return [*(render_value("latency", share) for share in (stage.p50, stage.p95, stage.p99)), f"{stage.count:,}"]


def _value(metric: str, summary: Summary | None) -> str:
    return UNKNOWN if summary is None or summary.value is None else render_value(metric, summary.value)


def _is_staged(metric: str, dataset: DatasetResult) -> bool:
    reranked = dataset.retriever is not None and dataset.retriever.rerank_top_k is not None
    return reranked and metric.startswith((_RETRIEVED, _GAIN))


def _plain_name(metric: str) -> str:
    return metric.removeprefix(_RETRIEVED) if metric.startswith(_RETRIEVED) else metric.removeprefix(_GAIN)
