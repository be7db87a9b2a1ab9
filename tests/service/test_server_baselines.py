"""Baselines of a server: who promotes, and what gates use if it answers, is gone or sends something else."""

import errno
import json
import os
import shutil
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest
import yaml
from sqlalchemy import event, select, update

import evalspec
from conftest import Project
from evalspec.base.errors import InvalidInput, Unmeasurable
from evalspec.base.json_text import compute_digest
from evalspec.runs.store.files import store_errors
from evalspec.runs.store.pushed_runs import PUSHED_NAMES, REQUIRED_NAMES
from evalspec.runs.store.run_store import keep_baseline
from evalspec.service import baselines_api, run_index
from evalspec.service.database import open_database, writing
from evalspec.service.tables import BASELINES
from evalspec.verdict.comparison.baseline import Baseline, render_baseline
from servers.service import wait_for, write_project

GATE = {"baseline": "server:main", "alpha": None, "newFailures": None}
LAST_GREEN = {**GATE, "baseline": "server:last-green/main", "anchor": "main"}


@pytest.fixture
def database(tmp_path):
    """One kind is enough: the documents are files, and test_migrations has the table."""
    return f"sqlite:///{tmp_path / 'service.db'}"


@pytest.fixture
def served(serve, monkeypatch):
    """A server that the environment names, with a token that promotes, pushes and reads."""
    served = serve()
    monkeypatch.setenv("EVALSPEC_TO", served.url)
    monkeypatch.setenv("EVALSPEC_TOKEN", served.token("push", "review"))
    monkeypatch.setenv("BUILDKITE", "true")
    monkeypatch.setenv("BUILDKITE_BRANCH", "main")
    return served


@pytest.fixture
def ci(tmp_path):
    """A project on another machine."""
    return write_project(tmp_path / "ci", ciGate=GATE)


@pytest.fixture
def command(ci, capsys, monkeypatch):
    """The command line in that project."""

    def run(*arguments):
        with monkeypatch.context() as there:
            there.chdir(ci)
            return Project(ci, capsys)(*map(str, arguments))

    return run


def gate(folder, right=6, gated=None, **options):
    """A run in which the agent is right about so many questions."""
    if gated is not None:
        write_project(folder, ciGate=gated)
    known = {f"question {n}" for n in range(right)}
    answer = lambda question: "Paris" if question in known else "Rome"  # noqa: E731
    return evalspec.evaluate(folder / "agent.yaml", agent=answer, store=folder / ".evalspec", **options)


def push_and_promote(command, run, *more):
    assert command("runs", "push", run.id).code == 0
    done = command("runs", "promote", run.id, "--as", "server:main", *more)
    assert done.code == 0, done.err
    return done


def age(folder, days):
    """Let the copy be so many days old."""
    (path,) = (folder / ".evalspec" / "baselines").glob("server%3Amain/*/origin")
    origin = json.loads(path.read_bytes())
    origin["fetchedAt"] = (datetime.now(UTC) - timedelta(days=days, hours=1)).isoformat()
    path.write_text(json.dumps(origin))
    return origin


def the_note(run):
    (note,) = [note for note in run.notes if note.startswith("baseline server:")]
    return note


