"""What a request cannot reach: other files, other hosts, code."""

import json
import os

import pytest

import evalspec
from evalspec.service.cursors import encode_cursor

OUTSIDE = ("../docs/agent.yaml", "/etc/passwd", "sub/../../docs/agent.yaml", "sub/../agent.yaml",
           "link.yaml", "linked/agent.yaml", "\0",
           "", ".", "..", "qa.jsonl", ".hidden.yaml", ".evalspec/agent.yaml", "sub/.git/agent.yaml", "folder.yaml",
           "fifo.yaml", "device.yaml", "agent.yaml\0.txt", "~/agent.yaml", "$HOME/agent.yaml",
           "file:agent.yaml", "shown.yaml", "x" * 999 + ".yaml", "a/" * 400 + "a.yaml", "\udcff.yaml")  # fmt: skip


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_only_manifests_of_the_project_run(client, projects):
    folder = projects["shop"]
    text = (folder / "agent.yaml").read_text()
    for hidden in (".evalspec", "sub/.git", "folder.yaml"):
        (folder / hidden).mkdir(parents=True, exist_ok=True)
        (folder / hidden / "agent.yaml").write_text(text)
    (folder / ".hidden.yaml").write_text(text)
    (folder / "link.yaml").symlink_to(projects["docs"] / "agent.yaml")
    (folder / "linked").symlink_to(projects["docs"])
    (folder / "shown.yaml").symlink_to(folder / ".hidden.yaml")
    (folder / "device.yaml").symlink_to("/dev/zero")
    os.mkfifo(folder / "fifo.yaml")
    for name in OUTSIDE:
        answer = client.post("/v1/runs", content=b'{"manifest": "%s"}' % encode(name))
        assert answer.status_code in (400, 422), ascii(name)
        assert "Paris" not in answer.text
    (folder / "sub" / "other.yml").write_text(text.replace("$file:qa.jsonl", "$file:../qa.jsonl"))
    for name in ("agent.yaml", "./agent.yaml", "agent.yaml/", "sub/other.yml"):
        assert client.post("/v1/runs", json={"manifest": name}).status_code == 202, name


def encode(name):
    return json.dumps(name)[1:-1].encode()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "more",
    [{"url": "http://127.0.0.1:9"}, {"responses": "/etc/passwd"}, {"command": "id"}, {"loader": "os:system"},
     {"store": "/tmp"}, {"baseline": "/etc/passwd"}, {"output": "x.html"}, {"timeout": 1}, {"python": "os:system"},
     {"retriever": {"python": "os:system"}}, {"sample_size": "5"}, {"sample_size": True}, {"repeat": 10**9},
     {"concurrency": 0}, {"mode": "all"}, {"manifest": ["agent.yaml"]}, {"manifest": "agent.yaml" * 200}],
    ids=str,
)  # fmt: skip
def test_a_request_has_no_option_that_reaches_further(client, more):
    assert client.post("/v1/runs", json=more).status_code == 422


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/runs?verdct=FAIL", "query.verdct: unknown parameter. did you mean 'verdict'?"),
        ("/v1/runs?From=2026-01-01", "query.From: unknown parameter. did you mean 'from'?"),
        ("/v1/runs?a=1&limit=2&b=2", "query.a: unknown parameter. known: "),
        ("/v1/runs/R/samples?beyond_treshold=true", "did you mean 'beyond_threshold'?"),
        ("/v1/jobs/J?verbose=1", "query.verbose: unknown parameter. this route has no parameters"),
        ("/v1/gold?%1b%5b2J=1", "query.\\x1b[2J: unknown parameter"),
    ],
)
def test_an_unknown_parameter_is_refused_because_the_answer_would_not_show_it(client, path, said):
    refused = client.get(path)
    assert (refused.status_code, said in refused.json()["detail"]) == (422, True), refused.text


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("url", ["http://{{scopePrefix}}.example", "http://127.0.0.1:{{topK}}", "{{query}}",
                                 "http://{{query}}@host", "{{query}}://host"])  # fmt: skip
def test_a_placeholder_in_a_url_is_refused(client, projects, url):
    manifest = projects["shop"] / "agent.yaml"
    text = manifest.read_text()
    address = next(line.partition("url: ")[2] for line in text.splitlines() if " url: " in line)
    manifest.write_text(text.replace(address, f"'{url}'"))
    answer = client.post("/v1/runs", json={})
    assert answer.status_code == 422
    assert "url" in answer.json()["detail"]
    search = '{path: "//evil.example/@x", request: {q: "{{query}}"}, response: {ids: "$.ids[*]"}}'
    retriever = f"    retrievers:\n      r: {{http: {{url: '{url}', search: {search}}}}}\n"
    dataset = "    datasets: [{name: d, path: $file:q.jsonl, metrics: [Recall@3], retriever: r}]\n"
    manifest.write_text(
        "apiVersion: agentspec.io/v1\nkind: AgentSpec\nmetadata: {name: a}\nspec:\n  evaluation:\n"
        f"{retriever}{dataset}"
    )
    (projects["shop"] / "q.jsonl").write_text('{"id": "a", "input": "?", "expected": "!", "relevant": ["x"]}\n')
    assert client.post("/v1/runs", json={}).status_code == 422
    assert not evalspec.validate(manifest).is_valid
    manifest.write_text(manifest.read_text().replace(f"'{url}'", "http://127.0.0.1:9"))
    assert evalspec.validate(manifest).is_valid, "else the test proves nothing"


PLACES = [(1e12, "\ud800"), (1e12, "\0"), (float("inf"), "x"), (float("nan"), "x"), (10**30,), (-1,), ("\0",)]


@pytest.mark.parametrize("place", PLACES, ids=ascii)
def test_a_cursor_has_no_value_that_a_database_cannot_have(client, add_run, place):
    run = add_run()
    for path in ("/v1/jobs", "/v1/runs", f"/v1/runs/{run.id}/samples"):
        answer = client.get(path, params={"cursor": encode_cursor(*place)})
        assert (answer.status_code, "not a cursor" in answer.json()["detail"]) == (400, True), path


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("path", "asked"), [("/v1/runs", {"dataset": "qa"}), ("/v1/trends", {"dataset": "qa", "metric": "exact_match"})]
)
def test_the_ends_of_the_calendar_are_no_fault(client, path, asked):
    for moment in ("0001-01-01", "0001-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        for end in ("from", "to"):
            assert client.get(path, params={**asked, end: moment}).status_code in (200, 422)
    assert client.get(path, params={**asked, "from": "2026-11-01", "to": "2026-11-21T06:15:00Z"}).status_code == 200


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_problem_can_quote_half_a_character(client, add_run):
    add_run()
    for path, body in (
        ("/v1/runs", {"datasets": ["\ud800"]}),
        ("/v1/compare", {"baseline": "latest", "candidates": ["latest"], "metrics": ["\ud800"]}),
    ):
        answer = client.post(path, content=json.dumps(body))
        assert (answer.status_code, answer.json()["status"]) == (400, 400)
