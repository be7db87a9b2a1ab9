"""The pages of datasets by HTTP: lists, problems with lines and fixes, coverage, uploads from preview to version."""

import json
import os
import re
import time
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from evalspec.api.public import validate
from evalspec.service import dataset_checks, jobs, uploaded_datasets
from evalspec.service.dataset_checks import run_dataset_check
from evalspec.service.jobs import JobStatus
from evalspec.service.pages import datasets_pages
from evalspec.service.serving import purge_expired
from evalspec.service.settings import Project
from evalspec.service.tokens import Scope
from hostile_texts import HOSTILE
from service.pages.shops import write_hostile_shop, write_shop
from service.pages.visitors import BROWSER, Visitor, text_of

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

UPLOAD = "/datasets/upload"
BROKEN = """\
{"id": "a", "input": "Q?", "expected": "A"}
{"input": "Q?"}
not json
{"input": "Q", "expected": "", "tgs": []}
"""
QUERY = {"query_id": "q1", "query_input": {"query": "boots"}, "relevant_documents": ["a1", "a2"]}


@pytest.fixture
def shop(projects):
    """A project with a manifest of two datasets whose scorer must not be imported."""
    folder = write_shop(projects["shop"])
    (folder / "own_metrics.py").write_text("open('imported', 'w')\n")
    return folder


@pytest.fixture
def ben(client, engine):
    return Uploader(client, engine)


class Uploader(Visitor):
    """Somebody who uploads files."""

    def upload(self, content, file_name="file.jsonl", status=303, **form):
        content = content if isinstance(content, bytes) else content.encode()
        return self.post(UPLOAD, status, files={"file": (file_name, content)}, **form)


def cells_of(page, label):
    """The rows of a table, as texts of their cells."""
    (table,) = re.findall(rf'<table[^>]*aria-label="{label}".*?</table>', page, re.DOTALL)
    rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL)[1:]
    return [[text_of(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)] for row in rows]


def add_dataset(shop, name, path, **more):
    manifest = yaml.safe_load((shop / "agent.yaml").read_text())
    manifest["spec"]["evaluation"]["datasets"].append({"name": name, "path": f"$file:{path}", **more})
    (shop / "agent.yaml").write_text(yaml.safe_dump(manifest))


def test_the_list_has_the_datasets_of_manifests_and_imports_no_code(ben, shop, monkeypatch):
    monkeypatch.setattr(datasets_pages, "_LIST_SECONDS", 600.0)
    (shop / "evals").mkdir()
    (shop / "evals" / "other.yaml").write_text("apiVersion: agentspec.io/v1\nkind: AgentSpec\nspec: 3\n")
    (shop / "notes.yaml").write_text("a: b\n")
    page = ben.get("/datasets")
    rows = cells_of(page, "Datasets of agent.yaml")
    assert [(row[0].split()[0], row[2]) for row in rows] == [("answers", "24"), ("rankings", "8")]
    assert "evals/other.yaml" in text_of(page)
    assert "The manifest is not valid" in text_of(page)
    assert "notes.yaml" not in page
    assert not (shop / "imported").exists()


def test_problems_are_those_of_validate(ben, shop):
    (shop / "broken.jsonl").write_text(BROKEN)
    add_dataset(shop, "broken", "broken.jsonl")
    page = ben.get("/datasets/dataset?manifest=agent.yaml&name=broken")
    found = validate(shop / "agent.yaml", datasets=("broken",))
    expected = [problem.render().replace(f"{shop}/", "") for problem in found.problems]
    rows = cells_of(page, "Errors of the dataset")
    shown = [": ".join(filter(None, row[:2])) + f": {row[2]}" + (f". {row[3]}" if row[3] else "") for row in rows]
    assert shown == expected
    assert any(line.startswith("broken.jsonl:4: tgs: unknown key 'tgs'. did you mean 'tags'") for line in shown)
    assert "1 readable sample" in text_of(page)
    assert str(shop) not in page


def test_balance_coverage_duplicates_and_pages_of_samples(ben, shop):
    samples = [
        {"id": f"s{n}", "input": f"Q {n % 60}", "expected": "A", "metadata": {"level": n % 3, "n": n}, "tags": ["x"]}
        | ({"relevant": {"d1": 2, "d2": 1}} if n % 2 else {})
        for n in range(70)
    ]
    (shop / "many.jsonl").write_text("".join(f"{json.dumps(sample)}\n" for sample in samples))
    add_dataset(shop, "many", "many.jsonl", metrics=["exact_match"])
    path = "/datasets/dataset?manifest=agent.yaml&name=many"
    page = text_of(ben.get(path))
    assert "relevant documents per sample: 2 to 2, median 2; grades 1, 2" in page
    assert "10 samples repeat the question of an earlier one: s60 that of s0" in page
    assert "level 0 24 (34 %) 1 23 (33 %) 2 23 (33 %)" in page
    assert "relevant documents 35 (50 %) tags 70 (all)" in page
    assert "1 other metadata key not shown" in page
    assert "1 to 50 Next" in page
    assert "51 to 70 Previous" in text_of(ben.get(f"{path}&page=2"))
    assert "There are no more samples" in ben.get(f"{path}&page=3")