def test_a_team_promotes_on_the_server_and_every_gate_uses_that(served, ci, command, monkeypatch):
    first = gate(ci)
    assert (first.verdict, first.exit_code) == ("INCOMPLETE", 3)
    assert "there is no baseline 'main'" in first.reasons[0]
    assert "evalspec runs promote RUN --as server:main" in first.reasons[0]
    early = command("runs", "promote", first.id, "--as", "server:main")
    assert f"{served.url} has no such run. push it first: evalspec runs push {first.id}" in early.err
    done = push_and_promote(command, first)
    assert f"promoted run {first.id} to server:main, as ana@example.com" in done.err

    same, worse = gate(ci), gate(ci, right=3)
    assert (same.verdict, worse.verdict) == ("PASS", "FAIL")
    assert f"baseline server:main: run {first.id}, promoted by ana@example.com on " in the_note(same)
    with writing(open_database(served.database)) as connection:  # the clock was set back since
        connection.execute(update(BASELINES).values(at=BASELINES.c.at + 86_400 * 3))
    assert ", 0 days ago" in the_note(gate(ci))
    planned = command("plan", "agent.yaml")
    assert the_note(same).split(" on ")[0] in " ".join(planned.out.split())
    assert command("rescore", same.id, "agent.yaml").code == 0

    monkeypatch.delenv("EVALSPEC_TO")
    for named in (("plan", "agent.yaml"), ("rescore", same.id, "agent.yaml")):
        assert "--to: there is no server for baseline server:main. name one" in command(*named).err
        assert command(*named, "--to", served.url).code == 0
    for names in (("server:main", worse.id), (worse.id, "server:main")):
        compared = command("compare", *names, "--to", served.url)
        assert compared.code == 0 and the_note(same).split(" on ")[0] in " ".join(compared.out.split())
    monkeypatch.setenv("EVALSPEC_TO", served.url)
    assert command("plan", "agent.yaml", "--baseline", "server:main").code == 0
    assert evalspec.plan(ci / "agent.yaml", store=ci / ".evalspec").baseline is not None
    unknown = command("compare", "server:other", worse.id)
    assert (unknown.code, f"{served.url}: there is no baseline 'other'" in unknown.err) == (3, True)
    wrong = command("compare", "server:main", worse.id, "--to", f"{served.url}/runs")
    assert f"{served.url}/runs: there is nothing at this address" in wrong.err, "the address is named"
    refused = command("compare", "server:last-green/main", worse.id)
    assert (refused.code, "'last-green/main' is not the name of a baseline" in refused.err) == (2, True)

    warned = push_and_promote(command, worse)
    assert f"run {worse.id} is promoted although its verdict is FAIL" in warned.err
    again = gate(ci, right=3)
    (outcome,) = {one.reason for one in again.regressions if one.status == "FAIL"} or {None}
    assert again.verdict == "FAIL" and outcome is not None, "the first run stays the anchor"
    push_and_promote(command, worse, "--anchor", "the new corpus is harder")
    assert gate(ci, right=3).verdict == "PASS"

    with served.client("read") as client:
        history = client.get("/v1/baselines", params={"name": "main"}).json()["promotions"]
        assert [(one["run_id"], one["reason"]) for one in history] == [
            (worse.id, "the new corpus is harder"), (worse.id, None), (first.id, None),
        ]  # fmt: skip
        assert {one["promoted_by"] for one in history} == {"ana@example.com"}
        assert client.post("/v1/baselines/main", json={"run_id": first.id}).status_code == 403
        page = client.get(f"/runs/{worse.id}", headers={"Accept": "text/html"}).text
        assert 'baseline <a href="/baselines?name=main"><bdi>main</bdi></a>, promoted by <bdi>ana@example.com' in page
        page = client.get("/baselines?name=main", headers={"Accept": "text/html"}).text
        assert [f'/runs/{one["run_id"]}"' in row for one, row in zip(history, page.split("<tr")[2:], strict=True)] == [
            True, True, True,
        ]  # fmt: skip
        assert (page.count(">current<"), page.count("the new corpus is harder")) == (1, 1)
        with writing(open_database(served.database)) as connection:  # the clock was set back since the first promotion
            connection.execute(update(BASELINES).where(BASELINES.c.number == 1).values(at=BASELINES.c.at + 86_400 * 3))
        page = client.get("/baselines", headers={"Accept": "text/html"}).text
        assert [">current<" in row for row in page.split("<tr")[2:]] == [False, True, False]
        assert "Nobody has promoted" in client.get("/baselines?name=other", headers={"Accept": "text/html"}).text


def test_only_the_document_that_was_promoted_is_a_baseline(served, ci, command, projects):
    """The code of a namespace can write its folder, and seal what it wrote."""
    good, bad = gate(ci), gate(ci, right=2)
    push_and_promote(command, good)
    (path,) = (projects["shop"] / ".evalspec" / "baselines" / "main").iterdir()
    sound, other = path.read_bytes(), render_baseline(Baseline(bad))
    for content in (other.encode(), b"{", None):
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(Unmeasurable, match=r"the document of baseline 'main' .* restore it from a backup"):
            gate(ci, right=2)
        assert command("runs", "push", bad.id).code == 0
        assert command("runs", "promote", bad.id, "--as", "server:main").code == 3, "nor does it lose its anchor"
    path.write_bytes(sound)
    assert gate(ci, right=2).verdict == "FAIL"
    path.unlink()
    assert command("runs", "promote", good.id, "--as", "server:main", "--anchor", "it was lost").code == 0
    assert gate(ci).verdict == "PASS"


def test_a_baseline_from_which_samples_were_erased_is_still_the_promoted_one(served, ci, command, projects):
    push_and_promote(command, gate(ci))
    asked = {"samples": [{"dataset": "qa", "id": "s1"}]}
    with served.client("admin") as admin:
        assert admin.post("/v1/erasure", json={**asked, "dry_run": True}).json()["baselines"] != {}
        assert admin.post("/v1/erasure", json=asked).json()["failed"] == []
        found = admin.get("/v1/baselines/main").json()
    assert '"s1"' not in found["document"] and '"s2"' in found["document"]
    assert [one.stem for one in (projects["shop"] / ".evalspec/baselines/main").iterdir()] == [found["sha256"]]


def test_the_answer_to_a_promotion_is_about_that_one(served, ci, command, engine):
    run = gate(ci)
    assert command("runs", "push", run.id).code == 0
    promoted = []

    def promote_next(_connection, _cursor, statement, _parameters, _context, _many):
        if statement.startswith("INSERT INTO baselines"):
            promoted.append("one is written")

    def promote_at_once(*_):
        if promoted == ["one is written"]:
            promoted.append("so is another")
            with writing(engine) as connection:
                row = connection.execute(select(BASELINES)).one()._asdict()
                connection.execute(BASELINES.insert().values(row | {"number": 2, "user": "ben", "reason": "a bug"}))

    event.listen(engine, "after_cursor_execute", promote_next)
    event.listen(engine, "checkin", promote_at_once)
    with served.client("review") as client:
        answer = client.post("/v1/baselines/main", json={"run_id": run.id}).json()
        newest = client.get("/v1/baselines/main").json()
    assert (answer["number"], answer["promoted_by"], answer["reason"]) == (1, "ana@example.com", None)
    assert (newest["number"], newest["promoted_by"]) == (2, "ben")


