"""Queries without words, and files that inputs refer to: what reaches a retriever, what is stored, what is refused."""

import json
import re
import zlib
from base64 import b64decode, b64encode

import pytest

from evalspec.inputs.datasets import query_input
from servers.faulty_agent import Answer
from servers.faulty_retriever import FaultyRetriever

PICTURE = b"\x89PNG bytes of a picture \x00\xff"
URL = "https://shop.example/a.jpg?size=1&x=<b>"
QUERIES = [
    {"query_id": "picture", "query_input": {"image": "file:pictures/a.png"}, "relevant_documents": ["d1"]},
    {"query_id": "link", "query_input": {"image": URL}, "relevant_documents": ["d1"]},
    {"query_id": "filters", "query_input": {"color": "red", "price": {"max": 30}}, "relevant_documents": ["d2"]},
    {"query_id": "both", "query_input": {"text": "bags", "image": "file:pictures/a.png"}, "relevant_documents": ["d2"]},
]
PYTHON = """
import pathlib
def search(request):
    image = request.input.get("image", "")
    if isinstance(image, pathlib.Path):
        assert image.is_absolute() and image.read_bytes().startswith(b"\\x89PNG")
    return ["d1" if image and not request.query else "d2"]
"""


@pytest.fixture
def service():
    with FaultyRetriever() as server:
        server.mode = Answer(body=json.dumps({"hits": [{"id": "d1"}, {"id": "d2"}]}).encode())
        yield server


@pytest.fixture
def shop(project, service):
    """A dataset of queries, a picture beside it, and the retriever `pages`."""
    picture = project.folder / "evals" / "pictures" / "a.png"
    picture.parent.mkdir(parents=True)
    picture.write_bytes(PICTURE)

    def shop(queries=QUERIES, request=None, *, target=None, path="evals/shop.json", metrics=("Recall@1",), **config):
        search = {"path": "/search", "request": request or {"all": "{{input}}"}, "response": {"ids": "$.hits[*].id"}}
        project.evaluation = {
            "retrievers": {"pages": target or {"http": {"url": service.url, "search": search}}},
            "datasets": [{"name": "shop", "path": path, "metrics": [*metrics], "retriever": "pages"} | config],
            "ciGate": False,
        }
        if queries is not None:
            lines = ",\n".join(map(json.dumps, queries))
            (project.folder / path).write_text(f'{{"queries": [\n{lines}\n]}}', encoding="utf-8")
        project.write()
        return project

    return shop


def problems(outcome):
    assert outcome.code == 2, outcome.out
    return [line.removeprefix("evalspec: ") for line in (outcome.out + outcome.err).splitlines() if "shop.json" in line]


def unpack(report):
    """The packed elements of the samples of an HTML report."""
    pieces = [
        zlib.decompress(b64decode(one)) for one in re.findall(r"eJ[\w+/]{40,}=*", report.read_text(encoding="utf-8"))
    ]
    return json.dumps([json.loads(piece) for piece in pieces], ensure_ascii=False)


def sent(service):
    return [request.body["all"] for request in service.requests]


def test_the_service_gets_inputs_and_files_as_data(shop, service):
    project = shop()
    assert project("evaluate", "agent.yaml", "--depth", "0", "-o", "report.html", "-o", "report.json").code == 0
    data = f"data:image/png;base64,{b64encode(PICTURE).decode()}"
    assert sorted(map(str, sent(service))) == sorted(
        map(str, [{"image": data}, {"image": URL}, QUERIES[2]["query_input"], {"text": "bags", "image": data}])
    )
    whole = b"".join(
        path.read_bytes() for path in project.folder.rglob("*") if path.is_file() and path.suffix != ".png"
    )
    assert b64encode(PICTURE)[:20] not in whole and PICTURE[:8] not in whole, "the content is nowhere stored"
    assert f'"size":{len(PICTURE)}'.encode() in whole.replace(b" ", b"")
    page = unpack(project.folder / "report.html")
    assert "image: file:pictures/a.png" in page and "color: red, price.max: 30" in page
    link = '["a", {"href": "https://shop.example/a.jpg?size=1&x=", "rel": "noopener noreferrer"}, '
    assert page.count(link) == 1, "in the question that describes the input"


