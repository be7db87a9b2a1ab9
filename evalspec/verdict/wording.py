"""Numbers, limits and counts in words, for reports to people."""

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from evalspec.base.plural import counted, name_some, pluralize
from evalspec.model import (
    Cause,
    Correction,
    DatasetResult,
    JudgeUsage,
    PeopleScores,
    RegressionOutcome,
    Score,
    Summary,
    Threshold,
    VerdictStatus,
)
from evalspec.model.corrections import JudgeCorrection

if TYPE_CHECKING:
    from evalspec.inputs.manifest.gate_schema import CiGate

MARKS = {
    VerdictStatus.PASS: "✓",
    VerdictStatus.FAIL: "✗",
    VerdictStatus.INCOMPLETE: "?",
    VerdictStatus.NOT_GATED: "–",
    VerdictStatus.SHARD: "–",
}
UNKNOWN = "–"
DEMONSTRATION = "demonstration, not reviewed by people"

_REASONS_SHOWN = 3
_BY_CAUSE = {
    Cause.DATASET: "by the dataset",
    Cause.REPLY: "by the reply",
    Cause.JUDGE: "by the judge",
    Cause.STOPPED: "by the end of the run",
    Cause.OTHER: "by other causes",
}
_MOST_DECIMALS = 9
_SMALL = 0.0095
"""Differences below this get one more digit than values."""


def render_value(metric: str, value: float, limit: Threshold | None = None) -> str:
    """Return a number with suitable precision: 0.861, 51.2, 1,934 ms.

    A value that exceeds its limit gets enough decimals to show that: 0.7996 below 0.80, not 0.800.
    """
    decimals = 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    if limit and limit.excess(value):
        while decimals < _MOST_DECIMALS and not limit.excess(round(value, decimals)):
            decimals += 1
    return f"{value:z,.{decimals}f}{_unit(metric)}"


def render_known(metric: str, value: float | None, limit: Threshold | None = None) -> str:
    """Return a number like `render_value`, or a dash if it is unknown."""
    return UNKNOWN if value is None else render_value(metric, value, limit)


