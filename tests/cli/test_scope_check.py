"""`evalspec retrievers check`: real stores that keep scopes apart and that do not; every way out leaves them empty."""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from cli.test_retrievers import http_target, write_faq
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.runs.planning.checks import validate_manifest
from evalspec.runs.planning.options import RunOptions
from servers.faulty_agent import status
from servers.faulty_retriever import FaultyRetriever

STORE = '''
import sqlite3
from contextlib import closing
from pathlib import Path

DB = Path(__file__).with_name("store.db")


class Store:
    FIND = "SELECT id, body FROM documents WHERE scope = ?"
    DELETE = "DELETE FROM documents WHERE scope = ?"

    def _run(self, *arguments):
        with closing(sqlite3.connect(DB)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS documents (id PRIMARY KEY, scope, body)")
            return db.execute(*arguments).fetchall()

    def ingest(self, documents, scope_prefix):
        for one in documents:
            self._run("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", (one.id, scope_prefix, one.text))

    def search(self, request):
        words = set(request.query.split())
        found = self._run(self.FIND, (request.scope_prefix,))
        best = sorted(found, key=lambda row: -len(words & set(row[1].split())))
        return [id for id, _ in best][: request.top_k]

    def delete(self, scope_prefix):
        self._run(self.DELETE, (scope_prefix,))


class Like(Store):
    """The bug: _ is a wildcard of LIKE."""
    DELETE = "DELETE FROM documents WHERE id LIKE ? || '%'"


class Everywhere(Store):
    FIND = "SELECT id, body FROM documents WHERE ? != ''"


class Deaf(Store):
    DELETE = "DELETE FROM documents WHERE scope = ? || 'x'"


class Lossy(Store):
    def ingest(self, documents, scope_prefix):
        super().ingest(documents[:1], scope_prefix)


class Broken(Store):
    def search(self, request):
        raise ValueError("no index")


class Stuck(Store):
    def delete(self, scope_prefix):
        raise OSError("read-only database")


class Slow(Store):
    def search(self, request):
        import time
        DB.with_name("searching").touch()
        time.sleep(1)
        return []


class Reads:
    def search(self, request):
        return []
'''


@pytest.fixture
def stores(project):
    """A manifest with one retriever for each class of STORE, whose table holds a document of somebody else."""
    (project.folder / "store.py").write_text(STORE)
    names = ("Store", "Like", "Everywhere", "Deaf", "Lossy", "Broken", "Stuck", "Slow", "Reads")
    project.evaluation["retrievers"] = {name.casefold(): {"python": f"store:{name}"} for name in names}
    project.evaluation["retrievers"]["grid"] = {"builtin": "bm25", "k1": [1, 2]}
    project.samples(1)
    project.write()
    with closing(sqlite3.connect(project.folder / "store.db")) as db, db:
        db.execute("CREATE TABLE documents (id PRIMARY KEY, scope, body)")
        db.execute("INSERT INTO documents VALUES ('docs:1', 'docs:', 'mine')")
    return project


def rows(project) -> list[str]:
    with closing(sqlite3.connect(project.folder / "store.db")) as db, db:
        return [id for (id,) in db.execute("SELECT id FROM documents")]


@pytest.mark.parametrize(
    ("name", "code", "broken", "says"),
    [
        ("store", 0, None, None),
        ("like", 1, "delete", "also deleted 3 of 3 documents below"),
        ("everywhere", 1, "search", "finds 3 documents of"),
        ("deaf", 1, "deletes", "are found 0.1 s after they were deleted"),
        ("lossy", 1, "finds", "4 of 6 documents are not found 0.1 s after they were ingested"),
    ],
)
def test_a_store_is_checked_and_left_as_it_was(stores, name, code, broken, says):
    outcome = stores("retrievers", "check", name, "--wait", "0.1", "--json")
    assert (outcome.code, outcome.document["exitCode"], outcome.err) == (code, code, ""), outcome
    found = {finding["name"]: (finding["holds"], finding["problem"]) for finding in outcome.document["findings"]}
    assert list(found) == ["finds", "search", "deletes", "delete"]
    wrong = {key: problem for key, (holds, problem) in found.items() if holds is False}
    assert list(wrong) == ([broken] if broken else []) and (not broken or says in wrong[broken])
    first, second = outcome.document["scopePrefixes"]
    assert len(first) == len(second) and first.replace("_", "A") == second and first.startswith("eval:")
    if broken != "finds":
        assert set(outcome.document["tookMs"]) >= {"ingest", "search", "delete", "searchable"}
    if name != "deaf":
        assert rows(stores) == ["docs:1"]
    shown = stores("retrievers", "check", name, "--wait", "0.1")
    assert (shown.code, ("✗" in shown.out)) == (code, bool(broken))
    assert "took: " in shown.out


