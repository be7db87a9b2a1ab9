"""Whether each sample has what each metric needs, before anything is asked."""

from collections.abc import Iterable, Mapping, Sequence

from evalspec.errors import Problem
from evalspec.metrics.base import Metric
from evalspec.model import Need, Sample
from evalspec.planning.survey import Lacking, Survey


def check_needs(
    survey: Survey, metrics: Iterable[Metric], shown_as: str, given_by_reply: frozenset[Need]
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
        if need in survey.lacking and survey.lacking[need].count:
            problems.append(_problem(need, names, survey.lacking[need], survey.count, shown_as))
    return problems


def _problem(need: Need, names: Sequence[str], lacking: Lacking, total: int, shown_as: str) -> Problem:
    first, *others = lacking.first
    also = f" (also {_places(others, lacking.count - 1)}; {lacking.count} of {total} samples)" if others else ""
    where = "" if first.line is not None else f" in sample {first.id}"
    message = f"missing or empty{where}, needed by {', '.join(names)}{also}"
    return Problem(message, _FIXES.get(need, "add it or drop the metric"), shown_as, first.line, need.value)


def _places(first: Sequence[Sample], count: int) -> str:
    """The lines of the first of `count` samples, or their ids in a format without lines."""
    lined = all(sample.line is not None for sample in first)
    shown = [str(sample.line if lined else sample.id) for sample in first]
    more = f" and {count - len(first)} more" if count > len(first) else ""
    return f"{'lines' if lined else 'samples'} {', '.join(shown)}{more}"


_FIXES: Mapping[Need, str] = {
    Need.CONTEXT: "add it, or map spec.api.chatEndpoint.response.contexts so that the reply brings it",
}
