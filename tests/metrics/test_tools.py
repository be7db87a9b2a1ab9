"""Metrics of tool calls, against brute force over all assignments, and through the command."""

import json
import random
import subprocess
import sys
from fractions import Fraction
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from evalspec.base.json_matching import matches
from evalspec.model import AgentReply, Cause, Exchange, ExpectedCall, Sample, ScoreStatus, ToolCall
from evalspec.scoring import tool_matching
from evalspec.scoring.metrics import tools
from evalspec.scoring.tool_matching import CallComparison, are_exact, are_in_order

VALUES = [0, 1, 1.0, "1", True, None]
WANTED = [*VALUES, {"any": True}, {"near": 1, "tolerance": 0.5}, {"absent": True}]


def draw_case(rng, most=5):
    """Return random expected and made calls of few names and values, so that many fit."""
    names, keys = "ab", "xy"

    def arguments(values):
        return {key: rng.choice(values) for key in keys if rng.random() < 0.7}

    def wanted():
        found = arguments(WANTED)
        return rng.choice([UNSET, found, found, {"includes": found}])

    expected = [ExpectedCall(rng.choice(names), wanted()) for _ in range(rng.randrange(most + 1))]
    step, made = 0, []
    for _ in range(rng.randrange(most + 1)):
        problem = "no JSON" if rng.random() < 0.05 else None
        made.append(ToolCall(rng.choice(names), arguments(VALUES), problem=problem, step=step))
        step += rng.random() < 0.6
    return expected, made


def fits(expected, made):
    if made.problem or expected.name != made.name:
        return False
    return expected.arguments is UNSET or matches(expected.arguments, made.arguments)


def share(expected, made):
    if made.problem or expected.name != made.name:
        return Fraction(0)
    if fits(expected, made):
        return Fraction(1)
    partial = set(expected.arguments) == {"includes"}
    wanted = expected.arguments["includes"] if partial else expected.arguments
    every = set(wanted) if partial else {*wanted, *made.arguments}
    right = [key in wanted and matches(wanted[key], made.arguments.get(key, UNSET)) for key in every]
    return Fraction(sum(right), len(every))


def list_assignments(expected, made):
    """Yield for each expected call the place of a made call or None."""
    places = [*range(len(made)), *[None] * len(expected)]
    yield from set(permutations(places, len(expected)))


def list_orders(made):
    """Yield each order of the made calls that their steps allow."""
    groups = [[call for call in made if call.step == step] for step in sorted({call.step for call in made})]
    for orders in product(*map(permutations, groups)):
        yield [call for order in orders for call in order]


def has_subsequence(expected, made):
    rest = iter(made)
    return all(any(fits(one, other) for other in rest) for one in expected)


def check_against_brute_force(expected, made):
    compared = CallComparison(expected, made)
    table = {
        (row, column): (fits(e, m), share(e, m)) for row, e in enumerate(expected) for column, m in enumerate(made)
    }
    best_count, best_worth = 0, (0, 0, Fraction(0))
    for chosen in list_assignments(expected, made):
        pairs = [table[row, place] for row, place in enumerate(chosen) if place is not None]
        named = sum(expected[row].name == made[place].name for row, place in enumerate(chosen) if place is not None)
        best_count = max(best_count, sum(fit for fit, _ in pairs))
        best_worth = max(best_worth, (sum(fit for fit, _ in pairs), named, sum(part for _, part in pairs)))
    orders = list(list_orders(made))
    assert compared.right == best_count
    assert are_exact(compared) == any(len(e := expected) == len(o) and all(map(fits, e, o)) for o in orders)
    assert are_in_order(compared) == any(has_subsequence(expected, order) for order in orders)
    assigned = compared.pairs
    taken = [one.made for one in assigned if one.made is not None]
    found = (sum(one.share == 1 for one in assigned), len(taken), sum(one.share for one in assigned))
    assert len(set(taken)) == len(taken)
    assert found[:2] == best_worth[:2] and found[2] == pytest.approx(float(best_worth[2]))


def test_random_cases_have_the_values_of_brute_force():
    rng = random.Random(11)
    for _ in range(300):
        check_against_brute_force(*draw_case(rng, 4))


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_thousands_of_random_cases_have_the_values_of_brute_force():
    rng = random.Random(12)
    for case in range(20_000):
        check_against_brute_force(*draw_case(rng, 5 if case % 20 == 0 else 3))


@given(st.randoms(use_true_random=False))
def test_order_changes_only_the_metrics_of_order(rng):
    expected, made = draw_case(rng, 4)
    if not expected:
        return
    made = [ToolCall(call.name, call.arguments, problem=call.problem, step=n) for n, call in enumerate(made)]
    shuffled = [ToolCall(call.name, call.arguments, problem=call.problem) for call in rng.sample(made, len(made))]
    turned = rng.sample(expected, len(expected))
    for metric in (
        tools.tool_calls_any_order,
        tools.tool_call_precision,
        tools.tool_call_recall,
        tools.tool_call_f1,
        tools.tool_name_f1,
        tools.tool_argument_accuracy,
    ):
        assert score(metric, turned, shuffled).value == pytest.approx(score(metric, expected, made).value), metric


