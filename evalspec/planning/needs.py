"""Whether each sample has what each metric needs, before anything is asked."""

from collections.abc import Iterable, Mapping, Sequence

from evalspec.errors import Problem
from evalspec.metrics.base import Metric
from evalspec.model import Need, Sample

_HAS = {
    Need.EXPECTED: lambda sample: bool(sample.references),
    Need.CONTEXT: lambda sample: sample.retrieved_contexts is not None,
    Need.REFERENCE_CONTEXTS: lambda sample: bool(sample.reference_contexts),
    Need.RELEVANT: lambda sample: sample.qrels is not None,
}
_FIELDS = {need: need.value for need in _HAS}
_PLACES_SHOWN = 8


def check_needs(
    samples: Sequence[Sample], metrics: Iterable[Metric], shown_as: str, given_by_reply: frozenset[Need]
) -> list[Problem]:
    """One problem for each field that some metric needs and some sample lacks, with the lines.

    `given_by_reply`: what the agent's replies bring, so that the samples need not.
    """
    needed_by: dict[Need, list[str]] = {}
    for metric in metrics:
        for need in sorted(metric.needs - given_by_reply):
            needed_by.setdefault(need, []).append(metric.name)
    problems = []
    for need, names in needed_by.items():
        if need not in _HAS:
            continue
        lacking = [sample for sample in samples if not _HAS[need](sample)]
        if lacking:
            problems.append(_problem(need, names, lacking, len(samples), shown_as))
    return problems


def _problem(need: Need, names: Sequence[str], lacking: Sequence[Sample], total: int, shown_as: str) -> Problem:
    first, *others = lacking
    also = f" (also {_places(others)}; {len(lacking)} of {total} samples)" if others else ""
    where = "" if first.line is not None else f" in sample {first.id}"
    message = f"missing or empty{where}, needed by {', '.join(names)}{also}"
    return Problem(message, _FIXES.get(need, "add it or drop the metric"), shown_as, first.line, _FIELDS[need])


def _places(samples: Sequence[Sample]) -> str:
    """The lines of the samples, or their ids in a format without lines."""
    lined = all(sample.line is not None for sample in samples)
    shown = [str(sample.line if lined else sample.id) for sample in samples[:_PLACES_SHOWN]]
    more = f" and {len(samples) - _PLACES_SHOWN} more" if len(samples) > _PLACES_SHOWN else ""
    return f"{'lines' if lined else 'samples'} {', '.join(shown)}{more}"


_FIXES: Mapping[Need, str] = {
    Need.CONTEXT: "add it, or map spec.api.chatEndpoint.response.contexts so that the reply brings it",
}
