"""A customer revokes: no byte of its text is left in the project, and everything else still works."""

import codecs
import gzip
import html
import json
import shutil
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalspec import gold, labels
from evalspec.api import gold_export
from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.blocks import hash_text, make_pin, store_text
from evalspec.curation.gold.event_files import write_event
from evalspec.curation.gold.files import read_record, write_record
from evalspec.curation.gold.protocol import review, revise_triple
from evalspec.curation.gold.quotes import Quotes
from evalspec.curation.gold.schema import Kind, SliceFile
from evalspec.curation.gold.states import State
from evalspec.model.log import LOG_RECORD, TextRecord
from evalspec.runs.store.log_records import read_log
from evalspec.runs.store.run_store import RunStore
from servers.faulty_retriever import FaultyRetriever, describe_retriever
from stored_log import keep_records

QUESTION = 'Which "zephyr" keys\nrotate monthly, über alles?'
ANSWER = "Only the zephyr master keys rotate <monthly>."
PINNED, OTHER = f"Pinned: {ANSWER}", "Pinned and public"
PIN, OTHER_PIN = make_pin(PINNED), make_pin(OTHER)


def answer(body):
    """An agent that quotes the question."""
    return {"response": f"You asked: {body['message']}", "contexts": [{"id": "b1", "text": f"about {body['message']}"}]}


@pytest.fixture
def revocable(team, project, agent):
    """A set with a customer's triple and a public one, pinned blocks and a slice; a run with a label and a baseline."""
    agent.reply = answer
    project.api = {
        "url": agent.url,
        "chatEndpoint": {"response": {"answer": "$.response", "contexts": "$.contexts[*].text"}},
    }
    gold.grant(team.root, "acme", "ada", evidence="contract")
    blocks = [{"block_id": "b1", "version": PIN}, {"block_id": "b2", "version": OTHER_PIN}]
    team.accept("a1", question=QUESTION, expected_answer=ANSWER, claims=[ANSWER], expected_block=blocks,
                source="customer", customer="acme", domain="keys", secret=QUESTION)  # fmt: skip
    team.accept("p1", question="Is it public?", expected_answer="Yes, all of it is.", source="public", domain="keys",
                expected_block={"block_id": "b1", "version": OTHER_PIN})  # fmt: skip
    for text in (PINNED, OTHER):
        store_text(team.root, text)
    write_record(team.root / "slices" / "q4.yaml", {"name": "q4", "seed": 1, "size": 2, "drawn_at": "2026-01-01",
                                                    "drawn_by": "ada", "triples": ["a1@1", "p1@1"]})  # fmt: skip
    project.evaluation["datasets"] = [
        {"name": "help", "path": "$file:gold/help", "metrics": ["string_match", "rouge"], "slices": ["domain"]}
    ]
    assert project.evaluate().code == 0
    assert project("runs", "label", "latest", "first").code == 0
    assert project("runs", "promote", "latest", "--as", "main").code == 0
    return team


