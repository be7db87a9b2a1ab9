"""Checks without a judge: each against an oracle or by its definition, and those of samples through the command."""

import json
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from evalspec.base import patterns
from evalspec.model import AgentReply, Cause, Check, Exchange, JudgePrice, Sample, ScoreStatus, Usage
from evalspec.scoring.metrics import sample_checks
from evalspec.scoring.metrics.base import METRICS, BuildContext, read_text
from evalspec.scoring.metrics.number_checks import read_number
from evalspec.scoring.metrics.text import list_numbers


def score(name, answer, *, expected=(), folder=Path(), price=None, usage=None, **parameters):
    context = BuildContext(None, folder, None, parameters=parameters, price=price)
    exchange = Exchange(Sample("s", "q", tuple(expected)), AgentReply(answer, usage=usage, latency_ms=120.0))
    return METRICS.find(name).build(context)(exchange)


TEXTS = st.text("aAbßéE\u0301 .", max_size=6)


@given(TEXTS, st.lists(TEXTS.filter(bool), min_size=1, max_size=3))
def test_what_a_text_contains_is_what_pythons_in_says(answer, values):
    composed = normalize("NFC", answer)
    found = [normalize("NFC", value) in composed for value in values]
    assert score("contains_any", answer, values=values).value == any(found)
    assert score("contains_all", answer, values=values).value == all(found)
    for value, is_found in zip(values, found, strict=True):
        assert score("contains", answer, value=value).value == is_found
        assert score("not_contains", answer, value=value).value == 1 - is_found
        begins = composed.startswith(normalize("NFC", value))
        assert score("starts_with", answer, value=value).value == begins
        literal = re.escape(answer)
        assert score("matches", answer, pattern=rf"\A{literal}\Z").value == 1
        if is_found:
            assert score("contains", answer.upper(), value=value, ignore_case=True).value == 1


def test_a_reason_names_what_is_missing():
    missed = score("contains_all", "Orders ship in two days.", values=["ship", "free", "tomorrow"])
    assert (missed.value, missed.reason) == (0, "no 'free', 'tomorrow'; answered 'Orders ship in two days.'")
    assert score("contains", "Two DAYS", value="two days", ignore_case=True).value == 1
    assert score("contains", "Two DAYS", value="two days").value == 0
    assert score("matches", "Two DAYS", pattern="(?i)^two").value == 1


@given(
    st.decimals(-10_000_000, 10_000_000, places=2),
    st.sampled_from(["{}", "{:,}", "It is {}.", "({} km)", "**{:,}**", "x = {}", "{:e}", "答案是{}"]),
)
def test_a_number_is_read_as_it_is_written(number, form):
    numbers = list_numbers(form.format(number))
    assume(form != "答案是{}" or number >= 0)
    assert [read_number(one) for one in numbers] == [Fraction(number)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,000", 1000), ("1.000", 1), ("1.000.000", 10**6), ("1.000,5", "1000.5"), ("3,5", "3.5"), ("0,125", "0.125"),
        ("12,34,567", 1_234_567), ("1 234", 1234), ("1'000", 1000), ("−5 °C", -5), ("３", 3), ("3½", "3.5"),
        ("½ cup", "0.5"), ("42 %", 42), ("10 m²", 10), ("Q3: 7", 7), ("2.5e-3", "0.0025"), (".5", "0.5"), ("5²", None),
    ],
)  # fmt: skip
def test_decimal_marks_and_groups(text, value):
    (number,) = list_numbers(text)
    assert read_number(number) == (None if value is None else Fraction(Decimal(value)))


@pytest.mark.parametrize(
    ("answer", "given", "value"),
    [
        ("It costs 1,100.10 euros.", {"value": 1100, "tolerance": 0.1}, 1),
        ("It costs 1,100.11 euros.", {"value": 1100, "tolerance": 0.1}, 0),
        ("1.1", {"value": 1, "tolerance": 0.1}, 1),
        ("2 of 3", {"value": 2}, 0),
        ("many", {"value": 2}, 0),
        ("The balance is -$5.", {"value": 5}, 0),
        ("The balance is -$5.", {"value": -5}, 1),
        ("5²", {"value": 25}, 0),
        ("42", {"expected": ["41", "42 km"]}, 1),
        ("42", {"expected": ["40"], "tolerance": 1.5}, 0),
        ("42", {"expected": ["1 or 2"]}, None),
    ],
)
def test_exactly_one_number_and_the_expected_one(answer, given, value):
    found = score("equals_number", answer, **given)
    assert found.value == value
    assert value is not None or (found.status, found.cause) == (ScoreStatus.FAILED, Cause.DATASET)