def render_delta(metric: str, value: float | None) -> str:
    """Return a difference with its sign. The minus is as wide as the plus."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    shown = f"{size:.4f}{_unit(metric)}" if 0 < size < _SMALL else render_value(metric, size)
    return f"{'+' if value > 0 else '−' if value < 0 else '±'}{shown}"


def render_interval(summary: Summary) -> str:
    """Return the 95 % interval as `0.801 – 0.912`, or that of the median as `median 812.0 (640.0 – 990.0)`."""
    ends = summary.interval or summary.median_interval
    if ends is None:
        return UNKNOWN
    low, high = (render_value("", bound) for bound in ends)
    if summary.interval is not None:
        return f"{low} – {high}"
    return f"median {render_known('', summary.median)} ({low} – {high})"


def render_correction(metric: str, found: Correction | None) -> list[str]:
    """Return what judge and people say in one line, and how well they agree in another; nothing without labels."""
    if found is None or not found.labels:
        return []
    judge, people = render_known(metric, found.judge), render_known(metric, found.people)
    replies = counted(found.replies, "reply", "replies")
    said = f"the judge says {judge} on {replies}, people say {people} on {found.labels:,}"
    if found.value is None:
        return [f"{said}: not corrected, {found.reason}"]
    low, high = (render_value("", end) for end in found.interval or (0.0, 0.0))
    lines = [f"{said}; corrected for all of them {render_value(metric, found.value)} ({low} – {high})"]
    if unknown := found.missing + found.unanswered:
        lines.append(f"{counted(unknown, 'reply', 'replies')} without labels may be anything to people")
    if found.kappa is not None and found.kappa_interval is not None:
        low, high = (f"{end:z.2f}" for end in found.kappa_interval)
        lines.append(f"kappa of judge and people {found.kappa:z.2f} ({low} – {high})")
    return lines


def render_limit(limit: Threshold) -> str:
    """Return a limit as `≥ 0.80`, `≥ 0.80 and ≤ 0.95` or `≤ 2,000 ms`."""
    sides = {"≥": limit.min, "≤": limit.max}
    said = [f"{sign} {_bound(bound)}" for sign, bound in sides.items() if bound is not None]
    return f"{' and '.join(said)}{_unit(limit.metric)}"


def render_beyond(value: float, limit: Threshold) -> str:
    """Return how a value exceeds a limit: `0.499 is below 0.80`."""
    side, bound = ("below", limit.min) if limit.undercut_by(value) else ("above", limit.max)
    return f"{render_value(limit.metric, value, limit)} is {side} {_bound(bound or 0.0)}{_unit(limit.metric)}"


def name_threshold(threshold: Threshold) -> str:
    """Return the subject of a threshold: `string_match min [advanced]`."""
    part = f"[{threshold.slice}]" if threshold.slice else ""
    return " ".join(filter(None, [threshold.metric, threshold.stat or "", part]))


def mark_regression(found: RegressionOutcome) -> str:
    """Return the mark of an outcome.

    A PASS gets a check mark only if the data exclude a drop beyond the limit, or if the value alone decides.
    """
    undecided = found.status is VerdictStatus.PASS and found.units and not found.proven
    return "·" if undecided else MARKS[found.status]


def render_gaps(summary: Summary) -> str:
    """Return caveats of a value: missing scores."""
    counts = {"failed": summary.failed, "skipped": summary.skipped}
    gaps = [f"{count} {what}" for what, count in counts.items() if count]
    return ", ".join(filter(None, [*gaps, render_not_applicable(summary)]))


def render_not_applicable(counts: Summary | Threshold) -> str:
    """Return counts of scores that are not applicable: `9 n/a (reply)`, `9 n/a (1 dataset, 8 reply)`, or empty."""
    causes = counts.not_applicable_causes
    if len(causes) < 2:
        return "".join(f"{count} n/a ({cause})" for cause, count in causes.items())
    return f"{sum(causes.values())} n/a ({', '.join(f'{count} {cause}' for cause, count in causes.items())})"


def _bound(bound: float) -> str:
    return f"{bound:,.0f}" if abs(bound) >= 100 and bound == int(bound) else f"{bound:,.{_bound_decimals(bound)}f}"


def _bound_decimals(bound: float) -> int:
    return next((places for places in range(2, _MOST_DECIMALS) if round(bound, places) == bound), _MOST_DECIMALS)


def is_latency(metric: str) -> bool:
    """Return whether a metric is in ms: the latency of a reply, or of a stage, such as `rerank.latency_p95`."""
    return metric.casefold().rpartition(".")[2].startswith("latency")


def _unit(metric: str) -> str:
    return " ms" if is_latency(metric) else ""


def render_usage(usage: JudgeUsage, costs: Sequence[float | None] = ()) -> str:
    """Return `judge: 214 calls, 251,300 tokens in, 18,200 out, cost 1.42`, with retries and what is unknown.

    `costs`: of the parts of the usage, None if unknown; empty without a price.
    """
    parts = [counted(usage.calls, "call"), f"{usage.input_tokens:,} tokens in", f"{usage.output_tokens:,} out"]
    if usage.cached_input_tokens:
        share = usage.cached_input_tokens / usage.input_tokens
        parts.insert(2, f"{share:.0%} of them from the provider's cache")
    parts += [f"{usage.retries:,} repeated"] if usage.retries else []
    parts += [f"{usage.uncounted:,} without a token count"] if usage.uncounted else []
    parts += [f"{usage.cached:,} from the cache"] if usage.cached else []
    parts += [_render_cost(costs)] if costs else []
    return f"judge: {', '.join(parts)}"


def render_usage_by_metric(
    usages: Mapping[str, JudgeUsage], costs: Mapping[str, float | None]
) -> list[tuple[str, str]]:
    """Return the name of each metric that used the judge, and what it used: `12 calls, 4,300 tokens, cost 0.02`."""
    return [(metric, _render_share(usage, costs.get(metric), costs)) for metric, usage in usages.items() if usage.calls]


def _render_share(usage: JudgeUsage, cost: float | None, priced: Collection[str]) -> str:
    tokens = f"{usage.input_tokens + usage.output_tokens:,} tokens"
    parts = [counted(usage.calls, "call"), "tokens unknown" if usage.uncounted else tokens]
    return ", ".join([*parts, _render_cost([cost])] if priced else parts)


def _render_cost(costs: Sequence[float | None]) -> str:
    known = [cost for cost in costs if cost is not None]
    return f"cost {render_amount(sum(known))}" if len(known) == len(costs) else "cost unknown"


def render_amount(cost: float) -> str:
    """Return a cost with at least two significant digits and at least two decimals."""
    return f"{cost:,.2f}" if cost >= 1 or cost == 0 else f"{cost:.2g}"


def name_reasons(scores: Sequence[Score]) -> str:
    """Return reasons with counts, most frequent first: `the response is empty (9)`.

    Where reasons are not kept, the cause takes their place: `by the reply (9)`.
    """
    counts = Counter(score.reason or _BY_CAUSE[score.cause or Cause.OTHER] for score in scores)
    shown = [f"{reason} ({count})" for reason, count in counts.most_common(_REASONS_SHOWN)]
    return ", ".join(shown) + (f" and {len(counts) - len(shown)} other reasons" if len(counts) > len(shown) else "")


def list_opinion_notes(datasets: Sequence[DatasetResult], policy: "CiGate", run: str) -> list[str]:
    """Return which limits of each dataset are met only by the word of the judge. `run`: the id of the run."""
    if policy.judge.correct is JudgeCorrection.OFF:
        return []
    kept = policy.judge.calibration
    applied = f". If it errs as it was calibrated: `evalspec judge apply {shlex.quote(kept)} {run}`" if kept else ""
    trusted = [
        (one.name, list(dict.fromkeys(limit.metric for limit in one.thresholds if limit.is_opinion)))
        for one in datasets
    ]
    return [
        f"{name}: only the judge says that {name_some(metrics)} {pluralize(len(metrics), 'meets its', 'meet their')} "
        f"{pluralize(len(metrics), 'limit')}. To check it, label replies: {_list_commands(metrics, run)}{applied}"
        for name, metrics in trusted
        if metrics
    ]


def list_left_out(people: Iterable[PeopleScores]) -> Iterator[str]:
    """Yield for each metric how many labels on it do not count, with the reasons."""
    for one in people:
        if one.left_out:
            reasons = ", ".join(f"{reason} ({count:,})" for reason, count in one.left_out.items())
            total = sum(one.left_out.values())
            do = pluralize(total, "does", "do")
            yield f"{one.dataset}: {counted(total, 'label')} on {one.metric} {do} not count: {reasons}"


def _list_commands(metrics: Sequence[str], run: str) -> str:
    return name_some([f"`evalspec label {run} --metric {shlex.quote(name)} --random 50`" for name in metrics])
