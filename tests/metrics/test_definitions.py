"""What `evalspec metrics NAME` and the site say of each metric: every one has a text, and its example is computed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from evalspec.model import Exchange, Need
from evalspec.scoring.metrics.base import METRICS, read_text
from metrics.judged_scoring import KEY

PAGES = Path(__file__).parents[2] / "evalspec" / "scoring" / "metrics"
LISTED = [metric.name for metric in METRICS if not metric.is_staged]


def read_example(name: str) -> dict[str, Any]:
    (block,) = re.findall(r"^```json\n(.*?)^```", read_text(name), re.MULTILINE | re.DOTALL)
    example = json.loads(block)
    assert isinstance(example, dict)
    return example


EXAMPLES = {name: read_example(name) for name in LISTED}


def to_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("name", LISTED)
def test_every_metric_has_a_definition_and_says_when_to_use_it(name):
    definition, use, _ = re.split(r"^(Use it .*?\n)\n", read_text(name), maxsplit=1, flags=re.MULTILINE | re.DOTALL)
    assert len(definition) > 20
    assert len(use) > 20


def test_no_text_is_of_a_metric_that_does_not_exist():
    headings = {found for page in PAGES.glob("*.md") for found in re.findall("^## (.*)$", page.read_text(), re.M)}
    assert headings == set(LISTED)


def test_the_command_prints_the_text_without_links(project):
    shown = project("metrics", "tool_schema_valid").out
    assert "of every call of a declared tool" in " ".join(shown.split())
    assert "Use it to find malformed arguments" in shown
    assert "](" not in shown


@pytest.mark.parametrize("is_judged", [False, True], ids=["without a judge", "judged"])
def test_the_examples_of_recorded_replies_have_the_scores_that_evalspec_computes(is_judged, project, judge):
    named = {metric.name for metric in METRICS if (Need.JUDGE in metric.needs) == is_judged}
    recorded = {name: example for name, example in EXAMPLES.items() if "reply" in example and name in named}
    replies = []
    for name, example in recorded.items():
        samples = [{"id": f"{name}-{n}"} | one for n, one in enumerate(to_list(example["sample"]))]
        project.dataset(name, samples, metrics=[example.get("metric", name)])
        replies += [
            {"id": one["id"], "dataset": name} | two
            for one, two in zip(samples, to_list(example["reply"]), strict=True)
        ]
        project.evaluation |= example.get("evaluation", {})
        project.api |= example.get("api", {})
        for file, lines in example.get("files", {}).items():
            (project.folder / file).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (project.folder / "replies.jsonl").write_text("".join(f"{json.dumps(reply)}\n" for reply in replies))
    endpoint = {"baseUrl": judge.url, "apiKey": KEY}
    project.evaluation["judge"] = endpoint | {"model": "scripted"}
    project.evaluation["embeddings"] = endpoint | {"provider": "openai-compatible", "model": "bag"}
    outcome = project.evaluate("--responses", "replies.jsonl", "--json")
    assert "datasets" in outcome.document, outcome.out
    values = {one["name"]: next(iter(one["metrics"].values()))["value"] for one in outcome.document["datasets"]}
    computed = {name: value and round(value, 3) for name, value in values.items()}
    assert computed == {name: example["score"] for name, example in recorded.items()}


@pytest.mark.parametrize("name", [name for name, example in EXAMPLES.items() if "exchange" in example])
def test_the_other_examples_have_the_scores_that_evalspec_computes(name, build_scorer):
    example = EXAMPLES[name]
    sample = {"id": "s", "userInput": "Hi"} | example["sample"]
    exchange = convert({"sample": sample} | example["exchange"], Exchange)
    assert build_scorer(name)(exchange).value == pytest.approx(example["score"], abs=5e-4)
