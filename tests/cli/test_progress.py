"""The lines of progress that a run prints where nobody watches."""

import time

from evalspec.cli.run_session import ProgressLines


def test_the_rate_is_that_of_the_attempts_of_this_session(monkeypatch, capsys):
    """Nodes took a minute to start, and 40 of 100 replies were known: 20 more in 20 seconds is one a second."""
    clock = {"now": 0.0}
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    lines = ProgressLines(100)
    for clock["now"], asked in ((60, 40), (65, 45), (80, 60), (85, 65)):
        lines(asked=asked, scored=asked, failed=0)
    assert capsys.readouterr().err.splitlines() == ["queried 60/100, scored 60, 1.0/s, about 40 s left"]