def test_own_code_gets_the_path(shop, project):
    (project.folder / "mine.py").write_text(PYTHON, encoding="utf-8")
    outcome = shop(target={"python": "mine:search"})("evaluate", "agent.yaml", "--json")
    (dataset,) = json.loads(outcome.out)["datasets"]
    assert {one["id"]: one["scores"]["Recall@1"]["value"] for one in dataset["samples"]} == dict.fromkeys(
        [one["query_id"] for one in QUERIES], 1.0
    )


def test_a_retriever_of_texts_refuses_each_query_without_words(shop, project):
    (project.folder / "mine.py").write_text("class R:\n    def invoke(self, text):\n        return []\nr = R()")
    outcome = shop(QUERIES[1:2], target={"python": "mine:r"})("evaluate", "agent.yaml")
    assert outcome.code == 3
    assert "the query has no words, and this retriever takes a text" in outcome.out + outcome.err


def test_a_changed_picture_is_another_question(shop, service):
    project = shop()
    options = ("--resume", "--retry-errors")
    service.script = [Answer(400)]
    assert project("evaluate", "agent.yaml", "-j", "1", "--depth", "0").code == 0
    (project.folder / "evals" / "pictures" / "a.png").write_bytes(PICTURE + b"changed")
    service.requests.clear()
    assert project("evaluate", "agent.yaml", *options).code == 2, "the dataset is another one"
    assert service.requests == []
    run = next(project.folder.glob(".evalspec/runs/*"))
    outcome = project("rescore", run.name, "agent.yaml")
    assert "changed" in outcome.out + outcome.err, "replies about the old picture are not scored"


def test_a_conversion_there_and_back_keeps_inputs(shop, service):
    project = shop()
    assert project("convert", "evals/shop.json", "evals/native.jsonl", "--to", "jsonl").code == 0
    lines = [json.loads(line) for line in (project.folder / "evals" / "native.jsonl").read_text().splitlines()]
    assert [line["input"] for line in lines] == [
        "image: file:pictures/a.png",
        f"image: {URL}",
        "color: red, price.max: 30",
        "bags",
    ]
    assert shop(None, path="evals/native.jsonl")("evaluate", "agent.yaml", "--depth", "0").code == 0
    assert len(sent(service)) == 4 and QUERIES[2]["query_input"] in sent(service)
    assert project("convert", "evals/native.jsonl", "evals/back.json", "--to", "mixpeek").code == 0
    back = json.loads((project.folder / "evals" / "back.json").read_text())["queries"]
    assert [query["query_input"] for query in back] == [query["query_input"] for query in QUERIES]
    lossy = project("convert", "evals/shop.json", "out", "--to", "beir")
    assert "what queries without words ask with (3 of 4 samples)" in lossy.out + lossy.err


def test_gold_triples_have_inputs_with_words_of_their_own(shop, service):
    triple = "- question: Which bag is in the picture?\n  expected_block: {block_id: d1}\n  expected_answer: Red\n"
    kept = "  metadata: {mixpeek: {query_input: {image: 'file:pictures/a.png'}}}\n"
    project = shop(None, path="evals/gold.yaml")
    (project.folder / "evals" / "gold.yaml").write_text(triple + kept, encoding="utf-8")
    assert project("evaluate", "agent.yaml").code == 0
    assert [body["image"][:22] for body in sent(service)] == ["data:image/png;base64,"]


@pytest.mark.parametrize("command", ["validate", "plan", "evaluate"])
def test_a_request_with_the_words_is_refused_before_the_first_request(shop, service, command):
    found = problems(shop(QUERIES[:3], {"q": "{{query}}", "all": "{{input}}"})(command, "agent.yaml"))
    assert found == [
        "evals/shop.json:2: query_input: query 'picture': the query has no words, but the retriever 'pages' searches"
        " with {{query}} (also lines 3, 4; 3 of 3 samples). write {{input}} or {{input.KEY}} instead in"
        " spec.evaluation.retrievers.pages.http.search.request, or add a text to it"
    ]
    assert service.requests == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"target": {"builtin": "bm25"}}, "searches with {{query}} (also lines 3; 2 of 2 samples). query a retriever"),
        ({"retriever": None}, "the query has no words, but an agent takes a text (also lines 3; 2 of 2 samples). set"),
        ({"mode": "retrieve+rerank"}, "the query has no words, but a reranker takes a text (also lines 3; 2 of 2"),
    ],
    ids=str,
)
def test_what_takes_words_only_is_refused_in_one_line(shop, service, changed, says):
    (found,) = problems(shop(QUERIES[1:3], **changed)("validate", "agent.yaml"))
    assert "shop.json:2: " in found and says in found
    assert service.requests == []


