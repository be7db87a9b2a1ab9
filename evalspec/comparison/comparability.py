"""What makes two runs not comparable, and what else is not the same in them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from evalspec.comparison.pairing import has_all_attempts
from evalspec.manifest.metric_spec import parse_metric_spec
from evalspec.model import DatasetResult, Need, Run

_NAMES_SHOWN = 5
_PARTS = {
    "settings": "its options",
    "scorer": "its scorer",
    "prompt": "the judge's prompt",
    "judge": "the judge",
    "embeddings": "the embeddings",
}
"""Parts of a metric's identity as messages call them; any other is called by its name."""


def list_content_mismatches(baseline: Run, candidate: Run, name: str, candidate_name: str) -> Iterator[str]:
    """Why the samples that both runs have of a dataset are not the same; nothing where a run does not tell.

    Samples that only one run has do not matter: the file may have grown, and others may have been selected. Without the
    samples' digests all that is known is whether the files are equal.
    """
    before, after = _digests(baseline, name), _digests(candidate, candidate_name)
    if before and after and None not in before.values() and None not in after.values():
        changed = [sample for sample, digest in before.items() if after.get(sample, digest) != digest]
        if changed:
            count = (
                "1 sample is not what it was" if len(changed) == 1 else f"{len(changed)} samples are not what they were"
            )
            more = ", …" if len(changed) > _NAMES_SHOWN else ""
            yield f"dataset {name}: {count}: {', '.join(changed[:_NAMES_SHOWN])}{more}"
    elif _differ(describe_dataset(baseline, name), describe_dataset(candidate, candidate_name), "sha256"):
        yield f"dataset {name}: its content is not the same"


def _digests(run: Run, name: str) -> dict[str, str | None]:
    return {sample.id: sample.digest for d in run.datasets if d.name == name for sample in d.samples}


def list_metric_mismatches(
    baseline: Run, candidate: Run, dataset: str, metric: str, candidate_dataset: str | None = None
) -> list[str]:
    """Why a metric of a dataset is not the same metric in both runs, a phrase for each reason.

    Where a run does not tell how it computed the metric, the judges and embeddings of the two runs are compared, as far
    as they are known. `candidate_dataset`: what the candidate calls the dataset, where it has another name for it.
    """
    before = identity_of(baseline, dataset, metric)
    after = identity_of(candidate, candidate_dataset or dataset, metric)
    if not before or not after:
        return list(list_judge_mismatches(baseline, candidate, [metric]))
    shared = [part for part in after if part in before and _digest_of(before[part]) != _digest_of(after[part])]
    return [_describe_change(part, before[part], after[part]) for part in shared]


def list_mismatches_by_reason(
    baseline: Run, candidate: Run, name: str, metrics: Iterable[str], candidate_name: str
) -> Iterator[str]:
    """The same for several metrics of a dataset: a line for each reason, with the metrics that have it."""
    found: dict[str, list[str]] = {}
    for metric in metrics:
        for reason in list_metric_mismatches(baseline, candidate, name, metric, candidate_name):
            found.setdefault(reason, []).append(metric)
    for reason, affected in found.items():
        yield f"dataset {name}: {', '.join(affected)}: {reason}"


def list_identity_gaps(
    baseline: Run, candidate: Run, name: str, metrics: Iterable[str], candidate_name: str
) -> Iterator[str]:
    """A note where a run does not tell how it computed metrics of a dataset, so that a change would not be noticed."""
    sides = {"the baseline": (baseline, name), "the candidate": (candidate, candidate_name)}
    wanted = list(metrics)
    silent = [
        side
        for side, (run, dataset) in sides.items()
        if not all(identity_of(run, dataset, metric) for metric in wanted)
    ]
    if silent:
        where = " and ".join(silent)
        yield f"dataset {name}: whether its metrics are computed the same way is not known (no record in {where})"


