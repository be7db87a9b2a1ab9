"""Exports: what may leave the set, and what an outsider can do with it."""

import json
import re
import socket
from pathlib import Path

import jsonschema
import pytest
import yaml

from evalspec import gold
from evalspec.base.errors import InvalidInput
from evalspec.curation.gold import scrubbing
from evalspec.curation.gold.blocks import make_pin, store_text
from evalspec.curation.gold.protocol import review
from evalspec.curation.gold.publishing import name_annotators, select_public
from evalspec.curation.gold.scrubbing import Scrubber
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset
from servers.faulty_retriever import FaultyRetriever

TEXT = "All keys rotate."


@pytest.fixture
def mixed(team):
    """Public, synthetic and customer triples in several states."""
    gold.grant(team.root, "acme", "ada", evidence="contract")
    provenance = {"url": "https://example.org/rfp?a=1&b=2", "licence": "CC-BY-4.0"}
    block = {"block_id": "keys", "document_id": "security", "page_range": [1, 2], "version": make_pin(TEXT)}
    team.accept("keys", question="Which keys rotate?", expected_answer="All of them.", claims=["All keys rotate."],
                expected_block=block, source="public", domain="security", provenance=provenance,
                ticket="ABC-1")  # fmt: skip
    team.accept("plans", question="Which plans exist?", source="synthetic", expected_block=[
        {"block_id": "plan"}, {"any": [{"block_id": "old"}, {"block_id": "new"}]}])  # fmt: skip
    team.accept("ours", question="What is ours?", source="customer", customer="acme")
    team.accept("theirs", question="A made-up one?", source="synthetic", customer="acme")
    team.add("waiting", source="public")
    team.add("stress", source="synthetic", generated_by="some-model")
    team.accept("nowhere")
    return team


def publish(project, *arguments):
    return project("gold", "export", "--public", "-o", "public", "--as", "ben", *arguments)