FENCED = '```json\n{"a": 1}\n```'


@pytest.mark.parametrize(
    ("answer", "within"),
    [
        ('{"a": 1}', "answer fence text"),
        (' [1, 2.5e3, "\\u00e9"]\n', "answer fence"),
        ("null", "answer fence"),
        (FENCED, "fence text"),
        (f"\n{FENCED}\n", "fence text"),
        (f"Here: {FENCED}", "text"),
        ('Sure! {"a": [1]} Bye {', "text"),
        ('Either [1] or [{"a": {"b": 1}}]', "text"),
        ('{"a": NaN}', ""),
        ('{"a": 1, "a": 2}', ""),
        ("{'a': 1}", ""),
        ('{"a": 1e999}', ""),
        ('{"a": 1,}', ""),
        ("", ""),
        ("```sql\n1\n```", ""),
    ],
)
def test_json_is_strict_and_where_it_may_be(answer, within):
    accepted = {one for one in ("answer", "fence", "text") if score("valid_json", answer, within=one).value == 1}
    assert accepted == set(within.split())


@pytest.mark.parametrize("within", ["answer", "text"])
def test_json_that_is_too_deep_to_read_has_no_score(within):
    found = score("valid_json", '{"a":' * 200 + "1" + "}" * 200, within=within)
    assert (found.status, found.cause) == (ScoreStatus.FAILED, Cause.REPLY)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
SCHEMA = {
    "type": ["object", "array"],
    "properties": {"a": {"type": "integer"}},
    "items": {"$ref": "#/$defs/text"},
    "$defs": {"text": {"type": "string"}},
}


@given(VALUES)
def test_a_schema_accepts_what_jsonschema_accepts(value):
    found = score("json_schema", json.dumps(value), schema=SCHEMA)
    assert found.value == Draft202012Validator(SCHEMA).is_valid(value)
    assert found.reason or found.value == 1


def count_leaves(value):
    if isinstance(value, dict | list) and value:
        return sum(map(count_leaves, value.values() if isinstance(value, dict) else value))
    return 1


@given(st.dictionaries(st.sampled_from("xyz"), VALUES, min_size=1), VALUES)
def test_the_share_of_right_fields_is_that_of_the_leaves(expected, extra):
    whole = count_leaves(expected)
    assert score("json_fields", json.dumps(expected | {"w": extra}), expected=[json.dumps(expected)]).value == 1
    lost = sorted(expected)[0]
    rest = {key: value for key, value in expected.items() if key != lost}
    found = score("json_fields", json.dumps(rest), expected=[json.dumps(expected)])
    assert found.value == pytest.approx(1 - count_leaves(expected[lost]) / whole)


def test_a_matcher_is_one_field():
    total, items = {"near": 10, "tolerance": 0.5}, [{"id": 1}, {"id": {"any": True}}]
    expected = json.dumps({"total": total, "items": items, "note": {"absent": True}})
    found = score("json_fields", '{"total": 10.4, "items": [{"id": "1"}, {"id": 7}, {}], "x": 1}', expected=[expected])
    assert (found.value, found.reason) == (0.75, "wrong: items[0].id")
    assert [one["verdict"] for one in found.evidence["fields"]] == [1, 0, 1, 1]
    assert score("json_fields", "no", expected=["1"]).value == 0
    broken = score("json_fields", "1", expected=["{"])
    assert (broken.status, broken.cause) == (ScoreStatus.FAILED, Cause.DATASET)


def test_cost_is_the_price_of_the_tokens():
    price, usage = JudgePrice(2.0, 10.0, cached=0.5), Usage(1_000_000, 100_000, cached_input_tokens=400_000)
    assert score("cost", "a", price=price, usage=usage).value == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.1 * 10)
    unknown = score("cost", "a", price=price)
    assert (unknown.status, unknown.cause) == (ScoreStatus.NOT_APPLICABLE, Cause.REPLY)
    assert score("latency", "a").value == 120


