from pathlib import Path

import pytest

from evalspec.errors import InvalidInput
from evalspec.reporters.base import REPORTERS, Reporter, register, reporter_for


@pytest.fixture
def junit(monkeypatch):
    for name in ("_things", "_names"):
        monkeypatch.setattr(REPORTERS, name, dict(getattr(REPORTERS, name)))
    register(Reporter("longer", (".summary.json",), lambda run, transcripts: "longer"))


@pytest.mark.parametrize(
    ("path", "name"),
    [("report.json", "json"), ("out/a.b.JSON", "json"), ("x.summary.json", "longer"), ("summary.json", "json")],
)
def test_the_longest_suffix_wins(path, name, junit):
    assert reporter_for(Path(path)).name == name


def test_an_unknown_suffix_lists_the_known_ones(junit):
    with pytest.raises(InvalidInput, match=r"'out/report\.pdf' names no form.*end the name with \.json or \.summary"):
        reporter_for(Path("out/report.pdf"))


def test_a_suffix_has_one_reporter():
    with pytest.raises(ValueError, match=r"'\.JSON' is registered twice"):
        register(Reporter("other", (".JSON",), lambda run, transcripts: ""))
