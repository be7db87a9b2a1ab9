"""pass^k and pass@k of a sample from its attempts, and how often the interval of their mean covers the truth."""

from itertools import combinations
from statistics import fmean

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evalspec.model import Attempt, Cause, Direction, Sample, SampleStatus, Score, ScoreStatus, Threshold
from evalspec.verdict.attempts import combine_attempts
from evalspec.verdict.outline import MetricOutline, PassRule
from evalspec.verdict.stats.repeats import compute_pass_hat_k
from simulated import find_misses

UNIT = (0.0, 1.0)
NO_REPLY = "no usable reply"
KNOWN = {True: Score.scored(0.75), False: Score.scored(0.25), None: Score.failed("no grade", Cause.JUDGE)}


def over(k, *, is_every=True):
    rule = PassRule(k, is_every, "m")
    return MetricOutline("passes", "mean", Direction.HIGHER, UNIT, passes=rule)


def combine(scores, k, *, is_every=True):
    """The score of a sample with these scores of attempts. Those without a reply have a `NO_REPLY`."""
    statuses = [SampleStatus.FAILED if score.reason == NO_REPLY else SampleStatus.ANSWERED for score in scores]
    attempts = [Attempt(status, scores={"m": score}) for status, score in zip(statuses, scores, strict=True)]
    limits = [Threshold("m", min=0.5)]
    found = combine_attempts(Sample("s", "q"), attempts, limits, [over(k, is_every=is_every)])
    return found.scores["passes"]


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=7), st.integers(1, 7), st.booleans())
def test_a_sample_has_the_share_of_all_choices_of_k_of_its_decided_attempts(outcomes, k, is_every):
    decided = [one for one in outcomes if one is not None]
    chosen = list(combinations(decided, k))
    score = combine([KNOWN[one] for one in outcomes], k, is_every=is_every)
    if chosen:
        assert score.value == pytest.approx(fmean(map(all if is_every else any, chosen)))
    else:
        assert (score.status, score.value) == (ScoreStatus.FAILED, None)
        assert score.cause is (Cause.JUDGE if None in outcomes else Cause.OTHER)


GONE = Score.not_applicable("the reply has no tool call", Cause.REPLY)
ELSEWHERE = Score.not_applicable("the sample expects no state", Cause.DATASET)


@pytest.mark.parametrize(
    ("scores", "status", "cause"),
    [
        ([Score.skipped("no judge")] * 3, ScoreStatus.SKIPPED, None),
        ([ELSEWHERE] * 3, ScoreStatus.NOT_APPLICABLE, Cause.DATASET),
        ([KNOWN[True], GONE, GONE], ScoreStatus.FAILED, Cause.REPLY),
        ([KNOWN[True], KNOWN[True], GONE], ScoreStatus.SCORED, Cause.REPLY),
        ([KNOWN[True], KNOWN[True], Score.failed("limit", Cause.STOPPED)], ScoreStatus.FAILED, Cause.STOPPED),
        ([KNOWN[True], *[Score.failed(NO_REPLY, Cause.ENVIRONMENT)] * 2], ScoreStatus.FAILED, Cause.ENVIRONMENT),
        ([KNOWN[True], *[Score.failed(NO_REPLY, Cause.REPLY)] * 2], ScoreStatus.SCORED, None),
    ],
    ids=["skipped", "no such sample", "too few", "the reply's fault counts", "stopped", "broken world", "no reply"],
)
def test_what_is_unknown_has_a_status_and_a_cause(scores, status, cause):
    found = combine(scores, 2)
    assert (found.status, found.cause) == (status, cause)


def cover(setting, runs):
    """Shares of runs whose interval covers the true pass^k: ours, and Student's."""
    attempts, k, (a, b), samples = setting
    truth = float(np.exp(scipy.special.betaln(a + k, b) - scipy.special.betaln(a, b)))
    rng = np.random.default_rng(4)
    table = np.array([compute_pass_hat_k(attempts, successes, k) for successes in range(attempts + 1)])
    scores = table[rng.binomial(attempts, rng.beta(a, b, (runs, samples)))]
    below, above = find_misses(scores, np.ones_like(scores), truth, UNIT)
    half = scipy.stats.t.ppf(0.975, samples - 1) * scores.std(axis=1, ddof=1) / np.sqrt(samples)
    return 1 - float((below | above).mean()), float((abs(scores.mean(axis=1) - truth) <= half).mean())


SETTINGS = [
    (4, 4, (9, 1), 50),
    (4, 4, (1, 1), 50),
    (4, 4, (1, 3), 50),
    (4, 4, (0.5, 0.5), 50),
    (4, 4, (4, 1), 100),
    (5, 2, (2, 1), 20),
    (8, 4, (9, 1), 50),
    (8, 4, (1, 1), 20),
    (8, 4, (1, 3), 50),
    (8, 8, (4, 1), 100),
]
"""Attempts, k, the beta distribution of the samples' rates of success, and the number of samples."""


@pytest.mark.parametrize("setting", [(4, 4, (1, 3), 50), (8, 4, (1, 1), 20), (8, 4, (1, 3), 50)])
def test_the_interval_of_pass_k_covers_and_student_s_does_not(setting):
    ours, student = cover(setting, runs=1000)
    assert ours >= 0.95
    assert student < 0.95


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_interval_of_pass_k_covers_in_every_setting(setting):
    ours, student = cover(setting, runs=10_000)
    assert ours >= 0.95, student
