"""A function as a metric, scored as a run does it."""

import asyncio
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from evalspec import METRICS, Cause, Direction, Exchange, MetricError, Need, Score, metric
from evalspec.base.registry import Registry
from evalspec.inputs.manifest.judge_schema import EmbeddingsConfig, JudgeConfig
from evalspec.model import AgentReply, Sample
from evalspec.runs.runner.scoring import score_exchange
from evalspec.scoring.judge.services import JudgeServices
from evalspec.scoring.metrics.base import BuildContext, Metric, MetricDefinition, build_scorer

EXCHANGE = Exchange(Sample("s", "q", references=("Paris",)), AgentReply("Paris it is"))


def score(function, exchange=EXCHANGE, **parameters):
    definition = function.definition
    services = JudgeServices(JudgeConfig(), EmbeddingsConfig())
    context = BuildContext(None, Path(), services, parameters=parameters)
    scorer = build_scorer(definition, definition.needs, context)
    planned = Metric(definition.name, definition, scorer, definition.needs, definition.bounds)
    return asyncio.run(score_exchange([planned], exchange, lambda _new: None, known={}))[definition.name]


@metric
def is_short(exchange) -> bool:
    """Whether the answer is short.

    Further lines are for readers of the code.
    """
    return len(exchange.response) < 20


@metric(name="Words", needs={Need.EXPECTED}, direction=Direction.LOWER, bounds=(0, None), version=2, engine="wc")
async def count_words(exchange):
    await asyncio.sleep(0)
    return len(exchange.response.split())


def definition_of(function: Any) -> MetricDefinition:
    return function.definition


def test_what_a_function_says_of_itself():
    short, words = definition_of(is_short), definition_of(count_words)
    assert (short.name, short.summary) == ("is_short", "Whether the answer is short.")
    assert short.engine == __name__.partition(".")[0]
    assert (short.is_binary, short.needs, short.bounds, short.direction) == (True, set(), (0, 1), Direction.HIGHER)
    assert (words.name, words.summary, words.engine) == ("Words", "count words", "wc")
    assert (words.is_binary, words.needs, words.bounds, words.version) == (False, {Need.EXPECTED}, (0, None), 2)
    assert is_short(EXCHANGE) is True
    with pytest.raises(TypeError, match="need"):
        metric(need={Need.EXPECTED})(lambda exchange: 1)


def test_sync_and_async_functions_give_numbers():
    assert (score(is_short).value, score(count_words).value) == (1.0, 3.0)


def test_the_parameters_are_keyword_arguments_and_in_the_context():
    @metric
    def as_named(_exchange, context, *, match: str = "word"):
        return match == "substring" == context.parameters.get("match")

    assert (score(as_named).value, score(as_named, match="substring").value) == (0.0, 1.0)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (None, Score.not_applicable("the scorer returned None", Cause.OTHER)),
        (Score.not_applicable("too short", Cause.REPLY), Score.not_applicable("too short", Cause.REPLY)),
        (Score.scored(0.5, "half"), Score.scored(0.5, "half")),
        (MetricError("no luck"), Score.failed("no luck")),
        (KeyError("k"), Score.failed("KeyError: 'k'")),
        (2, Score.failed("m gave 2, outside its range [0, 1]")),
        ("1", Score.failed("the scorer returned the str '1'; it must return a number, a bool, None or a Score")),
    ],
    ids=repr,
)
def test_results_that_are_no_numbers(result, expected, is_async):
    def m(_exchange):
        if isinstance(result, Exception):
            raise result
        return result

    async def later(exchange):
        return m(exchange)

    assert score(metric(name="m")(later if is_async else m)) == expected


def test_a_function_is_not_called_without_what_it_needs():
    @metric(needs={Need.EXPECTED, Need.RETRIEVED_IDS})
    def never(_exchange):
        raise AssertionError

    assert score(never).reason == "the reply has no document ids; map spec.api.chatEndpoint.response.contextIds"
    assert score(never, Exchange(Sample("s", "q"), AgentReply("a"))).reason == "the sample has no expected answer"


def test_an_entry_point_may_name_a_function_or_its_module():
    module = type(asyncio)("module")
    vars(module).update(one=is_short, several=(definition_of(count_words), 1), metric=metric)
    for source, names in ((is_short, ["is_short"]), (module, ["is_short", "Words"]), (METRICS, None)):
        registry = type(METRICS)("metric", "evalspec.nothing", of=MetricDefinition)
        if names is None:
            with pytest.raises(TypeError, match="it has no metric"):
                registry.add_from(source)
        else:
            registry.add_from(source)
            registry.add_from(source)
            assert registry.names() == names


def test_a_registry_without_a_type_is_given_to_a_function():
    registry: Registry[int] = Registry("thing", "evalspec.nothing")
    registry.add_from(lambda known: known.add("one", 1))
    assert registry.names() == ["one"]


def test_a_signature_that_does_not_fit_is_refused_with_one_that_does():
    with pytest.raises(TypeError, match=r"write def two\(exchange, \*, style: str = 'strict'\)"):

        @metric
        def two(exchange, style="strict"): ...


def test_annotations_may_be_text():
    source = """
from __future__ import annotations
from typing import Any, TYPE_CHECKING, Literal
from evalspec import metric
if TYPE_CHECKING:
    from evalspec import Exchange
Style = Literal["strict", "lax"]
@metric
def styled(exchange: Exchange, *, style: Style = "lax", top: int): ...
"""
    module = ModuleType("of_a_plugin")
    sys.modules["of_a_plugin"] = module
    try:
        exec(compile(source, "of_a_plugin.py", "exec", dont_inherit=True), vars(module))
    finally:
        del sys.modules["of_a_plugin"]
    found = [(one.name, one.describe()) for one in module.styled.definition.parameters]
    assert found == [("style", "strict | lax, default lax"), ("top", "whole number, required")]
