"""Pinned texts: how blocks are pinned, what a changed corpus does to triples, and how they are carried over."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec import gold
from evalspec.base.errors import InvalidInput
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset
from servers.faulty_agent import FaultyAgent

TEXTS = {"refunds": {"title": "Refunds", "text": "14 days – always."}, "plans": "Two plans."}
CONTENT = "Refunds\n14 days – always."
PIN = "sha256:" + hashlib.sha256(CONTENT.encode()).hexdigest()[:32]


@pytest.fixture
def pinned(gold_set):
    """Two accepted triples that are pinned to corpus.jsonl."""
    corpus = gold_set.corpus(**TEXTS)
    for name in TEXTS:
        gold_set.add(name, block=name)
    assert gold_set.call("pin", "--corpus", str(corpus), "--as", "ada").code == 0
    for name in TEXTS:
        gold_set.accept(name)
    return gold_set


def test_a_pin_is_the_hash_of_the_text_that_reviewers_see(gold_set):
    corpus = gold_set.corpus(**TEXTS)
    done = gold_set.call(
        *("add", "refund", "--question", "How long?", "--block", "refunds", "--answer", "14 days"),
        *("--corpus", str(corpus), "--as", "ada"),
    )
    assert (done.code, gold_set.block("refund")) == (0, {"block_id": "refunds", "version": PIN})
    assert (gold_set.root / "blocks" / PIN.removeprefix("sha256:")).read_bytes() == CONTENT.encode()
    assert gold_set.call("lint").err == "help: 1 triple checked, no errors\n", "nothing is unpinned"
    done = gold_set.call("add", "other", "--question", "?", "--block", "nix", "--corpus", str(corpus), "--as", "ada")
    assert (done.code, "the corpus does not have nix" in done.err) == (2, True)


def write_parquet(path):
    pq.write_table(pa.table({"doc_id": ["refunds"], "contents": ["14 days"], "metadata": [{"x": 1}]}), path)


def write_questions(path):
    path.parent.mkdir()
    write_parquet(path.with_name("corpus.parquet"))
    row = {"qid": ["q"], "query": ["?"], "retrieval_gt": [[["refunds"]]], "generation_gt": [["14 days"]]}
    pq.write_table(pa.table(row), path)


UNRAG = {
    "version": "1",
    "id": "d",
    "defaults": {"scopePrefix": "d:", "topK": 3},
    "documents": [{"sourceId": "refunds", "content": "14 days"}],
    "queries": [{"id": "q", "query": "?", "relevant": {"sourceIds": ["refunds"]}}],
}
CORPORA = {
    "c.jsonl": lambda path: path.write_text('{"_id": "refunds", "text": "14 days"}\n'),
    "c.tsv": lambda path: path.write_text("refunds\t14 days\n"),
    "c.json": lambda path: path.write_text(json.dumps(UNRAG)),
    "c.parquet": write_parquet,
    "folder/qa.parquet": write_questions,
}


@pytest.mark.parametrize("name", CORPORA)
def test_corpora_of_any_format_give_the_same_pin(gold_set, name):
    CORPORA[name](gold_set.project.folder / name)
    gold_set.add("refund")
    gold.pin(gold_set.root, name, "ada")
    assert gold_set.block("refund")["version"] == f"sha256:{hashlib.sha256(b'14 days').hexdigest()[:32]}"


def test_triples_with_reviews_are_pinned_only_on_demand_and_reviewed_again(gold_set):
    corpus = gold_set.corpus(**TEXTS)
    for name in ("done", "open", "gone"):
        gold_set.add(name, block="nix" if name == "gone" else "refunds")
    gold_set.accept("done")
    done = gold_set.call("pin", "--corpus", str(corpus), "--as", "ada", "--json")
    assert [one["id"] for one in done.document["triples"]] == ["open"]
    assert done.document["left"] == {
        "done": "it has reviews, which would start again",
        "gone": "the corpus does not have nix",
    }
    assert (gold_set.state("done"), "done was left as it is" in done.err) == ("accepted", True)
    before = gold_set.files()
    done = gold_set.call("pin", "done", "gone", "--corpus", str(corpus), "--as", "ada")
    assert (done.code, gold_set.files() == before) == (2, True), "all of the named triples or none"
    assert gold_set.call("pin", "done", "--corpus", str(corpus), "--as", "ada").code == 0
    assert (gold_set.state("done"), gold_set.block("done")["version"]) == ("pending", PIN)


def test_nobody_else_settles_a_dispute_by_pinning(gold_set):
    corpus = gold_set.corpus(**TEXTS)
    gold_set.add("refund")
    gold.review(gold_set.root, "refund", "ben", "overstated")
    changed = gold.pin(gold_set.root, corpus, "dan", reviewed=True)
    assert (list(changed.entries), list(changed.left)) == ([], ["refund"])
    assert gold_set.state("refund") == "disputed"
    assert [one.id for one in gold.pin(gold_set.root, corpus, "ben", reviewed=True).entries] == ["refund"]


def test_check_finds_what_changed_and_vanished(pinned):
    pinned.add("labelled", block={"block_id": "refunds", "version": "v2"})
    pinned.add("loose")
    done = pinned.call("check", "--corpus", "corpus.jsonl")
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines() == [
        "warning: loose: block refunds is not pinned. pin it: evalspec gold pin --corpus FILE",
        "warning: labelled cannot be checked: block refunds has the version v2, and the corpus has no versions. "
        "add metadata.version to the corpus",
        "4 triples checked, 0 stale, 1 unpinned, 1 cannot be checked",
    ]
    pinned.corpus(refunds={"title": "Refunds", "text": "13 days – always.", "metadata": {"version": 2}})
    before = pinned.files()
    done = pinned.call("check", "--corpus", "corpus.jsonl")
    new = hashlib.sha256("Refunds\n13 days – always.".encode()).hexdigest()[:32]
    assert (done.code, done.out.splitlines()) == (
        2,
        [
            "labelled: block refunds changed from v2 to 2",
            "plans: block plans is not in the corpus",
            f"refunds: block refunds changed from {PIN} to sha256:{new}",
        ],
    )
    assert pinned.files() == before
    document = pinned.call("check", "--corpus", "corpus.jsonl", "--json").document
    assert (document["exitCode"], sorted(document["stale"])) == (2, ["labelled", "plans", "refunds"])


def test_marked_triples_stay_stale_until_they_are_revised(pinned):
    pinned.corpus(plans="Two plans.", refunds="13 days")
    done = pinned.call("check", "--corpus", "corpus.jsonl", "--mark", "--as", "dan")
    assert (done.code, pinned.state("refunds"), pinned.state("plans")) == (0, "stale", "accepted")
    done = pinned.call("check", "--corpus", "corpus.jsonl")
    assert (done.code, "0 stale, 1 marked earlier" in done.err) == (0, True)
    assert gold.read_entry(pinned.root, "refunds").events[-1].event.note.startswith("block refunds changed from sha256")
    assert (
        "its block changed: gold pin if the answer is still right, or gold revise, carry or retire"
        in pinned.call("list").out
    )
    loaded = load_dataset(Source(pinned.root, "set"))
    assert [sample.id for sample in loaded.samples] == ["plans"]
    assert [one.render() for one in loaded.warnings] == ["set: 1 triple is stale, so not evaluated: refunds"]
    assert pinned.call("carry", "--old-corpus", "corpus.jsonl", "--corpus", "corpus.jsonl", "--as", "ada").code == 0
    assert pinned.state("refunds") == "stale", "the old corpus has another text than the pin, so nothing moved"


def test_a_stale_triple_that_is_named_is_pinned_to_the_new_text(pinned):
    pinned.corpus(plans="Two plans.", refunds="Still 14 days")
    pinned.call("check", "--corpus", "corpus.jsonl", "--mark", "--as", "dan")
    assert list(gold.pin(pinned.root, "corpus.jsonl", "ada", reviewed=True).entries) == [], "never without its name"
    assert pinned.call("pin", "refunds", "--corpus", "corpus.jsonl", "--as", "ada").code == 0
    assert pinned.block("refunds")["version"] == f"sha256:{hashlib.sha256(b'Still 14 days').hexdigest()[:32]}"
    assert (pinned.state("refunds"), gold.check_set(pinned.root, "corpus.jsonl").stale) == ("pending", {})
    assert pinned.accept("refunds").is_accepted
    done = pinned.call("pin", "refunds", "--corpus", "corpus.jsonl", "--as", "ada")
    assert (done.code, "refunds: all blocks are pinned" in done.err) == (2, True)


def test_another_corpus_is_refused(pinned):
    pinned.corpus("other.jsonl", nix="?")
    done = pinned.call("check", "--corpus", "other.jsonl", "--mark", "--as", "ada")
    assert (done.code, "no block of the set is in this corpus" in done.err) == (2, True)
    assert pinned.state("refunds") == "accepted"


def test_validate_and_evaluate_leave_out_what_changed(pinned):
    pinned.corpus(plans="Two plans.", refunds="13 days")
    path = f"$file:{pinned.root}"
    with FaultyAgent() as agent:
        pinned.project.api = {"url": agent.url}
        pinned.project.evaluation["datasets"] = [
            {"name": "gold", "path": path, "corpus": "$file:corpus.jsonl", "metrics": ["string_match"]}
        ]
        for done in (pinned.project.validate(), pinned.project.evaluate("--json")):
            assert done.code == 0, done.err
            assert "1 triple is stale, so not evaluated: refunds (block refunds changed from sha256" in done.err
        assert [sample["id"] for sample in done.document["datasets"][0]["samples"]] == ["plans"]


def test_nothing_to_do_is_said(pinned):
    corpus = ("--corpus", "corpus.jsonl")
    done = pinned.call("pin", *corpus, "--as", "ada")
    assert (done.code, done.err) == (0, "nothing to pin: all blocks are pinned\n")
    done = pinned.call("carry", "--old-corpus", "corpus.jsonl", *corpus, "--as", "ada")
    assert (done.code, done.err) == (0, "nothing to carry: no block changed or is missing\n")


def test_a_plain_file_of_triples_is_checked_too(gold_set, tmp_path):
    entry = "- {{question: q, id: {}, expected_block: {{block_id: {}{}}}}}\n"
    (tmp_path / "d.yaml").write_text(
        entry.format("same", "refunds", f", version: '{PIN}'")
        + entry.format("changed", "plans", f", version: '{PIN}'")
        + entry.format("gone", "nix", ", version: v1")
        + entry.format("loose", "nix", "")
        + entry.format("label", "plans", ", version: v1")
    )
    corpus = gold_set.corpus(**TEXTS)
    loaded = load_dataset(Source(tmp_path / "d.yaml", "d.yaml", corpus, "corpus.jsonl"))
    assert [sample.id for sample in loaded.samples] == ["same", "loose", "label"]
    missing, stale, label = (one.render() for one in loaded.warnings)
    assert "1 of 3 judged documents are not in the corpus: nix" in missing
    assert stale.startswith("d.yaml: 2 triples are stale, so not evaluated: changed (block plans changed from")
    assert "label" in label
    assert [document.id for document in loaded.content.documents] == ["refunds", "plans"]


def test_carry_writes_revisions_that_people_have_to_review(pinned):
    long = " ".join(f"sentence {n} of the page on plans and prices" for n in range(40))
    first = {"old": {"text": long, "title": "Plans"}, "kept": "The kept text stays as it is.", "lost": "x" * 60}
    pinned.corpus("first.jsonl", **first)
    for name in first:
        pinned.add(name, block={"block_id": name, "document_id": "doc", "page_range": [1, 2]})
    gold.pin(pinned.root, "first.jsonl", "ada")
    for name in first:
        pinned.accept(name)
    middle = len(long) // 2
    pinned.corpus("second.jsonl", kept=first["kept"], left=long[:middle], right=long[middle:])
    done = pinned.call("carry", "--old-corpus", "first.jsonl", "--corpus", "second.jsonl", "--as", "ada", "--json")
    assert [one["id"] for one in done.document["triples"]] == ["old"]
    assert done.document["left"]["lost"].startswith("block lost is not carried over: ")
    assert {name: pinned.state(name) for name in first} == {"old": "pending", "kept": "accepted", "lost": "accepted"}
    ((parts,),) = ([part["any"] for part in pinned.block("old")],)
    assert [part["block_id"] for part in parts] == ["left", "right"]
    assert all(part["version"].startswith("sha256:") for part in parts)
    entry = gold.read_entry(pinned.root, "old")
    differs = "the new text of block old lacks 2 words and adds 2"
    note = f"carried from first.jsonl to second.jsonl, {differs}"
    assert (entry.review_status.revision, entry.events[-1].event.note) == (3, note), "the title, and a word cut in two"
    assert (done.document["newTexts"], f"warning: old: {differs}. compare the answer with it" in done.err) == (
        {"old": [{"block": "old", "missing": 2, "added": 2}]},
        True,
    )
    assert [entry.id for entry in gold.check_set(pinned.root, "second.jsonl").found.list_accepted()] != []
    before = pinned.files()
    done = pinned.call(
        "carry", "lost", "kept", "--old-corpus", "first.jsonl", "--corpus", "second.jsonl", "--as", "ada"
    )
    assert (done.code, pinned.files() == before) == (2, True)


def test_an_edited_block_keeps_its_place(pinned):
    text = "Refunds take 14 days from the day on which the goods arrive at our warehouse."
    pinned.corpus("first.jsonl", page=text)
    pinned.add("page", block={"block_id": "page", "document_id": "terms", "page_range": [3, 4]})
    gold.pin(pinned.root, "first.jsonl", "ada")
    pinned.corpus("second.jsonl", page=text.replace("14", "30"))
    (entry,) = gold.carry(pinned.root, "first.jsonl", "second.jsonl", "ada", ["page"]).entries
    (block,) = entry.triple.blocks
    assert (block.block_id, block.document_id, block.page_range) == ("page", "terms", [3, 4])
    assert gold.check_numbers(pinned.root, gold.read_entry(pinned.root, "page")).differences[0].block is not None


def test_lint_finds_damaged_texts_and_pins(pinned):
    path = pinned.root / "blocks" / PIN.removeprefix("sha256:")
    path.write_text("Refunds\n15 days")
    done = pinned.call("lint")
    assert (done.code, "the text is not the one that its name pins" in done.err) == (2, True)
    assert gold.check_numbers(pinned.root, gold.read_entry(pinned.root, "refunds")).unknown is not None
    path.unlink()
    done = pinned.call("lint")
    assert (done.code, "the pinned text of refunds is not in blocks/" in done.err) == (0, True)
    pinned.add("bad", block={"block_id": "b", "version": "sha256:XYZ"})
    done = pinned.call("lint")
    assert (done.code, "'sha256:XYZ' is not sha256: and 16 to 64 hex digits" in done.err) == (2, True)


def test_a_hand_edited_triple_is_named_not_marked(pinned):
    path = pinned.root / "triples" / "refunds.yaml"
    path.write_text(path.read_text().replace("14 days", "15 days"))
    pinned.corpus(plans="Two plans.", refunds="13 days")
    done = pinned.call("check", "--corpus", "corpus.jsonl", "--mark", "--as", "ada")
    assert (done.code, "refunds was not marked: the content was edited by hand" in done.err) == (2, True)


def test_an_unreadable_corpus_is_one_line(pinned):
    with pytest.raises(InvalidInput, match="no such file"):
        gold.check_set(pinned.root, "nowhere.jsonl")


def test_a_pin_does_not_hide_an_edit_by_hand(gold_set):
    """Who runs it may review the revision, because nobody wrote it."""
    corpus = gold_set.corpus(refunds="A refund takes 14 days.")
    gold_set.add("refund")
    file = gold_set.root / "triples" / "refund.yaml"
    file.write_text(file.read_text().replace("14 days", "15 days"))
    told = gold_set.call("pin", "refund", "--corpus", str(corpus), "--as", "ben")
    assert (told.code, "was edited by hand; record that first: evalspec gold revise refund" in told.err) == (2, True)


def test_a_stale_triple_gets_back_by_a_corrected_revision_with_the_new_pin(gold_set):
    old = gold_set.corpus("old.jsonl", refunds="A refund takes 14 days.")
    gold_set.add("refund")
    gold_set.call("pin", "refund", "--corpus", str(old), "--as", "ada")
    gold_set.accept("refund")
    new = str(gold_set.corpus("new.jsonl", refunds="A refund takes 10 days."))
    assert gold_set.call("check", "--corpus", new, "--mark", "--as", "ada").code == 0
    file = gold_set.root / "triples" / "refund.yaml"
    file.write_text(file.read_text().replace("14 days", "10 days"))
    assert gold_set.call("revise", "refund", "--corpus", new, "--as", "ada").code == 0
    shown = gold_set.call("next", "--as", "ben", "--json").document["triple"]
    assert (shown["texts"][0]["text"], shown["numbers"]) == ("A refund takes 10 days.", [])
    gold_set.accept("refund")
    assert gold_set.call("check", "--corpus", new).code == 0


def test_a_text_with_a_term_of_a_grant_is_not_kept(gold_set):
    gold.grant(gold_set.root, "acme", "ada", evidence="contract 17", terms=["Acme Corp"])
    corpus = gold_set.corpus(desk="The desk of Acme Corp opens at 9.")
    told = gold_set.call("add", "x", "--question", "When?", "--block", "desk", "--corpus", str(corpus), "--as", "ada")
    assert (told.code, "has a term of permissions/acme.yaml" in told.err, "--block ID@VERSION" in told.err) == (
        2,
        True,
        True,
    )


def test_what_a_revision_from_a_file_leaves_out_is_named(gold_set):
    gold_set.add("refund", metadata={"domain": "billing", "source": "public"})
    file = gold_set.project.folder / "new.yaml"
    file.write_text("question: q?\nexpected_block: {block_id: refunds}\nexpected_answer: 15 days\n")
    told = gold_set.call("revise", "refund", "--file", str(file), "--as", "ada")
    assert (told.code, "metadata.domain is removed" in told.err) == (0, True)
