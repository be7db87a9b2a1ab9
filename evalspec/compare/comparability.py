"""What makes two runs not comparable, and what else is not the same in them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evalspec.manifest.metric_spec import parse_metric_spec
from evalspec.records import Need, Run

_DIGEST_SHOWN = 8


def find_content_mismatches(baseline: Run, candidate: Run, name: str, candidate_name: str) -> Iterator[str]:
    """Why the samples of one dataset are not the same in both; nothing where a run does not tell."""
    before, after = describe_dataset(baseline, name), describe_dataset(candidate, candidate_name)
    if _differ(before, after, "sha256"):
        yield f"dataset {name}: its content is not the same"
    elif _differ(before, after, "selectionSha256"):
        counts = (
            f" ({before['selected']} and {after['selected']})" if "selected" in before and "selected" in after else ""
        )
        yield f"dataset {name}: other samples of it were selected{counts}"


def find_cutoff_mismatches(name: str, baseline: Iterable[str], candidate: Iterable[str]) -> Iterator[str]:
    """Metrics that both have, but at no common cut-off: Recall@5 in one and Recall@10 in the other."""
    before, after = _cutoffs(baseline), _cutoffs(candidate)
    for base in before.keys() & after.keys():
        if not before[base] & after[base]:
            old, new = (", ".join(sorted(cutoffs[base])) for cutoffs in (before, after))
            yield f"dataset {name}: {base} is cut off at another k: {old} in the baseline, {new} in the candidate"


def find_judge_mismatches(baseline: Run, candidate: Run, metrics: Iterable[str]) -> Iterator[str]:
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


def find_repeat_mismatches(baseline: Run, candidate: Run) -> Iterator[str]:
    """Other numbers of repeats: a score is then a mean of more or fewer replies, or of gradings."""
    before, after = baseline.fingerprint.get("repeats"), candidate.fingerprint.get("repeats")
    if isinstance(before, dict) and isinstance(after, dict) and before != after:
        said = [f"{repeats.get('agent')} asked, {repeats.get('judge')} judged" for repeats in (before, after)]
        yield f"repeats: not the same number ({said[0]}; {said[1]})"


def find_differences(baseline: Run, candidate: Run) -> Iterator[str]:
    """What else was not the same, and may be what one wants to compare: manifest, agent, versions."""
    before, after = baseline.fingerprint, candidate.fingerprint
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
    import evalspec.metrics  # noqa: F401 - registers every metric
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
