"""The demo on terminals of four widths, with and without colour, as golden files (see demo_reports.py)."""

import re

import pytest
from rich.cells import cell_len

from cli.demo_reports import PAGE, PAGE_WIDTH, WIDTHS, command, documented_report, golden_file, prepare
from evalspec.cli.main import run
from evalspec.runs.runner import reread
from evalspec.runs.store.run_store import STORE, RunStore
from evalspec.runs.store.stored_run import open_run

ANSI = re.compile(r"\x1b\[[0-9;]*m")
OUTCOMES = {"failing": 1, "passing": 0}


@pytest.fixture(scope="module", params=OUTCOMES)
def demo(request, tmp_path_factory):
    """The demo after a run that passes, or one that fails."""
    folder = tmp_path_factory.mktemp("demo")
    prepare(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(command(request.param)) == OUTCOMES[request.param]
        stored = open_run(RunStore(STORE).find("latest"))
        concluded = reread.conclude_stored(stored)  # once, as intervals take longer than all these reports
        patch.setattr(reread, "conclude_stored", lambda found: concluded if found.id == stored.id else None)
        yield request.param


def print_report(capsys, monkeypatch, width: int, *options: str, color: bool = False) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1" if color else "")
    capsys.readouterr()
    run(["report", *options])
    return capsys.readouterr().out


def test_every_width_is_as_recorded_and_keeps_to_it(demo, capsys, monkeypatch):
    for width in WIDTHS:
        for color in (False, True):
            printed = print_report(capsys, monkeypatch, width, color=color)
            assert printed == golden_file(demo, width, color).read_text()
            assert max(cell_len(ANSI.sub("", line)) for line in printed.splitlines()) <= width


def test_the_verdict_is_the_first_line_the_last_and_the_only_one_of_quiet(demo, capsys, monkeypatch):
    lines = print_report(capsys, monkeypatch, 120).splitlines()
    assert lines[0] == lines[-1]
    (quiet,) = print_report(capsys, monkeypatch, 120, "-q").splitlines()
    verdict, _, reason = quiet.partition(": ")
    assert (verdict, bool(reason)) == (lines[0], demo == "failing")


def test_verbose_shows_what_is_left_out(demo, capsys, monkeypatch):
    usual, full = (print_report(capsys, monkeypatch, 120, *options) for options in ((), ("-v",)))
    assert "too few" not in usual
    assert "too few" in full
    assert ("Slices" in usual) is (demo == "failing")
    assert "Slices" in full


def test_one_command_leads_from_fail_to_the_reason(demo, capsys, monkeypatch):
    """The report of a failed run names the worst sample, what it was asked, and why it fails."""
    printed = print_report(capsys, monkeypatch, 120)
    if demo == "failing":
        _, _, worst = printed.partition("Worst samples")
        assert "read-on-plane: Recall@5 0.000 is below 0.95" in worst
        for label in ("question", "expected", "got", "contexts", "why"):
            assert re.search(rf"^ +{label} +\S", worst, re.M)
        run(["show", "read-on-plane"])
        shown = capsys.readouterr().out
        assert "offline-use, mobile-apps" in shown
        assert "≥ 0.95 ✗" in shown


def test_the_documented_failure_is_that_of_the_demo():
    """docs/reference/reports.md shows the worst samples of the failing demo."""
    _, found, rest = golden_file("failing", 80, False).read_text().partition("  Worst samples")
    worst = found + rest.partition("\n\n")[0]
    assert f"```text\n{worst}\n```" in PAGE.read_text()


def test_the_documented_report_is_that_of_the_demo(demo, capsys, monkeypatch):
    if demo == "passing":
        assert print_report(capsys, monkeypatch, PAGE_WIDTH) == documented_report()
