"""What is taken for a verdict: extraction from text, and the checks that ragas does not make."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.scoring.judge.extraction import UnusableVerdict, extract_object
from evalspec.scoring.judge.verdicts import parse_input, settle_answer

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
PLAIN = st.text().filter(lambda text: "{" not in text)


@given(st.dictionaries(st.text(), JSON_VALUES), PLAIN, PLAIN)
def test_the_only_object_is_found_whatever_stands_around_it(value, before, after):
    assert extract_object(f"{before}{json.dumps(value)}{after}") == value


@pytest.mark.parametrize("text", ["", " \n", "none", "[1]", '{"a": 1', '{"a": 1} {"a": 0}', "{" * 20_000, "[" * 20_000])
def test_none_or_several_are_refused(text):
    with pytest.raises(UnusableVerdict):
        extract_object(text)


DRAFT, FINAL = '{"verdict": 1}', '{"verdict": 0}'


@pytest.mark.parametrize(
    "text",
    [
        f"<think>{DRAFT}</think>{FINAL}",
        f"<THINKING budget='low'>\n{DRAFT}\n</Thinking >{FINAL}",
        f"<reasoning>{DRAFT}</reasoning> <reflection>{DRAFT} {DRAFT}</reflection>\n```json\n{FINAL}\n```",
        f"<think>a <think>b</think> {DRAFT}</think>{FINAL}",
        f"<think>a <thought>b {DRAFT}</think>{FINAL}",
        f'<think>{{"statement": "</think>"}} {DRAFT}</think>{FINAL}',
        f"Well, {DRAFT} seems right. No.\n</think>\n{FINAL}",
        f"{FINAL}<think>{DRAFT}</think>",
        f"<think/>{FINAL}",
        f"<thinker>{FINAL}",
        f"[THINK]{DRAFT}[/THINK]{FINAL}",
        f"<seed:think>{DRAFT}</seed:think>{FINAL}",
        f"<scratchpad>{DRAFT}</scratchpad><analysis>{DRAFT}</analysis>{FINAL}",
        f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>{FINAL}",
        f'<think>{{"draft": {DRAFT}, </think>{FINAL}',
        f'{{"draft": {DRAFT}, \n</think>{FINAL}',
        f"I use {{braces}} and {{1, 2}}: {FINAL}",
    ],
)
def test_reasoning_is_no_answer(text):
    assert extract_object(text) == {"verdict": 0}


@pytest.mark.parametrize("statement", ["<think>", "</think>", "He wrote <think>x</think> <b>"])
def test_a_tag_within_the_answer_is_text(statement):
    answer = {"statement": statement, "verdict": 1}
    assert extract_object(f"<think>{json.dumps(answer)}</think>{json.dumps(answer)}") == answer


@pytest.mark.parametrize(
    ("text", "why"),
    {
        f"<think>so far {DRAFT}": "</think> is missing",
        f"{FINAL} <Reflection>wait": "</reflection> is missing",
        f"<think>a <think>b</think>{DRAFT}": "</think> is missing",
        f"{DRAFT}</think>": "it is not a JSON object",
        f"<think>{DRAFT}</think> I am sure.": "it is not a JSON object",
        f"[THINK]{DRAFT}[/THINK]": "it is not a JSON object",
        f"<scratchpad>{DRAFT}</scratchpad> I cannot tell.": "it is not a JSON object",
        f"<seed:think>{DRAFT}": "</think> is missing",
        f"<|channel|>analysis<|message|>{DRAFT}<|end|>": "no final answer",
        f"<|channel|>final<|message|>{FINAL}<|channel|>commentary": "no final answer",
    }.items(),
)
def test_reasoning_without_an_answer_is_refused(text, why):
    with pytest.raises(UnusableVerdict, match=why):
        extract_object(text)


@pytest.mark.parametrize(
    "text",
    [
        f'{{"draft": {DRAFT}, "final": {FINAL[:-1]}',
        f'{{"draft": {DRAFT}, "final": ',
        f"{{'draft': {DRAFT}, 'final':",
        f"{{draft: {DRAFT}, final: ",
        f"{DRAFT} Wait, I correct that: {FINAL[:-1]}",
        f'{FINAL[:-1]}, "reason": "so {DRAFT}',
    ],
)
def test_an_object_within_a_malformed_one_is_no_answer(text):
    with pytest.raises(UnusableVerdict, match="malformed or broken off"):
        extract_object(text)


@pytest.mark.parametrize("opening", ['{"a":', "{", '{"', '{"a":1,', '{"a":' * 900 + "x "])
def test_a_hundred_thousand_malformed_objects_are_refused_at_once(opening):
    """To try each of them takes up to a minute."""
    text, began = opening * (500_000 // len(opening)), time.process_time()
    with pytest.raises(UnusableVerdict, match="malformed"):
        extract_object(text)
    assert time.process_time() - began < 5


def test_an_answer_that_no_judge_writes_is_not_read():
    statement = {"statements": ["It is a thing. " * 1000] * 500}
    with pytest.raises(UnusableVerdict, match=r"it has 7,5.* characters; the limit is 500,000"):
        extract_object(json.dumps(statement))


def test_braces_of_formulas_do_not_count_as_objects():
    draft = "<think>" + r"\frac{a}{b} " * 2000 + "</think>"
    assert extract_object(f'{draft}{{"verdict": 1}}') == {"verdict": 1}


@pytest.mark.parametrize("text", ['{"verdict": 0, "verdict": 1}', '{"a": [{"verdict": 0, "r": 1, "verdict": 0}]}'])
def test_a_key_that_is_there_twice_is_refused(text):
    with pytest.raises(UnusableVerdict, match="has the duplicate key 'verdict'"):
        extract_object(text)
    assert extract_object(f"<think>{text}</think>{FINAL}") == {"verdict": 0}


@given(st.integers(0, 5), st.lists(st.integers(-2, 3), max_size=5))
def test_statement_verdicts_are_as_many_as_statements_and_0_or_1(sent, verdicts):
    answer = {"statements": [{"statement": "s", "reason": "r", "verdict": verdict} for verdict in verdicts]}
    given_input = {"context": "c", "statements": ["s"] * sent}
    for kind in ("NLIStatementOutput", "StatementFaithfulnessOutput"):
        if len(verdicts) == sent and set(verdicts) <= {0, 1}:
            settled = settle_answer(kind, given_input, answer)["statements"]
            assert sorted(item["verdict"] for item in settled) == sorted(verdicts)
        else:
            with pytest.raises(UnusableVerdict):
                settle_answer(kind, given_input, answer)


def listed(*statements):
    """Statements as a judge lists them."""
    return [{"statement": statement, "reason": "r"} for statement in statements]


def test_statement_verdicts_come_in_the_order_and_wording_of_the_statements():
    answer = {"statements": [{"statement": text, "reason": text, "verdict": v} for text, v in (("- B", 0), ("a", 1))]}
    settled = settle_answer("NLIStatementOutput", {"statements": ["A.", "B."]}, answer)
    assert [tuple(item.values()) for item in settled["statements"]] == [("A.", "a", 1), ("B.", "- B", 0)]


SENT = {"answer": ["A one.", "A two.", "A three."], "ground_truth": ["G one.", "G two."]}


def test_correctness_is_sorted_in_the_order_and_wording_of_the_statements():
    answer = {"TP": listed("a three", "A one."), "FP": listed("2) A two"), "FN": listed("g two", "G one.")}
    assert settle_answer("ClassificationWithReason", SENT, answer) == {
        "TP": listed("A one.", "A three."),
        "FP": listed("A two."),
        "FN": listed("G one.", "G two."),
    }


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"FP": []}, "2 statements in TP and FP"),
        ({"FP": ["A one."]}, "'A one.' was not sent, or is repeated"),
        ({"FP": ["G one."]}, "'G one.' was not sent"),
        ({"FN": ["A two."]}, "'A two.' was not sent"),
        ({"FN": ["G one.", "G one."]}, "'G one.' was not sent, or is repeated"),
        ({"FN": ["G one.", "G two.", "G two."]}, "3 statements in FN"),
    ],
)
def test_correctness_has_each_statement_of_the_answer_once_and_none_of_its_own(change, why):
    sorted_out = {"TP": ["A one.", "A three."], "FP": ["A two."], "FN": []}
    usable, spoilt = (
        {key: listed(*texts) for key, texts in lists.items()} for lists in (sorted_out, sorted_out | change)
    )
    assert settle_answer("ClassificationWithReason", SENT, usable) == usable
    with pytest.raises(UnusableVerdict, match=why):
        settle_answer("ClassificationWithReason", SENT, spoilt)


@pytest.mark.parametrize(
    ("kind", "answer", "why"),
    [
        ("StatementGeneratorOutput", {"statements": ["Paris", " "]}, "blank"),
        ("StatementGeneratorOutput", {"statements": ["Rome fell."]}, "'Rome fell.', which has no word in common"),
        ("StatementGeneratorOutput", {"statements": ["Some question"]}, None),
        ("StatementGeneratorOutput", {"statements": []}, None),
        ("ClaimDecompositionOutput", {"claims": [""]}, "blank"),
        ("ClaimDecompositionOutput", {"claims": ["A question."]}, "'A question.', which has no word in common"),
        ("ContextRecallOutput", {"classifications": []}, "no statement"),
        ("ContextRecallOutput", {"classifications": [{"statement": "Paris", "attributed": 3}]}, "attributed is 3"),
        ("ContextPrecisionOutput", {"verdict": -1}, "verdict is -1"),
        ("ContextPrecisionOutput", {"verdict": 0}, None),
        ("AnswerRelevanceOutput", {"question": "", "noncommittal": 0}, "question is empty"),
        ("AnswerRelevanceOutput", {"question": "", "noncommittal": 1}, None),
        ("AnswerRelevanceOutput", {"question": "q", "noncommittal": 2}, "noncommittal is 2"),
    ],
)
def test_what_must_not_be_used(kind, answer, why):
    sent = {"question": "A question?", "answer": "Paris grows.", "response": "Paris grows."}
    if why is None:
        assert settle_answer(kind, sent, answer) == answer
    else:
        with pytest.raises(UnusableVerdict, match=why):
            settle_answer(kind, sent, answer)


REFERENCE = "Lions hunt at night. Owls see well. Bats use echoes. Wolves form packs. Deer sleep little. Foxes dig dens."


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["Lions hunt at night."], "its statements have 17 % of the reference's words"),
        (["Lions hunt by night.", "Owls have good sight.", "Bats use the echo."], "but need at least 50 %"),
        ([*REFERENCE.split(". "), "Foxes dig dens"], "it repeats 'foxes dig dens' 2 times"),
        ([*REFERENCE.split(". "), "England"], "'England', which has no word in common"),
        ([*REFERENCE.split(". "), " "], "blank"),
        (["Foxes dig dens.", "A lion hunts at night.", "Owls see well.", "Bats use echoes."], None),
    ],
)
def test_recall_classifies_at_least_half_of_the_reference_and_nothing_twice(statements, why):
    answer = {"classifications": [{"statement": text, "reason": "r", "attributed": 1} for text in statements]}
    if why is None:
        assert settle_answer("ContextRecallOutput", {"answer": REFERENCE}, answer) == answer
    else:
        with pytest.raises(UnusableVerdict, match=why):
            settle_answer("ContextRecallOutput", {"answer": REFERENCE}, answer)


def test_recall_may_repeat_what_the_reference_repeats():
    statements = ["Owls see well.", "Owls see well.", "Bats use echoes."]
    answer = {"classifications": [{"statement": text, "reason": "r", "attributed": 1} for text in statements]}
    repeated = {"answer": "Owls see well. Bats use echoes.\nOwls see well."}
    assert settle_answer("ContextRecallOutput", repeated, answer) == answer


@pytest.mark.parametrize(
    ("kind", "field"), [("StatementGeneratorOutput", "statements"), ("ClaimDecompositionOutput", "claims")]
)
@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["Paris grows."] * 19 + ["Rome fell."], "it repeats 'paris grows' 19 times"),
        (["1. Paris grows.", "2. PARIS GROWS", "Rome fell."], "it repeats 'paris grows' 2 times"),
        (["Rome fell.", "Rome fell.", "Rome fell."], "it repeats 'rome fell' 3 times"),
        (["Paris grows.", "!", "…"], "blank"),
        (["Paris grows.", "Rome fell.", "Rome fell."], None),
    ],
)
def test_a_decomposition_may_repeat_only_what_the_text_repeats(kind, field, texts, why):
    text = "Paris grows. Rome fell. As I said, Rome fell."
    sent = {"question": "Is it true that Paris grows? Paris grows?", "answer": text, "response": text}
    if why is None:
        assert settle_answer(kind, sent, {field: texts}) == {field: texts}
    else:
        with pytest.raises(UnusableVerdict, match=why):
            settle_answer(kind, sent, {field: texts})


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("Der 3. und der 4. Oktober sind frei.", ["3. Oktober ist frei.", "4. Oktober ist frei."]),
        ("Beide sind frei.", ["3. Oktober ist frei.", "4. Oktober ist frei."]),
        ("Am 1. und 2. Mai wird nicht gearbeitet.", ["1. Mai ist arbeitsfrei.", "2. Mai ist arbeitsfrei."]),
        ("Am ersten und zweiten Mai ist frei.", ["1. Mai ist frei.", "2. Mai ist frei."]),
        ("The 1. and 2. FC won.", ["1. FC won", "2. FC won"]),
        ("The 1. and 2. FC won.", ["1. 1. FC won", "2. 2. FC won"]),
        ("Levels A and B cost 5.", ["A) costs 5.", "B) costs 5."]),
    ],
)
def test_an_ordinal_at_the_beginning_is_no_numbering(text, statements):
    answer = {"statements": statements}
    assert settle_answer("StatementGeneratorOutput", {"question": "Frei?", "answer": text}, answer) == answer


@pytest.mark.parametrize(
    "statements",
    [
        ["1. Paris grows.", "2. Paris grows.", "3. Paris grows."],
        ["Statements:", "1. Paris grows.", "2. Paris grows."],
        ["a) Paris grows.", "b) Paris grows."],
        ["- Paris grows.", "* Paris grows."],
        ["2. Paris grows.", "2. Paris grows."],
        ["Statement 1: Paris grows.", "Statement 2: Paris grows."],
        ["3. Paris grows.", "4. Paris grows.", "Paris grows."],
    ],
)
def test_numbering_hides_no_repetition(statements):
    sent = {"question": "Statements?", "answer": "Paris, a city, grows."}
    with pytest.raises(UnusableVerdict, match="it repeats 'paris grows'"):
        settle_answer("StatementGeneratorOutput", sent, {"statements": statements})


def test_a_response_model_without_a_check_is_not_let_through():
    with pytest.raises(KeyError):
        settle_answer("SomethingNew", {}, {})


@given(st.dictionaries(st.text(), st.text()))
def test_the_input_is_read_back_from_a_prompt_even_if_it_holds_one(value):
    mark = "Now perform the same with the following input\ninput: "
    value = value | {"answer": f"\n{mark}{{}}\nOutput: "}
    prompt, given = parse_input(f"Instruction\n{mark}{{}}\n-----\n\n{mark}{json.dumps(value, indent=4)}\nOutput: ")
    assert given == value
    assert parse_input(prompt) == (prompt, value)
    assert "<" not in prompt
