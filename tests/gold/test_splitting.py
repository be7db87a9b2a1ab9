"""Compound claims: proposals to cut an answer, and the triples that replace it."""

from typing import Any

import pytest
import yaml

from evalspec import gold
from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.ratings import list_revisions
from evalspec.curation.gold.schema import GoldTriple
from evalspec.curation.gold.splitting import propose_claims
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset

ANSWER = "We encrypt at rest with AES-256-GCM and key rotation every 90 days."
ORIGIN = {
    "source": "customer",
    "customer": "acme",
    "provenance": {"url": "https://example.com/rfp"},
    "domain": "security",
    "difficulty": "hard",
    "failure_mode": "compound",
    "generated_by": "model-1",
}


def triple(answer, claims=None):
    return GoldTriple(question="?", expected_block={"block_id": "b"}, expected_answer=answer, claims=claims)


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        (ANSWER, ["We encrypt at rest with AES-256-GCM", "key rotation every 90 days."]),
        ("Yes. It takes 14 days; weekends count.", ["Yes.", "It takes 14 days", "weekends count."]),
        ("Between 10 and 20 days in all.", ["Between 10 and 20 days in all."]),
        ('The mode "read and write access" is the default.', ['The mode "read and write access" is the default.']),
        ("Names and dates", ["Names and dates"]),
    ],
)
def test_a_proposal_cuts_sentences_and_clauses(answer, claims):
    assert propose_claims(triple(answer)) == claims


def test_claims_that_exist_are_the_proposal():
    assert propose_claims(triple(ANSWER, ["one", "two"])) == ["one", "two"]


@pytest.fixture
def disputed(gold_set):
    gold.grant(gold_set.root, "acme", "ada", evidence="a contract")
    gold_set.add("keys", ANSWER, "crypto", metadata=ORIGIN)
    gold_set.accept("keys", "ben")
    gold.review(gold_set.root, "keys", "cleo", "not_entailed", category="compound")
    return gold_set


def test_a_proposal_can_be_edited_and_given_back(disputed, tmp_path):
    before = disputed.files()
    done = disputed.call("split", "keys")
    assert (done.code, disputed.files() == before) == (0, True)
    assert ("&" in done.out, "*" in done.out) == (False, False), "no part refers to another"
    parts = yaml.safe_load(done.out)
    parts[1] |= {"expected_block": {"block_id": "rotation"}, "question": "How often are keys rotated?"}
    (tmp_path / "parts.yaml").write_text(yaml.safe_dump(parts))
    done = disputed.call("split", "keys", "--file", "parts.yaml", "--as", "ada", "--json")
    assert (done.code, [one["id"] for one in done.document["triples"]]) == (0, ["keys", "keys-1", "keys-2"])
    assert [disputed.state(name) for name in ("keys", "keys-1", "keys-2")] == ["dropped", "pending", "pending"]
    assert disputed.block("keys-2") == {"block_id": "rotation"}
    for name in ("keys-1", "keys-2"):
        metadata = gold.read_entry(disputed.root, name).triple.metadata.model_dump(mode="json", exclude_none=True)
        assert {key: metadata[key] for key in ORIGIN} == ORIGIN, "a revoked customer's parts are found by the customer"
        assert metadata["added_by"] == "ada"
    whole = gold.read_entry(disputed.root, "keys")
    assert (whole.review_status.resolution, whole.events[-1].event.children) == ("split", ["keys-1", "keys-2"])
    assert disputed.call("lint").code == 0


def test_a_part_cannot_change_where_it_comes_from(disputed):
    parts: list[Any] = [{"expected_answer": "a", "metadata": {"customer": "other", "difficulty": "easy"}}, "b"]
    first, _ = gold.split(disputed.root, "keys", "cleo", parts)
    assert (first.triple.metadata.customer, first.triple.metadata.difficulty) == ("acme", "easy")


def test_who_wrote_the_whole_cannot_confirm_a_part(disputed):
    """Even if the flagger has split it: the text is still the author's."""
    gold.split(disputed.root, "keys", "cleo", ["AES-256-GCM at rest", "Keys rotate every 90 days"])
    part = gold.read_entry(disputed.root, "keys-1")
    assert (part.events[0].event.by, part.events[0].event.authors) == ("cleo", ["ada"])
    refused = disputed.call("review", "keys-1", "confirm", "--as", "ada")
    assert (refused.code, "nobody reviews their own triple" in refused.err) == (2, True)
    assert [one.by for one in list_revisions(gold.open_set(disputed.root)) if one.triple == "keys-1"] == ["ada"]
    disputed.accept("keys-1", "ben", "dan")
    assert disputed.state("keys-1") == "accepted"


