"""Say what changed in the measurement: numbers of two runs are only comparable if both measured the same.

`KINDS` has each kind of change. Those that need no baseline are in `runner.replies`.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any, NamedTuple

from evalspec.base.plural import counted, name_some
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.model import DatasetResult, MeasurementChange, Run, SampleResult, Threshold
from evalspec.model.fingerprints import Fingerprint
from evalspec.model.verdicts import RegressionRule
from evalspec.verdict.comparison.baseline import common_datasets, list_pooled
from evalspec.verdict.comparison.comparability import list_model_mismatches, was_narrowed
from evalspec.verdict.comparison.pairing import pair_samples
from evalspec.verdict.outline import RunOutline
from evalspec.verdict.wording import render_value

_STRICTER = {
    "enabled": 1,
    "min_coverage": 1,
    "max_error_rate": -1,
    "max_not_applicable": -1,
    "min_samples": 1,
    "min_pass_rate": 1,
    "confidence": 1,
    "max_drop": -1,
    "regression": 1,
    "alpha": 1,
    "new_failures": -1,
    "max_removed": -1,
}
"""Whether a higher value of each key of the gate is stricter (1) or softer (-1)."""

_OF_BASELINE = {"max_drop", "regression", "alpha", "new_failures", "max_removed"}
"""Keys that mean nothing in a gate without a baseline."""

_WORDS = {RegressionRule.DROP: 0.0, RegressionRule.NOT_WORSE: 1.0}
_OFF = {"alpha": inf}
"""The strictness of a key that is null, if null does not turn the rule off: without alpha, every drop counts."""


class _Runs(NamedTuple):
    """Both runs, and the outline of the new one."""

    before: Run
    after: Run
    outline: RunOutline


_Found = Iterator[tuple[str | None, str]]


def _list_limits(runs: _Runs) -> _Found:
    for before, after in common_datasets(runs.before, runs.after):
        known = {_identify(limit, after): limit for limit in after.thresholds}
        for old in before.thresholds:
            new = known.get(_identify(old, before))
            what = f"{old.metric}{f' {old.stat}' if old.stat else ''}{f' [{old.slice}]' if old.slice else ''}"
            if new is None:
                yield after.name, f"limit removed since the baseline: {what} {_show(old)}"
            elif _is_looser(old, new):
                yield after.name, f"limit lowered since the baseline: {what} {_show(old)} → {_show(new)}"


def _identify(limit: Threshold, dataset: DatasetResult) -> tuple[str, str | None, str | None]:
    statistic = dataset.metrics[limit.metric].statistic if limit.metric in dataset.metrics else None
    return limit.metric, limit.stat or statistic, limit.slice


def _show(limit: Threshold) -> str:
    sides = {"min": limit.min, "max": limit.max, "confidence": limit.confidence}
    return ", ".join(f"{side} {value:g}" for side, value in sides.items() if value is not None)


def _is_looser(old: Threshold, new: Threshold) -> bool:
    return (
        (-inf if new.min is None else new.min) < (-inf if old.min is None else old.min)
        or (inf if new.max is None else new.max) > (inf if old.max is None else old.max)
        or (new.confidence or 0.0) < (old.confidence or 0.0)
    )


def _list_gate(runs: _Runs) -> _Found:
    stored = runs.before.fingerprint.ci_gate
    if stored is None:
        return
    old, new = CiGate.model_validate(stored), runs.outline.policy
    for key, sign in _STRICTER.items():
        if old.baseline is None and key in _OF_BASELINE:
            continue
        was, now = getattr(old, key), getattr(new, key)
        if _is_softer(key, was, now, sign):
            shown = f"{CiGate.model_fields[key].alias or key} {_show_setting(was)} → {_show_setting(now)}"
            yield None, f"gate softened since the baseline: {shown}"


def _show_setting(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {drop:g}" for name, drop in value.items())
    return f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)


def _is_softer(key: str, old: Any, new: Any, sign: int) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        return any(new.get(name, inf) > drop for name, drop in old.items())
    if isinstance(old, dict):
        return any(new > drop for drop in old.values())
    if isinstance(new, dict):
        return True
    ranks = [_OFF.get(key, -inf) if value is None else sign * _WORDS.get(value, value) for value in (old, new)]
    return bool(ranks[1] < ranks[0])


def _list_clusters(runs: _Runs) -> _Found:
    for before, after in common_datasets(runs.before, runs.after):
        if before.cluster != after.cluster:
            shown = " → ".join(one.cluster or "none" for one in (before, after))
            yield after.name, f"cluster changed since the baseline: {shown}"


def _list_removed(runs: _Runs) -> _Found:
    for dataset in runs.outline.datasets:
        before = runs.before.find_dataset(dataset.name)
        gone = [_show_scores(one, before) for one in before.samples if one.id in dataset.removed] if before else []
        if gone:
            count = counted(len(gone), "sample")
            yield dataset.name, f"{count} gone from the file since the baseline: {name_some(gone)}"


def _show_scores(sample: SampleResult, dataset: DatasetResult) -> str:
    """Return a sample with its scores of the metrics that were limited then: `s1 (string_match 0.000)`."""
    scores = {limit.metric: sample.scores.get(limit.metric) for limit in dataset.thresholds}
    said = (
        f"{metric} {score.status if score.value is None else render_value(metric, score.value)}"
        for metric, score in scores.items()
        if score is not None
    )
    return f"{sample.id} ({', '.join(said)})" if any(scores.values()) else sample.id


def _list_edited(runs: _Runs) -> _Found:
    for before, after in common_datasets(runs.before, runs.after):
        edited = [old.id for old, _ in pair_samples(before, after).edited]
        if edited:
            yield after.name, f"{counted(len(edited), 'sample')} edited since the baseline: {name_some(edited)}"


def _list_selected(runs: _Runs) -> _Found:
    if runs.before.partial:
        yield None, "the baseline is PARTIAL: it left out samples or metrics"
    for before, after in common_datasets(runs.before, runs.after):
        missing = len(pair_samples(before, after).only_candidate)
        if missing and was_narrowed(runs.before, after.name):
            yield after.name, f"{counted(missing, 'sample')} of this run were not selected for the baseline"


def _list_grown(runs: _Runs) -> _Found:
    for before, after in common_datasets(runs.before, runs.after):
        new = pair_samples(before, after).only_candidate
        if new and not was_narrowed(runs.before, after.name):
            yield after.name, f"{counted(len(new), 'sample')} added since the baseline: {name_some(new)}"


def _list_recorded(runs: _Runs) -> _Found:
    was_asked = runs.before.datasets and not runs.before.fingerprint.recorded
    if was_asked and runs.after.fingerprint.recorded:
        yield None, "the replies are recorded, those of the baseline came from an agent"


def _list_judges(runs: _Runs) -> _Found:
    for found in list_model_mismatches(runs.before, runs.after):
        yield None, f"{found}; {_explain_rejudging(runs)}"


def _explain_rejudging(runs: _Runs) -> str:
    """Return the commands that judge the replies of the baseline again."""
    manifest = runs.after.fingerprint.manifest.path if runs.after.fingerprint.manifest else "MANIFEST"
    promote = ["evalspec", "runs", "promote", "latest", "--as", runs.outline.policy.baseline or runs.before.id]
    first, *more = (one.id for one in list_pooled(runs.before))
    judge = shlex.join(["evalspec", "rescore", first, manifest, "--fresh"])
    said = f"judge the baseline again with `{judge}`, then `{shlex.join(promote)}`"
    added = f"; the same for {', '.join(more)}, with --add" if more else ""
    return f"{said}{added}; if its replies are gone, evaluate its version of the agent and promote that run"


class ChangeKind(NamedTuple):
    """A kind of change. `blocks`: outcomes are INCOMPLETE where it could change them."""

    find: Callable[[_Runs], _Found]
    blocks: bool = False


KINDS: Mapping[str, ChangeKind] = {
    "limit": ChangeKind(_list_limits),
    "gate": ChangeKind(_list_gate),
    "cluster": ChangeKind(_list_clusters),
    "removed": ChangeKind(_list_removed, blocks=True),
    "edited": ChangeKind(_list_edited, blocks=True),
    "selection": ChangeKind(_list_selected, blocks=True),
    "judge_model": ChangeKind(_list_judges, blocks=True),
    "grown": ChangeKind(_list_grown),
    "recorded": ChangeKind(_list_recorded),
}


def list_measurement_changes(
    baseline: Run, datasets: tuple[DatasetResult, ...], outline: RunOutline, fingerprint: Fingerprint
) -> Iterator[MeasurementChange]:
    """Yield what changed since the baseline, lowered limits first."""
    runs = _Runs(baseline, Run(id="", datasets=datasets, fingerprint=fingerprint), outline)
    for name, kind in KINDS.items():
        for dataset, text in kind.find(runs):
            yield MeasurementChange(name, dataset, text, kind.blocks)
