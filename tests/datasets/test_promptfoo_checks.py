"""promptfoo's asserts as checks: each passes what promptfoo passes, by the code of its assertions."""

from pathlib import Path

import pytest
import yaml

from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.model import AgentReply, Check, Exchange, ExpectedCall, JudgePrice, ToolCall, Usage
from evalspec.scoring.metrics.base import METRICS, BuildContext

ANSWERS = [
    "The lamp is Red, a (b).",
    "the lamp is red",
    "lamp",
    "",
    '{"a": 1}',
    'so: {"a": "x"} ok',
    "[1]",
    "red, blue",
]
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.fixture
def read(tmp_path: Path):
    def load(*asserts, **test):
        path = tmp_path / "p.yaml"
        path.write_text(yaml.safe_dump([{"vars": {"question": "q", "c": "Red"}, "assert": list(asserts), **test}]))
        return load_dataset(Source(path, "p.yaml"), "promptfoo")

    return load


def score(sample, answer, calls=()):
    context = BuildContext(None, Path(), None, price=JudgePrice(1, 1))
    reply = AgentReply(answer, latency_ms=1000.0, usage=Usage(400_000, 100_000), tool_calls=tuple(calls))
    return METRICS.find("checks").build(context)(Exchange(sample, reply))


@pytest.mark.parametrize(
    ("one", "passing"),
    [
        ({"type": "contains", "value": "{{c}}"}, [0]),
        ({"type": "icontains", "value": "LAMP is Red"}, [0, 1]),
        ({"type": "contains", "value": 1}, [4, 6]),
        ({"type": "contains-any", "value": "Red,  blue "}, [0, 7]),
        ({"type": "contains-any", "value": '"red, blue", zzz'}, [7]),
        ({"type": "icontains-any", "value": ["RED"]}, [0, 1, 7]),
        ({"type": "contains-all", "value": ["lamp", "is"]}, [0, 1]),
        ({"type": "icontains-all", "value": "LAMP, red"}, [0, 1]),
        ({"type": "starts-with", "value": "The"}, [0]),
        ({"type": "regex", "value": "^(the )?lamp$"}, [2]),
        ({"type": "equals", "value": "The lamp is {{c}}, a (b)."}, [0]),
        ({"type": "equals", "value": {"a": 1}}, [4]),
        ({"type": "is-json"}, [4, 6]),
        ({"type": "is-json", "value": OBJECT}, [4]),
        ({"type": "is-json", "value": yaml.safe_dump(OBJECT)}, [4]),
        ({"type": "contains-json"}, [4, 5]),
        ({"type": "contains-json", "value": OBJECT}, [4]),
        ({"type": "latency", "threshold": 1000}, [*range(8)]),
        ({"type": "latency", "threshold": 999}, []),
        ({"type": "cost", "threshold": 0.5}, [*range(8)]),
    ],
)
def test_a_check_passes_what_promptfoo_passes(one, passing, read):
    for inverse in (False, True):
        kind = f"not-{one['type']}" if inverse else one["type"]
        (sample,) = read(one | {"type": kind}).samples
        values = [score(sample, answer).value for answer in ANSWERS]
        assert values == [(place in passing) != inverse for place in range(len(ANSWERS))], kind


MADE = [
    [],
    [ToolCall("find", {"q": "x", "page": 1})],
    [ToolCall("find", {"q": "x"}), ToolCall("book", {"to": {"city": "Paris", "zip": 1}, "ids": [1, 2]})],
    [ToolCall("book", {"to": {"city": "Rome"}, "ids": [1]})],
]
FIND = {"name": "find", "args": {"q": "x"}, "mode": "exact"}


@pytest.mark.parametrize(
    ("kind", "value", "passing", "inverse"),
    [
        ("tool-used", "find", [1, 2], [0, 3]),
        ("tool-used", ["find", "book", "find"], [2], [0]),
        ("tool-used", {"name": "book"}, [2, 3], [0, 1]),
        ("tool-args-match", {"name": "book", "args": {"to": {"city": "Paris"}}}, [2], [0, 1, 3]),
        ("tool-args-match", {"name": "book", "arguments": {"ids": [1]}}, [3], [0, 1, 2]),
        ("tool-args-match", {"name": "book", "args": {}}, [2, 3], [0, 1]),
        ("tool-args-match", FIND, [2], [0, 1, 3]),
        ("tool-args-match", FIND | {"defaults": {"page": 1}}, [1, 2], [0, 3]),
        ("tool-args-match", FIND | {"defaults": {"page": 2}}, [2], [0, 1, 3]),
        ("tool-args-match", FIND | {"ignore": "page"}, [1, 2], [0, 3]),
        ("tool-args-match", {"name": "find", "args": {"q": "x", "page": 7}, "ignore": ["page"]}, [1, 2], [0, 3]),
    ],
)
def test_a_check_of_calls_passes_what_promptfoo_passes(kind, value, passing, inverse, read):
    for name, right in ((f"trajectory:{kind}", passing), (f"not-trajectory:{kind}", inverse)):
        (sample,) = read({"type": name, "value": value}).samples
        assert [place for place, calls in enumerate(MADE) if score(sample, "ok", calls).value] == right, name


