"""Each limit that is stated is enforced, overridden, lifted or dead, and every report says which."""

import pytest

SLICED = {"min": 0.99, "slice": "topic=returns"}


@pytest.fixture
def shop(project, agent):
    """Two datasets with all answers right but the one about returns in `core`."""
    project.api = {"url": agent.url}
    agent.reply = lambda body: {"response": "Lyon" if body["message"] == "core returns" else "Paris"}
    for name in ("core", "other"):
        topics = [{"id": t, "input": f"{name} {t}", "metadata": {"topic": t}} for t in ("returns", "prices")]
        project.dataset(name, topics, metrics=["string_match"])
    project.evaluation["thresholds"] = {"string_match": [0.9, SLICED]}
    return project


def limits_of(document, dataset="core"):
    (found,) = (one["limits"] for one in document["datasets"] if one["name"] == dataset)
    return [(limit["min"], limit["slice"], limit["status"]) for limit in found]


def own(project, *limits, dataset=0):
    project.evaluation["datasets"][dataset]["thresholds"] = {"string_match": list(limits)}


def test_a_dataset_overrides_only_the_same_statistic_and_slice(shop):
    own(shop, 0.5)
    expected = [
        (0.5, None, "enforced"),
        (0.9, None, "overridden"),
        (0.99, "topic=returns", "enforced"),
    ]
    assert limits_of(shop.validate("--json").document) == expected
    outcome = shop.evaluate("--json")
    assert limits_of(outcome.document) == expected
    assert [(t["slice"], t["status"]) for t in outcome.document["datasets"][0]["thresholds"]] == [
        (None, "PASS"),
        ("topic=returns", "FAIL"),
    ]
    note = "core: mean of string_match >= 0.9 (agent.yaml:"
    assert [one for one in outcome.document["notes"] if one.startswith(note) and "is overridden by agent.yaml:" in one]
    assert shop("report", "--json").document == outcome.document
    for command in (shop.validate(), shop("plan", "agent.yaml"), shop("report")):
        said = " ".join((command.out + command.err).split())
        assert note in said, command
        assert "string_match in topic=returns" not in said, "what is enforced is no note"


def test_null_lifts_one_limit(shop):
    own(shop, 0.5, {"slice": "topic=returns", "min": None})
    outcome = shop.evaluate("--json")
    assert (outcome.code, limits_of(outcome.document)[1:]) == (
        0,
        [(0.9, None, "overridden"), (0.99, "topic=returns", "lifted")],
    )
    shop.evaluation["datasets"][0]["thresholds"] = {"string_match": None}
    assert limits_of(shop.validate("--json").document) == [
        (0.9, None, "lifted"),
        (0.99, "topic=returns", "enforced"),
    ]


def test_a_statistic_stated_or_by_default_is_the_same(shop):
    own(shop, {"min": 0.4, "stat": "mean"})
    assert limits_of(shop.validate("--json").document)[1] == (0.9, None, "overridden")
    own(shop, {"min": 0.4, "stat": "median"})
    assert limits_of(shop.validate("--json").document)[1] == (0.9, None, "enforced")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (0.5, 0.6, "this threshold is enforced in no dataset: overridden by agent.yaml:"),
        (0.5, None, "this threshold is enforced in no dataset: overridden by agent.yaml:"),
        ({"slice": "topic=prices", "min": None}, 0.6, "null lifts no threshold of dataset 'core'"),
        ({"stat": "median", "min": None}, 0.6, "null lifts no threshold of dataset 'core'"),
    ],
)
def test_what_has_no_effect_is_an_error(shop, first, second, message):
    own(shop, first)
    own(shop, second, dataset=1)
    for selection in ((), ("--dataset", "core")):
        outcome = shop.validate(*selection)
        assert outcome.code == 2
        assert message in outcome.out


def test_a_limit_for_a_dataset_that_is_not_selected_is_no_error(shop):
    own(shop, 0.5)
    assert shop.validate("--dataset", "core").code == 0


@pytest.mark.parametrize("place", ["evaluation", "dataset"])
def test_of_two_limits_in_a_list_the_looser_is_an_error(shop, place):
    limits = [0.9, {"min": 0.8, "stat": "mean"}]
    if place == "dataset":
        own(shop, *limits)
    else:
        shop.evaluation["thresholds"] = {"string_match": limits}
    outcome = shop.validate()
    assert (outcome.code, outcome.out.count("this threshold decides nothing: that of line")) == (2, 1)


def test_null_in_the_evaluation_lifts_nothing(shop):
    shop.evaluation["thresholds"]["string_match"] = [0.9, {"slice": "topic=returns", "max": None}]
    outcome = shop.validate()
    assert (outcome.code, "null lifts a threshold of the evaluation" in outcome.out) == (2, True)


def test_a_dataset_without_the_slice_says_so(shop):
    project = shop.evaluation["datasets"]
    project[1]["metrics"] = ["string_match"]
    shop.dataset("bare", [{"id": "s", "input": "other"}], metrics=["string_match"])
    document = shop.validate("--json").document
    assert limits_of(document, "bare") == [(0.9, None, "enforced"), (0.99, "topic=returns", "dead")]


def test_two_names_of_one_metric_are_an_error(shop):
    shop.evaluation["thresholds"] = {"string_match": 0.9, "String_Match": 0.1}
    outcome = shop.validate()
    assert outcome.code == 2
    assert "'String_Match' and 'string_match' are one metric, string_match. write one list of limits" in outcome.out
