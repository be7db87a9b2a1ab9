"""Corpora that have texts only: the ground truth is carried as spans would carry it, and never to another document."""

import json
import os
import random
from pathlib import Path

import pytest

from evalspec.records import Sample
from evalspec.remap.carrying import remap_samples
from evalspec.remap.corpus import Chunk, Corpus

CRANFIELD = Path(os.environ.get("EVALSPEC_TEST_DATA", "")) / "cranfield"
PAIRS = [((1000, 200), (500, 50)), ((1000, 0), (256, 0)), ((256, 0), (1000, 200)), ((300, 10), (700, 60))]


def make_documents(count=120):
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
    remapping = remap_samples(samples, *corpora, 0.5)
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


@pytest.mark.parametrize(("before", "after"), PAIRS)
@pytest.mark.parametrize("how", ["in order", "shuffled", "stripped"])
def test_texts_carry_what_spans_carry(before, after, how):
    documents = list(make_documents())
    carried, foreign, queries, equal = measure_honesty(
        documents, before, after, shuffle=how == "shuffled", strip=how == "stripped"
    )
    assert carried > queries
    assert foreign <= 0.005 * carried, f"{foreign} of {carried}"
    assert equal >= 0.98 * queries, f"{equal} of {queries}"


@pytest.mark.skipif(not CRANFIELD.is_dir(), reason="EVALSPEC_TEST_DATA names no folder with Cranfield")
@pytest.mark.parametrize(("before", "after"), PAIRS[:2])
def test_texts_carry_what_spans_carry_in_cranfield(before, after):
    carried, foreign, queries, equal = measure_honesty(read_cranfield(), before, after)
    print(f"\n{before} → {after}: {foreign} of {carried} ids of another document, {equal} of {queries} queries equal")
    assert foreign <= 0.005 * carried
    assert equal >= 0.98 * queries