def test_what_is_public_and_what_is_not(mixed, project):
    done = publish(project, "--json")
    assert done.code == 0, done.err
    assert done.document["triples"] == 2
    assert done.document["leftOut"] == {
        "of a customer": 2,
        "pending": 1,
        "stress: written by a model, confirmed by too few people": 1,
        "without a source": 1,
    }
    assert done.document["keysLeftOut"] == ["ticket"]
    triples = yaml.safe_load(Path("public/triples.yaml").read_text())
    assert [triple["id"] for triple in triples] == ["keys", "plans"]
    schema = json.loads(Path("public/schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    for triple in triples:
        validator.validate(triple)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(triples[0] | {"metadata": {**triples[0]["metadata"], "customer": "acme"}})
    assert triples[0]["metadata"]["resolution"] == "consensus"
    people = {triple["metadata"]["added_by"] for triple in triples}
    reviewers = [triple["metadata"]["reviewed_by"] for triple in triples]
    assert len(people) == 1
    assert reviewers[0] == reviewers[1]
    assert {*people, *reviewers[0]} == {"annotator-1", "annotator-2", "annotator-3"}
    everything = "".join(path.read_text() for path in Path("public").iterdir())
    for private in ("ada", "ben", "cleo", "acme", "ABC-1", "ours", "theirs", "made-up"):
        assert not re.search(rf"\b{private}\b", everything)
    card = Path("public/README.md").read_text()
    for line in ("Directional, not a benchmark", "| security | 1 |", "CC-BY-4.0", "- 2 triples: of a customer",
                 "- raw agreement: 1.00, 95 % interval ", "- Krippendorff's alpha: unknown, 5 triples"):  # fmt: skip
        assert line in card
    data = load_dataset(Source(Path("public/triples.yaml"), "x"))
    assert (data.format, data.problems, data.warnings, len(data.samples)) == ("triples", (), (), 2)


def test_pseudonyms_are_no_function_of_names(mixed):
    entries = select_public(mixed.read()).entries
    assert {name_annotators(entries)["ada"] for _ in range(100)} == {"annotator-1", "annotator-2", "annotator-3"}


def test_a_child_of_a_customers_triple_is_not_published_whatever_it_says(mixed, project):
    from evalspec.curation.gold.protocol import record
    from evalspec.curation.gold.schema import DisputeOutcome, Flag, Kind

    mixed.add("parent", source="customer", customer="acme")
    review(mixed.root, "parent", "ben", Flag.NOT_ENTAILED)
    parent = mixed.read().entries["parent"]
    record(mixed.root, parent, Kind.RESOLVE, "ada", verdict=DisputeOutcome.SPLIT, children=["plans"])
    assert publish(project, "--json").document["triples"] == 1
    assert "Which plans" not in Path("public/triples.yaml").read_text()


def test_an_outsider_runs_a_retriever_against_it(mixed, project, monkeypatch):
    """As the data card says, in a folder of their own."""
    assert publish(project).code == 0
    card = Path("public/README.md").read_text()
    (command,) = [line for line in card.splitlines() if line.startswith("evalspec evaluate")]
    monkeypatch.chdir("public")
    with FaultyRetriever() as service:
        service.documents = {
            name: {"id": name, "text": text} for name, text in [("keys", "which keys rotate"), ("plan", "which plans")]
        }
        ran = project(*command.replace("http://localhost:8000", service.url).split()[1:], "--json")
        assert ran.code == 0, ran.err
        asked = [body["query"] for body in service.bodies("search") if body["limit"] == 10]
        assert sorted(asked) == ["Which keys rotate?", "Which plans exist?"]
    (dataset,) = ran.document["datasets"]
    assert (dataset["selected"], dataset["answered"]) == (2, 2)
    assert dataset["metrics"]["Precision@1"]["value"] == 1.0
    assert {part["name"] for part in dataset["slices"]} >= {"source=public", "source=synthetic"}


HITS = {
    "email": "jane.doe@example.org",
    "phone": "+49 30 901820",
    "iban": "DE89 3704 0044 0532 0130 00",
    "card": "4111 1111 1111 1111",
    "ip_address": "10.1.2.3",
    "key": "AKIAIOSFODNN7EXAMPLE",
    "private": "Project-Falcon-77",
    "customer_name": "Acme",
    "person": "CLEO",
}


@pytest.mark.parametrize(
    ("kind", "field"),
    [*((kind, "question") for kind in HITS), *(("email", field) for field in ("expected_answer", "claims", "domain"))],
)
def test_a_hit_fails_the_export_until_a_person_allows_it(mixed, project, kind, field):
    config = mixed.root / "set.yaml"
    config.write_text(config.read_text() + 'private: ["project-falcon-\\\\d+"]\n')
    text = f"What is {HITS[kind]} for?"
    mixed.accept("hit", source="public", **{field: [text] if field == "claims" else text})
    refused = publish(project)
    assert (refused.code, Path("public").exists()) == (2, False)
    place = {"claims": "claims[0]", "domain": "metadata.domain"}.get(field, field)
    assert f"triples/hit.yaml: {place}: {kind} found: " in refused.err
    assert HITS[kind] not in refused.err
    assert len(HITS[kind]) < 8 or HITS[kind][2:] not in refused.err
    assert publish(project, "--allow", "keys:email").code == 2
    allowed = publish(project, *(part for hit in _list_kinds(refused.err) for part in ("--allow", f"hit:{hit}")))
    assert allowed.code == 0, allowed.err
    assert publish(project, "--force").code == 0
    gold_file = mixed.root / "triples" / "hit.yaml"
    gold_file.write_text(gold_file.read_text().replace("block-hit", "another"))
    assert project("gold", "revise", "hit", "--as", "ada").code == 0
    for name in ("ben", "cleo"):
        review(mixed.root, "hit", name)
    assert publish(project, "--force").code == 2, "an exception is for one content"


def test_a_slow_private_pattern_is_one_line(mixed, project, monkeypatch):
    monkeypatch.setattr(scrubbing, "_SECONDS", 0.01)
    config = mixed.root / "set.yaml"
    config.write_text(config.read_text() + 'private: ["(a|aa)+$"]\n')
    mixed.accept("slow", source="public", question="a" * 300 + "?")
    refused = publish(project)
    assert (refused.code, Path("public").exists()) == (2, False)
    assert "set.yaml: private: the pattern (a|aa)+$ takes longer than 0.01 s on a text" in refused.err


def _list_kinds(err):
    return {line.split(" found: ")[0].rpartition(" ")[2] for line in err.splitlines() if " found: " in line}


@pytest.mark.parametrize("text", ["Questions of Acme", "Ask jane@example.org", "Written by Cleo"])
def test_what_the_data_card_says_is_searched_too(mixed, project, text):
    config = mixed.root / "set.yaml"
    config.write_text(config.read_text() + f"description: {text}\n")
    refused = publish(project)
    assert (refused.code, Path("public").exists()) == (2, False)
    assert "set.yaml: description: " in refused.err


def test_nobody_allows_a_customers_term(mixed, project):
    gold.grant(mixed.root, "acme", "ada", evidence="contract", terms=["Zephyr"], renew=True)
    mixed.accept("hit", source="public", question="What about zephyr?")
    assert publish(project).code == 2  # lint
    refused = publish(project, "--allow", "hit:customer")
    assert refused.code == 2


SAFE = [
    "Is AES-256-GCM used with ISO 27001:2022 and TLS 1.2 or 1.3 on 2026-01-01 at 12:30:05?",
    "Rotate every 90 days; keep 1,234,567 logs for 10.5 years (page 12-13, RFC 2119, SOC 2 Type II).",
    "c" * 32,
    "Which of 1840 questions in 120 took 4,111 ms? Version 1.4.2, build 20260101123000.",
    "password rotation: what is the policy? The secret is safe.",
    "https://example.org/path?query=1#part",
    "Which of 1/2, 3/4 or 2026/01/02 applies, from 2024-01-01 to 2026-12-31, in 100.000 of 1.000.000 cases?",
    "3.141592653589793 and 0.4111111111111111, 192.168 or 12:30:45.123456; sizes 512, 1024, 2048, 4096 and 8192.",
    "sk-learn-pipelines-in-production, hf_transformers_for_everybody and Bearer authentication-by-tokens",
    "Adaptive limits: the benchmark of Li is a bench, not Benjamin's canada.",
]


@pytest.mark.parametrize("text", SAFE)
def test_ordinary_text_is_no_hit(text):
    assert Scrubber([], [], people=["ada", "ben", "li"]).find(text) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("phone", "(415) 555-2671 is ours"),
        ("ip_address", "see 2001:db8::1 there"),
        ("ip_address", "::ffff:10.0.0.1 or 192.168.0.1"),
        ("card", "5500-0000-0000-0004"),
        ("iban", "GB82WEST12345698765432"),
        ("key", "ghp_" + "a1B2" * 9),
        ("key", "-----BEGIN RSA PRIVATE KEY-----"),
        ("key", "https://user:secret@example.org/x  # pragma: allowlist secret"),
        ("email", "jürgen@bücher.example"),
        ("email", "ｊａｎｅ＠example.org"),
        ("email", "jane\u200b@exam\u00adple.o\ufe0frg"),
        ("card", "4111\u00a01111\u202f1111\u20091111"),
        ("card", "4111.1111.1111.1111"),
        ("card", "4111/1111/1111/1111 or 5500_0000_0000_0004"),
        ("card", "Card 4111 1111\n1111 1111"),
        ("card", "41\u20601111111111\u200d1111"),
        ("iban", "de89 3704 0044 0532 0130 00"),
        ("iban", "DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000"),
        ("iban", "gb82-west-1234-5698-7654-32"),
        ("phone", "+49\u00a030\u00a0901820"),
        ("phone", "call\u200b+49 30 901820"),
        ("ip_address", "１０.1.\u20602.3"),
        ("key", "sk-proj-Ab3dEf6hIj9kLm2nOp5q"),
        ("key", "sk-ant-api03-Ab3dEf6hIj9kLm2nOp5q"),
        ("key", "sk-Ab3dEf6hIj9k\u200bLm2nOp5qRs8tUv1w"),
        ("key", "github_pat_11ABCDEFG0abcdefghij_klmnopqrstuvwxyz0123456789"),
        ("key", "xoxb-123456789012-abcdefGHIJKL"),
        ("key", "AIzaSyA1234567890abcdefghijklmnopqrstuv"),
        ("key", "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345"),
        ("key", "Authorization: Bearer abcdef0123456789abcdef"),
        ("key", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"),
        ("key", "-----BEGIN OPENSSH PRIVATE KEY-----"),
        ("iban", "DE89 3704 \n0044 0532\n\n0130 00"),
        ("iban", "DE89_3704_0044_0532_0130_00"),
        ("iban", "to RC21, DE89 3704 0044 0532 0130 00"),
        ("phone", "call 0049 30 901820"),
        ("email", "bob%40firm.com"),
        ("email", "bob&#64;firm.com"),
        ("email", "bob@firm。com"),
        ("card", "٤١١١ ١١١١ ١١١١ ١١١١"),
        ("key", "dop_v1_" + "0a1b2c3d" * 8),
        ("key", "AccountName=x;AccountKey=aB3dEf6hIj9kLm2nOp5qRs8tUv1w==;"),
        ("person", "Ask ADA\u200b about it"),
        ("person", "see Ben_Müller"),
        ("person", "Ada.Lovelace@example.org"),
    ],
)
def test_hits_in_other_forms(kind, text):
    people = ["ada", "ben-müller", "ada.lovelace@example.org", "li"]
    found = Scrubber([], [], people=people).find(text)
    assert kind in {hit.kind for hit in found}
    assert all(text != hit.shown and len(hit.shown) <= 3 for hit in found)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ({"expected_block": {"block_id": "b", "version": "key AKIAIOSFODNN7EXAMPLE"}}, "expected_block.version: key"),
        ({"provenance": {"version": "ask bob.smith@firm.com"}}, "metadata.provenance.version: email"),
    ],
)
def test_only_pins_of_blocks_are_not_searched(mixed, project, content, place):
    mixed.accept("hit", source="public", **content)
    refused = publish(project)
    assert refused.code == 2
    assert f"triples/hit.yaml: {place} found" in refused.err


