"""Chunks made into documents, and rankings made into one."""

from hypothesis import given
from hypothesis import strategies as st

from evalspec.targets.retrievers.base import Hit, collapse_hits
from evalspec.targets.retrievers.opening import fuse_rankings
from retrievers.asking import make_hits

ids = st.sampled_from("abcdefgh")
hits = st.builds(Hit, ids, st.none() | st.sampled_from("wxyz"))
rankings = st.lists(st.lists(ids, max_size=8), min_size=1, max_size=3).map(
    lambda drawn: [make_hits(*ranking) for ranking in drawn]
)


def test_chunks_collapse_to_their_document_at_its_first_rank():
    found = [Hit("a1", "a"), Hit("b1", "b"), Hit("a2", "a"), Hit("c"), Hit("b")]
    assert collapse_hits(found) == [Hit("a1", "a"), Hit("b1", "b"), Hit("c")]


@given(st.lists(hits))
def test_collapsing_keeps_every_document_once_and_in_order(found):
    collapsed = collapse_hits(found)
    assert [hit.document for hit in collapsed] == list(dict.fromkeys(hit.document for hit in found))
    assert all(found.index(hit) == [other.document for other in found].index(hit.document) for hit in collapsed)
    assert collapse_hits(collapsed) == collapsed


def test_the_example_of_two_rankings():
    fused = fuse_rankings([make_hits("a", "b", "c"), make_hits("b", "d")], 60)
    assert [(hit.id, hit.score) for hit in fused] == [
        ("b", 1 / 62 + 1 / 61),
        ("a", 1 / 61),
        ("d", 1 / 62),
        ("c", 1 / 63),
    ]


def test_equal_shares_stand_by_id_the_highest_first():
    fused = fuse_rankings([make_hits("a", "b"), make_hits("b", "a")], 60)
    assert [hit.id for hit in fused] == ["b", "a"]
    assert fused[0].score == fused[1].score


def test_a_fused_hit_keeps_what_the_first_ranking_says_of_it():
    fused = fuse_rankings([[Hit("a", "doc", 9.0, "text")], [Hit("a", None, 0.1, None)]], 0)
    assert fused == [Hit("a", "doc", 2.0, "text")]


@given(rankings, st.sampled_from([0, 10, 60]))
def test_scores_are_the_sum_of_the_reciprocal_ranks(drawn, rrf_k):
    fused = fuse_rankings(drawn, rrf_k)
    assert sorted(hit.id for hit in fused) == sorted({hit.id for ranking in drawn for hit in ranking})
    for hit in fused:
        places = [list(dict.fromkeys(other.id for other in ranking)) for ranking in drawn]
        expected = sum(1 / (rrf_k + place.index(hit.id) + 1) for place in places if hit.id in place)
        assert abs(hit.score - expected) < 1e-12
    assert fused == sorted(fused, key=lambda hit: (hit.score, hit.id), reverse=True)


@given(rankings)
def test_the_order_of_the_rankings_does_not_matter(drawn):
    assert fuse_rankings(drawn, 60) == fuse_rankings(drawn[::-1], 60)


@given(st.lists(ids, unique=True))
def test_fusing_a_ranking_with_itself_changes_nothing(ranking):
    fused = fuse_rankings([make_hits(*ranking)] * 2, 60)
    assert [hit.id for hit in fused] == ranking
