"""Define metrics by functions of an exchange: `@metric`."""

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, SupportsFloat, TypeVar, overload

from evalspec.base.errors import MetricError
from evalspec.inputs.user_code.calls import describe_value
from evalspec.model import LARGEST_VALUE, Cause, Exchange, Need, Score
from evalspec.scoring.metrics.base import BuildContext, MetricDefinition, Scorer
from evalspec.scoring.metrics.parameters import POSITIONAL, read_parameters


class MetricFunction(Protocol):
    """Scores replies. It may be async."""

    def __call__(self, exchange: Exchange, /, *context: Any, **parameters: Any) -> Any:
        """Return a number, a bool, a Score, or None for "not applicable". `context`: a BuildContext, if it takes one.

        `parameters`: keyword-only arguments of type `str`, `int`, `float`, `bool` or `Literal`.

        Raises:
            MetricError: the exchange cannot be scored. The score is failed, with this message.
        """
        ...


Function = TypeVar("Function", bound=MetricFunction)

_GIVEN: Mapping[Need, tuple[Callable[[Exchange], object], str]] = {
    Need.EXPECTED: (lambda exchange: exchange.sample.references or None, "the sample has no expected answer"),
    Need.CONTEXT: (
        lambda exchange: exchange.retrieved_contexts,
        "neither the reply nor the sample has retrieved contexts",
    ),
    Need.REFERENCE_CONTEXTS: (
        lambda exchange: exchange.sample.reference_contexts or None,
        "the sample has no reference_contexts",
    ),
    Need.RELEVANT: (lambda exchange: exchange.sample.qrels, "the sample does not say which documents are relevant"),
    Need.RETRIEVED_IDS: (
        lambda exchange: exchange.ranking,
        "the reply has no document ids; map spec.api.chatEndpoint.response.contextIds",
    ),
    Need.CANDIDATE_IDS: (lambda exchange: exchange.candidates, "nothing was reranked, so there is only one ranking"),
}
"""How to read each need (None if it is missing), and the message for a missing one."""


def read_needed(exchange: Exchange, need: Need) -> Any:
    """Return the data of an exchange that a metric needs.

    Raises:
        MetricError: the exchange has none.
    """
    read, missing = _GIVEN[need]
    found = read(exchange)
    if found is None:
        raise MetricError(missing)
    return found


@overload
def metric(function: Function, /) -> Function: ...
@overload
def metric(**fields: Any) -> Callable[[Function], Function]: ...
def metric(function: Callable[..., Any] | None = None, /, **fields: Any) -> Any:
    """Define a metric by a function: `@metric`, or `@metric(needs={Need.EXPECTED})`. The function is unchanged.

    The function takes an Exchange that satisfies `needs`, and the BuildContext if it has a second argument. Its
    keyword-only arguments are the metric's parameters. It may be async. `to_score` reads its result. `fields` are those
    of a MetricDefinition. By default, the name is that of the function, the summary is the first line of its docstring,
    and the engine is its package. A result annotated as bool is binary.
    """
    return partial(_mark, fields=fields) if function is None else _mark(function, fields)


def _mark(function: Function, fields: Mapping[str, Any]) -> Function:
    vars(function)["definition"] = define_metric(function, **fields)
    return function


def define_metric(function: Callable[..., Any], *, needs: Iterable[Need] = (), **fields: Any) -> MetricDefinition:
    """Return the definition that `metric` would create, for functions created in a loop."""
    own: dict[str, Any] = {
        "name": function.__name__,
        "summary": inspect.cleandoc(function.__doc__ or function.__name__.replace("_", " ")).partition("\n")[0],
        "engine": function.__module__.partition(".")[0],
        "parameters": fields["parameters"] if "parameters" in fields else read_parameters(function),
        "is_binary": function.__annotations__.get("return") in (bool, "bool"),
    }
    interpret = to_score if function.__module__.startswith("evalspec.") else to_storable_score
    takes_context = sum(one.kind in POSITIONAL for one in inspect.signature(function).parameters.values()) > 1

    def build(context: BuildContext) -> Scorer:
        more = (context,) if takes_context else ()
        given = [need for need in _GIVEN if need in definition.needs]

        def score(exchange: Exchange) -> Score | Awaitable[Score]:
            if exchange.reply is None and not definition.scores_failures:
                raise MetricError("the agent gave no reply")
            for need in given:
                read_needed(exchange, need)
            too_long = refuse_long(definition, exchange)
            if too_long is not None:
                return too_long
            result = function(exchange, *more, **context.parameters)
            return _finish(result, interpret) if isinstance(result, Awaitable) else interpret(result)

        return score

    definition = MetricDefinition(build=build, needs=frozenset(needs), **(own | fields))
    return definition


def refuse_long(definition: MetricDefinition, exchange: Exchange) -> Score | None:
    """Return a failed score if the texts are longer than the metric reads. A score of a part would be another score."""
    most, needs, sample = definition.reads_at_most, definition.needs, exchange.sample
    if most is None:
        return None
    lengths = (
        len(exchange.response) if definition.scores_answers else 0,
        sum(map(len, sample.references)) if Need.EXPECTED in needs else 0,
        sum(map(len, exchange.retrieved_contexts or ())) if Need.CONTEXT in needs else 0,
        sum(map(len, sample.reference_contexts or ())) if Need.REFERENCE_CONTEXTS in needs else 0,
    )
    if sum(lengths) <= most:
        return None
    own_contexts = exchange.reply is None or exchange.reply.retrieved_contexts is None
    causes = (Cause.REPLY, Cause.DATASET, Cause.DATASET if own_contexts else Cause.REPLY, Cause.DATASET)
    names = ("the answer", "the expected answer", "the retrieved contexts", "reference_contexts")
    longest, name, cause = max(zip(lengths, names, causes, strict=True))
    verb = "have" if name.endswith("contexts") else "has"
    return Score.failed(f"{name} {verb} {longest:,} characters; {definition.name} reads at most {most:,} in all", cause)


async def _finish(result: Awaitable[Any], read: Callable[[Any], Score]) -> Score:
    return read(await result)


def to_score(result: Any) -> Score:
    """Return the score for a function's result: a Score unchanged, a number or bool as value, None as not applicable.

    Raises:
        MetricError: the result is none of these.
    """
    if isinstance(result, Score):
        return result
    if result is None:
        return Score.not_applicable("the scorer returned None", Cause.OTHER)
    wanted = "it must return a number, a bool, None or a Score"
    if not isinstance(result, SupportsFloat):
        raise MetricError(f"the scorer returned {describe_value(result)}; {wanted}")
    try:
        value = float(result)
    except (TypeError, ValueError, OverflowError) as error:
        raise MetricError(f"the scorer returned {describe_value(result)}, which is not one number: {error}") from error
    if not abs(value) <= LARGEST_VALUE:
        raise MetricError(f"the scorer returned {value}; {wanted}")
    return Score.scored(value)


def to_storable_score(result: Any) -> Score:
    """Return the score for a result of a function that is not evalspec's, like `to_score`.

    Raises:
        MetricError: the result is no score, its reason is no text, or its evidence is no JSON value.
    """
    score = to_score(result)
    if not isinstance(score.reason, str | None):
        raise MetricError(f"the score's reason is {describe_value(score.reason)}; it must be text")
    try:
        json.dumps(score.evidence_or_none, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise MetricError(f"the score's evidence cannot be stored as JSON: {error}") from error
    return score
