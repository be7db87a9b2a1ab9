"""The types that a threshold and a sample pass on their way from the manifest and the dataset to a report.

PYTHONPATH=.:tests python tests/test_ways.py
"""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import evalspec

PAGE = (Path(__file__).parents[1] / "docs" / "explanation" / "architecture.md").read_text()
WAYS = {
    "threshold": (
        ("runs.planning.thresholds", "to_threshold", "Limit", "Threshold"),
        ("model", "Dataset.thresholds", "Threshold", "Threshold"),
        ("verdict.gate", "compute_outcome", "Threshold", "Threshold"),
        ("reports.view.dataset", "_threshold_row", "Threshold", "Row"),
    ),
    "sample": (
        ("inputs.datasets.jsonl", "_to_sample", "JsonlSample", "Sample"),
        ("targets.agents.base", "Agent.ask", "Sample", "AgentReply"),
        ("model", "Exchange.reply", "AgentReply", "Exchange"),
        ("runs.runner.scoring", "score_exchange", "Exchange", "Score"),
        ("model", "Attempt.scores", "Score", "Attempt"),
        ("verdict.attempts", "combine_attempts", "Attempt", "SampleResult"),
        ("model", "DatasetResult.samples", "SampleResult", "SampleResult"),
    ),
}
"""Steps: a function that is given one type and returns the other, or a field of that type."""
MOST = {"threshold": 5, "sample": 7}


def list_types(way: str) -> list[str]:
    return list(dict.fromkeys(kind for _, _, given, made in WAYS[way] for kind in (given, made)))


def names_in(annotations: object) -> set[str]:
    return set(re.findall(r"\w+", str(annotations)))


@pytest.mark.parametrize(
    ("module", "place", "given", "made"), [step for way in WAYS.values() for step in way], ids=lambda part: part
)
def test_each_step_is_in_the_code(module, place, given, made):
    owner, _, name = place.rpartition(".")
    found = import_module(f"evalspec.{module}")
    if owner and name in inspect.get_annotations(holder := getattr(found, owner)):
        assert given in names_in(inspect.get_annotations(holder)[name])
        assert made in (owner, given)
        return
    function = getattr(getattr(found, owner), name) if owner else getattr(found, name)
    annotations = dict(inspect.get_annotations(function))
    assert made in names_in(annotations.pop("return"))
    assert given in names_in(annotations)


@pytest.mark.parametrize("way", WAYS)
def test_each_step_begins_where_the_one_before_ends(way):
    assert [step[2] for step in WAYS[way][1:]] == [step[3] for step in WAYS[way][:-1]]


@pytest.mark.parametrize("way", WAYS)
def test_the_page_on_architecture_counts_them(way):
    types = list_types(way)
    assert len(types) <= MOST[way]
    assert f"{len(types)} types: {' → '.join(f'`{kind}`' for kind in types)}" in " ".join(PAGE.split())


def test_no_other_type_is_a_threshold():
    every = (path.read_text() for path in Path(evalspec.__file__).parent.rglob("*.py"))
    sources = [text for text in every if "    slice: " in text]
    classes = (node for text in sources for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))
    fields = {
        one.name: {ast.unparse(part.target) for part in one.body if isinstance(part, ast.AnnAssign)} for one in classes
    }
    limits = {name for name, own in fields.items() if own >= {"min", "max", "slice"}}
    assert limits == {"Limit", "Threshold", "StatedLimit"}


if __name__ == "__main__":
    for way in WAYS:
        print(f"{way}: {len(list_types(way))} types: {' → '.join(list_types(way))}")
