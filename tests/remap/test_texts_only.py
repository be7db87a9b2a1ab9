"""Corpora that have texts only: the ground truth is carried as spans would carry it, and never to another document."""

import json
import os
import random
from pathlib import Path

import pytest

from evalspec.curation.remap.carrying import remap_samples
from evalspec.curation.remap.corpus import Chunk, Corpus
from evalspec.model import Sample

CRANFIELD = Path(os.environ.get("EVALSPEC_TEST_DATA", "")) / "cranfield"
PAIRS = [((1000, 200), (500, 50)), ((1000, 0), (256, 0)), ((256, 0), (1000, 200)), ((300, 10), (700, 60))]


def make_documents(count=40):
    """Documents of 300 to 3,000 characters; every fourth sentence is one that other documents have as well."""
    draw = random.Random(11)
    words = ["".join(draw.choices("abcdefghijklmnoprstuvwy", k=draw.randint(2, 10))) for _ in range(600)]

    def sentence():
        return " ".join(draw.choices(words, k=draw.randint(4, 18))).capitalize() + ". "

    shared = [sentence() for _ in range(12)]
    for number in range(count):
        size, text = draw.randint(300, 3000), ""
        while len(text) < size:
            text += draw.choice(shared) if draw.random() < 0.25 else sentence()
        yield f"d{number}", text + draw.choice(shared).rstrip()


def read_cranfield():
    lines = map(json.loads, (CRANFIELD / "corpus.jsonl").read_text(encoding="utf-8").splitlines())
    return [(line["doc_id"], line["text"]) for line in lines if line["text"].strip()]


def cut(documents, size, shared, *, strip=False):
    """Chunks with spans, named `document:start`."""
    for name, text in documents:
        for start in range(0, max(1, len(text) - shared), size - shared):
            piece = text[start : start + size]
            span = (start, start + len(piece))
            if strip:
                first = start + len(piece) - len(piece.lstrip())
                piece = piece.strip()
                span = (first, first + len(piece))
            if piece.strip():
                yield Chunk(f"{name}:{start}", piece, name, span=span)


def document_of(chunk_id):
    return chunk_id.rsplit(":", 1)[0]


def carry(samples, old, new, *, spans):
    corpora = []
    for prefix, chunks in (("o-", old), ("n-", new)):
        place = [(chunk.path, None, chunk.span) if spans else () for chunk in chunks]
        renamed = [Chunk(prefix + chunk.id, chunk.text, *own) for chunk, own in zip(chunks, place, strict=True)]
        corpora.append(Corpus(Path("c"), "c", renamed, ()))
    remapping = remap_samples(samples, corpora[0], corpora[1], 0.5)
    return remapping, [set(sample.qrels or ()) for sample in remapping.samples]


def measure_honesty(documents, before, after, *, shuffle=False, strip=False):
    """(carried ids, those of another document, queries, those that are as spans have them), a query for a document."""
    pages = [list(cut([document], *before, strip=strip)) for document in documents]
    samples = [Sample(page[0].path, "?", qrels={f"o-{chunk.id}": 1 for chunk in page}) for page in pages]
    samples += [Sample(f"{name}!", "?", qrels={name: 1}) for sample in samples for name in sample.qrels]
    old = [chunk for page in pages for chunk in page]
    if shuffle:
        documents = random.Random(5).sample(documents, len(documents))
    new = list(cut(documents, *after, strip=strip))
    _, truth = carry(samples, old, new, spans=True)
    _, found = carry(samples, old, new, spans=False)
    carried = foreign = 0
    for sample, ids in zip(samples, found, strict=True):
        home = document_of(next(iter(sample.qrels)))[2:]
        carried += len(ids)
        foreign += sum(document_of(name)[2:] != home for name in ids)
    return carried, foreign, len(samples), sum(map(set.__eq__, truth, found))


@pytest.mark.parametrize(
    ("before", "after", "how"),
    [(*pair, how) for pair in PAIRS for how in ("in order", "stripped")] + [(*pair, "shuffled") for pair in PAIRS[:3]],
)
def test_texts_carry_what_spans_carry(before, after, how):
    documents = list(make_documents())
    carried, foreign, queries, equal = measure_honesty(
        documents, before, after, shuffle=how == "shuffled", strip=how == "stripped"
    )
    assert carried > queries
    assert foreign <= 0.005 * carried, f"{foreign} of {carried}"
    assert equal >= 0.98 * queries, f"{equal} of {queries}"


SHARED = "All of these results are in good agreement with the theory."
OWN = [
    "The wing was tested in a tunnel at low speed, with and without a propeller before it. ",
    "Heat is conducted through slabs of several layers, each of another metal and thickness. ",
]


def carry_one(old, new, judged):
    """What became of one chunk of corpora given as texts, with the ids of both counted from 0."""
    old, new = (
        Corpus(Path("c"), "c", [Chunk(f"{prefix}{n}", text) for n, text in enumerate(texts)], ())
        for prefix, texts in (("o", old), ("n", new))
    )
    remapping = remap_samples([Sample("q", "?", qrels={judged: 1})], old, new, 0.5)
    return remapping.matches[judged]


def test_a_tail_of_another_document_that_shares_a_sentence_is_no_alternative():
    match = carry_one([OWN[0] + SHARED, OWN[1] + SHARED], [OWN[0] + SHARED, OWN[1], SHARED], "o0")
    assert (match.chunks, match.overlaps[0].doubtful) == (("n0",), False)


def test_the_last_word_of_a_document_is_found_in_that_document():
    """It occurs in others too, and is far too short to be found by itself."""
    old = [OWN[0] + "So ends the ", "test.", OWN[1] + "So ends the ", "test."]
    new = [OWN[0], "So ends the test.", OWN[1], "So ends the test."]
    assert [carry_one(old, new, judged).chunks for judged in ("o1", "o3")] == [("n1",), ("n3",)]


def test_a_short_text_that_several_chunks_have_is_refused_with_that_reason():
    match = carry_one(["test."], [OWN[0] + "test.", OWN[1] + "test."], "o0")
    assert (match.chunks, match.why) == ((), "2 new chunks have it, so the match is ambiguous")


def test_short_matches_elsewhere_are_doubtful():
    """The sentence is gone from its document; the tail of another one has it, and it is a large part of the passage."""
    match = carry_one([OWN[0] + SHARED], [OWN[0], "Other things were measured too. " * 9, SHARED], "o0")
    assert [(overlap.chunk, overlap.doubtful) for overlap in match.overlaps] == [("n0", False), ("n2", True)]


def test_a_document_that_both_corpora_have_twice_is_taken_in_its_turn_and_is_doubtful():
    filler = [f"{number} is a number that nobody ever measured in this tunnel. " for number in range(40)]
    texts = ["First. ", OWN[0], *filler, OWN[0], "Last. "]
    matches = [carry_one(texts, [text.rstrip() + "!" for text in texts], judged) for judged in ("o1", "o42")]
    assert [match.chunks for match in matches] == [("n1",), ("n42",)]
    assert all(overlap.doubtful for match in matches for overlap in match.overlaps)


@pytest.mark.skipif(not CRANFIELD.is_dir(), reason="EVALSPEC_TEST_DATA names no folder with Cranfield")
@pytest.mark.parametrize(("before", "after"), PAIRS[:2])
def test_texts_carry_what_spans_carry_in_cranfield(before, after):
    carried, foreign, queries, equal = measure_honesty(read_cranfield(), before, after)
    assert foreign <= 0.005 * carried
    assert equal >= 0.98 * queries
