"""Whatever the files of a run are: lists and pages answer, or say what is wrong. None fails."""

import os
import shutil
from random import Random

import pytest

from evalspec.service import run_index
from service.test_namespaces import fill, list_routes

COUNT = int(os.environ.get("FUZZ", "12"))
FIRST = int(os.environ.get("FUZZ_FROM", "0"))
ANSWERS = (200, 303, 400, 404, 409, 422, 503)
LISTS = ("/v1/runs", "/runs", "/v1/trends?dataset=qa&metric=exact_match")


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.setattr(run_index, "_FRESH_SECONDS", 0.0)
    return f"sqlite:///{tmp_path / 'service.db'}"


def damage(folder, chance):
    """Change one file of a run: other bytes, half of it, none of it, or something else in its place."""
    path = chance.choice(sorted(path for path in folder.iterdir() if path.is_file()))
    content, kind = bytearray(path.read_bytes()), chance.randrange(6)
    if kind < 3 and content:
        for _ in range(10**kind):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content)
    elif kind == 3:
        path.write_bytes(content[: chance.randrange(len(content) + 1)])
    else:
        path.unlink()
        if kind == 5:
            path.mkdir()
    return f"{kind} {path.name}"


def list_addresses(run):
    paths = [path for method, path in list_routes() if method == "GET" and "/{run_id}" in path]
    known = {"run_id": run, "dataset": "qa", "sample_id": "s1", "sample_id:path": "s1"}
    for path in paths:
        for name, value in known.items():
            path = path.replace(f"{{{name}}}", value)
        yield fill(path, "x")
    yield from (f"/runs/{run}/report?form={form}" for form in ("json", "html", "csv"))
    yield from (f"/runs/{run}/sample?dataset=qa&id=s1", f"/compare?baseline={run}&candidate=latest")


def test_damaged_runs_are_shown_or_explained(client, add_run, projects):
    store = projects["shop"] / ".evalspec"
    add_run("Rome")
    run = add_run("Paris").id
    whole, folder = store.parent / "whole", store / "runs" / run
    shutil.copytree(folder, whole)
    chance = Random(FIRST)
    for _ in range(COUNT):
        what = damage(folder, chance)
        for address in (*LISTS, *list_addresses(run)):
            answer = client.get(address, headers={"Accept": "text/html"} if not address.startswith("/v1") else {},
                                follow_redirects=False)  # fmt: skip
            assert answer.status_code in ANSWERS, (what, address, answer.text[:2000])
        compared = client.post("/v1/compare", json={"baseline": run, "candidates": ["latest"]})
        assert compared.status_code in ANSWERS, (what, compared.text)
        resumed = client.post(f"/v1/runs/{run}/resume", json={"retry_errors": True})
        assert resumed.status_code in (202, *ANSWERS), (what, resumed.text)
        if resumed.status_code == 202:
            client.post(f"/v1/jobs/{resumed.json()['job_id']}/cancel")
        shutil.rmtree(folder)
        shutil.copytree(whole, folder)
        if chance.random() < 0.5:
            shutil.rmtree(store / "index", ignore_errors=True)


@pytest.mark.parametrize("name", ["index", "runs"])
def test_a_folder_may_be_a_link_and_one_that_leads_nowhere_is_not_empty(client, add_run, projects, name):
    run = add_run().id
    place, other = projects["shop"] / ".evalspec" / name, projects["shop"].with_name("other disk")
    addresses = ("/v1/runs", f"/v1/runs/{run}", f"/v1/runs/{run}/samples", f"/runs/{run}")
    assert client.get(addresses[2]).status_code == 200
    shutil.move(place, other)
    place.symlink_to(other)
    for address in addresses:
        assert client.get(address).status_code == 200, address
    other.rename(other.with_name("away"))
    listed, *others = [client.get(address).status_code for address in addresses]
    assert listed == (503 if name == "runs" else 200)
    assert set(others) <= set(ANSWERS)
    other.with_name("away").rename(other)
    for address in addresses:
        assert client.get(address).status_code == 200, address


def test_a_run_that_is_a_link_is_no_run(client, add_run, projects):
    other = projects["docs"] / ".evalspec" / "runs" / add_run(namespace="docs").id
    add_run()
    (projects["shop"] / ".evalspec" / "runs" / other.name).symlink_to(other)
    assert other.name not in client.get("/v1/runs").text
    for method, path in (("GET", ""), ("GET", "/samples"), ("GET", "/report"), ("DELETE", ""), ("POST", "/resume")):
        assert client.request(method, f"/v1/runs/{other.name}{path}").status_code == 404
    assert (other / "report.json").is_file()