def evaluate(project, lines, replies, *, metrics=None, code=None):
    project.evaluation["datasets"] = []
    project.dataset("qa", lines, **({"metrics": metrics} if metrics else {}))
    rows = [{"id": line["id"]} | reply for line, reply in zip(lines, replies, strict=True)]
    (project.folder / "replies.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    outcome = project.evaluate("--responses", "replies.jsonl", "--json")
    assert code is None or outcome.code == code, outcome.err
    return outcome


CHECKS = [
    {"name": "contains", "value": "Paris"},
    {"name": "matches", "pattern": "^It", "weight": 2},
    {"name": "contains", "value": "sorry", "negate": True},
    {"name": "latency", "threshold": 100, "weight": 0},
]


def test_a_sample_has_the_share_of_its_checks_that_are_right(project):
    lines = [{"id": "a", "checks": CHECKS}, {"id": "b", "checks": CHECKS}, {"id": "c"}]
    replies = [
        {"response": "It is Paris", "latencyMs": 500},
        {"response": "Sorry, Paris", "latencyMs": 5},
        {"response": "x"},
    ]
    project.evaluation["thresholds"] = {"checks": {"min": 0.7}, "checks_all": {"min": 0.9}}
    (dataset,) = evaluate(project, lines, replies).document["datasets"]
    scores = [{name: one["value"] for name, one in sample["scores"].items()} for sample in dataset["samples"]]
    assert [(one["checks"], one["checks_all"]) for one in scores] == [(1, 1), (0.5, 0), (None, None)]
    assert dataset["samples"][1]["scores"]["checks"]["reason"] == (
        "matches(pattern=\"^It\"): no match of '^It'; answered 'Sorry, Paris'"
    )
    assert dataset["samples"][2]["scores"]["checks"]["cause"] == "dataset"
    assert set(dataset["metrics"]) == {"string_match", "checks", "checks_all"}
    assert (dataset["metrics"]["checks"]["value"], dataset["metrics"]["checks"]["scored"]) == (0.75, 2)
    assert [one["status"] for one in dataset["thresholds"]] == ["PASS", "FAIL"]


def test_each_check_is_evidence_in_the_row_of_its_sample(project):
    evaluate(project, [{"id": "a", "checks": CHECKS}], [{"response": "Paris", "latencyMs": 500}])
    (attempt,) = project("show", "a", "--json").document["attempts"]
    shown = attempt["scores"]["checks_all"]["evidence"]["checks"]
    assert [(one["text"], one["verdict"], one["value"]) for one in shown] == [
        ("contains(value=Paris)", 1, 1),
        ('matches(pattern="^It")', 0, 0),
        ("not contains(value=sorry)", 1, 0),
        ("latency", 0, 500),
    ]


@pytest.mark.parametrize(
    ("check", "reply", "reason", "cause"),
    [
        ({"name": "matches", "pattern": "(a|aa)+$"}, "a" * 60 + "b", "takes longer than 0.01 s", "dataset"),
        ({"name": "json_schema", "schema": {"pattern": "(a|aa)+$"}}, json.dumps("a" * 60 + "b"), "longer", "dataset"),
        ({"name": "tokens", "threshold": 10}, "x", "tokens_mean could not run: the reply does not report", "reply"),
    ],
)
def test_a_check_that_could_not_run_fails_the_score(check, reply, reason, cause, project, monkeypatch):
    monkeypatch.setattr(patterns, "PATTERN_SECONDS", 0.01)
    checks = [{"name": "contains", "value": "x"}, check]
    (dataset,) = evaluate(project, [{"id": "a", "checks": checks}], [{"response": reply}]).document["datasets"]
    for name in ("checks", "checks_all"):
        found = dataset["samples"][0]["scores"][name]
        assert (found["status"], found["value"], found["cause"]) == ("failed", None, cause)
        assert reason in found["reason"]


def test_a_pattern_that_is_too_slow_has_no_score(project, monkeypatch):
    monkeypatch.setattr(patterns, "PATTERN_SECONDS", 0.01)
    metric = {"name": "matches", "pattern": "(a|aa)+$"}
    outcome = evaluate(project, [{"id": "a"}], [{"response": "a" * 60 + "b"}], metrics=[metric])
    (found,) = outcome.document["datasets"][0]["samples"][0]["scores"].values()
    assert (found["status"], found["value"], found["cause"]) == ("failed", None, "dataset")


def test_arguments_that_no_schema_could_check_have_no_score(project, monkeypatch):
    monkeypatch.setattr(patterns, "PATTERN_SECONDS", 0.01)
    project.evaluation["tools"] = [{"name": "f", "parameters": {"patternProperties": {"(a|aa)+$": {}}}}]
    reply = {"response": "x", "tool_calls": [{"name": "f", "arguments": {"a" * 60 + "b": 1}}]}
    outcome = evaluate(project, [{"id": "a"}], [reply], metrics=["tool_schema_valid"])
    found = outcome.document["datasets"][0]["samples"][0]["scores"]["tool_schema_valid"]
    assert (found["status"], found["value"], found["cause"]) == ("failed", None, "dataset")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            {"checks": [{"name": "contain", "value": "x"}]},
            "checks[0].name: 'contain' is no metric that can be a check. did you mean 'contains'?",
        ),
        ({"checks": [{"name": "faithfulness"}]}, "checks[0].name: 'faithfulness' is no metric that can be a check"),
        ({"checks": [{"name": "contains"}]}, "checks[0].value: contains needs value. add it: text"),
        ({"checks": [{"name": "contains", "value": ""}]}, "checks[0].value: an empty text is in every answer"),
        ({"checks": [{"name": "matches", "pattern": ""}]}, "checks[0].pattern: an empty pattern is in every text"),
        ({"checks": [{"name": "chrf", "threshold": 0}]}, "checks[0].threshold: every reply reaches 0"),
        ({"checks": [{"name": "tool_error_rate", "threshold": 1}]}, "checks[0].threshold: every reply reaches 1"),
        (
            {"checks": [{"name": "json_schema", "schema": {"properties": {"a": {"Require": ["b"]}}}}]},
            "checks[0].schema: properties.a.Require: 'Require' is no keyword and checks nothing. write required",
        ),
        (
            {"checks": [{"name": "contains", "value": "x", "case": 1}]},
            "checks[0].case: the check contains has no 'case'",
        ),
        ({"checks": [{"name": "matches", "pattern": "("}]}, "checks[0].pattern: '(' is no regular expression"),
        (
            {"checks": [{"name": "json_schema", "schema": {"type": "objekt"}}]},
            "checks[0].schema: type: it is not a JSON Schema",
        ),
        (
            {"checks": [{"name": "json_schema", "schema": {"$ref": "http://x/y"}}]},
            "checks[0].schema: $ref: 'http://x/y' is not in this schema, and evalspec",
        ),
        (
            {"checks": [{"name": "json_schema", "schema": "$file:s.json"}]},
            "checks[0].schema: a sample cannot name a file",
        ),
        ({"checks": [{"name": "latency"}]}, "checks[0].threshold: no reply has the best latency"),
        (
            {"checks": [{"name": "cost", "threshold": 1}]},
            "checks[0]: cost needs the price of the agent's tokens. set spec.api.price",
        ),
        ({"checks": [{"name": "json_fields"}]}, "expected: json_fields needs JSON, and 'Paris' is none"),
        ({"checks": []}, "checks: "),
        ({"checks": [{"value": "x"}]}, "checks[0].name: this key is required"),
        ({"checks": [{"name": "contains", "value": "x", "weight": -1}]}, "checks[0].weight: "),
    ],
)
def test_a_bad_check_has_file_line_field_and_fix_before_anything_is_sent(line, says, project):
    project.dataset("qa", [{"id": "a"}, {"id": "b"} | line])
    refused = project.validate()
    assert refused.code == 2 and f"qa.jsonl:2: {says}" in refused.out


