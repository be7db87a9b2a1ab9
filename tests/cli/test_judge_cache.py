"""The judge's cache: nothing is asked twice, no answer stands for two, and nobody else's file becomes a score."""

import asyncio
import json
import os
import random
import re
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evalspec import aevaluate
from evalspec.scoring.judge.cache_file import CacheFile, use_cache
from servers.scripted_judge import ScriptedJudge

UNGATED = "ciGate: {enabled: false, judge: {controls: false}}"
MANIFEST = f"""\
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {{name: help, version: 1.0.0, description: A help desk}}
spec:
  model: {{provider: none, id: none, apiKey: none}}
  prompts: {{system: none}}
  evaluation:
    framework: ragas
    judge: {{model: scripted, baseUrl: URL, apiKey: sk-scripted-000}}
    embeddings: {{provider: openai-compatible, model: bag, baseUrl: URL}}
    datasets:
      - {{name: rag, path: $file:rag.jsonl,
         metrics: [faithfulness, answer_relevancy, context_precision, {{name: context_recall, reference: expected}}]}}
    {UNGATED}
"""
KILLS = int(os.environ.get("JUDGE_KILLS", "3"))
FOUR = ("faithfulness", "answer_relevancy", "context_precision", "context_recall")
CONTEXTS = [f"Refunds of plan {number} are paid within 30 days." for number in range(5)]
RUN = ("evaluate", "agent.yaml", "--responses", "same", "--json")
A_SAMPLE = 9
"""Judge calls for the four metrics of one sample with five contexts."""


