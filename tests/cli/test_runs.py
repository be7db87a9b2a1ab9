"""Stored runs: listed, labelled, shown again, scored again, without texts, removed."""

import json
import re
import subprocess
import sys

import pytest

from evalspec.runs.store.run_log import RunLog
from servers.scripted_judge import ScriptedJudge
from stored_log import keep_records


@pytest.fixture
def stored(project, agent):
    """A project with one finished run."""
    project.api = {"url": agent.url, "chatEndpoint": {"protocol": "custom", "request": {"message": "{{input}}"}}}
    project.api["chatEndpoint"]["response"] = {
        "answer": "$.response",
        "contexts": "$.contexts[*].text",
        "contextIds": "$.contexts[*].id",
    }
    lines = [
        {"id": f"s{n}", "relevant": ["d1"], "tags": ["even" if n % 2 == 0 else "odd"], "metadata": {"level": n % 3}}
        for n in range(12)
    ]
    project.dataset("qa", lines, metrics=["string_match", "Recall@1"])
    project.evaluation |= {"thresholds": {"string_match": 0.9}, "ciGate": True}
    project.first = project.evaluate("--json").document
    return project


def files_of(project):
    return [path for path in (project.folder / ".evalspec").rglob("*") if path.is_file()]


def test_a_report_made_again_is_the_report(stored, agent):
    again = stored("report", "latest", "--json")
    assert (again.code, again.document) == (0, stored.first)
    assert len(agent.requests) == 12
    (stored.folder / "out").mkdir()
    assert stored("report", "-o", "out/again.json").code == 0
    assert json.loads((stored.folder / "out" / "again.json").read_text()) == stored.first


def test_a_run_of_the_future_is_not_listed_as_the_newest(stored):
    runs = stored.folder / ".evalspec" / "runs"
    ahead = "20990101T000000.000Z-00000001"
    (runs / stored.first["runId"]).rename(runs / ahead)
    (runs / "order").write_text(f"\n{ahead}")
    newest = stored.evaluate("--json").document["runId"]
    listed = [run["runId"] for run in stored("runs", "list", "--json").document["runs"]]
    assert listed == [newest, ahead]
    shown = stored("runs", "list").out
    assert shown.index(newest) < shown.index(ahead)
    assert stored("runs", "prune", "--keep", "1").code == 0
    assert [run["runId"] for run in stored("runs", "list", "--json").document["runs"]] == [newest]


