"""Metrics that a manifest defines: a function of the project, or a prompt of the judge.

`{name: cites, scorer: module:function}`: the function is in a module beside the manifest and takes an Exchange
(evalspec.model). It may be sync or async. Its result is read like that of any metric (`metrics.functions.to_score`).
Sync functions run in threads, so one that waits does not block the run. An exception is recorded on the score of that
sample. Its keyword-only arguments are parameters.

`{name: tone, rubric: "…", labels: {good: 1, bad: 0}}`: the rubric is the judge's prompt. `{input}`, `{response}`,
`{expected}` and `{contexts}` are replaced by the sample's texts as JSON, so that no text can pass for a part of the
prompt. A rubric without placeholders is followed by input and response. Literal braces are written `{{` and `}}`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from string import Formatter

from evalspec.base.errors import MetricError
from evalspec.base.registry import near_miss
from evalspec.inputs.manifest.metric_schema import MetricEntry
from evalspec.inputs.user_code.calls import UserCode, check_target
from evalspec.inputs.user_code.modules import read_signature
from evalspec.model import Direction, Exchange, Need, Score
from evalspec.scoring.metrics.base import MetricDefinition
from evalspec.scoring.metrics.functions import read_needed, to_storable_score
from evalspec.scoring.metrics.labels import build_label_scorer
from evalspec.scoring.metrics.parameters import Parameter, Value, list_parameters

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
        direction=entry.direction or Direction.HIGHER,
        bounds=entry.range or (min(values), max(values)),
        judge_calls=lambda _contexts: 1,
        scores_answers="response" in names,
        is_binary={*values} <= {0, 1},
        version=2,
    )


def _placeholders(rubric: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for _, name, _, _ in Formatter().parse(rubric) if name))


def define_scorer(entry: MetricEntry, folder: Path) -> MetricDefinition:
    """Return the metric of an entry with a `scorer`. The module is imported at the first score."""
    return MetricDefinition(
        name=entry.name,
        summary=f"Your own function {entry.scorer}.",
        engine="your own",
        build=lambda context: OwnScorer(entry.scorer or "", folder, context.parameters),
        parameters=_read_scorer(entry.scorer or "", folder),
        direction=entry.direction or Direction.HIGHER,
        bounds=entry.range or (None, None),
        scores_answers=False,  # unknown: the function may read only the ranking
    )


def check_scorer(entry: MetricEntry, folder: Path) -> list[str]:
    """Return why the function of an entry cannot be found or called. The module is read, not executed."""
    problems = check_target(folder, entry.scorer or "")
    try:
        _read_scorer(entry.scorer or "", folder)
    except TypeError as error:
        problems.append(str(error))
    return problems


def _read_scorer(scorer: str, folder: Path) -> tuple[Parameter, ...]:
    """Return the parameters of a function; none if its signature is unknown.

    Raises:
        TypeError: its signature does not fit.
    """
    found = read_signature(folder, scorer)
    return list_parameters(scorer.rpartition(":")[2], found) if found else ()


class OwnScorer:
    """Scores an exchange with the function `module:function` of a folder."""

    def __init__(self, scorer: str, folder: Path, parameters: Mapping[str, Value]) -> None:
        self._parameters = parameters
        self._code = UserCode(scorer, folder, MetricError)

    async def __call__(self, exchange: Exchange) -> Score:
        """Return the score of an exchange.

        Raises:
            MetricError: the function could not be imported, raised an exception, or did not return a score.
        """
        function = await self._code.load_aside()
        if not callable(function):
            raise MetricError(f"{self._code.target} is not a function")
        return to_storable_score(await self._code.call(partial(function, **self._parameters), exchange))
