import re
from pathlib import Path

import pytest

from evalspec.base.errors import InvalidInput
from evalspec.reports.base import REPORTERS, Reporter, reporter_for
from reporters.sample_retrieval import RETRIEVAL_REPORTS, retrieval_exchanges, retrieval_run
from reporters.sample_run import GOLDEN, GOLDEN_REPORTS, sample_exchanges, sample_run


@pytest.fixture
def longer(monkeypatch):
    REPORTERS.names()
    for name in ("_things", "_names"):
        monkeypatch.setattr(REPORTERS, name, dict(getattr(REPORTERS, name)))
    Reporter("longer", (".summary.json",), lambda run, exchanges: "longer").register(REPORTERS)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("report.json", "json"),
        ("r.junit.xml", "junit"),
        ("r.jsonl", "jsonl"),
        ("r.sarif.json", "sarif"),
        ("out/a.b.JSON", "json"),
        ("x.summary.json", "longer"),
        ("summary.json", "json"),
    ],
)
def test_the_longest_suffix_wins(path, name, longer):
    assert reporter_for(Path(path)).name == name


def test_an_unknown_suffix_lists_the_known_ones(longer):
    with pytest.raises(
        InvalidInput, match=r"'out/report\.pdf' has no known.*one of \.check\.json, \.csv, .*\.json, .*\.summary\.json"
    ):
        reporter_for(Path("out/report.pdf"))


def test_a_suffix_has_one_reporter():
    REPORTERS.names()
    with pytest.raises(ValueError, match=r"'\.JSON' is registered twice"):
        Reporter("other", (".JSON",), lambda run, exchanges: "").register(REPORTERS)


@pytest.mark.parametrize(
    ("name", "run", "exchanges"),
    [
        *((name, sample_run(), sample_exchanges) for name in GOLDEN_REPORTS),
        *((name, retrieval_run(), retrieval_exchanges) for name in RETRIEVAL_REPORTS),
    ],
    ids=[*GOLDEN_REPORTS, *RETRIEVAL_REPORTS],
)
def test_golden(name, run, exchanges):
    content = reporter_for(GOLDEN / name).render(run, exchanges)
    assert (content if isinstance(content, bytes) else content.encode()) == (GOLDEN / name).read_bytes()


@pytest.mark.parametrize(("language", "golden"), [("xml", "junit.xml"), ("csv", "csv"), ("text", "md")])
def test_the_examples_of_the_docs_are_of_the_golden_files(language, golden):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "reports.md").read_text(encoding="utf-8")
    *_, example = re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    lines = (GOLDEN / f"report.{golden}").read_text(encoding="utf-8").splitlines()
    assert [line for line in example.splitlines() if line not in lines] == []


def test_every_form_is_explained():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "reports.md").read_text(encoding="utf-8")
    assert [suffix for reporter in REPORTERS for suffix in reporter.suffixes if f"`{suffix}`" not in page] == []