def test_files_outside_the_project_are_not_read(ben, shop, tmp_path):
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"input": "secret question", "expected": "A"}\n')
    add_dataset(shop, "outside", "../secret.jsonl")
    (shop / "linked").mkdir()
    (shop / "linked" / "queries.jsonl").symlink_to(secret)
    add_dataset(shop, "linked", "linked")
    for name in ("outside", "linked"):
        page = ben.get(f"/datasets/dataset?manifest=agent.yaml&name={name}")
        assert "are outside the project" in text_of(page)
        assert "secret question" not in page
    ben.get("/datasets/dataset?manifest=../docs/agent.yaml&name=qa", 422)
    ben.get("/datasets/dataset?manifest=agent.yaml&name=nothing", 404)


def test_a_large_dataset_is_checked_by_a_worker(ben, shop, engine, monkeypatch):
    monkeypatch.setattr(dataset_checks, "SMALL_BYTES", 10)
    monkeypatch.setattr(datasets_pages, "SMALL_BYTES", 10)
    path = "/datasets/dataset?manifest=agent.yaml&name=answers"
    assert "not checked yet" in ben.get("/datasets")
    for _ in range(2):
        assert "A worker checks this dataset" in ben.get(path)
    (job,) = jobs.list_jobs(engine, "shop", [dataset_checks.KIND])
    claimed = jobs.claim(engine, "worker", {"shop": 2}, 30)

    work: Any = SimpleNamespace(project=Project("shop", shop), job=claimed)
    assert claimed.id == job.id
    jobs.finish(engine, claimed, JobStatus.COMPLETED, result=run_dataset_check(work))
    assert "24 readable samples" in text_of(ben.get(path))
    (shop / "answers.jsonl").write_text('{"input": "Q", "expected": "A"}\n')
    assert "A worker checks this dataset" in ben.get(path)


def test_an_upload_with_errors_then_a_good_one(ben, shop, client, engine):
    place = ben.upload(BROKEN, "support.jsonl")
    page = ben.get(place)
    rows = cells_of(page, "Errors of the dataset")
    assert [row[0] for row in rows] == ["support.jsonl:2", "support.jsonl:3", "support.jsonl:4"]
    assert "Store it" not in page
    assert "the file has errors" in ben.post(place, 409, name="support")
    ben.post(f"{place}/discard")
    ben.get(place, 404)
    good = '{"id": "a", "input": "Q?", "expected": "A"}\n'
    stored = []
    for content in (good, good, good * 1 + '{"id": "b", "input": "P?", "expected": "B"}\n'):
        place = ben.upload(content, "support.jsonl")
        page = ben.get(place)
        assert "These are samples" in text_of(page)
        stored.append(ben.post(place, name="support"))
        assert "stored or discarded already" in ben.post(place, 404, name="support")
    assert stored[0] == stored[1] != stored[2]
    kept = shop / ".evalspec" / "uploads" / "support"
    assert sorted(path.name for path in kept.iterdir()) == ["1", "2"]
    assert [path.name for path in (kept / "1").iterdir()] == ["data.jsonl"]
    assert (kept / "1" / "data.jsonl").read_text() == good
    assert not list((shop / ".evalspec" / "staging").iterdir())
    shown = text_of(ben.get(stored[2]))
    assert "path: $file:.evalspec/uploads/support/2/data.jsonl" in shown
    assert [cells_of(ben.get("/datasets"), "Posted and uploaded datasets")[0][n][:7] for n in (0, 4)] == [
        "support",
        "2",
    ]
    manifest = yaml.safe_load((shop / "agent.yaml").read_text())
    path = "$file:.evalspec/uploads/support/2/data.jsonl"
    manifest["spec"]["evaluation"] = {"datasets": [{"name": "uploaded", "path": path, "metrics": ["exact_match"]}]}
    (shop / "other.yaml").write_text(yaml.safe_dump(manifest))
    assert validate(shop / "other.yaml").samples == {"uploaded": 2}