def test_parts_and_other_namespaces_are_no_baselines(served, ci, command):
    run = gate(ci)
    push_and_promote(command, run)
    part = gate(ci, sample_size=3)
    assert command("runs", "push", part.id).code == 0
    refused = command("runs", "promote", part.id, "--as", "server:main")
    assert refused.code == 3 and "has a part of the samples" in refused.err
    assert command("runs", "promote", run.id.replace("2", "1", 1), "--as", "server:main").code == 3
    with served.client("review") as client:
        for reason in (" ", "a\0b", "\0"):
            assert client.post("/v1/baselines/main", json={"run_id": run.id, "reason": reason}).status_code == 422
        for name in ("m\xe4in", "ma\u0308in", "a" + "\U00020000" * 99, "main\n", "-main", "x" * 101):
            place = f"/v1/baselines/{quote(name)}"
            assert client.post(place, json={"run_id": run.id}).status_code == 422
            assert client.get(place).status_code == 422
        assert client.post("/v1/baselines/Main-1.x_y", json={"run_id": run.id, "reason": "a\nb"}).status_code == 201
    refused = command("runs", "promote", run.id, "--as", "server:last-green/main")
    assert refused.code == 2 and "--as: 'last-green/main' is not the name of a baseline of a server." in refused.err
    with served.client("admin", namespaces=["docs"]) as other:
        assert other.get("/v1/baselines/main").status_code == 404
        assert other.post("/v1/baselines/main", json={"run_id": run.id}).status_code == 404


def pass_otherwise(folder, gated):
    """Runs that pass: one of edited questions, and one of another manifest."""
    path = folder / "qa.jsonl"
    known = path.read_bytes()
    write_project(folder, ciGate=True, thresholds={"exact_match": 0.1})
    path.write_bytes(known.replace(b'"question', b'"a question'))
    yield evalspec.evaluate(folder / "agent.yaml", agent=lambda _: "Paris", store=folder / ".evalspec")
    write_project(folder, ciGate=gated)
    other = (folder / "agent.yaml").rename(folder / "other.yaml")
    yield evalspec.evaluate(other, agent=lambda _: "Paris", store=folder / ".evalspec")
    other.rename(folder / "agent.yaml")


def test_the_last_green_run_of_a_branch_has_an_anchor(served, ci, command, monkeypatch):
    write_project(ci, ciGate={**LAST_GREEN, "anchor": None})
    refused = command("validate", "agent.yaml")
    assert refused.code == 2
    assert (
        "needs an anchor, because each run may lose a little within noise. add one, as in anchor: main" in refused.out
    )
    anchor = gate(ci, gated=GATE)
    push_and_promote(command, anchor)
    loose = {**LAST_GREEN, "maxDrop": 0.2}
    green = gate(ci, right=5, gated=loose)
    others = gate(ci, right=2), gate(ci, sample_size=3), *pass_otherwise(ci, loose)
    with monkeypatch.context() as build:  # of a fork, whose branch may have any name
        build.setenv("BUILDKITE_PULL_REQUEST", "7")
        others += (gate(ci, right=5, gated=loose),)
    assert {run.verdict for run in others[2:]} == {"PASS"}
    for run in (green, *others):
        assert command("runs", "push", run.id).code == 0
    with served.client("read") as client:
        wait_for(lambda: run.id in client.get("/v1/runs").text)  # the list is looked at once a second
    monkeypatch.setenv("BUILDKITE_BRANCH", "feature/ü?")
    assert command("runs", "push", gate(ci).id).code == 0

    found = gate(ci, right=4)
    assert f"baseline server:last-green/main: run {green.id}, " in the_note(found)
    assert "anchor promoted by ana@example.com" in the_note(found), "nobody promoted the last green run"
    assert found.verdict == "FAIL", "0.17 less than the last green run, and 0.33 less than the anchor"
    assert command("report", found.id).out.count("exact_match (anchor) ") == 1, "redacting the token keeps what it is"
    assert gate(ci, right=5).verdict == "PASS"
    of_branch = gate(ci, gated={**GATE, "baseline": "server:branch/feature/ü?", "anchor": "main"})
    assert of_branch.verdict == "PASS"
    assert not [note for note in of_branch.notes if "the best of" in note], "nobody chose the newest run"
    first = gate(ci, right=5, gated={**LAST_GREEN, "baseline": "server:last-green/none"})
    assert first.verdict == "FAIL" and f"run {anchor.id}, " in the_note(first), "without one, the anchor alone decides"