def identity_of(run: Run, dataset: str, metric: str) -> Mapping[str, str]:
    """The parts that make a metric what it is (plan.outlining.identify_metric); empty where the run does not tell."""
    return _parts(_parts(describe_dataset(run, dataset), "metricIdentities"), metric)


def _digest_of(value: Any) -> str:
    """What a part is compared by: its label may have been redacted on one side."""
    return str(value).rpartition("#")[2]


def _describe_change(part: str, before: Any, after: Any) -> str:
    what = _PARTS.get(part, f"its {part}")
    labels = [str(value).rpartition("#")[0].strip() if "#" in str(value) else str(value) for value in (before, after)]
    if labels[0] != labels[1]:
        return f"{what} changed: {labels[0]} and {labels[1]}"
    return f"{what} {labels[0]} changed" if labels[0] else f"{what} changed"


def list_cutoff_mismatches(name: str, baseline: Iterable[str], candidate: Iterable[str]) -> Iterator[str]:
    """Metrics that both have, but at no common cut-off: Recall@5 in one and Recall@10 in the other."""
    before, after = _cutoffs(baseline), _cutoffs(candidate)
    for base in before.keys() & after.keys():
        if not before[base] & after[base]:
            old, new = (", ".join(sorted(cutoffs[base])) for cutoffs in (before, after))
            yield f"dataset {name}: {base} is cut off at another k: {old} in the baseline, {new} in the candidate"


def list_judge_mismatches(baseline: Run, candidate: Run, metrics: Iterable[str]) -> Iterator[str]:
    """Another judge or other embeddings, where a metric that both have depends on them."""
    needs = [_find_needs(metric) for metric in metrics]
    before, after = baseline.fingerprint, candidate.fingerprint
    judged = before.get("judge") and after.get("judge") and any(n is None or Need.JUDGE in n for n in needs)
    embedded = any(n is not None and Need.EMBEDDINGS in n for n in needs)
    if judged and _differ(before, after, "judgeSha256"):
        models = (_model(before["judge"]), _model(after["judge"]))
        yield f"judge: model, address or parameters are not the same ({models[0]} and {models[1]})"
    if embedded and _differ(before, after, "embeddingsSha256"):
        yield "embeddings: provider, model or address are not the same"


def list_repeat_mismatches(baseline: Run, candidate: Run) -> Iterator[str]:
    """Different numbers of attempts where a run has only the means of its own, so that no first ones can be paired."""
    asked = [_parts(run.fingerprint, "repeats").get("agent") for run in (baseline, candidate)]
    if None in asked or asked[0] == asked[1]:
        return
    for run, count, side in zip((baseline, candidate), asked, ("the baseline", "the candidate"), strict=True):
        samples = (sample for dataset in run.datasets for sample in dataset.samples)
        if count != 1 and not all(map(has_all_attempts, samples)):
            said = f"{asked[0]} and {asked[1]} attempts of each sample"
            yield f"repeats: {said}, and {side} has only the means of its attempts"


def list_differences(baseline: Run, candidate: Run) -> Iterator[str]:
    """What else was not the same, and may be what one wants to compare: manifest, agent, versions."""
    before, after = baseline.fingerprint, candidate.fingerprint
    yield from _repeat_differences(before, after)
    yield from _selection_differences(baseline, candidate)
    for key, value in _parts(after, "versions").items():
        old = _parts(before, "versions").get(key)
        if old is not None and old != value:
            yield f"{key}: {old} and {value}"
    if _differ(_parts(before, "agent"), _parts(after, "agent"), "url"):
        yield f"agent: {_parts(before, 'agent')['url']} and {_parts(after, 'agent')['url']}"
    old_retrievers, new_retrievers = _parts(before, "retrievers"), _parts(after, "retrievers")
    for name in old_retrievers.keys() & new_retrievers.keys():
        names = [str(_parts(found, name).get("name")) for found in (old_retrievers, new_retrievers)]
        if names[0] != names[1]:
            yield f"retriever of {name}: {names[0]} and {names[1]}"
    old_fields, new_fields = _parts(_parts(before, "manifest"), "fields"), _parts(_parts(after, "manifest"), "fields")
    if old_fields and new_fields:
        for field in sorted(old_fields.keys() | new_fields.keys()):
            if old_fields.get(field) != new_fields.get(field):
                yield f"manifest: {field}"


