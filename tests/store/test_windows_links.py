"""Links of runs where the system has no symbolic links that can be replaced. Only the platform's name is simulated."""

import sys
from pathlib import Path

from evalspec.runs.store.files import read_link, replace_link
from evalspec.runs.store.run_store import RunStore


def test_labels_are_files_with_the_path_of_the_run(project, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    folder = project.folder / ".evalspec"
    runs = [folder / "runs" / f"20260101T00000{number}.000Z-abc" for number in (1, 2)]
    for run in runs:
        run.mkdir(parents=True)
    store = RunStore(folder)
    for run in runs:
        store.label(run, "best")
    label = folder / "labels" / "best"
    assert label.read_bytes() == f"../runs/{runs[1].name}".encode()
    assert store.labels() == {"best": runs[1]}
    label.write_bytes(b"../../elsewhere/" + runs[0].name.encode())
    assert store.labels() == {}


def test_a_link_is_read_as_it_was_written(tmp_path, monkeypatch):
    replace_link(tmp_path / "latest", "a")
    assert read_link(tmp_path / "latest") == Path("a")
    monkeypatch.setattr(sys, "platform", "win32")
    replace_link(tmp_path / "latest", "b")
    assert (read_link(tmp_path / "latest"), (tmp_path / "latest").is_symlink()) == (Path("b"), False)
    assert read_link(tmp_path) is None