@pytest.fixture
def after_green(served, ci, command, projects, monkeypatch):
    """An anchor with two right answers, and a green run with six. Return that run's folder on the server."""
    monkeypatch.setattr(run_index, "_FRESH_SECONDS", 0.0)
    push_and_promote(command, gate(ci, right=2))
    green = gate(ci, gated=LAST_GREEN)
    assert command("runs", "push", green.id).code == 0
    assert gate(ci, right=4).verdict == "FAIL"
    return projects["shop"] / ".evalspec" / "runs" / green.id


def cut_in_half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change_a_digit(path):
    content = path.read_bytes()
    place = content.index(b"1", len(content) // 2)
    path.write_bytes(content[:place] + b"2" + content[place + 1 :])


@pytest.mark.parametrize("name", ["run.json", "samples.jsonl", "report.json"])
def test_a_damaged_run_is_not_passed_over(after_green, ci, name):
    content = (after_green / name).read_bytes()
    for damage in (cut_in_half, change_a_digit, Path.unlink):
        damage(after_green / name)
        with pytest.raises(Unmeasurable, match=f"run {after_green.name} is damaged"):
            gate(ci, right=4)
        (after_green / name).write_bytes(content)
    assert gate(ci, right=4).verdict == "FAIL"


def test_a_run_that_is_restored_with_its_old_time_is_used_again(after_green, ci):
    path = after_green / "report.json"
    content, time = path.read_bytes(), path.stat()
    change_a_digit(path)
    os.utime(path, ns=(time.st_atime_ns, time.st_mtime_ns))
    with pytest.raises(Unmeasurable, match="is damaged"):
        gate(ci, right=4)
    path.write_bytes(content)
    os.utime(path, ns=(time.st_atime_ns, time.st_mtime_ns))
    assert gate(ci, right=4).verdict == "FAIL"


def test_only_a_finished_run_that_may_be_of_the_branch_can_be_the_newest(after_green, ci, command, monkeypatch):
    killed = after_green.with_name(f"{datetime.now(UTC) + timedelta(minutes=1):%Y%m%dT%H%M%S}.000Z-00000000")
    killed.mkdir()
    (killed / "samples.jsonl").touch()
    with monkeypatch.context() as there:
        there.setenv("BUILDKITE_PULL_REQUEST", "7")
        of_pull_request = gate(ci)
        assert command("runs", "push", of_pull_request.id).code == 0
    cut_in_half(after_green.parent / of_pull_request.id / "run.json")
    with monkeypatch.context() as there:
        there.delenv("BUILDKITE")
        of_no_branch = gate(ci)
        assert command("runs", "push", of_no_branch.id).code == 0
    cut_in_half(after_green.parent / of_no_branch.id / "report.json")
    assert gate(ci, right=4).verdict == "FAIL"


def test_a_run_that_cannot_be_read_now_is_not_called_damaged(after_green, ci, monkeypatch):
    def fail(folder):
        with store_errors(folder):
            raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(baselines_api, "open_run", fail)
    assert "so a copy is used" in the_note(gate(ci, right=4))


def test_runs_of_other_manifests_do_not_hide_the_last_green_one(after_green, ci, projects, monkeypatch):
    monkeypatch.setattr(baselines_api, "_RUNS_AT_ONCE", 2)
    for _ in range(5):
        for run in pass_otherwise(ci, LAST_GREEN):
            shutil.copytree(ci / ".evalspec" / "runs" / run.id, after_green.parent / run.id)
    write_project(ci, ciGate=LAST_GREEN)
    assert gate(ci, right=4).verdict == "FAIL"


def test_a_run_that_retention_deletes_meanwhile_is_not_promoted(served, ci, command, projects, monkeypatch):
    run = gate(ci)

    def delete_meanwhile(*document):
        shutil.rmtree(projects["shop"] / ".evalspec" / "runs" / run.id)
        return keep_baseline(*document)

    monkeypatch.setattr(baselines_api, "keep_baseline", delete_meanwhile)
    assert command("runs", "push", run.id).code == 0
    refused = command("runs", "promote", run.id, "--as", "server:main")
    assert refused.code == 3 and "was deleted meanwhile" in refused.err


def test_without_the_promoted_run_nobody_knows_what_measured_the_same(after_green, ci, command, served):
    with served.client("admin") as client:
        promoted = client.get("/v1/baselines").json()["promotions"][0]["run_id"]
    shutil.rmtree(after_green.parent / promoted)
    with pytest.raises(Unmeasurable, match=f"the promoted run {promoted} is gone or damaged.*promote another"):
        gate(ci, right=4)
    assert gate(ci, right=1, gated=GATE).verdict == "FAIL", "the baseline itself is a document of its own"


def test_an_anchor_that_lost_samples_has_to_be_promoted_again(served, ci, command):
    push_and_promote(command, gate(ci))
    path = ci / "qa.jsonl"
    fewer = path.read_bytes().splitlines(keepends=True)[1:]

    def gate_fewer(gated):
        write_project(ci, ciGate=gated)
        path.write_bytes(b"".join(fewer))
        return gate(ci)

    push_and_promote(command, gate_fewer(GATE))
    assert gate(ci).verdict == "PASS", "somebody promoted a run without the sample"
    found = gate_fewer(LAST_GREEN)
    assert (found.verdict, found.exit_code) == ("INCOMPLETE", 3), "nobody promotes the newest run of a branch"
    assert "the anchor cannot be compared: 1 sample" in found.reasons[0]
    assert found.reasons[0].endswith("promote a run with --anchor REASON")


def test_a_drop_in_too_few_samples_is_no_reason_to_accept_the_loss(served, ci, command):
    push_and_promote(command, gate(ci))
    found = gate(ci, right=0, gated={**LAST_GREEN, "alpha": 0.05}, sample_size=4)
    of_anchor = found.reasons[-1]
    assert found.verdict == "INCOMPLETE" and "cannot show a drop at alpha" in of_anchor
    assert "anchor cannot be compared" not in of_anchor and "--anchor" not in of_anchor


def test_a_server_that_is_gone_leaves_a_copy_for_some_days(served, ci, command):
    run = gate(ci)
    push_and_promote(command, run)
    gate(ci, gated=LAST_GREEN)
    digest = gate(ci, gated=GATE).fingerprint.baseline.sha256
    served.stop()
    other = gate(ci, gated={**LAST_GREEN, "anchor": "other"})
    assert other.reasons[0].endswith("there is no copy of baseline server:last-green/main"), "it is of another anchor"
    write_project(ci, ciGate=GATE)
    offline = gate(ci)
    assert offline.verdict == "PASS"
    assert all(said in the_note(offline) for said in ("did not answer", "so a copy is used", "0 days ago", digest[:12]))
    compared = " ".join(command("compare", "server:main", offline.id).out.split())
    assert "so a copy is used" in compared and digest[:12] in compared
    age(ci, 13)
    assert "fetched on " in the_note(gate(ci)) and "13 days ago" in the_note(gate(ci))
    age(ci, 15)
    old = gate(ci)
    assert (old.verdict, old.exit_code) == ("INCOMPLETE", 3)
    assert old.reasons[0].endswith("is 15 days old, and ciGate.baselineMaxAge is 14 days")
    assert "so a copy is used" not in the_note(old)
    assert gate(ci, gated={**GATE, "baselineMaxAge": 15}).verdict == "PASS"
    (path,) = (ci / ".evalspec" / "baselines").glob("server%3Amain/*/*.json")
    path.write_text(path.read_text().replace('"exact_match": 1.0', '"exact_match": 0.0'))
    with pytest.raises(
        InvalidInput, match=r"this baseline was edited.* remove it; it is fetched again once http.* answers"
    ):
        gate(ci)
    path.unlink()
    assert "there is no copy of baseline server:main" in gate(ci).reasons[0]


def test_a_copy_is_for_the_token_that_fetched_it(served, ci, command, monkeypatch):
    """It may be of another project, whose baseline has the same name."""
    tokens = {name: served.token("push", "review", namespaces=(name,)) for name in ("docs", "shop")}
    for name, right in (("docs", 6), ("shop", 3)):
        monkeypatch.setenv("EVALSPEC_TOKEN", tokens[name])
        push_and_promote(command, gate(ci, right=right))
        gate(ci)
    served.stop()
    assert gate(ci, right=3).verdict == "PASS"
    monkeypatch.setenv("EVALSPEC_TOKEN", tokens["docs"])
    assert gate(ci, right=3).verdict == "FAIL"
    monkeypatch.setenv("EVALSPEC_TOKEN", "evs_ab_rotated")
    rotated = gate(ci, right=3)
    assert (rotated.verdict, rotated.exit_code) == ("INCOMPLETE", 3)
    assert rotated.reasons[0].endswith("the copy of baseline server:main was fetched with another token")
    kept = [path for path in (ci / ".evalspec").rglob("*") if path.is_file()]
    assert not [path for path in kept for token in tokens.values() if token.encode() in path.read_bytes()]


@pytest.mark.parametrize("branch", ["机" * 30, "a" * 230, "b" * 5000], ids=["Chinese", "long", "very long"])
def test_a_copy_of_a_branch_with_a_long_name(ci, monkeypatch, branch):
    gated = {**LAST_GREEN, "baseline": f"server:last-green/{branch}"}
    run = gate(ci, gated=gated)
    monkeypatch.setenv("EVALSPEC_TOKEN", "evs_ab_secret")
    with answering(200, answer(document=render_baseline(Baseline(run)))) as (url, _):
        monkeypatch.setenv("EVALSPEC_TO", url)
        assert gate(ci).verdict == "PASS"
        other = gate(ci, gated={**gated, "baseline": f"{gated['baseline']}2"})
    assert other.verdict == "PASS"
    write_project(ci, ciGate=gated)
    offline = gate(ci)
    assert offline.verdict == "PASS" and "so a copy is used" in the_note(offline)
    assert len(the_note(offline)) < 1000
    none = gate(ci, gated={**gated, "baseline": f"{gated['baseline']}3"})
    assert len(none.reasons[0]) < 1000 and "there is no copy of baseline server:last-green/" in none.reasons[0]
    (folder, _) = (ci / ".evalspec" / "baselines").iterdir()
    assert folder.name.startswith("server%3Alast-green%2F") and len(folder.name) <= 100


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(300, "so a copy is used"), (3600, "is dated in the future, and"), (None, "is undated")],
)
def test_a_copy_of_a_clock_that_is_ahead(ci, monkeypatch, seconds, said):
    run = gate(ci)
    monkeypatch.setenv("EVALSPEC_TOKEN", "evs_ab_secret")
    with answering(200, answer(document=render_baseline(Baseline(run)))) as (url, _):
        monkeypatch.setenv("EVALSPEC_TO", url)
        gate(ci)
    (path,) = (ci / ".evalspec" / "baselines").glob("*/*/origin")
    ahead = "x" if seconds is None else (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"fetchedAt": ahead}))
    found = gate(ci)
    assert found.verdict == ("PASS" if seconds == 300 else "INCOMPLETE")
    assert said in the_note(found)


