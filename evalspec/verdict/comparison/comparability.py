"""Find mismatches that make two runs not comparable, and other differences between them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evalspec.base.plural import counted, name_some
from evalspec.inputs.manifest.metric_spec import MetricSpec, split_column
from evalspec.model import DatasetResult, Need, Run
from evalspec.model.corrections import Drift, JudgeDrift
from evalspec.model.fingerprints import (
    AgentDigest,
    Fingerprint,
    ManifestDigest,
    describe_drift,
    describe_part,
    digest_parts,
)
from evalspec.verdict.comparison.pairing import SamplePairs, has_all_attempts
from evalspec.verdict.validity.coverage import exceeds_share

_PARTS = {
    "settings": "its options",
    "scorer": "its scorer",
    "prompt": "the judge's prompt",
    "judge": "the judge",
    "embeddings": "the embeddings",
}
"""Names of the parts of a metric's identity in messages. Other parts keep their key."""


def explain_parts(baseline: Run, candidate: Run) -> str | None:
    """Return why the samples of two runs are never paired: they used different parts of a gold set. Else None."""
    before, after = (describe_part(run.fingerprint) for run in (baseline, candidate))
    if before == after:
        return None
    said = [part or "the full set" for part in (before, after)]
    return f"the baseline used {said[0]} and this run {said[1]}, which are different samples of triples"


def list_content_mismatches(baseline: Run, candidate: Run, name: str, candidate_name: str) -> Iterator[str]:
    """Yield the reason if files of a dataset differ, and a run does not record which samples it had.

    With digests of the samples, edited ones leave the comparison, and nothing is left to explain.
    """
    is_known = _has_digests(baseline, name) and _has_digests(candidate, candidate_name)
    if not is_known and _differ(_digest_file(baseline, name), _digest_file(candidate, candidate_name)):
        yield f"dataset {name}: its content changed"


def explain_lost(baseline: DatasetResult, pairs: SamplePairs, *, left_out: int, share: float | None) -> str | None:
    """Return why too few samples of the baseline are the same in the candidate; None if enough are.

    `left_out`: how many samples of its file the candidate's own selection left out. So many are not missed. `share`: of
    the baseline's samples, which may be gone or edited; None: any, as long as some are the same.
    """
    gone = max(0, len(pairs.only_baseline) - left_out)
    is_much = share is not None and exceeds_share(gone + len(pairs.edited), len(baseline.samples), share)
    if not is_much and (pairs.both or not pairs.edited):
        return None
    edited = [old.id for old, _ in pairs.edited]
    lost = []
    if edited:
        lost.append(f"{counted(len(edited), 'sample')} changed ({name_some(edited)})")
    if gone:
        which = "" if left_out else f" ({name_some(pairs.only_baseline)})"
        lost.append(f"{'at least ' if left_out else ''}{counted(gone, 'sample')} removed{which}")
    said = " and ".join(lost)
    most = f"more than the share of {share:g} that ciGate.maxRemoved allows" if pairs.both else "none is the same"
    return f"dataset {baseline.name}: {said} of {len(baseline.samples):,}, {most}"


def _digest_file(run: Run, name: str) -> str | None:
    described = run.fingerprint.find_dataset(name)
    return None if described is None else described.sha256


def _has_digests(run: Run, name: str) -> bool:
    return any(sample.digest for dataset in run.datasets if dataset.name == name for sample in dataset.samples)