def _repeat_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Numbers of attempts, of which as many of the first are compared as both have, and of gradings, which are not."""
    old, new = _parts(before, "repeats"), _parts(after, "repeats")
    if _differ(old, new, "agent"):
        yield f"repeats: {old['agent']} and {new['agent']} attempts; the first that both have are compared"
    if _differ(old, new, "judge"):
        yield f"repeats: {old['judge']} and {new['judge']} gradings of each reply"


def _selection_differences(baseline: Run, candidate: Run) -> Iterator[str]:
    for dataset in baseline.datasets:
        before, after = describe_dataset(baseline, dataset.name), describe_dataset(candidate, dataset.name)
        if _differ(before, after, "selectionSha256"):
            counts = [entry.get("selected", "unknown") for entry in (before, after)]
            yield f"dataset {dataset.name}: {counts[0]} and {counts[1]} samples selected"


def describe_choice(baseline: Run) -> str | None:
    """A note on a baseline that was promoted as the best of several runs: by luck, the next run looks worse."""
    best_of = baseline.fingerprint.get("bestOf")
    if not isinstance(best_of, int):
        return None
    return (
        f"the baseline was the best of {best_of} runs when it was promoted, so an unchanged agent looks worse than it"
    )


def describe_attempts(baseline: Run, fingerprint: Mapping[str, Any], datasets: Sequence[DatasetResult]) -> str | None:
    """A note on runs with different numbers of attempts: which ones are compared. None where none can be.

    `fingerprint` and `datasets` are those of the run that is compared with the baseline.
    """
    candidate = Run(id="", datasets=tuple(datasets), fingerprint=fingerprint)
    old, new = (_parts(run.fingerprint, "repeats").get("agent") for run in (baseline, candidate))
    if not isinstance(old, int) or not isinstance(new, int) or old == new:
        return None
    if any(list_repeat_mismatches(baseline, candidate)):
        return None
    count, side = min(old, new), "the baseline" if old > new else "this run"
    compared = "the first attempt" if count == 1 else f"the first {count} attempts"
    return f"{compared} of {max(old, new)} of {side} {'is' if count == 1 else 'are'} compared"


def describe_dataset(run: Run, name: str) -> Mapping[str, Any]:
    """What the fingerprint says of a dataset; empty where it does not tell."""
    described = run.fingerprint.get("datasets")
    found = described if isinstance(described, list) else []
    return next((entry for entry in found if isinstance(entry, dict) and entry.get("name") == name), {})


def _differ(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> bool:
    """Whether both tell and say different things."""
    return before.get(key) is not None and after.get(key) is not None and before[key] != after[key]


def _cutoffs(metrics: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for metric in metrics:
        base, at, cutoff = metric.partition("@")
        found.setdefault(base, set()).add(cutoff if at else "the whole ranking")
    return found


def _find_needs(metric: str) -> frozenset[Need] | None:
    """What a metric cannot be computed without; None for one of the user's own."""
    from evalspec.metrics.base import METRICS

    try:
        known = METRICS.find(parse_metric_spec(metric).base)
    except ValueError:
        return None
    while known is not None and known.base is not None and (root := METRICS.find(known.base)):
        known = root
    return known.needs if known else None


def _parts(fingerprint: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = fingerprint.get(key)
    return found if isinstance(found, dict) else {}


def _model(judge: Any) -> str:
    return str(judge.get("model")) if isinstance(judge, dict) else str(judge)