def test_a_baseline_is_used_although_no_copy_of_it_can_be_kept(ci, command, monkeypatch):
    run = gate(ci)
    monkeypatch.setenv("EVALSPEC_TOKEN", "evs_ab_secret")
    (ci / ".evalspec" / "baselines").write_text("in the way")
    with answering(200, answer(document=render_baseline(Baseline(run)))) as (url, _):
        monkeypatch.setenv("EVALSPEC_TO", url)
        planned = command("plan", "agent.yaml")
        found = gate(ci, right=3)
        compared = command("compare", "server:main", found.id)
    assert (planned.code, compared.code, found.verdict) == (0, 0, "FAIL")
    assert "the offline copy cannot be written" in the_note(found)
    for done in (planned, compared):
        assert "the offline copy cannot be written" in " ".join(done.out.split())
    assert command("rescore", found.id, "agent.yaml", "--to", url).code == 3, "there is no copy"


DAMAGE = {
    "not UTF-8": lambda origin: json.dumps(origin).encode().replace(b"server:main", b"server:\xffmain"),
    "not JSON": lambda _: b"{",
    "nested": lambda _: b'{"x": ' + b"[" * 100_000,
    "long digest": lambda origin: json.dumps(origin | {"sha256": "a" * 5000}).encode(),
    "path": lambda origin: json.dumps(origin | {"sha256": f"../x/{origin['sha256']}"}).encode(),
    "other server": lambda origin: json.dumps(origin | {"server": "http://other"}).encode(),
    "no digest": lambda origin: json.dumps(origin | {"sha256": None}).encode(),
}