def test_queries_become_the_next_version_of_a_posted_dataset(ben, shop):
    lines = json.dumps(QUERY) + "\n" + json.dumps({**QUERY, "query_id": "q\u2028"}, ensure_ascii=False) + "\n"
    bad = {**QUERY, "query_id": "q2", "relevant_documents": []}
    page = ben.get(ben.upload(json.dumps({"queries": [QUERY, bad]}, indent=1), "shoes.json"))
    (row,) = cells_of(page, "Errors of the dataset")
    assert row[2:] == ["a query needs at least one relevant document", "add one, or remove the query"]
    versions = []
    for content, name in ((json.dumps({"queries": [QUERY]}), "shoes.json"), (lines, "shoes.jsonl")):
        place = ben.upload(content, name)
        assert "queries for retrievers" in ben.get(place)
        versions.append(ben.post(place, name="shoes"))
    assert [re.search(r"version=(\d)", place)[1] for place in versions] == ["1", "2"]
    page = ben.get(versions[1])
    assert "boots" in page
    assert "only 2 queries" in text_of(page)
    stored = json.loads((shop / ".evalspec" / "datasets" / "shoes" / "2.json").read_text())
    assert [query["query_id"] for query in stored["queries"]] == ["q1", "q\u2028"]
    assert "a name has no /" in ben.post(ben.upload(json.dumps({"queries": [QUERY]}), "s.json"), 422, name="a/b")


@pytest.mark.parametrize(
    ("content", "name", "status", "words"),
    [
        (b"", "a.jsonl", 422, "the file is empty"),
        (b"\x1f\x8b\x08", "a.jsonl", 415, "packed files are not accepted"),
        (b"a: b", "a.yaml", 415, "no file of samples"),
        (b"x" * 2000, "a.csv", 413, "larger than 1,000 bytes"),
        (b"x", ".jsonl", 422, "a name has no control characters"),
    ],
)
def test_refused_uploads_leave_nothing(ben, shop, monkeypatch, content, name, status, words):
    monkeypatch.setattr(uploaded_datasets, "MOST_BYTES", 1000)
    assert words in unescape(ben.upload(content, name, status))
    assert not [*(shop / ".evalspec").glob("staging/*"), *(shop / ".evalspec").glob("uploads/*")]


def test_only_its_author_sees_an_upload_and_it_expires(ben, shop, client, engine, settings):
    place = ben.upload('{"input": "Q", "expected": "A"}\n')
    Visitor(client, engine, "eve").get(place, 404)
    reader = Uploader(client, engine, "ben", [Scope.READ])
    reader.get(place, 403)
    reader.get(UPLOAD, 403)
    reader.upload("x", status=403)
    assert "Upload a dataset" not in reader.get("/datasets")
    for token in ("x", "0" * 32):
        assert client.get(f"{UPLOAD}/{token}", headers=BROWSER).status_code == 404
    others = [ben.upload(f'{{"input": "{n}", "expected": "A"}}\n') for n in range(5)]
    ben.get(place, 404)
    place = others.pop()
    for other in others:
        ben.post(f"{other}/discard")
    (staged,) = (shop / ".evalspec" / "staging").iterdir()
    an_hour_ahead = time.time() + 4000
    with pytest.MonkeyPatch.context() as clock:
        clock.setattr(time, "time", lambda: an_hour_ahead)
        purge_expired(engine, settings)
    assert staged.is_dir(), "a server with a wrong clock deletes no upload"
    os.utime(staged, (time.time() - 4000, time.time() - 4000))
    purge_expired(engine, settings)
    assert not staged.exists()
    ben.get(place, 404)


def test_hostile_texts_are_shown_and_do_nothing(ben, projects):
    folder = write_hostile_shop(projects["shop"], HOSTILE)
    name = "'><script>alert(1)<b>"
    content = (folder / "answers.jsonl").read_bytes()
    preview = ben.upload(content, "x.jsonl", name=name)
    errors = ben.upload("".join(f"{json.dumps({text: text})}\n" for text in HOSTILE.values()), "y.jsonl")
    pages = [preview, errors, "/datasets", "/datasets/dataset?manifest=agent.yaml&name=answers"]
    pages += ["/datasets/dataset?manifest=agent.yaml&name=answers&page=2"]
    shown = list(map(ben.get, pages))
    shown += map(ben.get, (ben.post(preview, name=name), "/datasets"))
    for page in shown:
        inside = page.partition("<main")[2]
        assert not re.search(r"<(?:img|iframe|base|meta http|svg onload)", inside)
        assert "<script>alert" not in inside
        assert not re.search("[\x1b\u202e\u2028\x9b]", inside)


def test_without_datasets_the_page_says_what_to_do(client, engine, projects):
    (projects["shop"] / "agent.yaml").unlink()
    page = Visitor(client, engine).get("/datasets")
    assert "evalspec init" in page
    assert "can be uploaded here" in page
