"""The trajectory examples that other systems document, with their values and ours.

Each example has the calls that are expected and made, and pairs of values: that of their metric, and that of ours which
asks the same. A value that differs has its reason. Where a page shows a configuration without an outcome, the outcome
follows from the definition on that page. The calls are given in the spelling of their system. Where the facts are from:

* promptfoo: site/docs/configuration/expected-outputs/deterministic.md, sections tool-call-f1, trajectory:tool-used,
  trajectory:tool-args-match (with the tables of defaults and ignore), trajectory:tool-sequence, trajectory:step-count;
  the inverted assertions as in src/assertions/trajectory.ts. trajectory:goal-success asks a model, and has no example.
* agentevals: README.md at 946ad15b, section "Agent trajectory match", in Python and TypeScript, and the cases of
  python/tests/test_trajectory.py that fix what the README leaves open.
* Vertex: cloud.google.com/vertex-ai/generative-ai/docs/models/evaluation-agents for definitions and the example of two
  trajectories; GoogleCloudPlatform/generative-ai, gemini/evaluation/evaluating_langgraph_agent.ipynb for the others.
"""

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import UNSET

from evalspec.inputs.tool_calls import count_model_calls, read_tool_calls
from evalspec.model import AgentReply, Exchange, ExpectedCall, Sample
from evalspec.scoring.metrics import tools
from evalspec.scoring.metrics.base import read_text
from test_docs import rows


class Example(NamedTuple):
    """A documented example. `values`: their metric, its value, our metric, its value. `why`: they differ."""

    source: str
    expected: list[ExpectedCall] | None
    made: list[Any]
    values: list[tuple[str, float, str, float | None]]
    why: str = ""
    forbidden: tuple[str, ...] | None = None
    max_steps: int | None = None