def test_a_judge_is_not_asked_about_a_query_without_words(shop, judge):
    project = shop(QUERIES[1:2])
    asked = {"id": "s", "input": "a picture", "metadata": {"mixpeek": {"query_input": {"image": URL}}}}
    line = {**asked, "expected": "Red", "relevant": ["d1"], "context": ["Red bags."]}
    (project.folder / "native.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    (project.folder / "replies.jsonl").write_text(json.dumps({"id": "s", "response": "Red"}) + "\n", encoding="utf-8")
    project.evaluation = {
        "datasets": [
            {"name": "qa", "path": "native.jsonl", "metrics": ["context_precision", "toxicity", "string_match"]}
        ],
        "judge": {"model": "scripted", "baseUrl": judge.url, "apiKey": "none"},
        "ciGate": False,
    }
    project.write()
    outcome = project("evaluate", "agent.yaml", "--responses", "replies.jsonl", "--json")
    (sample,) = json.loads(outcome.out)["datasets"][0]["samples"]
    score = sample["scores"]["context_precision"]
    assert (score["status"], score["cause"]) == ("not_applicable", "dataset")
    assert sample["scores"]["string_match"]["value"] == 1.0
    assert judge.chats == []


FILES = [
    ("file:../secret.png", "the path is absolute or has ..; write it relative to the dataset"),
    ("file:/etc/passwd", "the path is absolute or has .."),
    ("file:link.png", "it is outside the dataset's folder; move the file into that folder"),
    ("file:none.png", "there is no such file; add it, or correct the path"),
    ("file:shop.json", "files of this type are not sent; use one of .aac, .avif"),
    ("file:pictures/a.png\0", "the path contains a NUL character; remove it"),
    ("file:large.png", "the file has 0.1 MB, and the limit is"),
    ("data:image/png;base64,iVBORw0KGgo=", "the dataset has the content itself; write a URL, or file:PATH for a file"),
]


@pytest.mark.parametrize(("value", "says"), FILES, ids=[value.replace("\0", "NUL") for value, _ in FILES])
def test_bad_references_are_one_line(shop, service, monkeypatch, value, says):
    query = {
        "query_id": "q",
        "query_input": {"text": "file:no.png", "of": [{"image": value}]},
        "relevant_documents": [],
    }
    project = shop([query])
    monkeypatch.setattr(query_input, "LARGEST_BYTES", 100_000)
    (project.folder / "evals" / "large.png").write_bytes(bytes(100_001))
    (project.folder / "secret.png").write_bytes(PICTURE)
    (project.folder / "evals" / "link.png").symlink_to(project.folder / "secret.png")
    (found,) = problems(project("evaluate", "agent.yaml"))
    message, _, fix = says.partition("; ")
    assert f"shop.json:2: query_input.of[0].image: query 'q': {message}{'. ' if fix else ''}{fix}" in found
    assert service.requests == []


def test_a_file_that_changes_during_a_run_fails_its_query(shop, service):
    """The reply would be stored as that to the file that was hashed."""
    project = shop([QUERIES[1], QUERIES[0]])
    picture = project.folder / "evals" / "pictures" / "a.png"
    answer = service.answer

    def change(mode, body):
        picture.write_bytes(PICTURE + b"!")
        return answer(mode, body)

    service.answer = change
    outcome = project("evaluate", "agent.yaml", "-j", "1", "--json")
    samples = {one["id"]: one for one in json.loads(outcome.out)["datasets"][0]["samples"]}
    assert "file:pictures/a.png has changed since the dataset was read" in samples["picture"]["error"]
    assert samples["link"]["error"] is None