def test_a_sample_says_once_which_tools_it_expects_and_which_it_forbids(read):
    used = [{"type": "trajectory:tool-used", "value": name} for name in ("find", "book")]
    data = read(*used, {"type": "not-trajectory:tool-used", "value": ["pay", "cancel"]})
    (sample,) = data.samples
    assert (sample.expected_tools, sample.forbidden_tools) == ((ExpectedCall("find"),), ("pay", "cancel"))
    assert any("which are not checked: trajectory:tool-used (1)" in one.message for one in data.warnings)


def test_weights_count_as_in_promptfoo_and_a_set_counts_as_one(read):
    parts = [{"type": "contains", "value": "lamp", "weight": 3}, {"type": "contains", "value": "x"}]
    (sample,) = read(
        {"type": "contains", "value": "red", "weight": 2},
        {"type": "contains", "value": "z", "weight": 0},
        {"type": "assert-set", "assert": parts, "weight": 4},
    ).samples
    assert sample.checks[:2] == (
        Check("contains", {"value": "red"}, 2.0),
        Check("contains", {"value": "z"}, 0.0),
    )
    assert score(sample, "the red lamp").value == pytest.approx((2 * 1 + 4 * (3 / 4)) / 6)


@pytest.mark.parametrize(
    ("one", "lost"),
    [
        ({"type": "starts-with", "value": "a", "transform": "output.x"}, "starts-with (1)"),
        ({"type": "regex", "value": "{{ c | upper }}"}, "regex (1)"),
        ({"type": "regex", "value": "("}, "regex (1)"),
        ({"type": "contains-all", "value": []}, "contains-all (1)"),
        ({"type": "is-json", "value": "file://schema.json"}, "is-json (1)"),
        ({"type": "is-json", "value": {"properties": {"a": {"format": "email"}}}}, "is-json (1)"),
        ({"type": "is-json", "value": {"$ref": "http://example.org/s.json"}}, "is-json (1)"),
        ({"type": "latency"}, "latency (1)"),
        ({"type": "trajectory:tool-used", "value": "find*"}, "trajectory:tool-used (1)"),
        ({"type": "trajectory:tool-used", "value": {"name": "find", "max": 1}}, "trajectory:tool-used (1)"),
        ({"type": "trajectory:tool-used", "value": ["find", "{{ c | upper }}"]}, "trajectory:tool-used (1)"),
        ({"type": "trajectory:tool-args-match", "value": {"name": "find"}}, "trajectory:tool-args-match (1)"),
        ({"type": "trajectory:tool-args-match", "value": FIND | {"defaults": {"q": 1}}}, "tool-args-match (1)"),
        ({"type": "trajectory:tool-args-match", "value": FIND | {"ignore": "*_id"}}, "tool-args-match (1)"),
        ({"type": "trajectory:tool-args-match", "value": FIND | {"mode": "loose"}}, "tool-args-match (1)"),
        ({"type": "trajectory:tool-args-match", "value": FIND | {"ignore": [7]}}, "tool-args-match (1)"),
        ({"type": "trajectory:tool-args-match", "value": FIND | {"defaults": "page"}}, "tool-args-match (1)"),
        ({"type": "trajectory:tool-sequence", "value": ["find"]}, "trajectory:tool-sequence (1)"),
        ({"type": "word-count", "value": 3}, "word-count (1)"),
        (
            {"type": "assert-set", "threshold": 0.5, "assert": [{"type": "starts-with", "value": "a"}]},
            "starts-with (1)",
        ),
    ],
)
def test_what_no_check_can_say_is_listed(one, lost, read):
    data = read(one, {"type": "contains", "value": "lamp"}, threshold=0.5)
    assert [check.parameters for check in data.samples[0].checks] == [{"value": "lamp"}]
    messages = [warning.message for warning in data.warnings]
    assert messages[1] == "asserts read as checks: contains (1)"
    assert any(lost in message for message in messages[2:])
    assert any("the threshold of a test (1)" in message for message in messages)


def test_a_cell_spells_an_assert_with_its_threshold(tmp_path):
    (tmp_path / "p.csv").write_text("question,__expected,__expected2\nq,latency(300),not-icontains: sorry\n")
    (sample,) = load_dataset(Source(tmp_path / "p.csv", "p.csv")).samples
    assert sample.checks == (
        Check("latency", threshold=300.0),
        Check("contains", {"value": "sorry", "ignore_case": True}, negate=True),
    )