def test_a_call_that_fails_is_no_finding_and_the_documents_are_deleted(stores):
    outcome = stores("retrievers", "check", "broken")
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.startswith("evalspec: search: ValueError: no index, store.py:")
    assert rows(stores) == ["docs:1"]
    outcome = stores("retrievers", "check", "stuck", "--json")
    assert outcome.code == outcome.document["exitCode"] == 3
    messages = [error["message"] for error in outcome.document["errors"]]
    assert len(messages) == 3 and all("read-only database" in message for message in messages)
    assert sum("documents may be left below 'eval:check-" in message for message in messages) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_being_ended_leaves_nothing_behind(stores, number):
    command = [sys.executable, "-m", "evalspec", "retrievers", "check", "slow", "--wait", "60"]
    with subprocess.Popen(command, cwd=stores.folder, stderr=subprocess.PIPE, text=True) as process:
        while not (stores.folder / "searching").exists():
            assert process.poll() is None
            time.sleep(0.02)
        assert len(rows(stores)) == 7
        process.send_signal(number)
        assert process.communicate(timeout=60)[1] == "evalspec: interrupted\n"
    assert (process.returncode, rows(stores)) == (130, ["docs:1"])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("reads", "the retriever 'reads' cannot ingest or delete"),
        ("stroe", "did you mean 'store'"),
        (
            "grid",
            "is a grid of 2 retrievers, but only one can be checked at a time. choose one, for example grid[k1=1]",
        ),
    ],
)
def test_what_cannot_be_checked_is_said(stores, name, says):
    outcome = stores("retrievers", "check", name)
    assert (outcome.code, outcome.err.count("\n"), says in outcome.err) == (2, 1, True), outcome


@pytest.mark.parametrize("name", ["grid[k1=1]"])
def test_a_baseline_keeps_scopes_apart(stores, name):
    pytest.importorskip("bm25s")
    assert stores("retrievers", "check", name).code == 0


def test_a_service_is_checked(project):
    with FaultyRetriever() as service:
        service.documents = {"docs:1": {"id": "docs:1", "text": "mine"}}
        project.evaluation["retrievers"] = {"mine": http_target(service.url), "here": http_target(service.url)}
        del project.evaluation["retrievers"]["here"]["http"]["url"]
        project.samples(1)
        project.write()
        outcome = project("retrievers", "check", "mine", "--json")
        assert outcome.code == 0, outcome
        assert project("retrievers", "check", "here", "--url", service.url).code == 0
        assert "the agent has no URL" in project("retrievers", "check", "here").err
        assert list(service.documents) == ["docs:1"]
        service.script = ["ok", "ok", status(500)]
        outcome = project("retrievers", "check", "mine")
        assert (outcome.code, "search: " in outcome.err, list(service.documents)) == (3, True, ["docs:1"]), outcome
        service.script = ["ok", status(500)]
        outcome = project("retrievers", "check", "mine")
        assert (outcome.code, "ingest: " in outcome.err, list(service.documents)) == (3, True, ["docs:1"]), outcome


def test_validate_recommends_it_for_what_can_delete(stores):
    stores.evaluation["retrievers"] |= {
        "service": http_target("http://127.0.0.1:1"),
        "reader": http_target("http://127.0.0.1:1", ingest=None, delete=None),
    }
    (stores.folder / "plain.py").write_text("def search(request):\n    return []\n")
    stores.evaluation["retrievers"]["plain"] = {"python": "plain:search"}
    stores.api = {"url": "http://127.0.0.1:1"}
    outcome = stores.validate("--json")
    assert (outcome.code, outcome.document["valid"]) == (0, True), outcome
    named = [note["message"].split("'")[1] for note in outcome.document["notes"]]
    assert "service" in named and "store" in named and not {"reader", "plain", "grid"} & set(named)
    outcome = stores.validate()
    assert "check that it isolates scopes: evalspec retrievers check service agent.yaml" in outcome.err
    assert outcome.code == 0


def test_only_validate_looks_for_what_can_delete(stores):
    loaded = load_manifest(stores.folder / "agent.yaml")
    _, remarks, *_ = validate_manifest(loaded, RunOptions())
    assert not remarks, "the service validates too, and shows no remarks"


def test_a_document_outside_its_datasets_prefix_is_an_error(project):
    write_faq(project.folder)
    data = json.loads((project.folder / "faq.json").read_text())
    data["documents"].append({"sourceId": "docs:secret", "content": "not of this dataset"})
    (project.folder / "faq.json").write_text(json.dumps(data))
    project.evaluation = {
        "retrievers": {"bm25": {"builtin": "bm25"}},
        "datasets": [{"name": "faq", "path": "faq.json", "retriever": "bm25", "metrics": ["Recall@2"]}],
    }
    for outcome in (project.validate(), project.evaluate(), project.evaluate("--scope-prefix", "eval:mine:")):
        said = outcome.out + outcome.err
        assert outcome.code == 2
        assert "faq.json: documents: documents outside the dataset's own scopePrefix 'eval:faq:': 'docs:secret'" in said
    assert not (project.folder / ".evalspec").exists()