@pytest.mark.parametrize(
    ("metric", "says"),
    [
        (
            {"name": "json_schema", "schema": {"type": 1}},
            "spec.evaluation.datasets[0].metrics[0].schema: type: it is not a JSON Schema",
        ),
        ({"name": "json_schema", "schema": "$file:none.json"}, "the schema none.json cannot be read"),
        ({"name": "json_schema", "schema": "$file:bad.json"}, "bad.json: it is not JSON"),
        ("cost", "cost needs the price of the agent's tokens. set spec.api.price"),
        ("json_fields", "qa.jsonl:1: expected: json_fields needs JSON, and 'Paris' is none"),
    ],
)
def test_a_bad_metric_is_refused(metric, says, project):
    (project.folder / "bad.json").write_text("{")
    project.dataset("qa", [{"id": "a"}], metrics=[metric])
    refused = project.validate()
    assert refused.code == 2 and says in refused.out


def test_a_schema_of_a_file_is_part_of_the_metric(project):
    (project.folder / "answer.json").write_text('{"type": "object"}')
    metric = {"name": "json_schema", "schema": "$file:answer.json"}
    lines, replies = [{"id": "a"}], [{"response": "{}"}]
    first = evaluate(project, lines, replies, metrics=[metric], code=0).document
    (project.folder / "answer.json").write_text('{"type": "array"}')
    second = evaluate(project, lines, replies, metrics=[metric], code=0).document
    for document, value in ((first, 1), (second, 0)):
        (dataset,) = document["datasets"]
        assert dataset["metrics"]["json_schema(schema=answer.json)"]["value"] == value
    assert first["fingerprint"] != second["fingerprint"]


