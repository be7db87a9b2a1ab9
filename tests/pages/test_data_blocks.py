"""Every block of data in the documents: read by what reads such data, or held against what evalspec writes."""

import json
import re
import tomllib
from importlib.metadata import EntryPoint

import pytest

from evalspec.inputs.datasets.base import DATASETS, Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.reports.base import REPORTERS
from evalspec.reports.rows import COLUMNS
from evalspec.scoring.metrics.base import METRICS
from evalspec.service.operations_api import ErasureRequest
from evalspec.targets.agents.replay import load_replies
from evalspec.targets.agents.wire import WIRES
from evalspec.targets.retrievers.opening import RETRIEVERS
from shell_pages import DOCUMENTS, ROOT, find_missing, name_page, read_blocks

GOLDEN = {
    ("docs/how-to/remap.md", "text", 1): "remap/golden/terminal.txt",
    ("docs/reference/compare.md", "text", 1): "comparison/golden/comparison.txt",
    ("docs/reference/compare.md", "text", 2): "comparison/golden/candidates.txt",
    ("docs/reference/reports.md", "csv", 1): "reporters/golden/report.csv",
    ("docs/reference/reports.md", "text", 5): "reporters/golden/report.md",
    ("docs/reference/reports.md", "xml", 1): "reporters/golden/report.junit.xml",
}
"""Blocks that show a part of a golden file."""
OF_METRICS = ROOT / "evalspec" / "scoring" / "metrics"
"""Whose examples tests/metrics/test_definitions.py scores."""
REGISTRIES = (DATASETS, METRICS, REPORTERS, RETRIEVERS, WIRES)


def list_blocks(language):
    return [
        pytest.param(block.code, id=f"{name_page(page)}:{block.line}")
        for page in DOCUMENTS
        for block in read_blocks(page)
        if block.language == language and page.parent != OF_METRICS
    ]


@pytest.mark.parametrize(("place", "file"), GOLDEN.items(), ids=lambda part: str(part[0]))
def test_what_is_shown_is_in_the_golden_file(place, file):
    name, *found = place
    (code,) = (block.code for block in read_blocks(ROOT / name) if [block.language, block.number] == found)
    shown = code.partition("\n")[2] if code.startswith("$ ") else code
    assert find_missing(shown, (ROOT / "tests" / file).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("code", list_blocks("jsonl"))
def test_lines_of_json_are_samples_or_replies(code, tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text(code)
    if '"input"' in code or '"expected' in code:
        loaded = load_dataset(Source(path, path.name))
        assert (loaded.problems, loaded.warnings) == ((), ())
        assert len(loaded.samples) == len(code.splitlines())
    else:
        assert len(load_replies(path, path.name)) == len(code.splitlines())


@pytest.mark.parametrize("code", list_blocks("json"))
def test_json_is_a_dataset_a_row_of_a_report_or_the_body_of_a_request(code, tmp_path):
    data = json.loads(code)
    if "queries" in data:
        path = tmp_path / "dataset.json"
        path.write_text(code)
        loaded = load_dataset(Source(path, path.name))
        assert (loaded.problems, loaded.warnings, len(loaded.samples)) == ((), (), len(data["queries"]))
    elif "run_id" in data:
        rows = (ROOT / "tests" / "reporters" / "golden" / "report.jsonl").read_text(encoding="utf-8").splitlines()
        written = json.loads(rows[0])
        assert list(data) == list(written)
        assert {tuple(score) for score in data["scores"].values()} == {tuple(next(iter(written["scores"].values())))}
    else:
        ErasureRequest.model_validate_json(code)


@pytest.mark.parametrize("code", list_blocks("toml"))
def test_toml_names_an_entry_point_of_a_group_that_is_read(code):
    (group, named) = tomllib.loads(code)["project"]["entry-points"].popitem()
    assert group in {registry.group for registry in REGISTRIES}
    assert all(EntryPoint(name, value, group).module.startswith("my_package.") for name, value in named.items())


@pytest.mark.parametrize("code", list_blocks("sql"))
def test_sql_reads_columns_of_the_parquet_report(code):
    """No engine is installed that reads Parquet with SQL."""
    words = set(re.findall(r"\w+", re.sub("'.*?'", "", code)))
    assert words - set(COLUMNS) == {"select", "avg", "from", "where", "any", "group", "by"}