def test_a_report_needs_neither_manifest_nor_dataset_nor_ragas(stored):
    (stored.folder / "agent.yaml").unlink()
    (stored.folder / "qa.jsonl").unlink()
    program = (
        "import sys; sys.argv = ['evalspec', 'report', '--json']; from evalspec.__main__ import main; code = main();"
        "print(sorted({'ragas', 'httpx', 'wordllama'} & set(sys.modules)), code, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=stored.folder, capture_output=True, timeout=60)
    assert done.stderr.decode().splitlines()[-1] == "[] 0"
    assert json.loads(done.stdout) == stored.first


def test_a_run_that_was_ended_is_shown_with_what_is_missing(stored):
    log = stored.folder / ".evalspec" / "runs" / "latest" / "samples.jsonl"
    keep_records(log, lambda record: record.get("id") != "s3")
    outcome = stored("report", "--json")
    assert (outcome.code, outcome.document["verdict"]) == (3, "INCOMPLETE")
    (missing,) = [s for s in outcome.document["datasets"][0]["samples"] if s["id"] == "s3"]
    assert (missing["status"], missing["error"]) == ("failed", "not asked: the run is not finished")
    assert "1 of 12 attempts are missing" in outcome.document["notes"][0]


def test_names_of_runs(stored):
    (run,) = (stored.folder / ".evalspec" / "runs").glob("*-*")
    assert stored("runs", "label", "latest", "main").code == 0
    for name in ("latest", "main", run.name, run.name[:12], str(run)):
        assert stored("report", name, "--json").document["runId"] == run.name
    listed = stored("runs", "list", "--json").document["runs"]
    (row,) = listed
    assert (row["runId"], row["status"], row["verdict"], row["labels"]) == (run.name, "finished", "PASS", ["main"])
    assert [(one["name"], one["selected"]) for one in row["datasets"]] == [("qa", 12)]
    assert list(row["datasets"][0]["metrics"]) == ["string_match", "Recall@1"]
    shown = stored("runs", "list").out
    assert re.match(rf"{run.name}  PASS +qa: 12 samples, string_match [0-9.]+, Recall@1 [0-9.]+  main\n", shown)
    assert stored("runs", "show", "main").document["datasets"][0]["selected"] == 12
    unknown = stored("report", "mian")
    assert (unknown.code, "did you mean 'main'" in unknown.err) == (2, True)
    for bad in ("latest", "2026", "a/b", "-x", ""):
        assert stored("runs", "label", "--", "main", bad).code == 2


def test_runs_alone_lists_them_and_a_tilde_counts_back(stored):
    newest = stored.evaluate("--json").document["runId"]
    assert stored("runs").out == stored("runs", "list").out != ""
    assert stored("report", "latest~1", "--json").document["runId"] == stored.first["runId"]
    assert stored("show", "latest~1", "s0", "--json").code == 0
    compared = stored("compare", "latest~1", "latest", "--json").document
    assert (compared["baseline"]["runId"], compared["candidates"][0]["runId"]) == (stored.first["runId"], newest)
    gone = stored("report", "latest~2")
    assert (gone.code, "there is no latest~2: .evalspec/runs has 2 runs" in gone.err) == (2, True)


def test_an_ambiguous_beginning_is_refused(stored):
    stored.evaluate()
    outcome = stored("report", "2")
    assert outcome.code == 2
    assert "matches 2 runs" in outcome.err


def test_removing_and_pruning_spare_what_is_labelled(stored):
    stored("runs", "label", "latest", "keep")
    for _ in range(3):
        stored.evaluate()
    runs = [row["runId"] for row in stored("runs", "list", "--json").document["runs"]]
    assert stored("runs", "prune", "--keep", "1", "--dry-run").code == 0
    assert len(stored("runs", "list", "--json").document["runs"]) == 4
    assert stored("runs", "prune", "--keep", "1").code == 0
    left = [row["runId"] for row in stored("runs", "list", "--json").document["runs"]]
    assert left == [runs[0], runs[3]]
    assert stored("runs", "rm", "keep", runs[0]).code == 0
    assert stored("runs", "list", "--json").document["runs"] == []
    assert list((stored.folder / ".evalspec" / "labels").iterdir()) == []
    outcome = stored("report")
    assert (outcome.code, "there are no runs" in outcome.err) == (2, True)


def test_rescoring_asks_nobody_and_computes_only_what_is_new(stored, agent):
    stored.evaluation["datasets"][0]["metrics"] = ["string_match", "Recall@1", "rouge"]
    stored.evaluation["thresholds"] = {"string_match": 0.9, "rouge": 0.2}
    outcome = stored("rescore", "latest", str(stored.write()), "--json")
    assert len(agent.requests) == 12
    before, after = stored.first["datasets"][0], outcome.document["datasets"][0]
    assert outcome.document["runId"] != stored.first["runId"]
    assert outcome.document["fingerprint"]["rescoredFrom"] == stored.first["runId"]
    assert after["metrics"]["string_match"] == before["metrics"]["string_match"]
    assert after["metrics"]["rouge"]["scored"] == 12
    assert stored("report", "--json").document == outcome.document, "the new run is whole"


def test_rescoring_by_a_corrected_dataset(stored, agent):
    path = stored.folder / "qa.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0].replace("Paris", "Lyon"), *lines[1:-1]]) + "\n")
    outcome = stored("rescore", "latest", "agent.yaml", "--json")
    assert "1 of the stored run's samples are no longer in dataset 'qa'" in outcome.err
    metric = outcome.document["datasets"][0]["metrics"]["string_match"]
    assert (metric["scored"], metric["value"]) == (11, pytest.approx(10 / 11))
    assert len(agent.requests) == 12


def test_the_path_of_a_link_stands_for_the_run_itself(stored):
    latest = stored.folder / ".evalspec" / "runs" / "latest"
    assert stored.evaluate("--resume", str(latest), "--json").document == stored.first
    assert latest.is_symlink()
    assert latest.resolve().name == stored.first["runId"]
    (stored.folder / "elsewhere").mkdir()
    latest.resolve().rename(stored.folder / "elsewhere" / "run")
    outcome = stored("runs", "label", "elsewhere/run", "x")
    assert (outcome.code, "is a path, not the name of a run" in outcome.err) == (2, True)


def test_judged_scores_are_paid_for_once(stored):
    rubric = {"name": "tone", "rubric": "Is it kind?", "labels": {"good": 1, "bad": 0}}
    with ScriptedJudge() as judge:
        stored.evaluation["judge"] = {"model": "m", "baseUrl": judge.url, "apiKey": "k"}
        stored.evaluation["datasets"][0]["metrics"] = ["string_match", rubric]
        stored.evaluate()
        assert len(judge.chats) == 12
        stored.evaluation["thresholds"] = {"tone": 0.9}
        assert stored("rescore", "latest", str(stored.write())).code == 0
        assert len(judge.chats) == 12, "only a limit has changed"
        assert stored("rescore", "latest", "agent.yaml", "--fresh").code == 0
        assert len(judge.chats) == 24
        stored.evaluation["judge"]["model"] = "another"
        assert stored("rescore", "latest", str(stored.write())).code == 0
        assert len(judge.chats) == 36, "another judge"


SECRET = "s3cr3t-t0ken"


@pytest.mark.parametrize("name", ["r.json", "r.html", "r.junit.xml", "r.md", "r.csv", "r.jsonl", "r.sarif"])
def test_secrets_are_in_no_file_whatever_its_form(name, stored, agent, monkeypatch):
    monkeypatch.setenv("TOKEN", SECRET)
    stored.api["chatEndpoint"]["headers"] = {"Authorization": "Bearer ${env:TOKEN}"}
    agent.reply = {"response": f"Paris, says {SECRET}", "contexts": [{"id": "d1", "text": SECRET}], "detail": SECRET}
    outcome = stored.evaluate("-o", name)
    assert agent.requests[-1].headers["authorization"] == f"Bearer {SECRET}"
    for path in [*files_of(stored), stored.folder / name]:
        assert SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in outcome.out + outcome.err
    assert "[redacted:env:" in (stored.folder / ".evalspec" / "runs" / "latest" / "samples.jsonl").read_text()


@pytest.mark.parametrize("name", ["r.json", "r.html", "r.junit.xml", "r.md", "r.csv", "r.jsonl", "r.sarif"])
def test_no_content_writes_what_was_measured_and_no_text(name, stored, agent):
    for folder in (stored.folder / ".evalspec" / "runs").glob("*-*"):
        assert stored("runs", "rm", folder.name).code == 0
    agent.reply = lambda body: {"response": "Lyon, certainly", "contexts": [{"id": "doc-seven", "text": "A passage."}]}
    outcome = stored.evaluate("--no-content", "-o", name)
    assert outcome.code == 1
    texts = ["Capital of France", "certainly", "A passage", "answered '", "doc-seven"]
    for path in [*files_of(stored), stored.folder / name]:
        content = path.read_bytes().decode("utf-8", "replace")
        assert not [text for text in texts if text in content], path
    again = stored("report", "--json").document
    assert again["datasets"][0]["metrics"]["string_match"]["value"] == 0
    assert again["datasets"][0]["selected"] == 12
    assert stored("rescore", "latest", "agent.yaml").code == 2


def test_slices_come_by_themselves_worst_first_and_small_ones_are_marked(stored, agent):
    agent.reply = lambda body: {"response": "Paris", "contexts": []}
    (dataset,) = stored.evaluate("--json").document["datasets"]
    assert [(part["name"], part["selected"], part["small"]) for part in dataset["slices"]] == [
        ("even", 6, False),
        ("odd", 6, False),
        ("level=0", 4, True),
        ("level=1", 4, True),
        ("level=2", 4, True),
    ]
    stored.evaluation["datasets"][0]["slices"] = []
    assert stored.evaluate("--json").document["datasets"][0]["slices"] == []


def test_the_worst_slice_is_first(stored, agent):
    lines = [
        {"id": f"s{n}", "input": f"q{n}", "metadata": {"level": "hard" if n % 2 else "easy"}, "relevant": ["d1"]}
        for n in range(12)
    ]
    stored.evaluation["datasets"] = []
    stored.dataset("qa", lines, metrics=["string_match"])
    agent.reply = lambda body: {"response": "Paris" if int(body["message"][1:]) % 2 == 0 else "Lyon", "contexts": []}
    (dataset,) = stored.evaluate("--json").document["datasets"]
    assert [(part["name"], part["metrics"]["string_match"]["value"]) for part in dataset["slices"]] == [
        ("level=hard", 0),
        ("level=easy", 1),
    ]


@pytest.mark.parametrize(("confidence", "code"), [(None, 0), (0.95, 1)])
def test_the_gate_can_hold_the_interval_against_the_limit(confidence, code, stored, agent):
    """11 of 12 right is above 0.9, but the interval reaches below it."""
    agent.script = []
    asked = iter(range(100))
    agent.reply = lambda body: {"response": "Lyon" if next(asked) == 0 else "Paris", "contexts": []}
    stored.evaluation["ciGate"] = {"confidence": confidence} if confidence else True
    outcome = stored.evaluate("--json")
    assert outcome.code == code
    (threshold,) = outcome.document["datasets"][0]["thresholds"]
    if confidence:
        assert threshold["bound"] < 0.9 < threshold["value"]
        assert "95 % interval reaches" in threshold["reason"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.json", b""),
        ("run.json", b"\xff\xfe\x00"),
        ("run.json", b"[" * 100_000),
        ("run.json", b'{"storeVersion": 1}'),
        ("run.json", b'{"storeVersion": 4, "fingerprint": {"startedAt": 1, "datasets": {"a": 2}}}'),
        ("run.json", b'{"storeVersion": 99, "fingerprint": {"startedAt": "", "datasets": []}}'),
        ("report.json", b""),
        ("report.json", b'{\n  "verdict": nonsense\n}'),
        ("report.json", b'{\n  "verdict": "\xff"\n}'),
    ],
)
def test_one_broken_run_is_one_unreadable_row(stored, name, content):
    broken = (stored.folder / ".evalspec" / "runs" / "latest").resolve()
    (broken / name).write_bytes(content)
    stored.evaluate()
    listed = stored("runs", "list", "--json")
    first, second = listed.document["runs"]
    assert (listed.code, first["verdict"]) == (0, "PASS")
    assert (second["runId"], second["status"]) == (broken.name, "damaged")
    assert name in second["error"]
    rows = [line for line in stored("runs", "list").out.splitlines() if not line.startswith(" ")]
    assert len(rows) == 2


def test_a_run_without_a_description_is_listed_and_pruned(stored):
    runs = stored.folder / ".evalspec" / "runs"
    ended = runs / "20261121T061500.000Z-0a1b2c3d"
    ended.mkdir()
    (ended / "samples.jsonl").touch()
    (runs / "my notes").mkdir()
    rows = stored("runs", "list", "--json").document["runs"]
    assert [row["status"] for row in rows if row["runId"] == ended.name] == ["damaged"]
    assert "there is no run.json. `evalspec runs prune` removes it" in stored("runs", "list").out
    assert stored("runs", "prune", "--keep", "5", "--dry-run").err == f"would remove {ended.name}\n"
    with RunLog(ended, redact=lambda value: value):
        for more in (["--dry-run"], []):
            pruned = stored("runs", "prune", "--keep", "5", *more)
            assert (pruned.code, pruned.err) == (0, ""), "what is being written stays"
    assert stored("runs", "prune", "--keep", "5").err == f"removed {ended.name}\n"
    assert {path.name for path in runs.iterdir()} == {"latest", "my notes", "order", stored.first["runId"]}
