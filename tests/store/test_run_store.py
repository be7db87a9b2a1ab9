import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from evalspec.base.errors import InvalidInput, StoreError
from evalspec.inputs.manifest.references import References
from evalspec.model import AgentReply, Exchange, Sample, Score, ToolCall
from evalspec.model.fingerprints import Fingerprint
from evalspec.model.log import LOG_RECORD, ReplyRecord, ScoresRecord, TextRecord
from evalspec.runs.store.locks import is_being_written
from evalspec.runs.store.log_records import read_log
from evalspec.runs.store.run_log import STORE_VERSION, RunLog, compute_checksum
from evalspec.runs.store.run_store import RunStore

TOKEN = "[redacted:env:TOKEN]"
SCORES = ScoresRecord("qa", "q-1", 1, {})
NOW = datetime(2026, 11, 21, 7, 15, tzinfo=timezone(timedelta(hours=1)))


def unchanged(value):
    return value


def list_records(folder: Path) -> list[Any]:
    return [record for _, record in read_log(folder / "samples.jsonl", LOG_RECORD)]


def closed_run(root: Path) -> Path:
    with RunStore(root).create(NOW, redact=unchanged) as log:
        return log.folder


def child(script: str, *arguments: object) -> subprocess.Popen[str]:
    prelude = "import sys\nfrom pathlib import Path\nfrom evalspec.runs.store.run_log import RunLog, TextRecord\n"
    command = [sys.executable, "-c", prelude + textwrap.dedent(script), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_run_on_disk(tmp_path):
    store = RunStore(tmp_path / ".evalspec")
    with store.create(NOW, redact=unchanged) as log:
        log.write_description(Fingerprint(rescored_from="r"), {"datasets": []})
        log.append(ReplyRecord("qa", "q-1", 1, None))
        assert list_records(log.folder) == [ReplyRecord("qa", "q-1", 1, None)], "flushed at once"
        log.write_report('{"verdict": "PASS"}\n')
    folder = log.folder
    assert folder.parent == tmp_path / ".evalspec" / "runs"
    assert len(log.id) == len("20261121T061500.000Z-0a1b2c3d")
    assert log.id.startswith("20261121T061500.000Z-")
    described = json.loads((folder / "run.json").read_text())
    assert described.pop("sha256") == compute_checksum(described)
    assert described == {
        "storeVersion": STORE_VERSION,
        "fingerprint": {"rescoredFrom": "r"},
        "outline": {"datasets": []},
    }
    assert (folder / "report.json").read_text() == '{"verdict": "PASS"}\n'
    assert (tmp_path / ".evalspec" / ".gitignore").read_text() == "*\n"
    assert not list(folder.glob("*.tmp")), "no temporary file stays"


def test_latest_follows_the_last_report_and_is_relative(tmp_path):
    store = RunStore(tmp_path / "here")
    for short_id in ("00000001", "00000002"):
        with store.create(NOW, short_id, redact=unchanged) as log:
            log.write_report(short_id)
    moved = (tmp_path / "here").rename(tmp_path / "there")
    assert (moved / "runs" / "latest" / "report.json").read_text() == "00000002"


@pytest.mark.parametrize("change", [timedelta(0), timedelta(hours=-1), timedelta(days=-9000), timedelta(days=9000)])
def test_latest_is_the_run_begun_last_whatever_the_clock_says(change, tmp_path):
    store = RunStore(tmp_path)
    begun = []
    for now in (NOW, NOW + change, NOW, NOW - change):
        with store.create(now, redact=unchanged) as log:
            log.write_description(Fingerprint(), {})
        assert store.find("latest") == log.folder
        assert log.id.startswith(f"{now.astimezone(UTC):%Y%m%dT%H%M%S}.000Z-"), "no run has another one's time"
        begun.append(log.folder)
    assert store.list() == begun[::-1]


def test_folders_that_are_no_runs_do_no_harm(tmp_path):
    store = RunStore(tmp_path)
    for name in ("notes", "99999999T999999.999Z-0", "20261399T061500.000Z-00000001"):
        (store.runs / name).mkdir(parents=True)
    with store.create(NOW, redact=unchanged) as log:
        assert log.id.startswith("20261121T061500.000Z-")


def _begin(store, now, short_id):
    with store.create(now, short_id, redact=unchanged) as log:
        log.write_description(Fingerprint(), {})
    return log.folder


def test_a_store_without_an_order_repairs_itself(tmp_path):
    store = RunStore(tmp_path)
    old = [_begin(store, NOW + timedelta(days=days), f"0000000{days}") for days in (900, 901)]
    (store.runs / "order").unlink()
    assert store.list() == old[::-1], "of an old store, names were the order"
    new = _begin(store, NOW, "00000003")
    assert store.list() == [new, *old[::-1]]


def test_a_run_that_was_copied_into_the_store_stands_at_its_time(tmp_path):
    store, other = RunStore(tmp_path / "here"), RunStore(tmp_path / "there")
    ahead, first, last = (_begin(store, NOW + timedelta(hours=hours), "00000001") for hours in (90, 0, 2))
    copied = [_begin(other, NOW + timedelta(hours=hours), "00000002") for hours in (-1, 1, 3)]
    for folder in copied:
        folder.rename(store.runs / folder.name)
    names = [folder.name for folder in (copied[0], ahead, first, copied[1], last, copied[2])]
    assert [folder.name for folder in store.list()] == names[::-1]


def test_a_torn_order_loses_no_run(tmp_path):
    store = RunStore(tmp_path)
    first, second = _begin(store, NOW, "00000001"), _begin(store, NOW + timedelta(hours=1), "00000002")
    order = store.runs / "order"
    order.write_bytes(order.read_bytes()[:-9])
    third = _begin(store, NOW + timedelta(hours=2), "00000003")
    assert store.list() == [third, second, first]


def test_a_torn_line_of_the_order_joins_no_two_runs(tmp_path):
    store = RunStore(tmp_path)
    first = _begin(store, NOW, "00000001")
    order = store.runs / "order"
    for hours, bytes_left in enumerate((-1, -9, -30), 1):
        order.write_bytes(order.read_bytes()[:bytes_left])
        newest = _begin(store, NOW + timedelta(hours=hours), "00000001")
        assert store.find_unfinished() == newest
    assert store.list()[-1] == first


def test_after_the_newest_run_was_deleted_the_one_before_is_resumed(tmp_path):
    store = RunStore(tmp_path)
    first, second = _begin(store, NOW + timedelta(days=900), "00000001"), _begin(store, NOW, "00000002")
    store.remove(second)
    assert store.find_unfinished() == first
    with store.create(NOW, "00000003", redact=unchanged):
        """It fails before its description is written."""
    with pytest.raises(InvalidInput, match="00000003, left nothing to resume"):
        store.find_unfinished()


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes need privileges there")
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_the_order_is_written_into_no_file_but_its_own(tmp_path, kind):
    store, other = RunStore(tmp_path / "store"), tmp_path / "other"
    store.runs.mkdir(parents=True)
    order = store.runs / "order"
    order.symlink_to(other) if kind == "link" else os.mkfifo(order)
    with pytest.raises(StoreError, match="order"):
        store.create(NOW, redact=unchanged)
    assert not other.exists()


def test_the_store_is_private(tmp_path):
    before = os.umask(0)
    try:
        with RunStore(tmp_path / ".evalspec").create(NOW, redact=unchanged) as log:
            log.write_description(Fingerprint(), {})
            log.write_inputs([], ())
            log.write_report("{}")
            log.append(ReplyRecord("qa", "q-1", 1, None))
        with RunLog(log.folder, redact=unchanged):
            pass
        RunStore(tmp_path / ".evalspec").label(log.folder, "main")
    finally:
        os.umask(before)
    paths = [
        path for path in (tmp_path / ".evalspec").rglob("*") if not path.is_symlink() and path.name != ".gitignore"
    ]
    modes = {str(path.relative_to(tmp_path)): oct(path.stat().st_mode & 0o777) for path in paths}
    assert set(modes.values()) == {"0o600", "0o700"}, modes
    assert all((mode == "0o700") == (tmp_path / path).is_dir() for path, mode in modes.items())
    assert oct((tmp_path / ".evalspec").stat().st_mode & 0o777) == "0o700"


def test_a_gitignore_of_the_user_stays(tmp_path):
    (tmp_path / ".gitignore").write_text("!runs\n")
    RunStore(tmp_path).create(NOW, redact=unchanged).close()
    assert (tmp_path / ".gitignore").read_text() == "!runs\n"


def test_secrets_are_redacted_by_value_before_json_escapes_them(tmp_path):
    secret = 'pä"ss\\wörd\n日本'
    references = References(tmp_path, {"TOKEN": secret, "WORD": "reply"})
    references.resolve("$env:TOKEN")
    references.resolve("$env:WORD")
    sample = Sample("q-1", "hi")
    calls = (ToolCall("get", {"header": [f"Bearer {secret}"], secret: 1}),)
    with RunStore(tmp_path).create(NOW, redact=references.redact_data) as log:
        log.write_description(Fingerprint(embeddings={"headers": {"Authorization": f"Bearer {secret}"}}), {})
        log.append(
            ReplyRecord.of("qa", 1, Exchange(sample, AgentReply(f"it is {secret}", (secret,), tool_calls=calls)))
        )
        log.append(ReplyRecord.of("qa", 1, Exchange(sample, error=f"refused {secret}")))
        log.append(ScoresRecord("qa", "q-1", 1, {"m": Score.scored(1, f"says {secret}", {"seen": [secret]})}, {}))
    replied, failed, scored = list_records(log.folder)  # a variable that holds an ordinary word leaves it readable
    assert replied.reply.response == f"it is {TOKEN}"
    assert replied.reply.retrieved_contexts == (TOKEN,)
    assert replied.reply.tool_calls == (ToolCall("get", {"header": [f"Bearer {TOKEN}"], TOKEN: 1}),)
    assert failed.error == f"refused {TOKEN}"
    score = scored.scores["m"]
    assert (score.reason, score.evidence) == (f"says {TOKEN}", {"seen": [TOKEN]})
    fingerprint = json.loads((log.folder / "run.json").read_text())["fingerprint"]
    assert fingerprint["embeddings"]["headers"]["Authorization"] == f"Bearer {TOKEN}"


def test_one_process_writes_a_run(tmp_path):
    script = """
        try:
            RunLog(Path(sys.argv[1]), redact=lambda value: value)
        except Exception as error:
            print(type(error).__name__, error)
    """
    with RunStore(tmp_path).create(NOW, redact=unchanged) as log:
        log.append(SCORES)
        said, _ = child(script, log.folder).communicate(timeout=30)
        assert said.startswith("StoreError")
        assert "another evalspec process is writing this run" in said
        log.append(SCORES)
    assert child(script, log.folder).communicate(timeout=30)[0] == "", "closed: free for the next"
    assert list_records(log.folder) == [SCORES, SCORES]


def test_a_killed_run_keeps_whole_lines_and_can_be_continued(tmp_path):
    folder = closed_run(tmp_path)
    script = """
        log = RunLog(Path(sys.argv[1]), redact=lambda value: value)
        for number in range(10**9):
            log.append(TextRecord(str(number), "x" * 3000))
            if number == 300:
                print("going", flush=True)
    """
    writer = child(script, folder)
    assert writer.stdout.readline() == "going\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    log_file = folder / "samples.jsonl"
    written = [record.digest for record in list_records(folder)]
    assert written == [str(number) for number in range(len(written))]
    assert len(written) > 300
    with log_file.open("ab") as torn:
        torn.write(b'{"kind":"text","digest":"-1","te')
    with RunLog(folder, redact=unchanged) as log:
        log.append(TextRecord("last", ""))  # type: ignore[arg-type]  # as small as a record can be
    assert [record.digest for record in list_records(folder)] == [*written, "last"]


def test_a_full_disk_ends_in_one_line_and_leaves_whole_lines(tmp_path):
    """A limit on file sizes fails like a full disk does: part of a line is taken, then nothing more."""
    folder = closed_run(tmp_path)
    script = """
        import resource
        sys.dont_write_bytecode = True
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_500, 2_500))
        log = RunLog(Path(sys.argv[1]), redact=lambda value: value)
        for size in (1_000, 1_000, 1_000, 10):
            try:
                log.append(TextRecord("", "x" * size))
            except Exception as error:
                print(type(error).__name__, error)
        try:
            log.write_report("x" * 3_000)
        except Exception as error:
            print(type(error).__name__, error)
        log.close()
    """
    said, errors = child(script, folder).communicate(timeout=30)
    assert errors == ""
    first, second, report = said.splitlines()
    assert first.startswith("StoreError") and "samples.jsonl: File too large. raise the limit" in first
    assert second == first, "after a failure nothing more is taken, not even what would fit"
    assert report == first, "no report of a log that is not whole"
    assert [len(record.text) for record in list_records(folder)] == [1_000, 1_000]
    assert (folder / "samples.jsonl").read_bytes().endswith(b"\n")
    assert {path.name for path in folder.iterdir()} <= {"samples.jsonl", ".lock"}, "no half report, no temporary file"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_sync_is_told(code, tmp_path, monkeypatch):
    """The one fault that cannot be had without a broken disk, so the system call is made to fail."""
    log = RunStore(tmp_path).create(NOW, redact=unchanged)

    def broken(_descriptor):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", broken)
    log.append(SCORES)
    deadline = time.monotonic() + 60
    with pytest.raises(StoreError, match=os.strerror(code)):
        while time.monotonic() < deadline:
            log.append(SCORES)
            time.sleep(0.01)
    with pytest.raises(StoreError, match=os.strerror(code)):
        log.close()
    log.close()


@pytest.mark.parametrize(("records", "most"), [(1, 2), (640, 64)])
def test_records_are_synced_in_groups_and_at_the_end(records, most, tmp_path, monkeypatch):
    """A group ends after 64 records or a second, so a machine that stalls has more of them."""
    real, synced = os.fsync, []
    log = RunStore(tmp_path).create(NOW, redact=unchanged)
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(1), real(descriptor)))
    for _ in range(records):
        log.append(SCORES)
    log.close()
    assert 1 <= len(synced) <= most


@pytest.mark.parametrize("blocked", [".evalspec", ".evalspec/runs"])
def test_a_file_in_the_way_is_a_store_error(blocked, tmp_path):
    path = tmp_path / blocked
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    with pytest.raises(StoreError, match=r"(Not a directory|File exists)\. check the path"):
        RunStore(tmp_path / ".evalspec").create(NOW, redact=unchanged)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder in which nobody can write")
def test_a_read_only_place_is_a_store_error():
    with pytest.raises(StoreError, match=r"/proc/.*: .*everything stored so far is kept"):
        RunStore(Path("/proc/evalspec")).create(datetime.now(UTC), redact=unchanged)


def test_processes_that_only_look_do_not_take_each_other_for_writers(tmp_path):
    with ThreadPoolExecutor(3) as pool:
        seen = set(pool.map(lambda _: is_being_written(tmp_path), range(200)))
    assert seen == {False}