def test_init_gates_data_with_nothing_but_checks_on_them(project):
    project.dataset("qa", [{"id": "a", "expected": "", "metadata": {"note": "x"}, "checks": CHECKS}])
    (project.folder / "app.py").write_text("def answer(question): return question")
    made = project("init", "--agent", "app:answer", "--data", "qa.jsonl")
    assert made.code == 0 and "each sample has checks, so the metric is checks_all" in made.out + made.err
    assert "checks_all: 0.8" in (project.folder / "agent.yaml").read_text()


def test_checks_are_written_as_they_are_read(project, tmp_path):
    project.dataset("qa", [{"id": "a", "checks": CHECKS}])
    for name in ("once", "twice"):
        source = "qa.jsonl" if name == "once" else "once.jsonl"
        assert project("convert", source, f"{name}.jsonl", "--to", "jsonl").code == 0
    written = json.loads((project.folder / "once.jsonl").read_text())
    assert written["checks"] == CHECKS
    assert (project.folder / "once.jsonl").read_text() == (project.folder / "twice.jsonl").read_text()
    refused = project("convert", "qa.jsonl", "o.csv", "--to", "csv")
    assert refused.code == 2 and "the checks (1 of 1 samples)" in refused.err


def list_rows(heading):
    """The cells of the first table in the text of a metric, without the backticks."""
    table = read_text(heading).split("\n|---")[1].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[1:]]
    return [[cell.removeprefix("`").removesuffix("`").strip() for cell in row] for row in cells]


def test_the_numbers_of_the_texts_are_those_of_the_metrics():
    for answer, value, tolerance, found, _ in list_rows("equals_number"):
        given = {"value": float(value), "tolerance": float(tolerance)}
        assert score("equals_number", answer, **given).value == float(found), answer
    for answer, *found in list_rows("valid_json"):
        text = answer.replace("⏎", "\n")
        values = [score("valid_json", text, within=one).value for one in ("answer", "fence", "text")]
        assert values == list(map(float, found)), answer
    for expected, answer, found, _ in list_rows("json_fields"):
        assert score("json_fields", answer, expected=[expected]).value == float(found), answer


def test_checks_import_what_they_need_before_the_first_request(monkeypatch):
    imported = []
    monkeypatch.setattr(sample_checks, "import_module", imported.append)
    context = BuildContext(None, Path(), None)
    sample_checks.build_check(Check("tool_calls_exact"), context)
    assert imported == ["numpy"]


@pytest.mark.parametrize(
    ("answer", "within", "wider"),
    [
        ('```json\n{"a": 1}\n```', "answer", ", but with within: fence"),
        ('Sure: {"a": 1}', "answer", ", but with within: text"),
        ('Sure: {"a": 1}', "fence", ", but with within: text"),
        ("Sure.", "answer", ""),
        ("Sure.", "text", ""),
    ],
)
def test_json_elsewhere_in_the_answer_is_pointed_out(answer, within, wider):
    for name, parameters in (("valid_json", {}), ("json_schema", {"schema": {"type": "object"}})):
        found = score(name, answer, within=within, **parameters)
        assert found.value == 0 and f"{wider}; answered '" in found.reason
        assert wider or "within" not in found.reason
