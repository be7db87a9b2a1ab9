"""Whether each sample has what each metric needs, before anything is asked."""

from collections.abc import Iterable, Mapping, Sequence

from evalspec.errors import Problem
from evalspec.metrics.base import Metric
from evalspec.records import Need, Sample

_HAS = {
    Need.EXPECTED: lambda sample: bool(sample.references),
    Need.CONTEXT: lambda sample: sample.retrieved_contexts is not None,
    Need.REFERENCE_CONTEXTS: lambda sample: bool(sample.reference_contexts),
    Need.RELEVANT: lambda sample: sample.qrels is not None,
}
_FIELDS = {need: need.value for need in _HAS}
_LINES_SHOWN = 8


def find_missing_fields(
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
        lines = [sample.line for sample in samples if not _HAS[need](sample)]
        if lines:
            problems.append(_problem(need, names, lines, len(samples), shown_as))
    return problems


def _problem(need: Need, names: Sequence[str], lines: Sequence[int | None], total: int, shown_as: str) -> Problem:
    others = [str(line) for line in lines[1:]]
    more = f" and {len(others) - _LINES_SHOWN} more" if len(others) > _LINES_SHOWN else ""
    also = f" (also lines {', '.join(others[:_LINES_SHOWN])}{more}; {len(lines)} of {total} samples)" if others else ""
    message = f"missing or empty, needed by {', '.join(names)}{also}"
    return Problem(message, _FIXES.get(need, "add it or drop the metric"), shown_as, lines[0], _FIELDS[need])


_FIXES: Mapping[Need, str] = {
    Need.CONTEXT: "add it, or map spec.api.chatEndpoint.response.contexts so that the reply brings it",
}