def list_metric_mismatches(
    baseline: Run, candidate: Run, dataset: str, metric: str, candidate_dataset: str | None = None
) -> list[str]:
    """Yield the reasons why a metric of a dataset is not the same metric in both runs, one phrase each.

    If a run does not record how it computed the metric, the known judges and embeddings of the runs are compared.
    `candidate_dataset`: the candidate's name of the dataset, if it differs.
    """
    stopped = _list_stopped(baseline, candidate, (dataset, candidate_dataset or dataset), metric)
    if stopped:
        return stopped
    before = identity_of(baseline, dataset, metric)
    after = identity_of(candidate, candidate_dataset or dataset, metric)
    if not before or not after:
        return list(list_judge_mismatches(baseline, candidate, [metric]))
    old, new = digest_parts(before), digest_parts(after)
    shared = [part for part in new if part in old and old[part] != new[part]]
    changes = [_describe_change(part, before[part], after[part]) for part in shared]
    changes += _list_user_mismatches(baseline, candidate, dataset, candidate_dataset or dataset)
    if "judge" in before and "judge" in after:
        changes += _list_refusal_mismatches(baseline, candidate)
        changes += () if "judge" in shared else list_model_mismatches(baseline, candidate)
        changes += _list_drift_mismatches(baseline, candidate, (dataset, candidate_dataset or dataset), metric)
    return changes


def _list_user_mismatches(baseline: Run, candidate: Run, before: str, after: str) -> Iterator[str]:
    """Yield a phrase if another model played the users of a dataset, which makes other conversations."""
    old, new = baseline.fingerprint.user, candidate.fingerprint.user
    both = ((baseline, before), (candidate, after))
    is_played = all(identity_of(run, dataset, "user_error_rate") for run, dataset in both)
    if is_played and old is not None and new is not None and old != new:
        yield f"the simulated user: model, address or parameters differ ({old.model} and {new.model})"


def _list_stopped(baseline: Run, candidate: Run, names: tuple[str, str], metric: str) -> list[str]:
    """Return a phrase for each run that stopped before all scores of a metric: when it did depends on its scores."""
    return [
        f"the {side} stopped before all scores, because of a limit or of --fail-fast: resume it"
        for side, run, name in zip(("baseline", "candidate"), (baseline, candidate), names, strict=True)
        for dataset in run.datasets
        if dataset.name == name and dataset.is_stopped(metric)
    ]


def list_model_mismatches(baseline: Run, candidate: Run) -> Iterator[str]:
    """Yield a phrase if the candidate's judge stated a model that the baseline's never did. Unstated models are equal.

    The configured name does not matter: it may be an alias.
    """
    before, after = (run.fingerprint.judge_models for run in (baseline, candidate))
    new = [name for digest, name in after.items() if digest not in before]
    if before and new:
        said = f"the judge's replies state the model {name_some(new)}"
        yield f"{said}, those of the baseline only {name_some([*before.values()])}"


def _list_drift_mismatches(baseline: Run, candidate: Run, names: tuple[str, str], metric: str) -> Iterator[str]:
    """Yield a phrase if only one of the runs has a judge that has changed since its calibration."""
    runs = baseline, candidate
    before, after = (_find_drift(run, name, metric) for run, name in zip(runs, names, strict=True))
    if (before and before.calibration) == (after and after.calibration):
        return
    for run, drift in ((baseline, before), (candidate, after)):
        if drift is not None:
            yield f"{describe_drift(run.fingerprint, drift)}; judge both again: evalspec rescore RUN agent.yaml --fresh"


def _find_drift(run: Run, dataset: str, metric: str) -> JudgeDrift | None:
    found = run.fingerprint.judge_drifts.get(dataset, {}).get(metric)
    return found if found is not None and found.state is Drift.DRIFTED else None


def _list_refusal_mismatches(baseline: Run, candidate: Run) -> Iterator[str]:
    """Yield a phrase if the judges got different parameters, because one endpoint refused some of them."""
    before, after = (run.fingerprint.judge_refused for run in (baseline, candidate))
    if before != after:
        names = [", ".join(sorted(found)) or "none" for found in (before, after)]
        yield f"the judge's endpoint refused different parameters: {names[0]} and {names[1]}"


def list_mismatches_by_reason(
    baseline: Run, candidate: Run, name: str, metrics: Iterable[str], candidate_name: str
) -> Iterator[str]:
    """Yield a line per reason why metrics of a dataset are not the same, with the affected metrics."""
    found: dict[str, list[str]] = {}
    for metric in metrics:
        for reason in list_metric_mismatches(baseline, candidate, name, metric, candidate_name):
            found.setdefault(reason, []).append(metric)
    for reason, affected in found.items():
        yield f"dataset {name}: {', '.join(affected)}: {reason}"


