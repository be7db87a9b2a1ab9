"""Judged metrics defined in the manifest: `{name: tone, rubric: "…", labels: {good: 1, bad: 0}}`.

The rubric is the judge's prompt. `{input}`, `{response}`, `{expected}` and `{contexts}` are replaced by the sample's
texts as JSON, so that no text can pass for a part of the prompt. A rubric without placeholders is followed by input and
response. Literal braces are written `{{` and `}}`.
"""

from collections.abc import Callable, Mapping
from string import Formatter

from evalspec.base.registry import near_miss
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.model import Direction, Exchange, Need
from evalspec.scoring.metrics.base import MetricDefinition
from evalspec.scoring.metrics.functions import read_needed
from evalspec.scoring.metrics.labels import build_label_scorer

_LITERAL = "write {{ and }} for literal braces"
_APPENDED = "\n\ninput: {input}\nresponse: {response}"

_READ: Mapping[str, Callable[[Exchange], str | list[str]]] = {
    "input": lambda exchange: exchange.sample.question,
    "response": lambda exchange: exchange.response,
    "expected": lambda exchange: str(read_needed(exchange, Need.EXPECTED)[0]),
    "contexts": lambda exchange: list(read_needed(exchange, Need.CONTEXT)),
}
_NEEDS = {"expected": Need.EXPECTED, "contexts": Need.CONTEXT}


def check_rubric(rubric: str) -> list[str]:
    """Return the problems of a rubric's placeholders, each with its fix."""
    try:
        parts = list(Formatter().parse(rubric))
    except ValueError as error:
        return [f"unbalanced braces in the rubric ({error}); {_LITERAL}"]
    problems = []
    for _, name, form, conversion in parts:
        if name is None:
            continue
        if name not in _READ:
            known = near_miss(name, _READ) if name else f"known: {', '.join(_READ)}"
            problems.append(f"unknown placeholder '{{{name}}}' in the rubric; {known}; {_LITERAL}")
        elif form or conversion:
            problems.append(f"the placeholder '{name}' in the rubric has a format or conversion; use {{{name}}}")
    return problems


def define_rubric(entry: MetricEntry) -> MetricDefinition:
    """Return the metric of an entry with a valid rubric and labels.

    Raises:
        ValueError: the rubric has problems, or the entry has none.
    """
    if entry.rubric is None or entry.labels is None:
        raise ValueError(f"{entry.name} has no rubric")
    problems = check_rubric(entry.rubric)
    if problems:
        raise ValueError(problems[0])
    names = _placeholders(entry.rubric)
    template = entry.rubric if names else entry.rubric + _APPENDED
    names = names or ("input", "response")
    needs = frozenset({Need.JUDGE, *(_NEEDS[name] for name in names if name in _NEEDS)})

    def read(exchange: Exchange) -> dict[str, str | list[str]]:
        return {name: _READ[name](exchange) for name in names}

    values = entry.labels.values()
    return MetricDefinition(
        name=entry.name,
        summary="Rubric from the manifest.",
        engine="ragas",
        build=build_label_scorer(entry.name, template, entry.labels, read, judges_silence=True),
        needs=needs,
        direction=Direction(entry.direction or Direction.HIGHER),
        bounds=entry.range or (min(values), max(values)),
        judge_calls=lambda _contexts: 1,
        scores_answers="response" in names,
        is_binary={*values} <= {0, 1},
        version=2,
    )


def _placeholders(rubric: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for _, name, _, _ in Formatter().parse(rubric) if name))