def test_the_scrubber_connects_to_nothing(monkeypatch):
    def refuse(*arguments, **named):
        raise AssertionError("the scrubber used the network")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert len(Scrubber([], []).find(" ".join(HITS.values()))) >= 6


def test_blocks_are_published_on_request_only(mixed, project):
    contact = {"block_id": "contact", "version": store_text(mixed.root, "Ask jane@example.org.")}
    mixed.accept("contact", question="Whom to ask?", source="public", expected_block=contact)
    store_text(mixed.root, TEXT)
    refused = publish(project, "--with-blocks")
    assert "the text of block 'plan' is not pinned" in refused.err
    for name in ("plans", "nowhere"):
        project("gold", "retire", name, "--as", "ada")
    refused = publish(project, "--with-blocks")
    assert "block contact: email found: ja…" in refused.err
    project("gold", "retire", "contact", "--as", "ada")
    assert publish(project, "--with-blocks").code == 0
    assert json.loads(Path("public/corpus.jsonl").read_text()) == {"id": "keys", "text": TEXT}


def test_an_export_replaces_nothing_by_accident(mixed, project):
    Path("public").mkdir()
    Path("public/mine.txt").write_text("keep")
    assert publish(project).code == 2
    refused = publish(project, "--force")
    assert "--force would delete mine.txt" in refused.err
    assert project("gold", "export", "-o", "gold/help/triples/keys.yaml", "--force", "--as", "ada").code == 2
    assert project("gold", "export", "-o", "x.jsonl", "--allow", "a:b", "--as", "ada").code == 2
    assert not list(Path().glob(".evalspec-*"))