def test_a_damaged_copy_is_not_used(ci, monkeypatch):
    run = gate(ci)
    monkeypatch.setenv("EVALSPEC_TOKEN", "evs_ab_secret")
    with answering(200, answer(document=render_baseline(Baseline(run)))) as (url, _):
        monkeypatch.setenv("EVALSPEC_TO", url)
        gate(ci)
    (path,) = (ci / ".evalspec" / "baselines").glob("*/*/origin")
    (document,) = path.parent.glob("*.json")
    (path.parent / "x").mkdir()
    (path.parent.parent / "x").mkdir()
    (path.parent.parent / "x" / document.name).write_bytes(document.read_bytes())
    sound = json.loads(path.read_bytes())
    for name, damage in DAMAGE.items():
        path.write_bytes(damage(sound))
        found = gate(ci)
        assert (found.verdict, found.exit_code) == ("INCOMPLETE", 3), name
        assert found.reasons[0].endswith(f"the copy of baseline server:main is damaged: remove {path.parent}"), name
        assert len(found.reasons[0].splitlines()) == 1
    path.write_text(json.dumps(sound | {"promotedBy": "\x1b[31m" + "a" * 5000}))
    assert "\x1b" not in the_note(gate(ci)) and len(the_note(gate(ci))) < 1000


def test_a_fork_without_a_token_uses_the_copy_in_git(served, ci, command, monkeypatch):
    run = gate(ci)
    push_and_promote(command, run)
    with served.client("push") as client:
        document = client.get("/v1/baselines/main").json()["document"]
    monkeypatch.delenv("EVALSPEC_TOKEN")
    assert gate(ci).verdict == "INCOMPLETE"
    assert "EVALSPEC_TOKEN is not set, and there is no copy of baseline server:main in git" in gate(ci).reasons[0]
    (ci / "evals" / "baselines").mkdir(parents=True)
    (ci / "evals" / "baselines" / "main.json").write_text(document)
    fork = gate(ci)
    assert fork.verdict == "PASS"
    assert "evals/baselines/main.json of git is used; run " + run.id in the_note(fork)
    assert command("runs", "promote", run.id, "--as", "main").code == 0, "it is a baseline as any other"


@pytest.mark.parametrize(
    ("token", "line"),
    [("evs_ab_unknown", "unknown, expired or revoked"), ("read", None), ("review", None)],
)
def test_a_token_that_does_not_fit_is_one_line_before_the_first_request(served, ci, monkeypatch, token, line):
    known = {"read": ("docs", "shop"), "review": ("shop",)}
    monkeypatch.setenv("EVALSPEC_TOKEN", served.token("read", namespaces=known[token]) if token in known else token)
    if token == "review":
        assert gate(ci).verdict == "INCOMPLETE"
        return
    expected = "EVALSPEC_TOKEN: " if line else "several namespaces"
    with pytest.raises((InvalidInput, Unmeasurable), match=line or expected) as refused:
        gate(ci)
    assert len(str(refused.value).splitlines()) == 1
    assert os.environ["EVALSPEC_TOKEN"] not in str(refused.value)