def list_identity_gaps(
    baseline: Run, candidate: Run, name: str, metrics: Iterable[str], candidate_name: str
) -> Iterator[str]:
    """Yield a note if a run does not record how it computed metrics of a dataset, so a change would go unnoticed."""
    sides = {"the baseline": (baseline, name), "the candidate": (candidate, candidate_name)}
    wanted = list(metrics)
    silent = [
        side
        for side, (run, dataset) in sides.items()
        if not all(identity_of(run, dataset, metric) for metric in wanted)
    ]
    if silent:
        where = " and ".join(silent)
        yield f"dataset {name}: cannot check whether its metrics are computed the same way (no record in {where})"


def identity_of(run: Run, dataset: str, metric: str) -> Mapping[str, str]:
    """Return the parts of a metric's identity (planning.outlining.identify_metric); empty if the run has no record."""
    described = run.fingerprint.find_dataset(dataset)
    return described.metric_identities.get(metric, {}) if described else {}


def _describe_change(part: str, before: Any, after: Any) -> str:
    what = _PARTS.get(part, f"its {part}")
    labels = [str(value).rpartition("#")[0].strip() if "#" in str(value) else str(value) for value in (before, after)]
    if labels[0] != labels[1]:
        return f"{what} changed: {labels[0]} and {labels[1]}"
    return f"{what} {labels[0]} changed" if labels[0] else f"{what} changed"


def list_column_mismatches(name: str, baseline: Iterable[str], candidate: Iterable[str]) -> Iterator[str]:
    """Yield a line per metric without a common column: Recall@5 and Recall@10, or other parameters."""
    before, after = _list_columns(baseline), _list_columns(candidate)
    for base in before.keys() & after.keys():
        if before[base].keys() & after[base].keys():
            continue
        if any(spec.parameters for spec in (*before[base].values(), *after[base].values())):
            old, new = (", ".join(sorted(columns[base])) for columns in (before, after))
            yield f"dataset {name}: {base} has different parameters: {old} in the baseline, {new} in the candidate"
            continue
        old, new = (", ".join(sorted(map(_describe_cutoff, columns[base].values()))) for columns in (before, after))
        yield f"dataset {name}: {base} has different cutoffs: {old} in the baseline, {new} in the candidate"


def list_judge_mismatches(baseline: Run, candidate: Run, metrics: Iterable[str]) -> Iterator[str]:
    """Yield a line for a different judge or different embeddings if a common metric depends on them."""
    needs = [_find_needs(metric) for metric in metrics]
    before, after = baseline.fingerprint, candidate.fingerprint
    judged = before.judge and after.judge and any(n is None or Need.JUDGE in n for n in needs)
    embedded = any(n is not None and Need.EMBEDDINGS in n for n in needs)
    if before.judge and after.judge and judged and _differ(before.judge_sha256, after.judge_sha256):
        models = f"{before.judge.model} and {after.judge.model}"
        yield f"judge: model, address or parameters differ ({models})"
    if judged:
        yield from _list_refusal_mismatches(baseline, candidate)
    if embedded and _differ(before.embeddings_sha256, after.embeddings_sha256):
        yield "embeddings: provider, model or address differ"


def list_repeat_mismatches(baseline: Run, candidate: Run) -> Iterator[str]:
    """Yield a line if the numbers of attempts differ and a run has only means, so its first attempts are unknown."""
    asked = [run.fingerprint.repeats and run.fingerprint.repeats.agent for run in (baseline, candidate)]
    if None in asked or asked[0] == asked[1]:
        return
    for run, count, side in zip((baseline, candidate), asked, ("the baseline", "the candidate"), strict=True):
        samples = (sample for dataset in run.datasets for sample in dataset.samples)
        if count != 1 and not all(map(has_all_attempts, samples)):
            said = f"{asked[0]} and {asked[1]} attempts per sample"
            yield f"repeats: {said}, but {side} has only the means of its attempts"