def test_internal_exports_have_computed_reviews_and_only_permitted_customers(mixed, project):
    assert project("gold", "export", "-o", "gold.yaml", "--as", "ada").code == 0
    entries = {entry["id"]: entry for entry in yaml.safe_load(Path("gold.yaml").read_text())}
    assert sorted(entries) == ["keys", "nowhere", "ours", "plans", "theirs"]
    assert entries["keys"]["metadata"]["reviewed_by"] == ["ben", "cleo"]
    assert entries["keys"]["metadata"]["resolution"] == "consensus"
    gold.grant(mixed.root, "acme", "ada", evidence="x", domains=["legal"], renew=True)
    done = project("gold", "export", "-o", "gold.jsonl", "--to", "jsonl", "--lossy", "--as", "ada", "--json")
    assert done.document["triples"] == 3
    assert "covers legal, and the triple names no domain" in done.err
    assert "ours" not in Path("gold.jsonl").read_text()


def test_a_set_that_breaks_its_rules_is_not_published(mixed, project):
    path = mixed.root / "triples" / "keys.yaml"
    path.write_text(path.read_text().replace("All of them", "Some of them"))
    assert "the content was edited" in publish(project).err
    with pytest.raises(InvalidInput, match="no triple is public"):
        project("gold", "revise", "keys", "--as", "ada")
        project("gold", "retire", "plans", "--as", "ada")
        gold.publish(mixed.root, Path("public"), "ada")