def find_bytes(folder: Path) -> list[str]:
    """The files with a word of the customer, also if they are packed or escaped."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and ".git/" not in str(path):
            content = path.read_bytes()
            content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
            if b"zephyr" in content.lower() or b"uber alles" in content or b"\\u00fcber" in content:
                found.append(str(path.relative_to(folder)))
    return found


def revoke(project, *arguments):
    return project("gold", "revoke", "--customer", "acme", "--as", "ben", "--json", *arguments)


def test_nothing_is_left_and_scores_stay(revocable, project):
    (folder,) = RunStore(Path(".evalspec")).list()
    (folder / "agent.log").write_text(f"asked {QUESTION}")
    (folder / "samples.damaged-1.jsonl").write_text("a damaged zephyr")
    (folder / ".report.json.tmp").write_text("half a zephyr")
    (revocable.root / "triples" / ".evalspec-00.tmp").write_text(ANSWER)
    exported = project("gold", "export", "-o", "all.jsonl", "--to", "jsonl", "--lossy", "--as", "ada")
    assert exported.code == 0, exported.err
    before = json.loads((folder / "report.json").read_text())
    assert len(find_bytes(project.folder)) == 10
    assert f"{folder}/report.json" in find_bytes(project.folder)

    planned = revoke(project, "--dry-run").document
    assert len(find_bytes(project.folder)) == 10
    assert revocable.read().entries["a1"].is_accepted
    done = revoke(project)
    assert done.code == 0, done.out
    assert find_bytes(project.folder) == []
    document = done.document
    same = ("triples", "blocks", "slices", "exports", "runs", "baselines")
    assert {key: document[key] for key in same} == {key: planned[key] for key in same}
    assert document["triples"] == ["a1"]
    assert document["blocks"] == [f"gold/help/blocks/{hash_text(PINNED)}"]
    assert document["slices"] == {"gold/help/slices/q4.yaml": ["a1@1"]}
    assert document["exports"] == ["all.jsonl"]
    assert document["runs"] == {folder.name: 1}
    assert document["baselines"] == {"evals/baselines/main.json": 1}
    assert document["failed"] == []

    entry = revocable.read().entries["a1"]
    assert (entry.state, entry.triple) == (State.REVOKED, None)
    assert sorted(one.event.kind for one in entry.events) == ["add", "confirm", "confirm", "revoke"]
    assert {one.event.content_hash for one in entry.events} == {"0" * 32}
    assert revocable.read().grants["acme"].revoked_at is not None
    assert read_record(SliceFile, revocable.root / "slices" / "q4.yaml", []).removed == ["a1@1"]
    assert project("gold", "lint").code == 0
    assert [json.loads(line)["id"] for line in Path("all.jsonl").read_text().splitlines()] == ["p1"]

    assert project("runs", "verify", "--all").code == 0
    after = json.loads((folder / "report.json").read_text())
    assert after["verdict"] == before["verdict"]
    assert [dataset["metrics"] for dataset in after["datasets"]] == [one["metrics"] for one in before["datasets"]]
    assert [dataset["slices"] for dataset in after["datasets"]] == [one["slices"] for one in before["datasets"]]
    erased = after["datasets"][0]["samples"][0]
    assert (erased["id"], erased["digest"]) == ("a1", None)
    assert {score["reason"] for score in erased["scores"].values()} == {"erased (permission revoked)"}

    again = revoke(project)
    assert again.code == 0
    assert again.document["triples"] == []
    assert json.loads((folder / "report.json").read_text()) == after


def test_reports_work_and_what_needs_texts_refuses(revocable, project):
    revoke(project)
    outputs = ["report.html", "report.md", "report.csv", "report.junit.xml", "report.jsonl", "report.parquet"]
    shown = project("report", *(part for name in outputs for part in ("-o", name)))
    assert shown.code == 0, shown.err
    assert all(Path(name).exists() for name in outputs)
    assert "erased (permission revoked)" in Path("report.csv").read_text()
    assert find_bytes(project.folder) == []
    for refused in (
        project("rescore", "latest", "agent.yaml"),
        project("evaluate", "agent.yaml", "--resume"),
        project("evaluate", "agent.yaml", "--resume", "--retry-errors"),
    ):
        assert (refused.code, refused.out) == (2, "")
        assert "the text of 1 sample was erased, because a customer revoked it: a1" in refused.err
        assert len(refused.err.splitlines()) == 1
    after = project.evaluate()
    assert "1 triple is revoked, so not evaluated: a1" in after.err
    rows = [json.loads(line) for line in Path("report.jsonl").read_text().splitlines()]
    assert {row["sample_id"]: row["user_input"] for row in rows} == {"a1": None, "p1": "Is it public?"}
    compared = project("compare", "first", "latest", "--json")
    assert compared.code == 0, compared.err
    assert project("compare", "main", "latest").code == 0


def test_a_run_with_a_baseline_keeps_its_verdict(revocable, project):
    project.evaluation["ciGate"] = {"baseline": "main", "maxDrop": 0.9}
    assert project.evaluate("--no-judge").code in (0, 3)
    folder = RunStore(Path(".evalspec")).list()[0]
    before = json.loads((folder / "report.json").read_text())
    assert before["regressions"]
    assert revoke(project).code == 0
    after = json.loads((folder / "report.json").read_text())
    for key in ("verdict", "exitCode", "reasons", "regressions"):
        assert after[key] == before[key]
    assert project("runs", "verify", "--all").code == 0


def test_an_unfinished_run_and_one_that_never_began(revocable, project):
    (folder,) = RunStore(Path(".evalspec")).list()
    keep_records(folder / "samples.jsonl", lambda record: record["kind"] != "report")
    (folder / "report.json").unlink()
    with (folder / "samples.jsonl").open("ab") as log:
        log.write(json.dumps(QUESTION).encode())
    dead = folder.with_name("20200101T000000.000Z-dead")
    dead.mkdir()
    (dead / ".inputs.jsonl.tmp").write_text(json.dumps(QUESTION))
    done = revoke(project).document
    assert (done["runs"], done["removedRuns"]) == ({folder.name: 1}, [dead.name])
    assert find_bytes(project.folder) == []
    assert not (folder / "report.json").exists()
    assert project("runs", "verify").code == 0
    assert "not finished" not in project("report").err


def test_runs_that_cannot_be_rewritten_are_named_and_the_rest_is_done(revocable, project):
    (folder,) = RunStore(Path(".evalspec")).list()
    shutil.copytree(folder, folder.with_name("20300101T000000.000Z-copy"))
    log = folder / "samples.jsonl"
    log.write_bytes(log.read_bytes().replace(b"answered", b"answerde", 1))
    done = revoke(project)
    assert done.code == 3
    assert len(done.document["failed"]) == 1
    assert f"`evalspec runs rm {folder.name}` removes it" in done.document["failed"][0]
    assert list(done.document["runs"]) == ["20300101T000000.000Z-copy"]
    assert all(folder.name in name for name in find_bytes(project.folder))
    assert any(folder.name in line for line in done.document["unreachable"])
    project("runs", "rm", folder.name)
    assert revoke(project).code == 0
    assert find_bytes(project.folder) == []


def test_killed_at_any_change_it_is_completed_by_the_next(revocable, project, monkeypatch, tmp_path_factory):
    """Every rename and deletion once is the last thing that happens."""
    copy = tmp_path_factory.mktemp("before") / "project"
    shutil.copytree(project.folder, copy, symlinks=True)
    revoke(project)
    expected = {path: len(read) for path, read in _read_all(project.folder).items()}

    class Killed(BaseException):
        pass

    changes = 0
    while True:
        changes += 1
        left = changes
        shutil.rmtree(project.folder / "gold")
        for name in (".evalspec", "evals"):
            shutil.rmtree(project.folder / name)
        shutil.copytree(copy, project.folder, symlinks=True, dirs_exist_ok=True)

        def die(method):
            def change(path, *arguments, **named):
                nonlocal left
                if "filelock" not in str(path) and not str(path).endswith(".lock"):
                    left -= 1
                    if left == 0:
                        raise Killed
                return method(path, *arguments, **named)

            return change

        with monkeypatch.context() as patch:
            for name in ("replace", "unlink"):
                patch.setattr(Path, name, die(getattr(Path, name)))
            try:
                gold.revoke(revocable.root, "acme", "ben")
                break
            except Killed:
                pass
        assert revocable.read().entries["a1"].is_accepted == (changes == 1), "the grant is marked first"
        assert revoke(project).code == 0
        assert find_bytes(project.folder) == [], f"killed at change {changes}"
        assert project("runs", "verify", "--all").code == 0
        assert _read_all(project.folder).keys() == expected.keys()
        assert project("gold", "lint").code == 0
    assert changes > 15


def _read_all(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_a_merge_brings_back_is_found_and_deleted_again(revocable, project):
    copy = Path("copy")
    shutil.copytree(revocable.root, copy)
    revoke(project)
    for name in ("triples/a1.yaml", *(f"events/a1/{path.name}" for path in (copy / "events" / "a1").iterdir())):
        shutil.copy(copy / name, revocable.root / name)
    shutil.rmtree(copy)
    linted = project("gold", "lint")
    assert linted.code == 2
    assert "the triple is revoked, but its content is here" in linted.err
    gold.grant(revocable.root, "acme", "ada", evidence="a new contract", renew=True)
    assert revocable.read().entries["a1"].state is State.REVOKED
    revoke(project)
    assert find_bytes(project.folder) == []
    assert project("gold", "lint").code == 0


def test_a_review_that_a_merge_adds_to_a_tombstone_loses_its_note(revocable, project):
    event = revocable.read().entries["a1"].events[1].event
    revoke(project)
    write_event(revocable.root, "a1", event.model_copy(update={"note": "a zephyr question"}))
    assert "a note or hash of its content is here" in project("gold", "lint").err
    revoke(project)
    assert find_bytes(project.folder) == []
    assert project("gold", "lint").code == 0


def test_earlier_revisions_are_erased_from_runs_of_the_set_and_of_copies(revocable, project):
    """Their text is not in the set any more, so only the id, or the customer in a copy of the set, identifies them."""
    for name in ("old", "copied"):
        revocable.accept(name, question=f"An early zephyr {name}?", expected_answer="Unknown.", source="synthetic")
    project.evaluate()
    revise(revocable, "copied", customer="acme")
    for name in ("ben", "cleo"):
        review(revocable.root, "copied", name)
    assert project("convert", "gold/help", "copy.jsonl", "--to", "jsonl", "--lossy").code == 0
    kept = [line for line in Path("copy.jsonl").read_text().splitlines() if "zephyr copied" in line]
    Path("copy.jsonl").write_text(kept[0])
    project.evaluation["datasets"][0] |= {"path": "$file:copy.jsonl", "slices": []}
    assert project.evaluate().code == 0
    Path("copy.jsonl").unlink()
    for name in ("old", "copied"):
        revise(revocable, name, customer="acme", question="What else rotates?")
    assert sum("inputs.jsonl" in name for name in find_bytes(project.folder)) == 3
    assert sorted(revoke(project).document["runs"].values()) == [1, 1, 3]
    assert find_bytes(project.folder) == []
    newest = RunStore(Path(".evalspec")).list()[0]
    assert Path(".evalspec/runs/latest").readlink() == Path(newest.name)


def revise(team, name, question=None, **metadata):
    """Record a revision of ada."""
    triple = team.read().entries[name].triple
    changed = triple.metadata.model_copy(update=metadata)
    update = {"metadata": changed} | ({"question": question} if question else {})
    return revise_triple(team.root, name, triple.model_copy(update=update), "ada")


def test_passages_that_only_erased_samples_retrieved_are_erased(revocable, project):
    with FaultyRetriever() as service:
        texts = {"b1": "A zephyr passage: which zephyr keys rotate", "b2": "is it public it is", "b0": "it is"}
        service.documents = {name: {"id": name, "text": text} for name, text in texts.items()}
        search = describe_retriever().model_dump(mode="json", by_alias=True, exclude_none=True)["search"]
        project.evaluation["retrievers"] = {"service": {"http": {"url": service.url, "search": search}, "topK": 2}}
        project.evaluation["datasets"][0] |= {"metrics": ["Recall@2"], "retriever": "service"}
        assert project.evaluate().code == 0
    assert revoke(project).code == 0
    assert find_bytes(project.folder) == []
    assert project("runs", "verify", "--all").code == 0
    newest = RunStore(Path(".evalspec")).list()[0]
    log = read_log(newest / "samples.jsonl", LOG_RECORD)
    logged = [record.text for _, record in log if isinstance(record, TextRecord)]
    assert "is it public it is" in logged
    assert project("report", "-o", "report.html").code == 0


def test_children_of_a_split_go_with_their_parent(revocable, project):
    gold.grant(revocable.root, "acme", "ada", evidence="contract", terms=["Wurst"], renew=True)
    revocable.add("c1", question="Do zephyr keys rotate at all?", source="customer", customer="acme")
    (path,) = [one.path for one in revocable.read().entries["a1"].events if one.event.kind is Kind.ADD]
    event = revocable.read().entries["a1"].events[0].event
    path.unlink()
    write_event(revocable.root, "a1", event.model_copy(update={"children": ["c1"]}))
    file = revocable.root / "triples" / "c1.yaml"
    file.write_text(file.read_text().replace("source: customer", "source: public").replace("customer: acme", "x: y"))
    assert revoke(project).document["triples"] == ["a1", "c1"]
    assert find_bytes(project.folder) == []


def test_files_with_several_triples_keep_the_others(team, project):
    shutil.rmtree(team.root / "events")
    gold.grant(team.root, "acme", "ada", evidence="contract")
    kept = "# a comment\nid: {id}\nquestion: Kept?\nexpected_block: {{block_id: b}}\n"
    own = (
        "id: {id}\nquestion: A zephyr?\nexpected_block: {{block_id: b}}\nmetadata: {{source: customer, customer: acme}}"
    )
    (team.root / "triples" / "many.yaml").write_text("---\n".join([own.format(id="a") + "\n", kept.format(id="b")]))
    listed = [{"id": name, "question": "Which zephyr?", "expected_block": {"block_id": "b"}} for name in "cd"]
    listed[0]["metadata"] = {"source": "customer", "customer": "acme"}
    listed[1]["question"] = "Kept?"
    (team.root / "triples" / "list.yaml").write_text(json.dumps(listed))
    assert revoke(project).document["triples"] == ["a", "c"]
    assert (team.root / "triples" / "b.yaml").read_text() == kept.format(id="b")
    assert find_bytes(project.folder) == []
    assert sorted(team.read().entries) == ["b", "d"]
    assert not (team.root / "events").exists()


def test_what_is_left_of_a_file_never_replaces_another_file(team, project):
    shutil.rmtree(team.root / "events")
    gold.grant(team.root, "acme", "ada", evidence="contract")
    files: Any = {
        "bundle": {"x": {"source": "customer", "customer": "acme"}, "y": {}},
        "y": {"p": {}, "q": {}},
    }
    for file, triples in files.items():
        listed = [
            {"id": name, "question": f"{name}?", "expected_block": {"block_id": "b"}, "metadata": metadata}
            for name, metadata in triples.items()
        ]
        (team.root / "triples" / f"{file}.yaml").write_text(json.dumps(listed))
    assert revoke(project).document["triples"] == ["x"]
    assert {name: one.path.stem for name, one in team.read().entries.items()} == {"p": "y", "q": "y", "y": "bundle"}
    assert project("gold", "lint").code == 0


def test_what_is_out_of_reach_is_listed(revocable, project):
    commit(["remote", "add", "origin", "../elsewhere"])
    project("report", "-o", "page.html")
    Path("notes.json").write_text(json.dumps({"q": QUESTION}))
    with gzip.open("old.jsonl.gz", "wt") as packed:
        packed.write(json.dumps(ANSWER))
    assert project("gold", "export", "-o", "gone.yaml", "--lossy", "--as", "ada").code == 0
    Path("gone.yaml").unlink()
    gold.grant(revocable.root, "acme", "ada", evidence="contract", terms=["Acme"], renew=True)
    project("runs", "label", "latest", "for-acme")
    done = revoke(project)
    assert done.code == 0
    document = done.document
    said = "\n".join(document["unreachable"])
    for line in (
        "notes.json still quotes",
        "old.jsonl.gz still quotes",
        "page.html still quotes",
        "git history: 1 commit has",
    ):
        assert line in said
    assert "pushed copies: origin" in said
    assert "gone.yaml was exported and is gone" in said
    assert "the label 'for-acme' has a term of the grant" in said
    assert "gone.yaml" not in "\n".join(revoke(project).document["unreachable"])


def commit(*more):
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"], *more):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *command], check=True)


def test_texts_that_only_earlier_revisions_pinned_are_deleted(revocable, project):
    triple = revocable.read().entries["a1"].triple
    moved = triple.model_copy(update={"expected_block": triple.blocks[1]})
    revise_triple(revocable.root, "a1", moved, "ada")
    planned = revoke(project, "--dry-run").document
    assert planned["blocks"] == [f"gold/help/blocks/{hash_text(PINNED)}"]
    assert revoke(project).document["blocks"] == planned["blocks"]
    assert find_bytes(project.folder) == []
    assert (revocable.root / "blocks" / hash_text(OTHER)).exists()


def test_a_dry_run_and_a_repetition_list_what_is_out_of_reach(revocable, project):
    gold.grant(revocable.root, "acme", "ada", evidence="contract", terms=["Initech"], renew=True)
    gold.grant(revocable.root, "globex", "ada", evidence="contract")
    commit()
    revise(revocable, "a1", question="What else rotates, and when?")
    Path("quoting.json").write_text(json.dumps({"q": ANSWER}))
    Path("earlier.jsonl").write_text(json.dumps({"id": "a1", "question": "An early zephyr?"}))
    Path("earlier.csv").write_text("id,question\na1,An early zephyr?\n")
    Path("other.json").write_text(json.dumps({"valid": "a1", "id": "a12", "text": "a1"}))
    config = revocable.root / "set.yaml"
    config.write_text(f"{config.read_text()}# for Initech\n")
    (revocable.root / "calibrations").mkdir()
    (revocable.root / "calibrations" / "x.txt").write_text(f"about {ANSWER}")
    nobody = project("gold", "revoke", "--customer", "globex", "--as", "ben", "--json").document
    planned, done, again = (revoke(project, *more).document for more in (["--dry-run"], [], []))
    for line in (
        "quoting.json still quotes the customer",
        "gold/help/calibrations/x.txt still quotes the customer",
        "earlier.jsonl has the id of a revoked triple, and may quote an earlier wording",
        "earlier.csv has the id of a revoked triple, and may quote an earlier wording",
        f"gold/help/set.yaml:{len(config.read_text().splitlines())} has a term of the grant",
        "gold/help/permissions/acme.yaml keeps the evidence and the terms, so that `gold lint` finds what comes back",
        "git history: 1 commit has these triples, with every earlier wording; `git filter-repo` rewrites them",
    ):
        assert line in planned["unreachable"]
    assert planned["unreachable"] == done["unreachable"]
    texts = {line for line in done["unreachable"] if "still quotes" in line}
    unknown = "files that quote triples without their ids: the texts are deleted, so only ids are known"
    assert set(again["unreachable"]) == (set(done["unreachable"]) - texts) | {unknown}
    assert not any(name in "\n".join(done["unreachable"]) for name in ("other.json", "runs/", "baselines"))
    assert (again["runs"], again["baselines"], again["triples"]) == ({}, {}, [])
    assert not any(word in line for line in nobody["unreachable"] for word in ("git history", "quotes", "a1"))
    assert (nobody["runs"], nobody["baselines"]) == ({}, {})
    after = project("gold", "revoke", "--customer", "globex", "--as", "ben", "--json").document
    assert (after["runs"], "git history" in str(after["unreachable"])) == ({}, False)


def test_passages_and_terms_of_the_customer_are_named_where_they_stay(revocable, project):
    gold.grant(revocable.root, "acme", "ada", evidence="contract", terms=["Initech"], renew=True)
    passage = "Staff of that company may borrow forty items at a time, for eight weeks."
    entry = gold.read_entry(revocable.root, "a1")
    version = store_text(revocable.root, passage)
    block = entry.triple.blocks[0].model_copy(update={"version": version})
    gold.revise_triple(revocable.root, "a1", entry.triple.model_copy(update={"expected_block": block}), "ada")
    Path("kb.jsonl").write_text(json.dumps({"id": "loans", "text": f"Loans. {passage}"}))
    Path("notes.md").write_text("The call with INITECH went well.")
    done = revoke(project).document
    assert "kb.jsonl has a passage that only these triples pinned" in done["unreachable"]
    assert "notes.md has a term of the grant" in done["unreachable"]


def test_a_set_outside_the_project_is_searched_too(revocable, project):
    config = revocable.root / "set.yaml"
    config.write_text(f"{config.read_text()}# {ANSWER}\n")
    Path("elsewhere").mkdir()
    done = gold.revoke(revocable.root, "acme", "ben", project=Path("elsewhere"))
    assert "gold/help/set.yaml still quotes the customer" in done.unreachable


def test_stores_of_the_sets_repository_are_searched_and_named(revocable, project, monkeypatch):
    revocable.accept("old", question="An early zephyr?", expected_answer="Unknown.", source="synthetic")
    assert project.evaluate().code == 0
    revise(revocable, "old", customer="acme", question="What else rotates?")
    done = revoke(project, "--dry-run").document
    assert (done["stores"], done["folders"]) == ([".evalspec"], ["."])
    root = revocable.root.resolve()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    apart = revoke(project, "--set", str(root), "--dry-run").document
    assert (apart["stores"], apart["runs"], apart["baselines"]) == ([], {}, {})
    assert any("stored runs: none are here or above the set" in line for line in apart["unreachable"])
    (project.folder / ".git").mkdir()
    found = project("gold", "revoke", "--customer", "acme", "--as", "ben", "--set", str(root))
    assert f"searched for stored runs: {project.folder}/.evalspec" in found.out
    assert "reissued baselines: " in found.out
    assert find_bytes(project.folder) == []


def test_the_export_keeps_other_triples_whatever_their_state(revocable, project):
    revocable.accept("p2", source="public", status="pending", question="Is it pending?")
    for name, more in (("all.yaml", []), ("own.yaml", ["--stress"])):
        if more:
            revocable.add("s1", source="synthetic", generated_by="m", customer="acme", question="A zephyr stress?")
        assert project("gold", "export", "-o", name, *more, "--lossy", "--as", "ada").code == 0
    path = Path("all.yaml")
    path.write_text(path.read_text() + "- {id: mine, question: Mine?, expected_block: {block_id: b}, note: 1}\n")
    assert revoke(project).code == 0
    assert [entry["id"] for entry in yaml.safe_load(path.read_text())] == ["p1", "p2", "mine"]
    assert not Path("own.yaml").exists()


def test_an_export_that_cannot_be_read_is_named_and_kept(revocable, project):
    assert project("gold", "export", "-o", "all.yaml", "--as", "ada").code == 0
    Path("all.yaml").write_text(f"{Path('all.yaml').read_text()}- {{")
    done = revoke(project)
    assert done.code == 3
    assert done.document["failed"][0].startswith("all.yaml:")
    assert "zephyr" in Path("all.yaml").read_text()


def test_an_export_that_was_killed_is_shortened_too(revocable, project, monkeypatch):
    assert project("gold", "export", "-o", "all.jsonl", "--to", "jsonl", "--lossy", "--as", "ada").code == 0
    revise(revocable, "a1", question="Which zephyr?")

    def die(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(gold_export, "write_dataset", die)
        gold.export(revocable.root, Path("all.jsonl"), "ada", to="jsonl", lossy=True, force=True)
    assert revoke(project).document["exports"] == ["all.jsonl"]
    assert find_bytes(project.folder) == []


@pytest.mark.parametrize("is_stored", [True, False])
def test_an_unrelated_dataset_of_the_same_name_keeps_its_baseline(revocable, project, is_stored):
    Path("other.jsonl").write_text('{"id": "a1", "input": "Is it another?", "expected": "Yes."}\n')
    project.evaluation["datasets"][0] |= {"path": "$file:other.jsonl", "slices": []}
    for folder in RunStore(Path(".evalspec")).list():
        shutil.rmtree(folder)
    for _ in range(2):
        assert project.evaluate().code == 0
    assert project("runs", "promote", "latest", "--as", "main").code == 0
    if not is_stored:
        assert project("runs", "rm", RunStore(Path(".evalspec")).list()[0].name).code == 0
    before = Path("evals/baselines/main.json").read_bytes()
    assert revoke(project).document["baselines"] == {}
    assert Path("evals/baselines/main.json").read_bytes() == before


def test_texts_of_metadata_are_searched_unless_others_have_them(revocable, project):
    background, shared = "The tenant merges with Zeta in spring", "A text that two triples have"
    revocable.accept("a2", source="customer", customer="acme", background=background, shared=shared)
    revocable.accept("p2", source="public", shared=shared)
    Path("notes.txt").write_text(f"They said: {background}.")
    Path("shared.txt").write_text(shared)
    said = "\n".join(revoke(project).document["unreachable"])
    assert "notes.txt still quotes the customer" in said
    assert "shared.txt" not in said


def test_triples_for_stress_tests_leave_their_export(revocable, project):
    for name, owner in (("own", {"customer": "acme"}), ("other", {})):
        revocable.add(name, question=f"A zephyr {name}?", source="synthetic", generated_by="model-1", **owner)
    exported = project("gold", "export", "--stress", "-o", "stress.jsonl", "--to", "jsonl", "--lossy", "--as", "ada")
    assert exported.code == 0, exported.err
    assert revoke(project).document["exports"] == ["stress.jsonl"]
    assert [json.loads(line)["id"] for line in Path("stress.jsonl").read_text().splitlines()] == ["other"]
    (record,) = (revocable.root / "exports").iterdir()
    assert "other@1" in record.read_text()
    assert "own@" not in record.read_text()


def test_an_unknown_customer_and_a_broken_set_are_refused(revocable, project):
    missing = project("gold", "revoke", "--customer", "acmee", "--as", "ben")
    assert (missing.code, missing.out) == (2, "")
    assert "did you mean 'acme'?" in missing.err
    (revocable.root / "triples" / "p1.yaml").write_text("{")
    assert revoke(project).code == 2
    assert revocable.read().grants["acme"].revoked_at is None


FORMS = [
    lambda text: text.encode(),
    lambda text: json.dumps(text).encode(),
    lambda text: json.dumps(text, ensure_ascii=False).encode(),
    lambda text: text.replace(" ", "\n  ").encode(),
    lambda text: text.upper().encode(),
    lambda text: json.dumps(text.upper()).replace("00dc", "00DC").encode(),
    lambda text: text.encode("utf-16"),
    lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    lambda text: text.replace(" ", "\n> > ").encode(),
    lambda text: json.dumps(text.replace(" ", "\n> ")).encode(),
    lambda text: html.escape(text).replace("ü", "&uuml;").encode(),
    lambda text: unicodedata.normalize("NFD", text).replace("a", "a\u00ad").encode(),
    lambda text: text.replace('"', "”").encode(),
]


@pytest.mark.parametrize("form", FORMS)
def test_quotes_are_found_in_every_form(form):
    assert Quotes([QUESTION])(form(QUESTION))
    assert not Quotes([QUESTION, "Yes"])(form("Yes, which zephyr keys"))


@pytest.mark.parametrize("text", [r"Is C:\\new\\table shared?", "It's O’Reilly's, isn't it?", "> Is it\n> quoted?"])
def test_texts_with_marks_of_their_own_are_found(text):
    for form in (text, json.dumps(text), html.escape(text), text.replace("'", "''")):
        assert Quotes([text])(form.encode())


def test_words_of_labels_are_erased_and_their_verdicts_stay(revocable, project):
    made = labels.label("latest", "a1", "bad", by="ada", note="the zephyr keys never rotate")
    other = labels.label("latest", "p1", "good", by="ada", note=f"the other one asks: {QUESTION}")
    kept = labels.label("latest", "p1", "good", by="ben", note="right")
    copies = labels.list_labels()
    labels.export_labels("copies.jsonl")
    assert project.evaluate().code == 0
    assert project("runs", "rm", "first").code == 0, "the labels of a removed run are found too"
    assert revoke(project, "--dry-run").document["labels"] == {made.run: 2}
    assert labels.list_labels(made.run) == copies
    (project.folder / "copies.jsonl").rename(project.folder.parent / "copies.jsonl")
    assert revoke(project).document["labels"] == {made.run: 2}
    assert find_bytes(project.folder / ".evalspec") == []
    found = {(one.sample, one.labeller): one for one in labels.list_labels(made.run)}
    assert (found["a1", "ada"].verdict, found["a1", "ada"].note, found["a1", "ada"].reply_digest) == ("bad", None, None)
    assert (found["p1", "ada"].verdict, found["p1", "ada"].note) == (other.verdict, None)
    assert found["p1", "ben"] == kept


def test_labels_of_erased_samples_count_and_an_import_brings_no_words_back(revocable, project):
    made = labels.label("latest", "a1", "bad", by="ada", note="zephyr")
    labels.export_labels("../copies.jsonl")
    revoke(project)
    (replies,) = labels.measure_labels().replies
    assert (replies.good.labelled, replies.good.value) == (1, 0.0)
    done = labels.import_labels("../copies.jsonl")
    assert (done.added, done.known) == ({}, 1)
    assert find_bytes(project.folder / ".evalspec") == []
    with pytest.raises(InvalidInput, match="the text of 'a1' was erased"):
        labels.label("latest", "a1", "good", by="ada")
    assert labels.list_labels(made.run)[0].verdict == "bad"