def score(metric, expected, made, **sample):
    truth = None if expected is None else tuple(expected)
    return metric(
        Exchange(
            Sample("s", "Book", expected_tools=truth, **sample),
            AgentReply("", tool_calls=None if made is None else tuple(made)),
        )
    )


ALL = [
    tools.tool_calls_exact,
    tools.tool_calls_in_order,
    tools.tool_calls_any_order,
    tools.tool_call_precision,
    tools.tool_call_recall,
    tools.tool_call_f1,
    tools.tool_name_f1,
    tools.tool_argument_accuracy,
]
CALL, EXPECTED = ToolCall("a"), ExpectedCall("a")


@pytest.mark.parametrize(
    "expected, made, values, cause",
    [
        (None, [CALL], [None] * 8, Cause.DATASET),
        ([EXPECTED], None, [None] * 8, Cause.REPLY),
        ([EXPECTED], [], [0, 0, 0, None, 0, 0, 0, 0], Cause.REPLY),
        ([], [CALL], [0, None, None, 0, None, 0, 0, None], Cause.DATASET),
        ([], [], [1, None, None, None, None, None, None, None], None),
    ],
)
def test_nothing_expected_or_nothing_made_is_not_a_success(expected, made, values, cause):
    found = [score(metric, expected, made) for metric in ALL]
    assert [one.value for one in found] == values
    assert all(one.status is ScoreStatus.NOT_APPLICABLE and one.cause for one in found if one.value is None)
    assert cause is None or {one.cause for one in found if one.value is None} == {cause}


def test_all_metrics_read_one_comparison(monkeypatch):
    counted = []
    real = tool_matching._count_arguments
    monkeypatch.setattr(tool_matching, "_count_arguments", lambda *calls: counted.append(calls) or real(*calls))
    first, second = (
        Exchange(Sample("s", "Book", expected_tools=(EXPECTED,)), AgentReply("", tool_calls=(ToolCall(name),)))
        for name in "ab"
    )
    assert [[metric(one).value for metric in ALL] for one in (first, second)] == [[1] * 8, [0] * 8]
    assert len(counted) == 2


def test_a_call_that_repeats_one_that_failed_is_not_redundant():
    made = [ToolCall("a", {"q": 1}, error="busy"), ToolCall("a", {"q": 1}), ToolCall("a", {"q": 1.0}), ToolCall("a")]
    assert score(tools.redundant_tool_calls, None, made).evidence == {"redundant": [2]}
    assert score(tools.tool_error_rate, None, made).value == 1
    assert score(tools.forbidden_tool_calls, None, made, forbidden_tools=("a", "b")).value == 4


def test_a_call_without_a_name_may_be_a_forbidden_one():
    unnamed = ToolCall("", {"q": 1}, problem="the call has no name")
    found = score(tools.forbidden_tool_calls, None, [ToolCall("b"), unnamed], forbidden_tools=("a",))
    assert (found.status, found.cause) == (ScoreStatus.FAILED, Cause.REPLY) and "has no name" in found.reason
    assert score(tools.forbidden_tool_calls, None, [ToolCall("a"), unnamed], forbidden_tools=("a",)).value == 1
    assert score(tools.forbidden_tool_calls, None, [unnamed], forbidden_tools=None).status is ScoreStatus.NOT_APPLICABLE


def test_a_score_says_what_is_missing_and_what_is_extra():
    found = score(
        tools.tool_call_f1,
        [ExpectedCall("find", {"q": "Paris", "n": 2}), ExpectedCall("book")],
        [ToolCall("find", {"q": "Rome", "n": 2}), ToolCall("find", {"q": "Oslo"})],
    )
    assert (found.value, found.reason) == (0, "other arguments: find (q); not called: book; not expected: find")
    assert found.evidence["expected"][0] == {
        "name": "find",
        "arguments": {"q": "Paris", "n": 2},
        "made": 0,
        "share": 0.5,
    }
    assert found.evidence["expected"][1] == {"name": "book", "made": None, "share": 0.0}
    assert found.evidence["extra"] == [1]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ([ToolCall("pay", {}), ToolCall("book", {"n": 2})], "the expected calls, in another order"),
        ([ToolCall("book", {"n": 2})] * 2, "not called: pay; not expected: book"),
        ([ToolCall("book", {"n": "2", "x": 1}), ToolCall("pay", {})], "other arguments: book (n, x)"),
        ([ToolCall("book", "no", problem="the arguments are no JSON")], "not called: pay"),
    ],
)
def test_a_score_says_which_arguments_are_other_ones(made, reason):
    made = [ToolCall(one.name, one.arguments, problem=one.problem, step=step) for step, one in enumerate(made)]
    found = score(tools.tool_calls_exact, [ExpectedCall("book", {"n": 2}), ExpectedCall("pay")], made)
    assert found.value == 0 and reason in found.reason
    assert not made[0].problem or "other arguments: book (the arguments are no JSON)" in found.reason