def list_differences(baseline: Run, candidate: Run) -> Iterator[str]:
    """Yield other differences, which may be the purpose of the comparison: manifest, agent, versions."""
    before, after = baseline.fingerprint, candidate.fingerprint
    yield from _repeat_differences(before, after)
    yield from _selection_differences(baseline, candidate)
    for key, value in after.versions.items():
        old = before.versions.get(key)
        if old is not None and old != value:
            yield f"{key}: {old} and {value}"
    yield from _agent_differences(before, after)
    for name in before.retrievers.keys() & after.retrievers.keys():
        names = [one.retrievers[name].name for one in (before, after)]
        if names[0] != names[1]:
            yield f"retriever of {name}: {names[0]} and {names[1]}"
    old_fields, new_fields = ((one.manifest or ManifestDigest()).fields for one in (before, after))
    if old_fields and new_fields:
        for field in sorted(old_fields.keys() | new_fields.keys()):
            if old_fields.get(field) != new_fields.get(field):
                yield f"manifest: {field}"


def _repeat_differences(before: Fingerprint, after: Fingerprint) -> Iterator[str]:
    """Yield different numbers of attempts or judge calls."""
    old, new = before.repeats, after.repeats
    if old and new and old.agent != new.agent:
        yield f"repeats: {old.agent} and {new.agent} attempts per sample"
    if old and new and old.judge != new.judge:
        yield f"repeats: {old.judge} and {new.judge} judge calls per reply"


def _agent_differences(before: Fingerprint, after: Fingerprint) -> Iterator[str]:
    """Yield another agent. A log of another harness has no manifest, only a digest of prompt and settings."""
    agents = [one.agent or AgentDigest() for one in (before, after)]
    for old, new in zip(*((agent.name, agent.url) for agent in agents), strict=True):
        if _differ(old, new):
            yield f"agent: {old} and {new}"
    if not (before.manifest or after.manifest) and _differ(*(agent.sha256 for agent in agents)):
        yield "agent: its prompt or its settings"


def _selection_differences(baseline: Run, candidate: Run) -> Iterator[str]:
    for dataset in baseline.datasets:
        before, after = (run.fingerprint.find_dataset(dataset.name) for run in (baseline, candidate))
        if before and after and _differ(before.selection_sha256, after.selection_sha256):
            yield f"dataset {dataset.name}: {before.selected} and {after.selected} samples selected"


def describe_choice(baseline: Run) -> str | None:
    """Return a note if the baseline was promoted as the best of several runs, so the next run looks worse by luck."""
    best_of = baseline.fingerprint.best_of
    if best_of is None:
        return None
    return f"the baseline was the best of {best_of} runs when it was promoted, so an unchanged agent looks worse"


def count_left_out(run: Run, name: str) -> int:
    """Return how many samples of the file of a dataset a run's own selection left out."""
    described = run.fingerprint.find_dataset(name)
    return 0 if described is None else max(0, described.available - described.selected)


def was_narrowed(baseline: Run, name: str) -> bool:
    """Return whether a run's own selection left out samples of a dataset."""
    return count_left_out(baseline, name) > 0


def _differ(before: object, after: object) -> bool:
    """Return whether both values are known, and differ."""
    return None not in (before, after) and before != after


def _list_columns(metrics: Iterable[str]) -> dict[str, dict[str, MetricSpec]]:
    """Return the columns of each metric, by the name of the metric."""
    found: dict[str, dict[str, MetricSpec]] = {}
    for metric in metrics:
        spec = split_column(metric)
        found.setdefault(spec.base, {})[metric] = spec
    return found


def _describe_cutoff(spec: MetricSpec) -> str:
    return "the whole ranking" if spec.cutoff is None else str(spec.cutoff)


def _find_needs(metric: str) -> frozenset[Need] | None:
    """Return the needs of a metric; None for a custom metric."""
    from evalspec.scoring.metrics.base import METRICS

    known = METRICS.find(split_column(metric).base)
    while known is not None and known.base is not None and (root := METRICS.find(known.base)):
        known = root
    return known.needs if known else None