def write(folder, count, changed=None):
    """Write the dataset with its replies, one of which differs."""
    lines = [
        {
            "id": f"s{number}",
            "input": f"When are refunds of plan {number} paid?",
            "expected": f"Refunds of plan {number} are paid within 30 days.",
            "response": f"Refunds of plan {number} are paid within {20 if number == changed else 30} days.",
            "retrieved_contexts": CONTEXTS,
        }
        for number in range(count)
    ]
    (folder / "rag.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture(autouse=True)
def cached(monkeypatch):
    """The default of users: the cache is on."""
    monkeypatch.delenv("EVALSPEC_NO_CACHE")


class Runs:
    """Runs of recorded replies with a scripted judge. Each gives its outcome and the number of judge calls."""

    def __init__(self, project, judge):
        self.project, self.judge = project, judge
        self.file = project.folder / ".evalspec" / "cache" / "judge.sqlite3"
        self.change("URL", judge.url, MANIFEST)

    def change(self, old, new, text=None):
        path = self.project.folder / "agent.yaml"
        before = text or path.read_text(encoding="utf-8")
        assert old in before, f"nothing to replace: {old!r}"
        path.write_text(before.replace(old, new), encoding="utf-8")

    def __call__(self, *options, count=2, changed=None):
        write(self.project.folder, count, changed)
        before = len(self.judge.chats)
        outcome = self.project(*RUN, *options)
        return outcome, len(self.judge.chats) - before

    def query(self, sql, *values):
        database = sqlite3.connect(self.file)
        with database:
            rows = database.execute(sql, values).fetchall()
        database.close()
        return rows


@pytest.fixture
def runs(project):
    with ScriptedJudge() as judge:
        yield Runs(project, judge)


def start(runs):
    """A run in a process of its own."""
    command, quiet = [sys.executable, "-m", "evalspec", *RUN], subprocess.DEVNULL
    return subprocess.Popen(command, cwd=runs.project.folder, stdout=quiet, stderr=quiet)


def scores(outcome):
    return [sample["scores"] for dataset in outcome.document["datasets"] for sample in dataset["samples"]]


def test_unchanged_replies_are_not_asked_about_again(runs):
    first, calls = runs(count=3)
    assert calls == 3 * A_SAMPLE
    second, calls = runs(count=3)
    assert (calls, scores(second)) == (0, scores(first))
    assert {name: used["cached"] for name, used in second.document["judgeUsage"].items()} == dict.fromkeys(FOUR, 3)
    said = [note for note in second.document["notes"] if note.startswith("results from the judge's cache")]
    assert len(said) == 1
    assert said[0].count(time.strftime("since %Y-", time.gmtime())) == 4
    assert stat.S_IMODE(runs.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(runs.file.parent.stat().st_mode) == 0o700


def test_only_what_a_changed_reply_needs_is_asked(runs):
    runs()
    outcome, calls = runs(changed=1)
    assert calls == 3, [chat.kind for chat in runs.judge.chats[-calls:]]
    (note,) = [one for one in outcome.document["notes"] if one.startswith("results from the judge's cache")]
    assert re.search(r"; parameters that its endpoint refused \(since [-\d]+, by an unnamed model\)", note), note
    assert [one["faithfulness"]["value"] for one in scores(outcome)] == [1.0, 0.0]


def test_another_judge_metric_or_release_of_ragas_is_asked(runs, monkeypatch):
    runs()
    runs.change("model: scripted,", "model: scripted, temperature: 0.5,")
    assert runs()[1] == 2 * A_SAMPLE
    from evalspec.scoring.judge import cache

    cache.digest_scorer.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(cache, "digest_installed", lambda _package: "another")
        outcome, calls = runs()
        assert calls == 0, "its single answers are kept"
        assert outcome.document["judgeUsage"] == {}
    cache.digest_scorer.cache_clear()


def test_no_attempt_or_grade_gets_the_answer_of_another(runs):
    assert runs("--judge-repeat", "2")[1] == 2 * 2 * A_SAMPLE
    assert runs("--judge-repeat", "2")[1] == 0
    assert runs("--judge-repeat", "3")[1] == 2 * A_SAMPLE


@pytest.mark.parametrize(("option", "then"), [("--no-cache", 2 * A_SAMPLE), ("--fresh", 0)])
def test_fresh_asks_and_writes_and_no_cache_does_neither(runs, option, then):
    assert runs(option)[1] == 2 * A_SAMPLE
    assert runs.file.exists() is (option == "--fresh")
    assert runs(option)[1] == 2 * A_SAMPLE
    assert runs()[1] == then


def test_a_gate_may_ask_afresh(runs):
    runs()
    runs.change("ciGate: {", "ciGate: {fresh: true, ")
    assert runs()[1] == 2 * A_SAMPLE


def test_a_hit_loads_neither_ragas_nor_a_client(runs):
    runs()
    program = (
        "import sys; from evalspec.__main__ import main; code = main(); "
        "loaded = {'ragas', 'httpx', 'openai', 'wordllama'} & set(sys.modules); "
        "print('LOADED', *loaded, file=sys.stderr); sys.exit(code)"
    )
    before = len(runs.judge.chats), len(runs.judge.embeddings)
    done = subprocess.run(
        [sys.executable, "-c", program, *RUN], cwd=runs.project.folder, capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "LOADED"
    assert (len(runs.judge.chats), len(runs.judge.embeddings)) == before


@pytest.mark.parametrize("mode", ["wrong_count", "out_of_range", "prose", "truncated"])
def test_what_failed_a_check_is_not_kept(runs, mode):
    runs.judge.mode = mode
    runs()
    kept = {row[0] for row in runs.query("SELECT DISTINCT metric FROM entries WHERE kind = 'score'")}
    assert "faithfulness" not in kept
    runs.judge.mode = "ok"
    outcome, calls = runs()
    assert calls > 0
    assert all(one["faithfulness"]["value"] == 1.0 for one in scores(outcome))


def test_a_damaged_entry_is_asked_again_and_reported_once(runs):
    first, _ = runs()
    runs.query("UPDATE entries SET content = replace(content, '\"value\":1.0', '\"value\":0.5')")
    second, _ = runs()
    assert scores(second) == scores(first)
    assert second.err.count("an entry of the judge's cache is damaged") == 1
    third, calls = runs()
    assert (calls, "damaged" in third.err) == (0, False)


def test_a_file_that_is_no_cache_costs_a_warning_not_the_run(runs):
    runs.file.parent.mkdir(parents=True)
    runs.file.write_bytes(b"no database" * 1000)
    outcome, calls = runs()
    assert (outcome.code, calls) == (0, 2 * A_SAMPLE)
    assert outcome.err.count("the judge's cache is not used") == 1


def test_a_locked_file_costs_a_warning_not_the_run(runs, monkeypatch):
    runs()
    monkeypatch.setattr("evalspec.scoring.judge.cache_file._WAIT_SECONDS", 0.1)
    database = sqlite3.connect(runs.file, isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    outcome, calls = runs(changed=0)
    database.close()
    assert (outcome.code, calls) == (0, 2 * A_SAMPLE)
    assert outcome.err.count("the judge's cache is not used") == 1


def test_a_full_disk_costs_a_warning_not_the_run(runs):
    """No file may grow beyond what the run log needs, and the cache's needs more."""
    write(runs.project.folder, 2)
    limit = "import resource, signal, sys; sys.dont_write_bytecode = True; "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)); from evalspec.__main__ import main; main()"
    command = [sys.executable, "-c", limit, *RUN]
    done = subprocess.run(command, cwd=runs.project.folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, len(runs.judge.chats)) == (0, 2 * A_SAMPLE), done.stderr
    assert done.stderr.count("the judge's cache is not used") == 1
    assert {score["status"] for score in json.loads(done.stdout)["datasets"][0]["samples"][1]["scores"].values()} == {
        "scored"
    }


def test_two_runs_of_one_process_ask_once(runs):
    write(runs.project.folder, 3)

    async def both():
        return await asyncio.gather(*(aevaluate("agent.yaml", responses="same") for _ in range(2)))

    asyncio.run(both())
    assert len(runs.judge.chats) == 3 * A_SAMPLE


def test_a_project_that_is_not_trusted_neither_reads_nor_writes(runs):
    trust = ("--untrusted", "--allow-host", runs.judge.url.split("/")[2])
    assert runs(*trust)[1] == 2 * A_SAMPLE
    assert not runs.file.exists()
    runs()
    assert runs(*trust)[1] == 2 * A_SAMPLE


def test_a_cache_that_git_tracks_is_refused(runs):
    runs()
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run([*git, "init", "-q"], cwd=runs.project.folder, check=True)
    assert runs()[1] == 0, "an ignored one is fine"
    subprocess.run([*git, "add", "-f", str(runs.file)], cwd=runs.project.folder, check=True)
    outcome, calls = runs()
    assert (outcome.code, calls) == (2, 0)
    assert "git tracks the judge's cache" in outcome.err
    assert runs("--no-cache")[0].code == 0


def test_without_content_only_numbers_are_kept(runs):
    first, _ = runs("--no-content")
    kept = b"".join(content for (content,) in runs.query("SELECT content FROM entries"))
    assert b"refund" not in kept.lower()
    second, calls = runs("--no-content")
    assert (calls, scores(second)) == (0, scores(first))
    assert runs()[1] == 2 * A_SAMPLE, "a run with texts needs the reasons"


def test_a_secret_in_a_reply_is_redacted(runs, monkeypatch):
    monkeypatch.setenv("PLAN", "plan-0815-secret")
    runs.change("spec:\n", "spec:\n  api: {chatEndpoint: {headers: {X-Plan: $env:PLAN}}}\n")
    write(runs.project.folder, 1)
    path = runs.project.folder / "rag.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace("plan 0", "plan-0815-secret"), encoding="utf-8")
    runs.project(*RUN)
    asked = len(runs.judge.chats)
    assert asked > 0
    kept = b"".join(content for (content,) in runs.query("SELECT content FROM entries"))
    assert b"-0815" not in kept
    assert b"[redacted:env:PLAN" in kept
    runs.project(*RUN)
    assert len(runs.judge.chats) == asked


def test_another_model_behind_the_name_is_said(runs):
    runs.judge.states = {"model": "scripted-2026-01"}
    runs()
    runs.judge.states = {"model": "scripted-2026-11"}
    outcome, _ = runs(changed=0)
    said = "the judge is now the model scripted-2026-11, but cached results are of another"
    assert any(said in note for note in outcome.document["notes"])
    outcome, _ = runs("--fresh")
    assert not any("cache" in note for note in outcome.document["notes"])


def test_old_entries_are_asked_again_and_removed(runs):
    runs()
    runs.query("UPDATE entries SET asked = '2020-01-01T00:00:00+00:00' WHERE sample = 's0'")
    assert runs()[1] == A_SAMPLE
    assert runs.query("SELECT COUNT(*) FROM entries WHERE asked < '2021'") == [(0,)]


def test_entries_that_were_not_used_go_first(runs, monkeypatch):
    runs(count=1)
    runs.query("UPDATE entries SET used = '2020'")
    size = runs.query("SELECT SUM(size) FROM entries WHERE kind = 'score'")[0][0]
    monkeypatch.setattr("evalspec.scoring.judge.cache_file.MAX_BYTES", size)
    runs(count=1)  # uses the scores
    assert {row[0] for row in runs.query("SELECT DISTINCT kind FROM entries")} == {"score"}


def test_removing_runs_and_erasing_reach_the_cache(runs):
    runs(count=1)
    runs(count=2)
    names = sorted(path.name for path in (runs.project.folder / ".evalspec" / "runs").iterdir() if path.is_dir())
    newest = [name for name in names if name != "latest"][-1]
    runs.project("runs", "rm", newest)
    assert {row[0] for row in runs.query("SELECT DISTINCT sample FROM entries WHERE kind = 'score'")} == {"s0"}
    from evalspec.api.erasure import erase

    erase(runs.project.folder, samples=[("rag", "s0")])
    assert runs.query("SELECT COUNT(*) FROM entries WHERE sample <> ''") == [(0,)]
    left = b"".join(path.read_bytes() for path in runs.file.parent.iterdir())
    assert b"within 30 days" not in left


def test_rescoring_uses_the_cache(runs):
    runs()
    before = len(runs.judge.chats)
    path = runs.project.folder / ".evalspec" / "cache"
    for file in path.iterdir():
        file.unlink()
    assert runs.project("rescore", "latest", "agent.yaml").code == 0
    assert len(runs.judge.chats) == before, "scores of an unchanged metric are taken from the run"


def kill_while_it_asks(runs, chance):
    """Start a run, and kill it at a random moment after its first call; at its end if it has none."""
    before, process = len(runs.judge.chats), start(runs)
    while process.poll() is None and len(runs.judge.chats) == before:
        time.sleep(0.01)
    time.sleep(chance.uniform(0.0, 0.5))
    process.kill()
    process.wait()


def test_killed_at_any_time_nothing_is_lost_and_nothing_paid_twice_but_what_was_in_flight(runs):
    """Kills are numbered, and each number has its moment."""
    kills, round_size, paid_twice = KILLS, 3, 0
    runs.judge.delay = 0.05
    for first in range(0, kills, round_size):
        runs.judge.chats.clear()
        write(runs.project.folder, 6)
        for number in range(first, min(kills, first + round_size)):
            kill_while_it_asks(runs, random.Random(number))
        outcome, _ = runs(count=6)
        assert (outcome.code, "not used" in outcome.err, "damaged" in outcome.err) == (0, False, False), first
        assert all(score["value"] is not None for sample in scores(outcome) for score in sample.values()), first
        paid_twice += len(runs.judge.chats) - 6 * A_SAMPLE
        assert len(runs.judge.chats) <= 6 * A_SAMPLE + round_size * 8, first
        assert runs.project("cache", "clear").code == 0
    print(f"{kills} kills, paid twice: {paid_twice}")


def test_a_second_user_in_one_process_leaves_the_first_its_locks(runs):
    """Without them, another process that ends removes what the first goes on writing into."""
    folder = runs.file.parent
    first = CacheFile(folder)
    first.describe()
    use_cache(folder, CacheFile.describe, None)
    outside = f"import sqlite3; base = sqlite3.connect({str(runs.file)!r}); base.execute('SELECT 1 FROM entries')"
    subprocess.run([sys.executable, "-c", f"{outside}; base.close()"], check=True)
    assert runs.file.with_name(f"{runs.file.name}-wal").exists()
    first.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no list of open files")
def test_no_command_leaves_the_cache_open(runs):
    runs(count=1)
    for command in (["plan", "agent.yaml"], ["cache", "explain", "latest"], ["cache", "stats"], ["cache", "clear"]):
        assert runs.project(*command).code == 0
        opened = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        assert [path for path in opened if runs.file.name in path] == [], command


def test_two_processes_share_a_cache(runs):
    write(runs.project.folder, 3)
    both = [start(runs), start(runs)]
    assert [process.wait() for process in both] == [0, 0]
    assert runs(count=3)[1] == 0


def test_explain_says_what_differed_from_the_entry_before(runs):
    def why(name):
        found = runs.project("cache", "explain", "latest", "--json").document["metrics"]
        return next(one["why"] for one in found if one["kind"] == "score" and one["metric"] == name)

    runs(count=2)
    assert why("faithfulness") == {"no earlier entry": 2}
    runs(count=2, changed=1)
    assert why("faithfulness") == {"texts": 1}
    said = runs.project("cache", "explain", "latest").out
    assert "faithfulness: score: 1 from the cache, 1 asked (1 with other texts), since" in said
    runs.change("model: scripted,", "model: scripted, temperature: 0.5,")
    runs(count=2, changed=1)
    assert why("faithfulness") == {"judge": 2}
    assert "refusals: refusals" not in runs.project("cache", "explain", "latest").out


def test_the_commands_say_what_is_there(runs):
    runs(count=1)
    assert runs.project("cache", "stats", "--json").document["entries"]["score"] == 4
    found = runs.project("cache", "explain", "latest", "--json").document["metrics"]
    assert {(one["metric"], one["cached"], one["asked"]) for one in found if one["kind"] == "score"} == {
        (name, 0, 1) for name in FOUR
    }
    runs(count=1)
    assert "faithfulness: score: 1 from the cache, 0 asked, since 20" in runs.project("cache", "explain", "latest").out
    assert runs.project("cache", "clear").code == 0
    assert "no entries" in runs.project("cache", "stats").out


def test_the_folder_can_be_elsewhere(runs, monkeypatch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setenv("EVALSPEC_CACHE_DIR", str(folder))
    runs(count=1)
    assert not runs.file.exists()
    assert (folder / "judge.sqlite3").exists()


@pytest.mark.parametrize("option", ["--fresh", "--no-cache"])
def test_a_resumed_run_uses_the_cache_as_it_began(runs, option):
    """Else the second half of a fresh run would have verdicts of weeks ago."""
    runs(count=2)
    outcome, calls = runs(option, "--max-judge-calls", "12", count=2)
    assert (outcome.code, calls) == (3, 12)
    before = len(runs.judge.chats)
    outcome = runs.project(*RUN, "--resume", "--max-judge-calls", "100")
    assert outcome.code == 0, outcome.err
    assert len(runs.judge.chats) > before
    assert all(used["cached"] == 0 for used in outcome.document["judgeUsage"].values())


def test_a_header_may_decide_which_model_answers(runs):
    runs.change("apiKey: sk-scripted-000", "apiKey: sk-scripted-000, headers: {X-Model: a}")
    runs(count=1)
    runs.change("X-Model: a", "X-Model: b")
    assert runs(count=1)[1] == A_SAMPLE
    runs.change("headers: {X-Model: b}", "headers: {X-Model: b, Cookie: session-1234}")
    assert runs(count=1)[1] == 0, "credentials do not"


def test_a_header_may_decide_which_model_embeds(runs):
    runs.change("model: bag,", "model: bag, headers: {X-Model: a},")
    runs(count=1)
    before = len(runs.judge.embeddings)
    runs.change("X-Model: a", "X-Model: b")
    runs(count=1)
    assert len(runs.judge.embeddings) > before