@contextmanager
def answering(status, body, **headers):
    """A server with one answer, and the requests that it got."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            for part in body if isinstance(body, list) else [body]:
                try:
                    self.wfile.write(part)
                except OSError:
                    return

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(**fields):
    sound = {"run_id": "r", "promoted_by": "a", "promoted_at": "2026-11-21", "sha256": "0" * 64, "document": "{}"}
    return json.dumps(sound | fields).encode()


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"[]", b'{"document": 1}', answer(), answer(document='{"kind": "evalspec baseline"'),
     answer(document="\ud800"), answer(document="[" * 100_000), b"[" * 100_000, [b"1" * 2**20] * 80],
    ids=["html", "list", "types", "empty", "cut", "surrogate", "nested", "nested answer", "too large"],
)  # fmt: skip
def test_an_answer_that_is_no_baseline_is_not_used(ci, monkeypatch, body):
    monkeypatch.setenv("EVALSPEC_TOKEN", "evs_ab_secret")
    with answering(200, body) as (url, _):
        monkeypatch.setenv("EVALSPEC_TO", url)
        with pytest.raises((InvalidInput, Unmeasurable)) as refused:
            gate(ci)
    assert "evs_ab_secret" not in str(refused.value) and url in str(refused.value)
    assert not (ci / ".evalspec" / "runs").exists()


def other_kind(document):
    document["kind"] = "x"


def same_dataset(document):
    document["datasets"] *= 2


def same_dataset_in_anchor(document):
    anchor = {key: document[key] for key in ("runId", "verdict", "partial", "fingerprint", "datasets")}
    document["anchor"] = anchor | {"datasets": anchor["datasets"] * 2}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_kind, 'kind: "x" is not "evalspec baseline"'),
        (same_dataset, "datasets[1].name: dataset qa is duplicated"),
        (same_dataset_in_anchor, "anchor.datasets[1].name: dataset qa is duplicated"),
    ],
)
def test_a_sealed_document_that_is_no_baseline_is_not_kept(ci, command, monkeypatch, change, said):
    document = json.loads(render_baseline(Baseline(gate(ci))))
    del document["sha256"]
    change(document)
    sealed = json.dumps(document | {"sha256": compute_digest(document)})
    monkeypatch.setenv("EVALSPEC_TOKEN", "evs_ab_secret")
    with answering(200, answer(document=sealed)) as (url, _):
        refused = command("plan", "agent.yaml", "--to", url)
    assert refused.code == 2
    assert refused.err.startswith(f"evalspec: {url}: baseline server:main: {said}. ")
    assert not (ci / ".evalspec" / "baselines").exists()


@pytest.mark.parametrize("status", [422, 409, 503])
def test_a_long_answer_of_a_server_is_cut(ci, command, monkeypatch, status):
    monkeypatch.setenv("EVALSPEC_TOKEN", "evs_ab_secret")
    kind = {"Content-Type": "application/problem+json"}
    with answering(status, json.dumps({"detail": "it is " + "x" * 100_000}).encode(), **kind) as (url, _):
        for arguments in (("plan", "agent.yaml"), ("runs", "pull", "20260101T000000.000Z-0123abcd")):
            if status == 503 and arguments[0] == "runs":
                continue  # it is asked seven times
            done = command(*arguments, "--to", url)
            assert "it is xxx" in done.err + done.out
            assert len(done.err + done.out) < 3000


def test_no_redirect_gets_the_token_and_no_edited_document_is_used(served, ci, command, monkeypatch):
    push_and_promote(command, gate(ci, right=3))
    with served.client("push") as client:
        sent = client.get("/v1/baselines/main").json()
    monkeypatch.setenv("EVALSPEC_TOKEN", "evs_ab_secret")
    edited = sent | {"document": sent["document"].replace('"exact_match": 1.0', '"exact_match": 0.0', 1)}
    with answering(200, answer(**edited)) as (url, _):
        monkeypatch.setenv("EVALSPEC_TO", url)
        with pytest.raises(InvalidInput, match="this baseline was edited"):
            gate(ci)
    with answering(200, b"{}") as (elsewhere, asked), answering(307, b"", Location=elsewhere) as (url, _):
        monkeypatch.setenv("EVALSPEC_TO", url)
        with pytest.raises(Unmeasurable, match="answered 307"):
            gate(ci)
        assert asked == []
    write_project(ci, ciGate={**GATE, "baseline": "server:../main"})
    assert "write server:NAME" in command("validate", "agent.yaml").out


def test_a_run_of_other_data_is_not_compared(served, ci, command):
    write_project(ci, ciGate=GATE)
    spec = yaml.safe_load((ci / "agent.yaml").read_text())
    spec["spec"]["evaluation"]["datasets"][0]["name"] = "other"
    (ci / "agent.yaml").write_text(yaml.safe_dump(spec))
    push_and_promote(command, gate(ci))
    assert gate(ci, gated=GATE).verdict == "INCOMPLETE"


def contents(folder):
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.name in PUSHED_NAMES}


def test_everything_is_pulled_as_it_was_pushed(served, ci, command, tmp_path, capsys, monkeypatch):
    runs = [gate(ci, right=right) for right in (6, 5, 4)]
    for run in runs:
        assert command("runs", "push", run.id).code == 0
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.chdir(there)
    pull = Project(there, capsys)
    assert pull("runs", "pull", runs[1].id).out == f"{runs[1].id}  pulled\n"
    staged = there / ".evalspec" / "pulls"
    done = pull("runs", "pull", "--all", "--json")
    assert [one["isNew"] for one in json.loads(done.out)["pulled"]] == [True, False, True]
    for run in runs:
        assert contents(there / ".evalspec" / "runs" / run.id) == contents(ci / ".evalspec" / "runs" / run.id)
    assert [path for path in staged.rglob("*") if path.is_file()] == []
    assert pull("runs", "verify", "--all").code == 0
    assert "it was pushed, so it is read-only" in pull("runs", "promote", runs[0].id, "--as", "main").err
    assert pull("runs", "push", runs[0].id).code == 0, "and back again"

    changed = there / ".evalspec" / "runs" / runs[2].id / "pushed.json"
    changed.write_text(changed.read_text().replace('"content": "', '"content": "0'))
    refused = pull("runs", "pull", "--all")
    assert refused.code == 3 and "it is stored here with different content" in refused.err
    assert pull("runs", "pull", "../x").code == 3
    assert pull("runs", "pull").code == 2
    monkeypatch.setenv("EVALSPEC_TOKEN", served.token("push"))
    for scope, *arguments in (
        ("read", "pull", "--all"),
        ("read", "pull", runs[0].id),
        ("review", "promote", runs[0].id, "--as", "server:main"),
        ("push", "push", runs[0].id),
    ):
        monkeypatch.setenv("EVALSPEC_TOKEN", served.token("read" if scope == "push" else "push"))
        refused = pull("runs", *arguments)
        (line,) = refused.err.strip().splitlines()
        assert (refused.code, f"this needs the scope {scope}" in line) == (2, True), line
        assert "EVALSPEC_TOKEN: " in line and f"token create --user EMAIL --scope {scope} --namespace NS" in line


def test_a_list_of_runs_without_an_end_ends(ci, command, monkeypatch):
    monkeypatch.setenv("EVALSPEC_TOKEN", "evs_ab_secret")
    with answering(200, b'{"runs": [{"runId": "r"}], "next_cursor": "c"}') as (url, asked):
        done = command("runs", "pull", "--all", "--to", url)
    assert (done.code, len(asked)) == (3, 2)
    assert (
        done.err == "evalspec: not everything was pulled: the server sends the same runs again and again; check --to\n"
    )


def test_a_run_larger_than_the_disk_is_not_pulled(ci, command, monkeypatch):
    monkeypatch.setenv("EVALSPEC_TOKEN", "evs_ab_secret")
    files = [{"name": name, "size": 1 << 60, "sha256": "0" * 64} for name in REQUIRED_NAMES]
    with answering(200, json.dumps({"files": files}).encode()) as (url, asked):
        done = command("runs", "pull", "20260101T000000.000Z-0123abcd", "--to", url)
    assert (done.code, len(asked)) == (3, 1), done.err
    assert "MiB of it are to be pulled, and" in done.err and "MiB are free in .evalspec. free more" in done.err
    assert not list((ci / ".evalspec").glob("pulls/*/*/*"))


def test_what_arrived_before_an_interruption_is_not_sent_again(served, ci, command, tmp_path, capsys, monkeypatch):
    run = gate(ci)
    assert command("runs", "push", run.id).code == 0
    own = ci / ".evalspec" / "runs" / run.id
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.chdir(there)
    pull = Project(there, capsys)
    with served.client("read") as client:
        state = client.get(f"/v1/runs/{run.id}/files").json()
        assert client.get(f"/v1/runs/{run.id}/files/agent.log").status_code == 404
        part = client.get(f"/v1/runs/{run.id}/files/report.json", params={"offset": 10}).content
        assert part == (own / "report.json").read_bytes()[10:]
    assert {one["name"]: one["sha256"] for one in state["files"]} == contents(own)
    assert pull("runs", "pull", run.id).code == 0
    pulled = there / ".evalspec" / "runs" / run.id
    content = json.loads((pulled / "pushed.json").read_text())["content"]
    half = there / ".evalspec" / "pulls" / content / run.id
    half.mkdir(parents=True)
    (half / "report.json").write_bytes((own / "report.json").read_bytes()[:100])
    (half / "run.json").write_bytes(b"wrong")
    assert pull("runs", "rm", run.id).code == 0
    refused = pull("runs", "pull", run.id)
    assert refused.code == 3 and "run.json: the checksum does not match; pull it again" in refused.err
    assert pull("runs", "pull", run.id).code == 0
    assert contents(pulled) == contents(own)