def test_a_split_that_leaves_too_few_reviewers_is_left_to_the_author(disputed):
    config = disputed.root / "set.yaml"
    config.write_text(config.read_text().replace("  dan: {}\n", ""))
    with pytest.raises(InvalidInput, match="only ben could review a split by cleo, and 2 people have to"):
        gold.split(disputed.root, "keys", "cleo", ["a b", "c d"])
    gold.split(disputed.root, "keys", "ada", ["a b", "c d"])
    disputed.accept("keys-1", "ben", "cleo")
    assert disputed.state("keys-1") == "accepted"


def test_an_interrupted_split_continues(disputed):
    parts = ["AES-256-GCM at rest", "Keys rotate every 90 days"]
    gold.split(disputed.root, "keys", "ada", parts, at="2026-01-01T00:00:00Z")
    whole = disputed.files()
    (resolved,) = (disputed.root / "events" / "keys").glob("*-resolve-*")
    for removed in ([resolved], [resolved, *(disputed.root / "events" / "keys-2").glob("*")]):
        for path in removed:
            path.unlink()
        gold.split(disputed.root, "keys", "ada", parts, at="2026-01-01T00:00:00Z")
        assert disputed.files() == whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--claim", "one", "--as", "ada"), "at least two parts"),
        (("--claim", "one", "--claim", "two", "--as", "dan"), "only the author and the flagger split"),
        (("--claim", "one", "--claim", "two", "--as", "ben"), "only the author and the flagger split"),
        (("--file", "bad.yaml", "--as", "ada"), "bad.yaml:2: [1].question: [] is not accepted here"),
        (("--file", "map.yaml", "--as", "ada"), "not a list of triples"),
        (("--file", "named.yaml", "--as", "ada"), "the id of part 2 is keys-2"),
    ],
)
def test_refusals_change_nothing(disputed, tmp_path, arguments, message):
    (tmp_path / "bad.yaml").write_text("- expected_answer: a\n- question: []\n")
    (tmp_path / "map.yaml").write_text("expected_answer: a\n")
    (tmp_path / "named.yaml").write_text("- {expected_answer: a}\n- {expected_answer: b, id: other}\n")
    before = disputed.files()
    done = disputed.call("split", "keys", *arguments)
    assert (done.code, message in done.err, disputed.files() == before) == (2, True, True), done.err


def test_only_disputed_triples_are_split_and_ids_have_to_be_free(disputed):
    disputed.add("plain")
    with pytest.raises(InvalidInput, match="cannot split a triple that is pending"):
        gold.split(disputed.root, "plain", "ada", ["a", "b"])
    disputed.add("keys-2", "something else")
    before = disputed.files()
    with pytest.raises(InvalidInput, match="the id 'keys-2' is taken"):
        gold.split(disputed.root, "keys", "ada", ["a", "b"])
    assert disputed.files() == before


def test_the_category_of_a_settled_dispute_is_a_slice_key(disputed):
    """Of the parts of a split triple too. An open dispute has none, and nobody's category is not made up."""
    gold.split(disputed.root, "keys", "ada", ["a", "b"])
    for name in ("calm", "tense", "unsaid"):
        disputed.add(name)
    gold.review(disputed.root, "tense", "ben", "overstated", category="synonym")
    gold.review(disputed.root, "unsaid", "ben", "overstated")
    for name in ("tense", "unsaid"):
        for person in ("ada", "ben"):
            gold.resolve(disputed.root, name, person, "upheld")
        gold.review(disputed.root, name, "cleo")
    for name in ("calm", "keys-1", "keys-2"):
        disputed.accept(name)
    samples = load_dataset(Source(disputed.root, "set")).samples
    assert {sample.id: sample.metadata.get("dispute") for sample in samples} == {
        "calm": None,
        "keys-1": "compound",
        "keys-2": "compound",
        "tense": "synonym",
        "unsaid": "uncategorised",
    }
