"""Files of labels: kills, several writers, clocks that were set back, damage."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from evalspec import labels
from evalspec.base.errors import InvalidInput
from evalspec.curation.labels import files

WRITER = """
import sys
from evalspec import labels
for number in range(int(sys.argv[2])):
    made = labels.label("latest", f"s{number % 4}", ("good", "bad")[number % 2], by=sys.argv[1], note=str(number))
    print(made.note, flush=True)
"""


def start_writer(who, count):
    return subprocess.Popen([sys.executable, "-c", WRITER, who, str(count)], stdout=subprocess.PIPE, text=True)


def test_two_writers_at_once_lose_nothing(labelled):
    writers = [start_writer(who, 20) for who in ("ada", "ada", "ben")]
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    made = labels.list_labels(history=True)
    assert len(made) == 60
    assert {(one.sample, one.labeller): one.note for one in labels.list_labels()} == {
        (f"s{n}", who): str(16 + n) for n in range(4) for who in ("ada", "ben")
    }


def test_a_killed_writer_leaves_what_it_has_said(labelled):
    writer = start_writer("ada", 100_000)
    said = [writer.stdout.readline().strip() for _ in range(15)]
    os.kill(writer.pid, signal.SIGKILL)
    said += writer.stdout.read().split()
    writer.wait()
    writer.stdout.close()
    found = [one.note for one in labels.list_labels(history=True)]
    assert found[: len(said)] == said
    assert len(found) <= len(said) + 1


def test_a_clock_that_was_set_back_changes_no_order(labelled, monkeypatch):
    class Earlier(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2020, 1, 1, tzinfo=tz)

    (first,) = labelled.say("s0", ada="good")
    monkeypatch.setattr(files, "datetime", Earlier)
    (second,) = labelled.say("s0", ada="bad")
    assert datetime.fromisoformat(second.at) - datetime.fromisoformat(first.at) == timedelta(microseconds=1)
    assert labels.list_labels() == [second]
    assert datetime.fromisoformat(first.at).tzinfo == UTC


def test_damage_is_reported_with_its_line(labelled):
    (made,) = labelled.say("s0", ada="good")
    (path,) = labelled.files(made.run)
    whole = path.read_text()
    for content, said in (
        (whole.replace('"good"', '"fine"'), f"{path}:1: verdict: "),
        (whole.replace('"good"', '"agree"'), f"{path}:1: verdict: a reply cannot be 'agree'"),
        (whole.replace(made.run, made.run[:-1] + "x"), f"{path}:1: run: a label of run "),
        (whole + "{", f"{path}:2: not valid JSON"),
        ("", f"{path}: the file is empty"),
    ):
        path.write_text(content)
        with pytest.raises(InvalidInput) as caught:
            labels.list_labels()
        assert said in str(caught.value), content
    path.write_text(whole.replace('"attempt"', '"later": 1, "attempt"'))
    assert labels.list_labels() == [made], "keys of later releases are ignored"


def test_files_are_private_and_never_change(labelled):
    (made,) = labelled.say("s0", ada="good")
    (path,) = labelled.files(made.run)
    before = path.read_bytes()
    labelled.say("s0", ada="bad", ben="good")
    assert path.read_bytes() == before
    assert len(labelled.files(made.run)) == 3
    assert path.stat().st_mode & 0o077 == 0
