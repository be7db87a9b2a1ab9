"""Ground truth over two chunkings of one text: which characters are carried, and what becomes of grades and groups."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalspec.curation.remap.carrying import remap_samples
from evalspec.curation.remap.corpus import Chunk, Corpus
from evalspec.curation.remap.matching import compute_matches
from evalspec.curation.remap.shared_text import MatchMethod
from evalspec.model import Sample

WORDS = random.Random(7)
TEXT = " ".join("".join(WORDS.choices("abcdefghijklmnopqrstuvwxyz", k=WORDS.randint(2, 9))) for _ in range(80))
SPANS = st.tuples(st.integers(0, len(TEXT) - 1), st.integers(1, 150)).map(
    lambda drawn: (drawn[0], min(sum(drawn), len(TEXT)))
)
CHUNKINGS = st.lists(SPANS, min_size=1, max_size=12)
SHARES = st.floats(0, 1)


def chunks(prefix: str, spans, path="a.pdf", **place) -> list[Chunk]:
    return [Chunk(f"{prefix}{n}", TEXT[s:e], path, span=(s, e), **place) for n, (s, e) in enumerate(spans)]


def without_texts(given_chunks) -> list[Chunk]:
    return [Chunk(chunk.id, "", chunk.path, span=chunk.span) for chunk in given_chunks]


def without_spans(given_chunks) -> list[Chunk]:
    return [Chunk(chunk.id, chunk.text) for chunk in given_chunks]


def corpus(given_chunks) -> Corpus:
    return Corpus(None, "corpus", given_chunks, ())


def remap(samples, old, new, min_overlap=0.5):
    return remap_samples(samples, corpus(old), corpus(new), min_overlap)


def characters(given_chunks, ids=None) -> set[int]:
    return {place for chunk in given_chunks if ids is None or chunk.id in ids for place in range(*chunk.span)}


def carry(qrels, old, new, groups=None, min_overlap=0.5) -> Sample:
    (sample,) = remap([Sample("q", "?", qrels=qrels, groups=groups)], old, new, min_overlap).samples
    return sample


@given(old=CHUNKINGS.map(lambda s: chunks("o", s)), new=CHUNKINGS.map(lambda s: chunks("n", s)), share=SHARES)
def test_characters_that_the_new_corpus_has_are_carried(old, new, share):
    """All of them where any overlap is enough; else nine tenths, by every chunk whose overlap is enough."""
    old, new = without_texts(old), without_texts(new)
    for min_overlap in (0, share):
        matches = compute_matches(old, new, min_overlap)
        for chunk in old:
            match, own = matches[chunk.id], characters([chunk])
            held = own & characters(new)
            assert match.held == pytest.approx(len(held) / len(own))
            if not match.overlaps:
                assert not held or len(held) < min_overlap * len(own)
                continue
            covered = own & characters(new, match.chunks)
            assert match.covered == pytest.approx(len(covered) / len(own))
            assert covered == held if min_overlap == 0 else len(covered) >= 0.9 * len(held)
            for other in new:
                shared = len(own & characters([other]))
                if shared and shared >= min_overlap * min(len(own), len(characters([other]))):
                    assert other.id in match.chunks


@given(old=CHUNKINGS.map(lambda s: chunks("o", s)), new=CHUNKINGS.map(lambda s: chunks("n", s)))
def test_there_and_back_covers_the_original(old, new):
    there = compute_matches(old, new, 0)
    back = compute_matches(new, old, 0)
    for chunk in old:
        returned = {name for step in there[chunk.id].chunks for name in back[step].chunks}
        assert characters([chunk]) & characters(new) <= characters(old, returned)


@given(spans=CHUNKINGS, share=SHARES, with_spans=st.booleans(), data=st.data())
def test_onto_itself_it_is_the_identity(spans, share, with_spans, data):
    old = chunks("o", spans) if with_spans else without_spans(chunks("o", spans))
    ids = st.sampled_from([chunk.id for chunk in old])
    graded = data.draw(st.dictionaries(ids, st.integers(0, 3), min_size=1))
    groups = tuple(map(tuple, data.draw(st.lists(st.lists(ids, min_size=1, unique=True), min_size=1))))
    samples = [
        Sample("graded", "?", qrels=graded),
        Sample("grouped", "?", qrels={name: 1 for group in groups for name in group}, groups=groups),
        Sample("unjudged", "?"),
    ]
    remapping = remap(samples, old, old, share)
    assert list(remapping.samples) == samples
    assert (remapping.lost, remapping.graded, remapping.outdated) == ((), (), 0)


@example(old=chunks("o", [(252, 286)]), new=chunks("n", [(0, 116), (253, 286), (136, 286)]))
@given(old=CHUNKINGS.map(lambda s: chunks("o", s)), new=CHUNKINGS.map(lambda s: chunks("n", s)))
def test_the_text_alone_finds_what_the_spans_say(old, new):
    """But for what two texts may have in common by chance, and fewer than 24 characters in a row. What adds nothing to
    other chunks may be left out, as the text alone does not say that it is of the same place.
    """
    by_text = compute_matches(without_spans(old), without_spans(new), 0)
    for chunk in old:
        match = by_text[chunk.id]
        carried = characters(new, match.chunks)
        for other in new:
            shared = characters([chunk]) & characters([other])
            left = [place for place in shared - carried if not TEXT[place].isspace()]
            assert len(shared) < 34 or len(left) < 24
        possible = {other.id for other in new if characters([chunk]) & characters([other])}
        same_text = {other.id for other in new if other.text.split() == chunk.text.split()}
        claimed = {o.chunk for o in match.overlaps if not o.doubtful and o.of_old * len(chunk.text) >= 8}
        assert claimed <= possible | same_text


@pytest.mark.parametrize("with_spans", [True, False])
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((0, 300), [(100, 200)], {"n0": 1}),  # a new chunk strictly inside the old one, on which neither end falls
        ((100, 200), [(0, 300)], {"n0": 1}),  # and the other way round
        ((0, 300), [(0, 100), (100, 200), (200, 300)], {"n0": 1, "n1": 1, "n2": 1}),
        ((0, 200), [(0, 192), (192, 384)], {"n0": 1}),  # the last word of a passage does not make an answer
        ((0, 200), [(0, 120), (120, 320)], {"n0": 1, "n1": 1}),  # two fifths of a passage may well hold it
        ((0, 200), [(150, 350)], None),
    ],
)
def test_which_chunks_stand_for_an_old_one(old, new, expected, with_spans):
    before, after = chunks("o", [old]), chunks("n", new)
    if not with_spans:
        before, after = without_spans(before), without_spans(after)
    assert carry({"o0": 1}, before, after).qrels == expected


def test_an_id_that_is_used_again_for_another_text_is_not_kept():
    old = [Chunk("0", TEXT[:100]), Chunk("1", TEXT[100:200])]
    new = [Chunk("0", TEXT[100:200]), Chunk("1", TEXT[:100])]
    assert carry({"0": 1}, old, new).qrels == {"1": 1}


def test_a_text_is_looked_for_in_its_own_page_first_then_in_its_file_then_anywhere():
    old = [Chunk("o", TEXT[:100], "a.pdf", 3)]
    far = [Chunk("far", TEXT[:100], "b.pdf", 3)]
    file = [Chunk("file", TEXT[:100], "a.pdf", 4)]
    page = [Chunk("page", TEXT[:100], "a.pdf", 3)]
    for new, expected in ((far, "far"), (far + file, "file"), (far + file + page, "page")):
        assert carry({"o": 1}, old, new).qrels == {expected: 1}


def test_spans_count_within_their_own_page_and_file_only():
    old = chunks("o", [(0, 100)], page=1)
    elsewhere = [Chunk("n", TEXT[200:300], path, page, (0, 100)) for path, page in (("a.pdf", 2), ("b.pdf", 1))]
    assert not compute_matches(old, elsewhere, 0)["o0"].overlaps
    here = Chunk("n", "Rewritten.", "a.pdf", 1, (0, 100))
    assert compute_matches(old, [*elsewhere[:1], here], 0)["o0"].overlaps[0].how is MatchMethod.SPAN


def test_without_a_file_a_span_is_believed_only_if_the_texts_agree():
    old = chunks("o", [(0, 100)], path=None)
    liar, honest = Chunk("liar", TEXT[300:400], span=(0, 100)), Chunk("honest", f"Title: {TEXT[:100]}", span=(0, 100))
    (found,) = compute_matches(old, [liar, honest], 0.5)["o0"].overlaps
    assert (found.chunk, found.how, found.doubtful) == ("honest", MatchMethod.SPAN, False)


def test_spans_of_one_file_whose_texts_contradict_them_are_doubtful():
    rewritten = Chunk("n", "A summary that has no words of the text.", "a.pdf", span=(0, 100))
    (found,) = compute_matches(chunks("o", [(0, 100)]), [rewritten], 0.5)["o0"].overlaps
    assert found.doubtful


def test_headings_that_all_chunks_share_make_no_match():
    heading = "The handbook of everything, second edition. "
    old = [Chunk(f"o{n}", heading + TEXT[n * 5 : n * 5 + 150]) for n in range(70)]
    new = [Chunk(f"n{n}", heading + TEXT[n * 5 : n * 5 + 150]) for n in range(0, 70, 40)]
    matches = compute_matches(old, new, 0.5)
    assert (matches["o0"].chunks, matches["o69"].chunks) == (("n0",), ())


def test_a_new_chunk_has_the_highest_grade_of_the_old_ones_in_it():
    old, new = chunks("o", [(0, 100), (100, 200), (200, 300)]), chunks("n", [(0, 200), (200, 300)])
    for first, second in ((1, 3), (3, 1), (0, 3)):
        assert carry({"o0": first, "o1": second, "o2": 0}, old, new).qrels == {"n0": 3, "n1": 0}


def test_what_was_judged_not_relevant_says_nothing_of_a_chunk_that_is_mostly_something_else():
    old, new = chunks("o", [(0, 60), (300, 400)]), chunks("n", [(0, 200), (300, 400)])
    assert carry({"o0": 0, "o1": 2}, old, new).qrels == {"n1": 2}


def test_split_chunks_become_groups_and_groups_keep_their_meaning():
    old = chunks("o", [(0, 200), (200, 300), (300, 400)])
    new = chunks("n", [(0, 100), (100, 200), (200, 300), (300, 400)])
    assert carry({"o0": 1, "o1": 1}, old, new).groups == (("n0", "n1"), ("n2",))
    assert carry({"o1": 1, "o2": 1}, old, new).groups is None
    groups = (("o0", "o1"), ("o2",))
    assert carry({"o0": 1, "o1": 1, "o2": 1}, old, new, groups).groups == (("n0", "n1", "n2"), ("n3",))


def test_chunks_that_were_joined_are_needed_once():
    sample = carry({"o0": 1, "o1": 1}, chunks("o", [(0, 100), (100, 200)]), chunks("n", [(0, 200)]))
    assert (sample.qrels, sample.groups) == ({"n0": 1}, None)


def test_grades_stay_and_their_parts_are_told_to_count_one_by_one():
    samples = [Sample("q", "?", qrels={"o0": 2})]
    remapping = remap(samples, chunks("o", [(0, 200)]), chunks("n", [(0, 100), (100, 200)]))
    assert (remapping.samples[0].qrels, remapping.samples[0].groups) == ({"n0": 2, "n1": 2}, None)
    assert remapping.graded == ("q",)


def test_what_is_lost_is_listed_and_a_sample_without_anything_left_is_unjudged_not_unanswerable():
    old, new = chunks("o", [(0, 100), (200, 300), (300, 400)]), chunks("n", [(0, 100), (280, 380)])
    samples = [
        Sample("left", "?", qrels={"o0": 1, "o1": 1}),
        Sample("none", "?", qrels={"o1": 1, "o2": 0, "gone": 1}),
        Sample("groups", "?", qrels={"o0": 1, "o1": 1}, groups=(("o0", "o1"), ("o1",))),
    ]
    remapping = remap(samples, old, new)
    left, none, groups = remapping.samples
    assert left.qrels == {"n0": 1}
    assert (none.qrels, none.groups) == (None, None)
    assert groups.groups == (("n0",),)
    assert [(lost.sample, lost.old, lost.why, lost.best and lost.best.chunk) for lost in remapping.lost] == [
        ("left", "o1", "the new corpus has 20 % of it", "n1"),
        ("none", "o1", "the new corpus has 20 % of it", "n1"),
        ("none", "gone", "it is not in corpus", None),
        ("groups", "o1", "the new corpus has 20 % of it", "n1"),
    ]