TOOLS = [
    {"type": "function", "function": {"name": "find", "parameters": {"properties": {"q": {"pattern": "^[A-Z]"}}}}},
    {"name": "book", "inputSchema": {"type": "object", "required": ["id"]}},
    {"name": "now"},
]


def test_calls_are_checked_by_the_declared_tools(project):
    project.evaluation["tools"] = TOOLS
    metrics = ["tool_schema_valid", "tool_hallucination", "steps_within_limit", "string_match"]
    project.dataset("trips", [{"id": name, "max_steps": 2} for name in "abc"], metrics=metrics)
    replies = [
        {"id": "a", "response": "Paris", "tool_calls": [{"name": "find", "arguments": {"q": "Oslo"}}, {"name": "now"}]},
        {"id": "b", "tool_calls": [{"name": "book", "arguments": {"q": 1}}, {"name": "delete"}], "steps": 3},
        {"id": "c", "response": "Paris", "tool_calls": [], "steps": 2},
    ]
    (project.folder / "replies.jsonl").write_text("".join(json.dumps(line) + "\n" for line in replies))
    scores = {
        one["id"]: {name: (score["value"], score["reason"]) for name, score in one["scores"].items()}
        for one in project.evaluate("--responses", "replies.jsonl", "--json").document["datasets"][0]["samples"]
    }
    assert scores["a"]["tool_schema_valid"][0] == 1 and scores["a"]["tool_hallucination"][0] == 0
    assert scores["b"]["tool_schema_valid"] == (0, "book: 'id' is a required property")
    assert scores["b"]["tool_hallucination"] == (1, "no such tool: delete")
    assert scores["b"]["steps_within_limit"] == (0, "3 steps of 2")
    assert scores["b"]["string_match"] == (None, "the reply ends in tool calls, so there is no answer")
    assert scores["c"]["tool_schema_valid"] == (None, "the agent called no declared tool")
    assert scores["c"]["tool_hallucination"][0] == 0
    assert scores["a"]["steps_within_limit"] == (None, "the reply does not show the calls of the model")
    project.evaluation["tools"][1]["inputSchema"] = {"type": "objekt"}
    refused = project.evaluate("--responses", "replies.jsonl")
    assert refused.code == 2 and "spec.evaluation.tools[1].parameters.type" in refused.err


@pytest.mark.parametrize(
    "line, message",
    [
        ({"expected_tools": [{"arguments": {}}]}, "expected_tools[0].name: this key is required"),
        ({"expected_tools": [{"name": "a", "args": {}}]}, "expected_tools[0].args: unknown key 'args'"),
        (
            {"expected_tools": [{"name": "a", "arguments": {"n": {"near": 3}}}]},
            "expected_tools[0]: arguments.n: near needs a tolerance",
        ),
        ({"forbidden_tools": "delete"}, "forbidden_tools: 'delete' is not accepted here"),
        ({"max_steps": 0}, "max_steps: "),
        ({"max_steps": True}, "max_steps: "),
    ],
)
def test_a_bad_line_has_file_line_and_field(line, message, project):
    project.dataset("trips", [{}, line], metrics=["string_match"])
    found = project.validate()
    assert found.code == 2 and f"trips.jsonl:2: {message}" in found.err + found.out


_SCORE_ALL = """
import sys
from importlib import import_module
from pathlib import Path

from evalspec.model import AgentReply, Exchange, ExpectedCall, Sample, ToolCall
from evalspec.scoring.metrics import tools
from evalspec.scoring.metrics.base import METRICS, BuildContext

calls = [ToolCall("book", {"seats": [2, 1], "city": "Paris"}, step=1), ToolCall("book", {"seats": 3}, step=1)]
expected = [ExpectedCall("book", {"seats": {"unordered": [1, 2]}, "city": "Rome"}), ExpectedCall("book")]
sample = Sample("book", "", expected_tools=tuple(expected))
for definition in [one for one in METRICS if one.build and one.name.startswith("tool_call")]:
    for module in definition.imports:
        import_module(module)
    known = set(sys.modules)
    definition.build(BuildContext(None, Path("."), None))(Exchange(sample, AgentReply("", tool_calls=tuple(calls))))
    print(definition.name, sorted(name for name in set(sys.modules) - known if not name.startswith("evalspec")))
"""


def test_nothing_is_imported_while_latency_is_measured():
    said = subprocess.run([sys.executable, "-c", _SCORE_ALL], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() and [line for line in said.splitlines() if not line.endswith(" []")] == []
