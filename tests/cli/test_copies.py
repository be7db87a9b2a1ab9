"""Copies of a question are one observation, however many ids they have."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalspec.model import Check, ExpectedCall, ExpectedState, Sample, Turn
from evalspec.runs.planning import copies
from evalspec.runs.planning.copies import CopyFinder, set_units


@pytest.fixture
def copied(project, agent):
    """Five questions with forty ids each, of which the agent knows all."""
    project.api = {"url": agent.url}
    project.dataset(
        "qa",
        [{"id": f"s{n}", "input": f"q{n % 5}{' ' * (n // 100)}", "metadata": {"row": n}} for n in range(200)],
        metrics=["string_match"],
    )
    project.evaluation |= {"thresholds": {"string_match": 0.8}, "ciGate": {"confidence": 0.95}}
    return project


def test_copies_are_no_evidence(copied):
    validated = copied.validate()
    assert "200 samples of 'qa' are 5 independent ones: copies of a question count as one" in validated.err
    outcome = copied.evaluate("--json")
    found = outcome.document["datasets"][0]["metrics"]["string_match"]
    assert (outcome.code, found["units"]) == (1, 5)
    assert found["interval"][0] == pytest.approx(0.025 ** (1 / 5))
    note = "qa: 200 samples are copies of each other and count as 5 observations"
    assert note in outcome.document["notes"]
    assert copied("report", "--json").document == outcome.document


def test_what_is_sent_makes_a_difference(copied):
    copied.api["chatEndpoint"] = {
        "protocol": "custom",
        "request": {"message": "{{input}}", "row": "{{metadata.row}}"},
        "response": {"answer": "$.response"},
    }
    assert "independent ones" not in copied.validate().err
    assert copied.evaluate().code == 0


def test_a_comparison_counts_copies_once_too(copied, agent):
    copied.evaluation |= {"thresholds": {"string_match": 0.1}, "ciGate": {"baseline": "main"}}
    copied.evaluate()
    copied("runs", "promote", "latest", "--as", "main")
    agent.reply = lambda body: {"response": "Lyon" if body["message"].startswith(("q0", "q1")) else "Paris"}
    outcome = copied.evaluate("--json")
    (drop,) = outcome.document["regressions"]
    assert (drop["units"], drop["pairs"], drop["delta"]) == (5, 200, pytest.approx(-0.4))
    assert drop["status"] == "PASS", "two of five questions show nothing"
    copied.evaluation |= {"thresholds": {"string_match": 0.5}, "ciGate": {"baseline": "main", "newFailures": 0}}
    (failures,) = [one for one in copied.evaluate("--json").document["regressions"] if one["metric"] is None]
    assert (failures["status"], "80 new failures" in failures["reason"]) == ("PASS", True)
    assert "not significant (p = 0.250)" in failures["reason"]


def units(*texts, cluster=None):
    return units_of([Sample(f"s{n}", text, metadata=metadata) for n, (text, metadata) in enumerate(texts)], cluster)


def units_of(samples, cluster=None):
    finder = CopyFinder(cluster)
    for sample in samples:
        finder.add(sample, sample.list_acts())
    marked = set_units(samples, finder.find_units())
    return {sample.id: sample.unit for sample in marked if sample.unit is not None}


def test_copies_and_clusters_are_connected():
    """s0 and s1 are copies; s1 and s2 are of one document, s2 and s4 copies again. s3 is alone, s5 and s6 a cluster."""
    given = [
        ("a", {}),
        ("a", {"doc": 1}),
        ("b", {"doc": 1}),
        ("c", {}),
        ("b", {}),
        ("d", {"doc": 2}),
        ("e", {"doc": 2}),
    ]
    found = units(*given, cluster="doc")
    assert found.keys() == {"s0", "s1", "s2", "s4"}
    assert len({*found.values()}) == 1
    assert len({*units(*given).values()}) == 2


def test_other_turns_calls_or_states_make_another_sample():
    turns = [(Turn("To Paris"), Turn(said)) for said in ("In May", "In June", "In May")]
    scripts = [Sample(f"s{n}", "To Paris", turns=one) for n, one in enumerate(turns)]
    others = [
        Sample("t1", "To Paris", expected_tools=(ExpectedCall("book"),)),
        Sample("t2", "To Paris", expected_tools=()),
        Sample("t3", "To Paris", expected_state=ExpectedState({"$.a": 1})),
        Sample("t4", "To Paris", forbidden_tools=("pay",)),
        Sample("t5", "To Paris", max_steps=2),
        Sample("t6", "To Paris", checks=(Check("contains", {"value": "May"}),)),
    ]
    assert units_of([*scripts, *others]) == {"s0": "s0", "s2": "s0"}


def test_copies_are_equal_after_normalisation_of_unicode_and_space():
    assert len(units(("caf\u00e9  ?", {}), ("cafe\u0301 ?", {}), ("caf\u00e9\u200b ?", {}))) == 3
    assert units(("Polish", {}), ("polish", {})) == {}, "an agent may mind the case"
    spaced = ('say "a b"', ' say "a b"', 'say "a b" ', 'say  "a b"', 'say\n"a b"', 'say\t"a\x1fb"')
    assert len(units(*((text, {}) for text in spaced))) == len(spaced)
    assert len(units(("in form ?", {}), ("inform?", {}))) == 2, "white space decides nothing"
    assert units(("\\n", {}), ("\n", {})) == units(('a"b', {}), ("a b", {})) == {}
    assert len(units(("\ud800 a", {}), ("\ud800  a", {}))) == 2, "half of a character that a file may have"


CONTENTS = [
    Sample("", "in form"),
    Sample("", "inform"),
    Sample("", "in\tform"),
    Sample("", "in\u200bform\u00a0"),
    Sample("", "\uff49nform", qrels={}),
    Sample("", 'say "in form"'),
    Sample("", 'say "in form"', ("a b",), qrels={"b": 1, "a": 2}),
    Sample("", 'say \uff02inform"', ("ab",), qrels={"a": 2, "b": 1}),
    Sample("", "inform", ("\ud800",)),
    Sample("", "inform", ("\ud800 ",)),
    Sample("", "inform", max_steps=2**70),
    Sample("", "inform", max_steps=3, metadata={"doc": 1}),
    Sample("", "in form", max_steps=3, metadata={"doc": 2, "row": 2}),
    Sample("", "inform", metadata={"row": 2}),
]


@given(
    st.lists(st.sampled_from(CONTENTS), max_size=12),
    st.integers(1, 5),
    st.sampled_from([None, "doc"]),
    st.sampled_from([None, (), ("row",)]),
)
@example([CONTENTS[place] for place in (1, 2, 0, 1)], 2, None, ())
def test_what_is_compared_at_the_same_time_decides_nothing(samples, part, cluster, keys):
    found = []
    for size in (part, 1):
        finder = CopyFinder(cluster, keys)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(copies, "_PART", size)
            for sample in samples:
                finder.add(sample, sample.list_acts())
            found.append(finder.find_units())
    assert found[0] == found[1]


def test_copies_are_found_across_the_parts_that_are_compared():
    samples = [Sample(f"s{n}", f"q {n % (2 * copies._PART + 3)}") for n in range(4 * copies._PART + 6)]
    assert [int(unit[1:]) for unit in units_of(samples).values()] == [*range(2 * copies._PART + 3)] * 2


def test_long_passages_are_not_kept_waiting():
    finder = CopyFinder()
    for passages in (("a",), None, ("a",)):
        sample = Sample("", "q", retrieved_contexts=passages)
        finder.add(sample, sample.list_acts())
    assert finder.waiting == []
    assert finder.find_units() == {0: 0, 2: 0}
