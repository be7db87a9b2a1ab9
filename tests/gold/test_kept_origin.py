"""Triples from elsewhere keep their origin, and pins keep the reviews that saw the same texts."""

import json

import pytest

TRIPLE = """
question: What encrypts files?
expected_block: {block_id: blk, document_id: arch, page_range: [12, 13]}
expected_answer: AES-256 at rest, and keys rotate every 90 days.
metadata:
  domain: security
  source: public
  provenance: {url: "https://example.com/rfp", licence: CC0}
  added_by: r-patel
  added_at: 2025-06-04
  reviewed_by: [a-chen, m-okoro]
  resolution: consensus
"""
PEOPLE = ("ada", "ben", "cleo", "dan")


def write_corpus(project, text):
    (project.folder / "corpus.jsonl").write_text(json.dumps({"doc_id": "blk", "contents": text, "metadata": {}}) + "\n")


@pytest.fixture
def team(project):
    assert project("gold", "init", "gold/help", *(word for name in PEOPLE for word in ("--person", name))).code == 0
    (project.folder / "seed.yaml").write_text(TRIPLE)
    write_corpus(project, "AES-256 at rest. Keys rotate every 90 days.")
    done = project("gold", "add", "enc", "--file", "seed.yaml", "--as", "ada")
    assert (done.code, "reviewed_by and resolution are left out" in done.err) == (0, True)
    return project


def act(project, *words, code=0):
    done = project("gold", *words)
    assert done.code == code, done.err
    return done.out


def test_a_triple_of_another_set_keeps_its_origin(team):
    text = (team.folder / "gold" / "help" / "triples" / "enc.yaml").read_text()
    for kept in ("added_at: '2025-06-04'", "added_by: ada", "original_author: r-patel", "licence: CC0"):
        assert kept in text
    assert "reviewed_by" not in text
    act(team, "lint")


def test_parts_of_a_split_are_pinned(team):
    act(team, "review", "enc", "not_entailed", "--category", "compound", "--as", "ben")
    parts = ("--claim", "AES-256 at rest", "--claim", "Keys rotate every 90 days")
    act(team, "split", "enc", *parts, "--corpus", "corpus.jsonl", "--as", "ada")
    for part in ("enc-1", "enc-2"):
        assert "version: sha256:" in (team.folder / "gold" / "help" / "triples" / f"{part}.yaml").read_text()


@pytest.mark.parametrize(
    ("seen", "changes", "state"),
    [
        (("ben", "cleo"), False, "accepted (consensus)"),
        (("ben",), False, "to review"),
        (("ben", "cleo"), True, "to review"),
    ],
    ids=["both saw the text", "one did not", "the text changed"],
)
def test_a_pin_keeps_reviews_of_the_same_text(team, seen, changes, state):
    for person in ("ben", "cleo"):
        corpus = ("--corpus", "corpus.jsonl") if person in seen else ()
        out = act(team, "review", "enc", "confirm", "--as", person, *corpus)
    assert "accepted" in out
    if changes:
        write_corpus(team, "AES-128 at rest.")
    is_kept = state != "to review"
    unnamed = act(team, "pin", "--corpus", "corpus.jsonl", "--as", "dan")
    assert ("enc@2" in unnamed) == is_kept, "without a name, no review is lost"
    out = unnamed if is_kept else act(team, "pin", "enc", "--corpus", "corpus.jsonl", "--as", "dan")
    assert f"enc@2  {state}" in out
    act(team, "lint")
