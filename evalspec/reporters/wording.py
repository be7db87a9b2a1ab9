"""How reports for people say numbers, limits and counts."""

from evalspec.model import JudgeUsage, RegressionOutcome, Summary, Threshold, VerdictStatus

MARKS = {
    VerdictStatus.PASS: "✓",
    VerdictStatus.FAIL: "✗",
    VerdictStatus.INCOMPLETE: "?",
    VerdictStatus.NOT_GATED: "–",
}
UNKNOWN = "–"

_MOST_DECIMALS = 9


def render_value(metric: str, value: float, limit: Threshold | None = None) -> str:
    """A number at the precision that a reader needs: 0.861, 51.2, 1,934 ms.

    A value beyond its limit gets as many decimals as it takes to look beyond it: 0.7996 under 0.80, not 0.800.
    """
    decimals = 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    if limit and limit.excess(value):
        while decimals < _MOST_DECIMALS and not limit.excess(round(value, decimals)):
            decimals += 1
    return f"{value:,.{decimals}f}{_unit(metric)}"


def render_known(metric: str, value: float | None, limit: Threshold | None = None) -> str:
    """The same of a number that may not be known."""
    return UNKNOWN if value is None else render_value(metric, value, limit)


def render_change(metric: str, value: float | None) -> str:
    """A difference with its sign."""
    return f"{'+' if value is not None and value > 0 else ''}{render_known(metric, value)}"


def render_interval(summary: Summary) -> str:
    """The 95 % interval as `0.801 – 0.912`."""
    if summary.interval is None:
        return UNKNOWN
    low, high = (render_value("", bound) for bound in summary.interval)
    return f"{low} – {high}"


def render_limit(limit: Threshold) -> str:
    """`≥ 0.80`, `≥ 0.80 and ≤ 0.95`, `≤ 2,000 ms`."""
    sides = {"≥": limit.min, "≤": limit.max}
    said = [f"{sign} {_bound(bound)}" for sign, bound in sides.items() if bound is not None]
    return f"{' and '.join(said)}{_unit(limit.metric)}"


def render_beyond(value: float, limit: Threshold) -> str:
    """A value that a limit does not allow: `0.499 is below 0.80`."""
    side, bound = ("below", limit.min) if limit.undercut_by(value) else ("above", limit.max)
    return f"{render_value(limit.metric, value, limit)} is {side} {_bound(bound or 0.0)}{_unit(limit.metric)}"


def name_threshold(threshold: Threshold) -> str:
    """What is limited: `string_match min [advanced]`."""
    part = f"[{threshold.slice}]" if threshold.slice else ""
    return " ".join(filter(None, [threshold.metric, threshold.stat or "", part]))


def mark_regression(found: RegressionOutcome) -> str:
    """A check mark only where the data exclude a drop beyond the limit, or where the value alone decides."""
    undecided = found.status is VerdictStatus.PASS and found.units and not found.proven
    return "·" if undecided else MARKS[found.status]


def render_gaps(summary: Summary) -> str:
    """What to know of a value: what is not scored, and an interval that does not hold at any number of samples."""
    counts = {"failed": summary.failed, "skipped": summary.skipped}
    gaps = [f"{count} {what}" for what, count in counts.items() if count]
    method = "bootstrap interval" if summary.interval_method == "bootstrap" else ""
    return ", ".join(filter(None, [*gaps, render_not_applicable(summary), method]))


def render_not_applicable(counted: Summary | Threshold) -> str:
    """`9 n/a (reply)`, or `9 n/a (1 dataset, 8 reply)`; empty where everything applies."""
    causes = counted.not_applicable_causes
    if len(causes) < 2:
        return "".join(f"{count} n/a ({cause})" for cause, count in causes.items())
    return f"{sum(causes.values())} n/a ({', '.join(f'{count} {cause}' for cause, count in causes.items())})"


def counted(count: int, noun: str) -> str:
    """`1 sample`, `2 samples`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _bound(bound: float) -> str:
    return f"{bound:,.0f}" if abs(bound) >= 100 and bound == int(bound) else f"{bound:,.{_bound_decimals(bound)}f}"


def _bound_decimals(bound: float) -> int:
    return next((places for places in range(2, _MOST_DECIMALS) if round(bound, places) == bound), _MOST_DECIMALS)


def is_latency(metric: str) -> bool:
    """Whether a metric is in ms: the latency of a reply, or of one stage of it such as `rerank.latency_p95`."""
    return metric.casefold().rpartition(".")[2].startswith("latency")


def _unit(metric: str) -> str:
    return " ms" if is_latency(metric) else ""


def render_usage(usage: JudgeUsage) -> str:
    """`judge: 214 calls, 251,300 tokens in, 18,200 out`, with what makes the sums uncertain."""
    parts = [f"{usage.calls:,} calls", f"{usage.input_tokens:,} tokens in", f"{usage.output_tokens:,} out"]
    parts += [f"{usage.retries:,} repeated"] if usage.retries else []
    parts += [f"{usage.uncounted:,} without a token count"] if usage.uncounted else []
    return f"judge: {', '.join(parts)}"