def want(name: str, arguments: Any = UNSET) -> ExpectedCall:
    return ExpectedCall(name, arguments)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A call as promptfoo and LangChain have it."""
    return {"name": name, "args": arguments}


def say(*calls: dict[str, Any]) -> dict[str, Any]:
    """A message of a model with calls, as agentevals has it."""
    made = [{"function": {"name": one["name"], "arguments": one["args"]}} for one in calls]
    return {"role": "assistant", "content": "", "tool_calls": made}


def use(name: str, **arguments: Any) -> dict[str, Any]:
    """A call as Vertex has it."""
    return {"tool_name": name, "tool_input": arguments}


WEATHER, FLIGHT = "get_weather", "book_flight"
Q: dict[str, Any] = {"status": "Q"}
SET_OF_NAMES = "theirs are sets of names, so a call that is made twice counts once; ours counts calls"
PAGE_NUMBER, ANY_ID = (
    {"page": {"optional": 1}, "page_size": {"optional": 5}},
    {"request_id": {"optional": {"any": True}}},
)
ANY_CURSOR = {"cursor": {"optional": {"any": True}}}
TABLES: list[tuple[str, dict[str, Any], dict[str, Any], int]] = [
    ("defaults", PAGE_NUMBER, Q, 1),
    ("defaults", PAGE_NUMBER, {**Q, "page": 1}, 1),
    ("defaults", PAGE_NUMBER, {**Q, "page": 1, "page_size": 5}, 1),
    ("defaults", PAGE_NUMBER, {**Q, "page": 2}, 0),
    ("defaults", PAGE_NUMBER, {**Q, "delete_database": True}, 0),
    ("ignore", ANY_ID, Q, 1),
    ("ignore", ANY_ID, {**Q, "request_id": "a1b2"}, 1),
    ("ignore", ANY_ID, {**Q, "request_id": "99zz"}, 1),
    ("ignore", ANY_ID, {**Q, "delete_database": True}, 0),
    ("both", {**PAGE_NUMBER, **ANY_CURSOR}, Q, 1),
    ("both", {**PAGE_NUMBER, **ANY_CURSOR}, {**Q, "page": 1, "page_size": 5}, 1),
    ("both", {**PAGE_NUMBER, **ANY_CURSOR}, {**Q, "cursor": "abc123"}, 1),
    ("both", {**PAGE_NUMBER, **ANY_CURSOR}, {**Q, "page": 2}, 0),
    ("both", {**PAGE_NUMBER, **ANY_CURSOR}, {**Q, "delete_database": True}, 0),
]
PROMPTFOO = [
    *(
        Example(
            "promptfoo, tool-call-f1, table of scores",
            [want(name) for name in expected],
            [call(name) for name in made],
            [("tool-call-f1", f1, "tool_name_f1", f1), ("tool-call-f1", f1, "tool_call_f1", f1)],
        )
        for expected, made, f1 in [
            ([WEATHER, FLIGHT], [WEATHER, FLIGHT], 1),
            ([WEATHER, FLIGHT], [WEATHER], 2 / 3),
            ([WEATHER, FLIGHT], [WEATHER, FLIGHT, "search"], 0.8),
            ([WEATHER], [FLIGHT], 0),
        ]
    ),
    Example(
        "promptfoo, tool-call-f1, an item of OpenAI's responses",
        [want(WEATHER)],
        [{"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": WEATHER, "arguments": '{"city":"NYC"}'}],
        [("tool-call-f1", 1, "tool_name_f1", 1)],
    ),
    Example(
        "promptfoo, tool-call-f1, frequency does not count",
        [want(WEATHER)],
        [call(WEATHER), call(WEATHER)],
        [("tool-call-f1", 1, "tool_name_f1", 2 / 3)],
        SET_OF_NAMES,
    ),
    Example(
        "promptfoo, trajectory:tool-used, a name",
        [want("search_orders")],
        [call("search_orders", order_id="123"), call("compose_reply")],
        [("trajectory:tool-used", 1, "tool_calls_any_order", 1)],
    ),
    Example(
        "promptfoo, trajectory:tool-used, a list of names",
        [want("search_orders"), want("compose_reply")],
        [call("compose_reply")],
        [("trajectory:tool-used", 0, "tool_calls_any_order", 0)],
    ),
    Example(
        "promptfoo, trajectory:tool-used, pattern search* with min 2",
        [want("search_orders"), want("search_orders")],
        [call("search_orders"), call("search_users")],
        [("trajectory:tool-used", 1, "tool_calls_any_order", 0)],
        "expected calls have names, not patterns of names",
    ),
    Example(
        "promptfoo, trajectory:tool-used, pattern search* with max 3",
        [want("search_orders"), want("search_orders")],
        [call("search_orders")] * 4,
        [
            ("trajectory:tool-used", 0, "tool_calls_any_order", 1),
            ("trajectory:tool-used", 0, "tool_call_precision", 0.5),
        ],
        "further calls lower the precision and fail tool_calls_exact; no metric has a maximum for one tool",
    ),
    Example(
        "promptfoo, not-trajectory:tool-used, a name",
        None,
        [call("search_orders")],
        [("not-trajectory:tool-used", 1, "forbidden_tool_calls", 0)],
        "ours counts the forbidden calls, so 0 is right and lower is better",
        forbidden=("delete_order",),
    ),
    Example(
        "promptfoo, trajectory:tool-args-match, partial by default",
        [want("search_orders", {"includes": {"order_id": "123"}})],
        [call("search_orders", order_id="123", page=2)],
        [("trajectory:tool-args-match", 1, "tool_calls_any_order", 1)],
    ),
    Example(
        "promptfoo, trajectory:tool-args-match, partial, without includes in ours",
        [want("search_orders", {"order_id": "123"})],
        [call("search_orders", order_id="123", page=2)],
        [("trajectory:tool-args-match", 1, "tool_calls_any_order", 0)],
        "arguments are compared exactly unless the dataset says includes",
    ),
    Example(
        "promptfoo, trajectory:tool-args-match, partial is recursive",
        [want("search_orders", {"includes": {"filter": {"status": "open"}}})],
        [call("search_orders", filter={"status": "open", "page": 2})],
        [("trajectory:tool-args-match", 1, "tool_calls_any_order", 0)],
        "includes holds for its own object; one within it needs includes again",
    ),
    Example(
        "promptfoo, trajectory:tool-args-match, exact",
        [want("compose_reply", {"tone": "friendly", "citations": ["doc_1", "doc_2"]})],
        [call("compose_reply", tone="friendly", citations=["doc_1", "doc_2"])],
        [("trajectory:tool-args-match", 1, "tool_calls_any_order", 1)],
    ),
    *(
        Example(
            f"promptfoo, trajectory:tool-args-match, table of {table}",
            [want("orders", {**Q, **optional})],
            [call("orders", **made)],
            [("trajectory:tool-args-match", value, "tool_calls_any_order", value)],
        )
        for table, optional, made, value in TABLES
    ),
    *(
        Example(
            "promptfoo, trajectory:tool-args-match, table of ignore, with any in ours",
            [want("orders", {**Q, "request_id": {"any": True}})],
            [call("orders", status="Q", **made)],
            [("trajectory:tool-args-match", 1, "tool_calls_any_order", ours)],
            "" if ours else "any needs a value, which may be null",
        )
        for made, ours in [({"request_id": "a1b2"}, 1), ({"request_id": "99zz"}, 1), ({}, 0)]
    ),
    Example(
        "promptfoo, trajectory:tool-sequence, in order by default",
        [want("search_orders"), want("compose_reply")],
        [call("search_orders"), call("read_order"), call("compose_reply")],
        [("trajectory:tool-sequence", 1, "tool_calls_in_order", 1)],
    ),
    Example(
        "promptfoo, trajectory:tool-sequence, exact",
        [want("search_orders"), want("compose_reply")],
        [call("search_orders"), call("read_order"), call("compose_reply")],
        [("trajectory:tool-sequence", 0, "tool_calls_exact", 0)],
    ),
    Example(
        "promptfoo, trajectory:tool-sequence, in order, with the calls in one message",
        [want("search_orders"), want("compose_reply")],
        [say(call("compose_reply"), call("search_orders"))],
        [("trajectory:tool-sequence", 0, "tool_calls_in_order", 1)],
        "calls of one message were made at the same time, so none of them comes first",
    ),
    Example(
        "promptfoo, trajectory:tool-sequence, exact, two calls in one round",
        [want("search_orders"), want("search_orders")],
        [say(call("search_orders"), call("search_orders"))],
        [("trajectory:tool-sequence", 1, "tool_calls_exact", 1)],
    ),
    Example(
        "promptfoo, trajectory:step-count, at most 3 commands",
        None,
        [say(*[call("exec_command")] * 4), {"role": "assistant", "content": "Done."}],
        [("trajectory:step-count", 0, "steps_within_limit", 1)],
        "a step of ours is a call of the model, and these four commands are of one; theirs are items of the trace",
        max_steps=3,
    ),
]
CITY = {"city": "San Francisco"}
IN_CITY = call(WEATHER, **CITY)
STRICT, UNORDERED, SUBSET, SUPERSET = (
    f"trajectory_{mode}_match" for mode in ("strict", "unordered", "subset", "superset")
)
PASS_OR_FAIL = "ours is a share; a threshold of 1 on it says the same"
BOTH = [want(WEATHER, {"city": "London"}), want(WEATHER, {"city": "SF"})]
SF, LONDON = call(WEATHER, city="SF"), call(WEATHER, city="London")
AGENTEVALS = [
    Example(
        "agentevals, strict, Python: one call too many",
        [want(WEATHER, CITY)],
        [say(IN_CITY, call("accuweather_forecast", **CITY)), {"role": "assistant", "content": "Sunny."}],
        [(STRICT, 0, "tool_calls_exact", 0)],
    ),
    Example(
        "agentevals, unordered, Python",
        [want("get_fun_activities", CITY), want(WEATHER, CITY)],
        [say(IN_CITY), {"role": "tool", "content": "Sunny."}, say(call("get_fun_activities", **CITY))],
        [(UNORDERED, 1, "tool_call_f1", 1), (UNORDERED, 1, "tool_calls_any_order", 1)],
    ),
    Example(
        "agentevals, unordered, TypeScript: SF for San Francisco",
        [want("get_fun_activities", CITY), want(WEATHER, CITY)],
        [say(SF), say(call("get_fun_activities", city="SF"))],
        [(UNORDERED, 1, "tool_call_f1", 0)],
        "the README prints true, though arguments are compared exactly by default; ours compares them",
    ),
    Example(
        "agentevals, superset and subset, Python",
        [want(WEATHER, {"city": "SF and London"})],
        [say(call(WEATHER, city="SF and London"), call("accuweather_forecast", city="SF and London"))],
        [(SUPERSET, 1, "tool_calls_any_order", 1), (SUBSET, 0, "tool_call_precision", 0.5)],
        PASS_OR_FAIL,
    ),
    Example(
        "agentevals, an override that ignores case",
        [want(WEATHER, {"city": {"matches": "(?i)^san francisco$"}})],
        [say(call(WEATHER, city="san francisco"))],
        [(STRICT, 1, "tool_calls_exact", 1)],
    ),
    Example(
        "agentevals, calls of one message in another order",
        BOTH,
        [say(SF, LONDON)],
        [(STRICT, 1, "tool_calls_exact", 1), (UNORDERED, 1, "tool_call_f1", 1), (SUBSET, 1, "tool_call_precision", 1)],
    ),
    Example(
        "agentevals, the same calls in two messages and another order",
        BOTH,
        [say(SF), say(LONDON)],
        [(STRICT, 0, "tool_calls_exact", 0), (UNORDERED, 1, "tool_call_f1", 1)],
    ),
    Example(
        "agentevals, the same calls in two messages and this order",
        BOTH,
        [say(LONDON), say(SF)],
        [(STRICT, 0, "tool_calls_exact", 1)],
        "theirs compares the messages too, so two instead of one differ; ours compares the calls",
    ),
    Example(
        "agentevals, a call is missing",
        BOTH,
        [say(SF)],
        [
            (UNORDERED, 0, "tool_call_f1", 2 / 3),
            (SUPERSET, 0, "tool_call_recall", 0.5),
            (SUPERSET, 0, "tool_calls_any_order", 0),
            (SUBSET, 1, "tool_call_precision", 1),
            (STRICT, 0, "tool_calls_exact", 0),
        ],
        PASS_OR_FAIL,
    ),
    Example(
        "agentevals, another tool",
        [want("accuweather_forecast", CITY)],
        [say(SF)],
        [
            (UNORDERED, 0, "tool_call_f1", 0),
            (SUPERSET, 0, "tool_calls_any_order", 0),
            (STRICT, 0, "tool_calls_exact", 0),
        ],
    ),
    Example(
        "agentevals, no call was made: it is a subset",
        [want(WEATHER, CITY)],
        [],
        [(SUBSET, 1, "tool_call_precision", None)],
        "a share of no calls is not applicable, so an agent that does nothing is not counted as right",
    ),
    Example(
        "agentevals, tool_args_match_mode ignore",
        [want(WEATHER)],
        [say(IN_CITY, LONDON)],
        [(SUPERSET, 1, "tool_calls_any_order", 1), (STRICT, 0, "tool_calls_exact", 0)],
    ),
    Example(
        "agentevals, tool_args_match_mode superset",
        [want(WEATHER, {"includes": CITY})],
        [say(call(WEATHER, **CITY, unit="C"))],
        [(STRICT, 1, "tool_calls_exact", 1)],
    ),
    Example(
        "agentevals, tool_args_match_mode subset",
        [want(WEATHER, {"city": {"optional": "San Francisco"}, "unit": {"optional": "C"}})],
        [say(IN_CITY)],
        [(STRICT, 1, "tool_calls_exact", 1), (STRICT, 1, "tool_argument_accuracy", 1)],
    ),
    Example(
        "agentevals, an override with a list of fields",
        [want("lookup_policy", {"includes": {"time": {"includes": {"start": "18:34"}}}})],
        [say(call("lookup_policy", query="flight upgrades", time={"start": "18:34", "end": "20:34"}))],
        [(STRICT, 1, "tool_calls_exact", 1)],
    ),
]
EXACT, IN_ORDER, ANY_ORDER = (f"trajectory_{mode}_match" for mode in ("exact", "in_order", "any_order"))
SINGLE, PRECISION, RECALL = "trajectory_single_tool_use", "trajectory_precision", "trajectory_recall"
OURS = {
    EXACT: "tool_calls_exact",
    IN_ORDER: "tool_calls_in_order",
    ANY_ORDER: "tool_calls_any_order",
    PRECISION: "tool_call_precision",
    RECALL: "tool_call_recall",
}


def equal(exact: float, in_order: float, any_order: float, precision: float, recall: float) -> Any:
    """Values that theirs and ours have."""
    values = zip(OURS.items(), (exact, in_order, any_order, precision, recall), strict=True)
    return [(theirs, value, ours, value) for (theirs, ours), value in values]


DETAILS, PRICE = "get_product_details", "get_product_price"
LIVING_ROOM = {"location": "Living Room", "temperature": 23}
VERTEX = [
    Example(
        "Vertex, evaluation-agents, example 1: another device",
        [want("set_device_info", {"device_id": "device_2", "updates": {"status": "OFF"}})],
        [use("set_device_info", device_id="device_3", updates={"status": "OFF"})],
        [*equal(0, 0, 0, 0, 0), (EXACT, 0, "tool_argument_accuracy", 0.5)],
        "tool_argument_accuracy, which Vertex has no counterpart of, sees that one argument of two is right",
    ),
    Example(
        "Vertex, evaluation-agents, example 2: another user in the first of two calls",
        [want("get_user_preferences", {"user_id": "user_y"}), want("set_temperature", LIVING_ROOM)],
        [use("get_user_preferences", user_id="user_z"), use("set_temperature", **LIVING_ROOM)],
        equal(0, 0, 0, 0.5, 0.5),
    ),
    *(
        Example(
            f"Vertex, notebook, own dataset: {product}",
            [want(tool, {"product_name": product}) for tool in tools],
            [use(tool, product_name=product) for tool in tools],
            equal(1, 1, 1, 1, 1),
        )
        for product, tools in [
            ("smartphone", [PRICE]),
            ("headphones", [DETAILS, PRICE]),
            ("usb charger", [DETAILS]),
            ("shoes", [DETAILS, PRICE]),
            ("speaker", [DETAILS]),
        ]
    ),
    *(
        Example(
            f"Vertex, notebook, single tool use: {product}",
            [want(PRICE)],
            [use(tool, product_name=product) for tool in tools],
            [(SINGLE, used, "tool_calls_any_order", used)],
        )
        for product, tools, used in [("headphones", [DETAILS, PRICE], 1), ("usb charger", [DETAILS], 0)]
    ),
    Example(
        "Vertex, definitions: another order and one call more",
        [want(DETAILS, {"product_name": "shoes"}), want(PRICE, {"product_name": "shoes"})],
        [use(PRICE, product_name="shoes"), use(DETAILS, product_name="shoes"), use("now")],
        equal(0, 0, 1, 2 / 3, 1),
    ),
    Example(
        "Vertex, definitions: a call that is made twice",
        [want(PRICE, {"product_name": "shoes"})],
        [use(PRICE, product_name="shoes")] * 2,
        [(PRECISION, 1, "tool_call_precision", 0.5), (RECALL, 1, "tool_call_recall", 1)],
        "theirs counts made calls that occur among the expected ones; in ours each expected call counts once",
    ),
    Example(
        "Vertex, definitions: a call that is expected twice and made once",
        [want(PRICE, {"product_name": "shoes"})] * 2,
        [use(PRICE, product_name="shoes")],
        [(RECALL, 1, "tool_call_recall", 0.5), (PRECISION, 1, "tool_call_precision", 1)],
        "theirs counts expected calls that occur among the made ones; in ours each made call counts once",
    ),
]
EXAMPLES = [*PROMPTFOO, *AGENTEVALS, *VERTEX]


def score(name: str, example: Example) -> float | None:
    truth = None if example.expected is None else tuple(example.expected)
    made, steps = read_tool_calls(example.made), count_model_calls(example.made)
    sample = Sample("s", "?", expected_tools=truth, forbidden_tools=example.forbidden, max_steps=example.max_steps)
    exchange = Exchange(sample, AgentReply("", tool_calls=made, steps=steps))
    value: float | None = getattr(tools, name)(exchange).value
    return value


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.source)
def test_the_example_has_its_value_here(example: Example) -> None:
    ours = [(name, score(name, example)) for _, _, name, _ in example.values]
    assert ours == [(name, None if value is None else pytest.approx(value)) for _, _, name, value in example.values]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.source)
def test_a_value_that_differs_has_a_reason_and_no_other_has(example: Example) -> None:
    assert any(theirs != ours for _, theirs, _, ours in example.values) == bool(example.why)


def test_the_texts_of_metrics_name_what_the_examples_compare() -> None:
    """The text of one of our metrics has each metric of the examples."""
    compared: dict[str, set[str]] = {}
    for example in EXAMPLES:
        for theirs, _, ours, _ in example.values:
            compared.setdefault(theirs, set()).add(ours)
    assert len(compared) > 5
    assert [name for name, ours in compared.items() if not any(f"`{name}`" in read_text(one) for one in ours)] == []


ADR = Path(__file__).parents[2] / "docs" / "adr" / "0037-calls-are-compared-as-json.md"
FIND: dict[str, Any] = {"name": "find", "args": {"q": 1}}
RAGAS: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = [
    ([FIND], [FIND, {"name": "now", "args": {}}]),
    ([FIND], [{"name": "find", "args": {"q": 1, "n": 2}}]),
    ([FIND], [{"name": "find", "args": {"q": "1"}}]),
    ([FIND], [{"name": "find", "args": {"q": True}}]),
    ([FIND], [FIND, FIND]),
    ([], []),
]
"""Expected and made calls of the rows of the ADR."""


@pytest.mark.filterwarnings("ignore")
def test_the_adr_says_what_ragas_computes() -> None:
    from ragas.dataset_schema import MultiTurnSample
    from ragas.messages import AIMessage, HumanMessage
    from ragas.messages import ToolCall as RagasCall
    from ragas.metrics._tool_call_accuracy import ToolCallAccuracy
    from ragas.metrics._tool_call_f1 import ToolCallF1

    computed = []
    for expected, made in RAGAS:
        calls = [RagasCall(**one) for one in made]
        said = [HumanMessage(content="?"), AIMessage(content="", tool_calls=calls)]
        sample = MultiTurnSample(user_input=said, reference_tool_calls=[RagasCall(**one) for one in expected])
        theirs = [asyncio.run(metric._multi_turn_ascore(sample, None)) for metric in (ToolCallAccuracy(), ToolCallF1())]
        ours = Example("ragas", [want(one["name"], one["args"]) for one in expected], made, [])
        values = [*theirs, *(score(name, ours) for name in ("tool_argument_accuracy", "tool_call_f1"))]
        computed.append(["not applicable" if value is None else f"{round(value, 3):g}" for value in values])
    assert computed == [row[2:] for row in rows(ADR.read_text())]
