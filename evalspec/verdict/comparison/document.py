"""Render a comparison as a JSON document. Pipelines rely on its keys: keys may be added, but never removed."""

from collections.abc import Mapping, Sequence
from typing import Any

from evalspec.base.errors import ExitCode
from evalspec.base.json_text import render_lines
from evalspec.verdict.comparison.result import (
    BestRun,
    CandidateComparison,
    Comparison,
    DatasetComparison,
    Delta,
    MetricChange,
    NamedRun,
    RunPair,
    SampleChange,
    SliceChange,
)
from evalspec.verdict.comparison.sample_changes import SideBySide

_DEPTH = -2
_ONE_LINE_FROM = 4
"""With this start depth, samples are as deep as in a report, so each is on one line."""

Texts = Mapping[tuple[str, str], SideBySide]


def render_comparison_json(
    comparison: Comparison, texts: Mapping[str, Texts], exit_code: ExitCode, more: Mapping[str, Any] | None = None
) -> str:
    """Return the document as text.

    `texts`: texts of the samples shown in full, by candidate. `more`: additional keys.
    """
    return (
        render_lines({**build_comparison(comparison, texts, exit_code), **(more or {})}, _DEPTH, _ONE_LINE_FROM) + "\n"
    )


def build_comparison(comparison: Comparison, texts: Mapping[str, Texts], exit_code: ExitCode) -> dict[str, Any]:
    """Return the document. Every key is always present; null means unknown."""
    return {
        "schemaVersion": 1,
        "kind": "evalspec comparison",
        "exitCode": int(exit_code),
        "baseline": _run(comparison.baseline),
        "alpha": comparison.alpha,
        "confidence": comparison.confidence,
        "resamples": comparison.resamples,
        "seed": comparison.seed,
        "tests": comparison.tests,
        "candidates": [_candidate(one, texts.get(one.candidate.name, {})) for one in comparison.candidates],
        "rivals": [_rivals(pair, comparison.candidates) for pair in comparison.rivals],
        "bestRuns": [_best(best) for best in comparison.best if len(comparison.candidates) > 1],
    }


def _rivals(pair: RunPair, candidates: Sequence[CandidateComparison]) -> dict[str, Any]:
    first, second = (candidates[number - 1].candidate.name for number in (pair.first, pair.second))
    runs = {"dataset": pair.dataset, "metric": pair.change.metric, "first": first, "second": second}
    return {**runs, **_metric(pair.change)}


def _best(best: BestRun) -> dict[str, Any]:
    found = {"dataset": best.dataset, "metric": best.metric, "samples": best.samples}
    return {**found, "means": dict(best.means), "possible": list(best.possible)}


def _run(named: NamedRun) -> dict[str, Any]:
    return {"name": named.name, "runId": named.run.id, "kind": named.kind, "notes": list(named.notes)}


def _candidate(one: CandidateComparison, texts: Texts) -> dict[str, Any]:
    return {
        **_run(one.candidate),
        "notes": list(one.notes),
        "mismatches": list(one.mismatches),
        "differences": list(one.differences),
        "datasets": [_dataset(dataset, texts) for dataset in one.datasets],
    }


def _dataset(dataset: DatasetComparison, texts: Texts) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "candidateName": dataset.candidate_name,
        "pairs": dataset.pairs,
        "metrics": {change.metric: _metric(change) for change in dataset.metrics},
        "metricsOnlyInBaseline": list(dataset.metrics_only_baseline),
        "metricsOnlyInCandidate": list(dataset.metrics_only_candidate),
        "slices": [_slice(part) for part in dataset.slices],
        "sampleCounts": {str(kind): count for kind, count in dataset.counts.items()},
        "samples": [_sample(change, texts.get((dataset.name, change.id))) for change in dataset.samples],
    }


def _metric(change: MetricChange) -> dict[str, Any]:
    return {
        **_delta(change.found),
        "statistic": change.statistic,
        "direction": str(change.direction),
        "verdict": str(change.change),
        "test": change.test,
        "p": change.p_value,
        "pAdjusted": change.adjusted,
        "detectable": change.detectable,
        "cohensDz": change.cohens_dz,
        "superiority": change.superiority,
        "reason": change.reason,
        "units": change.units,
        "unpaired": change.unpaired,
        "settles": None if change.settles is None else {"change": change.settles[0], "samples": change.settles[1]},
    }


def _delta(found: Delta) -> dict[str, Any]:
    return {
        "baseline": found.baseline,
        "candidate": found.candidate,
        "delta": found.delta,
        "relative": found.relative,
        "interval": found.interval,
        "pairs": found.pairs,
    }


def _slice(part: SliceChange) -> dict[str, Any]:
    metrics = {metric: _delta(found) for metric, found in part.metrics.items()}
    return {"name": part.name, "pairs": part.pairs, "small": part.small, "metrics": metrics}


def _sample(change: SampleChange, texts: SideBySide | None) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": change.id,
        "change": str(change.kind),
        "scores": {score.metric: {"before": score.before, "after": score.after} for score in change.scores},
        "texts": None,
    }
    if texts is not None:
        moves = [{"document": move.document, "before": move.before, "after": move.after} for move in texts.moves]
        described["texts"] = {
            "question": texts.question,
            "baseline": texts.baseline,
            "candidate": texts.candidate,
            "rankMoves": moves,
            "attempt": {"number": texts.attempt[0], "of": texts.attempt[1]} if texts.attempt else None,
        }
    return described
