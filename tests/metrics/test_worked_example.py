"""The numbers of the worked example in the reference of tool metrics."""

from pathlib import Path

import pytest
import yaml

from shell_pages import read_blocks
from test_docs import rows, sections

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE = REFERENCE / "tool-metrics.md"
TABLE = {name.strip("`"): values for name, *values in rows(sections(PAGE, 2)["Worked example"])}


@pytest.fixture
def measured(project):
    """The values of each agent of the page, by metric."""
    lines = [block.code for block in read_blocks(PAGE) if block.language == "jsonl"]
    (declared,) = (yaml.safe_load(block.code) for block in read_blocks(PAGE) if block.language == "yaml")
    project.evaluation |= declared["evaluation"]
    (project.folder / "trips.jsonl").write_text(lines[0])
    project.evaluation["datasets"] = [{"name": "trips", "path": "trips.jsonl", "metrics": list(TABLE)}]
    found = []
    for reply in lines[1:]:
        (project.folder / "replies.jsonl").write_text(reply)
        outcome = project.evaluate("--responses", "replies.jsonl", "--json")
        (sample,) = outcome.document["datasets"][0]["samples"]
        found.append({name: score["value"] for name, score in sample["scores"].items()})
    return found


def test_the_page_has_the_numbers_that_evalspec_computes(measured):
    computed = {name: [f"{round(values[name], 3):g}" for values in measured] for name in TABLE}
    assert computed == TABLE
    assert len(measured) == 3
