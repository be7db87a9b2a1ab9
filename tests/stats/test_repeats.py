from itertools import combinations
from statistics import fmean, variance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.verdict.stats.repeats import compute_pass_at_k, compute_pass_hat_k, compute_variance_components


@pytest.mark.parametrize("attempts", range(1, 8))
def test_pass_rates_are_shares_of_all_choices_of_k(attempts):
    for passes in range(attempts + 1):
        for k in range(1, attempts + 1):
            chosen = list(combinations([1] * passes + [0] * (attempts - passes), k))
            assert compute_pass_at_k(attempts, passes, k) == pytest.approx(fmean(any(one) for one in chosen))
            assert compute_pass_hat_k(attempts, passes, k) == pytest.approx(fmean(all(one) for one in chosen))


def test_pass_rates_of_many_attempts_are_exact():
    """C(9999, 5000) / C(10000, 5000) is 1 / 2, though both have 3,000 digits; a rare pass is not rounded away."""
    assert compute_pass_at_k(10_000, 1, 5000) == compute_pass_hat_k(10_000, 9999, 5000) == 0.5
    assert compute_pass_at_k(10**6, 1, 1) == 1e-6
    assert 1 - compute_pass_hat_k(10**6, 10**6 - 1, 1) == pytest.approx(1e-6)


def test_pass_rates_that_are_unknown_or_cannot_be():
    assert compute_pass_at_k(3, 3, 4) is None
    assert compute_pass_hat_k(0, 0, 1) is None
    for attempts, passes, k in [(3, 4, 1), (3, -1, 1), (3, 1, 0)]:
        for compute in (compute_pass_at_k, compute_pass_hat_k):
            with pytest.raises(ValueError, match="is impossible"):
                compute(attempts, passes, k)


score = st.integers(0, 100).map(lambda percent: percent / 100)


@given(st.integers(2, 4), st.integers(2, 4), st.integers(1, 5), st.data())
def test_components_of_complete_repeats_are_the_textbook_s(attempts, judgements, samples, data):
    reply = st.lists(score, min_size=judgements, max_size=judgements)
    sample = st.lists(reply, min_size=attempts, max_size=attempts)
    scores = data.draw(st.lists(sample, min_size=samples, max_size=samples))
    judge = fmean(variance(reply) for replies in scores for reply in replies)
    between = fmean(variance([fmean(reply) for reply in replies]) for replies in scores)
    components = compute_variance_components(scores)
    assert components.judge == pytest.approx(judge, abs=1e-12)
    assert components.replies == pytest.approx(between, abs=1e-12)
    assert components.agent == pytest.approx(max(0, between - judge / judgements), abs=1e-12)


def test_components_of_incomplete_repeats_by_hand():
    """Reply means 1, 3 and 5. Judge: (2 + 0 + 8) / (1 + 1 + 2). Replies: 2 / 1. Agent: 2 less half the judge's."""
    components = compute_variance_components([[[0, 2], [3, 3], []], [[3, 5, 7]], []])
    assert components.judge == pytest.approx(10 / 4)
    assert components.replies == pytest.approx(2)
    assert components.agent == 2 - 2.5 / 2


def test_components_are_right_on_average_with_unequal_counts():
    """Judge 0.04, agent 0.09; 2 to 5 replies a sample, 1 to 4 judgements a reply."""
    generator = np.random.default_rng(3)
    scores = [
        [
            (generator.normal(0, 0.3) + generator.normal(0, 0.2, generator.integers(1, 5))).tolist()
            for _ in range(generator.integers(2, 6))
        ]
        for _ in range(5000)
    ]
    components = compute_variance_components(scores)
    assert components.judge == pytest.approx(0.04, rel=0.03)
    assert components.agent == pytest.approx(0.09, rel=0.04)


@pytest.mark.parametrize(
    ("scores", "judge", "agent", "replies"),
    [
        ([], None, None, None),
        ([[[0.5]]], None, None, None),
        ([[[0.25], [0.75]]], None, None, 0.125),
        ([[[0.25, 0.75]], [[1, 1]]], 0.0625, None, None),
        ([[[0, 1], [0, 1]]], 0.5, 0.0, 0.0),
    ],
    ids=["nothing", "asked once", "judged once", "one reply a sample", "all noise is the judge's"],
)
def test_what_repeats_cannot_tell_is_unknown(scores, judge, agent, replies):
    components = compute_variance_components(scores)
    assert (components.judge, components.agent, components.replies) == (judge, agent, replies)
