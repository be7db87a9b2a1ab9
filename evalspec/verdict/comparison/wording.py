"""Render deltas, p-values and changes of comparisons, for all reports."""

from collections import Counter
from collections.abc import Iterable, Mapping

from evalspec.base.plural import counted
from evalspec.model.comparisons import (
    CandidateComparison,
    Change,
    Comparison,
    DatasetComparison,
    MetricChange,
    RankMove,
    SampleKind,
    ScoreChange,
)
from evalspec.verdict.wording import UNKNOWN, render_delta, render_value

NOT_COMPARED = (SampleKind.EDITED, SampleKind.ONLY_BASELINE, SampleKind.ONLY_CANDIDATE)
"""Kinds of samples that are in no number of a comparison."""


def render_relative(relative: float | None) -> str:
    """Return a difference as a share of the baseline: `−1.9 %`."""
    if relative is None:
        return UNKNOWN
    share = relative * 100
    return f"{'+' if share > 0 else '−' if share < 0 else '±'}{abs(share):,.1f} %"


def render_span(metric: str, interval: tuple[float, float] | None, joint: str) -> str:
    """Return the ends of a difference's interval, with a word between them: `−0.045 and +0.224`."""
    return UNKNOWN if interval is None else joint.join(render_delta(metric, end) for end in interval)


def render_p(p_value: float | None) -> str:
    """Return `p = 0.012`, but never 0, which no test can show."""
    if p_value is None:
        return "p unknown"
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def render_statement(change: MetricChange, *, spanned: bool = False) -> str:
    """Return the range of an undecided change, or why there is none, and the number of unpaired samples.

    `spanned`: whether the range is shown elsewhere.
    """
    said = "" if change.verdict in (Change.IMPROVED, Change.DEGRADED) else change.reason or ""
    if change.verdict is Change.UNDECIDED and not said:
        said = _render_range(change, spanned=spanned)
    alone = f"{counted(change.unpaired, 'sample')} scored in one run only"
    told = not change.unpaired or (change.reason or "").startswith(str(change.unpaired))
    return said if told else "; ".join(filter(None, [said, alone]))


def _render_range(change: MetricChange, *, spanned: bool) -> str:
    if change.interval is None:
        return f"{render_p(change.p_adjusted)}, and the metric has no bounds to compute a range from"
    low, high = change.interval
    if low > 0 or high < 0:
        level = f"{100 * change.confidence:g} %"
        return f"the {level} interval excludes 0, but the test does not confirm it ({render_p(change.p_adjusted)})"
    said = [] if spanned else [f"the change is between {render_span(change.metric, change.interval, ' and ')}"]
    if change.required_size is not None:
        size = change.required_size
        said.append(f"about {size.samples:,} samples would be needed to detect a change of {size.change:g}")
    return "; ".join(said)


def render_tally(comparison: Comparison) -> str:
    """Return text like `1 degraded, 2 improved, 3 no evidence`, or `no differences in 10 samples`."""
    counts: Counter[SampleKind] = Counter()
    for one in comparison.candidates:
        for part in one.datasets:
            counts.update(part.sample_counts)
    if set(+counts) == {SampleKind.UNCHANGED} and not any(map(_differs, comparison.candidates)):
        return f"no differences in {counted(counts.total(), 'sample')}"
    changes = [change.verdict for one in comparison.candidates for change in one.changes]
    order = (Change.DEGRADED, Change.IMPROVED, Change.UNDECIDED, Change.TOO_FEW, Change.NOT_TESTED)
    return ", ".join(f"{changes.count(kind)} {kind}" for kind in order if kind in changes) or "nothing was compared"


def _differs(one: CandidateComparison) -> bool:
    """Return whether a metric changed, or only one of the runs has it."""
    alone = any(part.metrics_only_in_baseline or part.metrics_only_in_candidate for part in one.datasets)
    return alone or any(change.delta != 0.0 for change in one.changes)


def render_method(comparison: Comparison) -> str:
    """Return how the changes were tested."""
    adjusted = f", p adjusted for {counted(comparison.tests, 'test')} (maxT)" if comparison.tests else ""
    level = 100 * (1 - comparison.alpha)
    together = f", all ranges of a metric hold together at {level:g} %" if comparison.rivals else ""
    return f"alpha {comparison.alpha:g}{adjusted}{together}, {comparison.resamples:,} resamples, seed {comparison.seed}"


def render_counts(dataset: DatasetComparison) -> str:
    """Return text like `3 degraded, 5 improved, 30 unchanged`."""
    return ", ".join(f"{count:,} {kind}" for kind, count in dataset.sample_counts.items() if count)


def describe_common(dataset: DatasetComparison) -> str | None:
    """Return text like `on the 180 samples that both have, of 200; 20 …`; None if both runs have the same samples."""
    counts = {kind: dataset.sample_counts.get(kind, 0) for kind in NOT_COMPARED}
    if not any(counts.values()):
        return None
    others = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    total = dataset.pairs + sum(counts.values())
    return f"on {dataset.pairs:,} of {counted(total, 'sample')} that both have; {others}"


def render_scores(scores: Mapping[str, ScoreChange]) -> str:
    """Return text like `string_match 1.000 → 0.000; Recall@5 0.500 → failed`."""
    return "; ".join(
        f"{metric} {_side(metric, score.before)} → {_side(metric, score.after)}" for metric, score in scores.items()
    )


def render_moves(moves: Iterable[RankMove]) -> str:
    """Return text like `doc-17 rank 1 → 4; doc-9 rank 3 → none`."""
    return "; ".join(f"{move.document} rank {move.before or 'none'} → {move.after or 'none'}" for move in moves)


def _side(metric: str, side: float | str) -> str:
    return side if isinstance(side, str) else render_value(metric, side)
