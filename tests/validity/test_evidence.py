"""What `weigh` makes of pairs: which test, over which units, adjusted among which tests, each with an oracle."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

from evalspec.verdict.stats import detection
from evalspec.verdict.stats.detection import Power
from evalspec.verdict.stats.max_t import Family, compute_max_t
from evalspec.verdict.stats.paired import compute_randomisation_test
from evalspec.verdict.validity.changes import Evidence, PairedScores, SignificanceRules, estimate_difference, weigh
from evalspec.verdict.validity.estimates import Estimate, estimate

ONE_SIDED, TWO_SIDED = SignificanceRules(two_sided=False), SignificanceRules()
RNG = np.random.default_rng(5)
OLD, NEW, OTHER = (RNG.uniform(size=30).round(2).tolist() for _ in range(3))
DOCUMENTS = [f"d{n % 8}" for n in range(30)]


def pair(old, new, units=None, **options):
    differences = [after - before for before, after in zip(old, new, strict=True)]
    return PairedScores(old, new, differences, units or range(len(old)), units is not None, **options)


def weigh_one(scores, rules=TWO_SIDED):
    return weigh([[scores]], rules)[0][0]


@pytest.mark.parametrize(
    ("pairs", "unpaired", "lacks"), [(0, 0, False), (1, 1, False), (18, 2, False), (17, 2, True), (0, 2, True)]
)
def test_one_sample_or_a_tenth_may_be_without_a_partner(pairs, unpaired, lacks):
    scores = pair([1.0] * pairs, [1.0] * pairs, unpaired=unpaired)
    assert scores.lacks_pairs is lacks


def test_pairs_are_complete_and_independent_unless_it_is_said_otherwise():
    plain = PairedScores([0.0, 1.0], [1.0, 1.0], [1.0, 0.0], ["a", "b"])
    assert (plain.is_clustered, plain.clusters, plain.count_units, plain.sign, plain.unpaired) == (False, None, 2, 1, 0)
    clustered = pair(OLD, NEW, DOCUMENTS)
    assert (clustered.clusters, clustered.count_units) == (DOCUMENTS, 8)


@pytest.mark.parametrize(
    ("old", "new", "binary"), [([0, 1], [1, 1], True), ([0, 1], [1, 0.5], False), ([0.5, 1], [1, 1], False)]
)
def test_passes_and_failures_are_binary(old, new, binary):
    assert pair(old, new).is_binary is binary


@pytest.mark.parametrize(
    ("rules", "tests", "needed"),
    [
        (ONE_SIDED, 1, 5),
        (TWO_SIDED, 1, 6),
        (TWO_SIDED, 0, 6),
        (TWO_SIDED, 4, 8),
        (SignificanceRules(0.25, two_sided=False), 1, 3),
    ],
)
def test_the_units_that_could_reach_alpha(rules, tests, needed):
    """The least n with 2^-n * sides * tests < alpha."""
    for units in (needed - 1, needed):
        evidence = Evidence(pair([0.0] * units, [1.0] * units), Estimate(units), rules, tests=tests)
        assert (evidence.units_needed, evidence.can_reach_alpha) == (needed, units == needed)
        assert (units >= needed) is (0.5**units * (1 + rules.two_sided) * max(tests, 1) < rules.alpha)


@pytest.mark.parametrize(("adjusted", "significant"), [(None, False), (0.049, True), (0.05, False)])
def test_alpha_itself_is_not_significant(adjusted, significant):
    assert Evidence(pair(OLD, NEW), Estimate(30), TWO_SIDED, adjusted=adjusted).is_significant is significant


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_drop_is_the_worse_end_of_a_one_sided_bound(sign):
    """At 1 - alpha on that one side, so of an interval at 1 - 2 alpha."""
    scores = pair(OLD, NEW, sign=sign, bounds=(0.0, 1.0))
    low, high = estimate_difference(scores, 0.9).interval
    for rules in (TWO_SIDED, ONE_SIDED):
        assert Evidence(scores, Estimate(30), rules).largest_drop == (-low if sign > 0 else high)
    assert Evidence(pair([], []), Estimate(0), ONE_SIDED).largest_drop is None


@pytest.mark.parametrize("units", [None, DOCUMENTS])
def test_the_interval_is_of_paired_differences_over_their_range(units):
    scores = pair(OLD, NEW, units, bounds=(-1.0, 1.0))
    expected = estimate(scores.differences, "mean", (-2.0, 2.0), 0.9, clusters=units)
    assert estimate_difference(scores, 0.9) == expected
    evidence = weigh_one(scores, SignificanceRules(0.1))
    assert evidence.estimate == expected
    assert evidence.largest_drop < -expected.interval[0]


@pytest.mark.parametrize(
    ("rules", "sign", "alternative"),
    [(TWO_SIDED, 1, "two-sided"), (ONE_SIDED, 1, "less"), (ONE_SIDED, -1, "greater")],
)
def test_one_test_alone_keeps_its_own_p_value(rules, sign, alternative):
    passes = pair([1.0] * 20, [0.0] * 6 + [1.0] * 14, sign=sign)
    mcnemar = weigh_one(passes, rules)
    assert (mcnemar.test, mcnemar.tests) == ("McNemar", 1)
    assert mcnemar.p_value == mcnemar.adjusted
    assert mcnemar.p_value == compute_randomisation_test(passes.differences, alternative).p_value
    for units in (None, DOCUMENTS):
        scores = pair(OLD, NEW, units, sign=sign)
        found = weigh_one(scores, rules)
        oracle = compute_randomisation_test(scores.differences, alternative, clusters=units, resamples=10_000, seed=0)
        assert (found.test, found.p_value, found.adjusted) == ("randomisation", oracle.p_value, oracle.p_value)
    assert weigh_one(pair([1.0] * 30, [0.0] * 30, DOCUMENTS)).test == "randomisation", "McNemar's knows no clusters"


def test_resamples_and_seed_are_those_of_the_rules():
    scores, rules = pair(OLD, NEW), SignificanceRules(resamples=200, seed=3)
    assert rules.resamples < TWO_SIDED.resamples == 10_000
    oracle = compute_randomisation_test(scores.differences, "two-sided", resamples=200, seed=3)
    assert weigh_one(scores, rules).p_value == oracle.p_value


@pytest.mark.parametrize("rules", [ONE_SIDED, TWO_SIDED, SignificanceRules(0.2, resamples=500, seed=4)])
def test_all_tests_of_all_families_are_adjusted_together(rules):
    """Families have their own units; a metric without pairs is in no test."""
    first, second = pair(OLD, NEW, DOCUMENTS), pair(OLD[:7], OTHER[:7], DOCUMENTS[:7], sign=-1)
    third, empty = pair(NEW, OTHER), pair([], [])
    found = weigh([[first, empty, second], [empty], [third]], rules)

    def column(scores, units):
        return [-scores.sign * sum(d for d, u in zip(scores.differences, scores.units, strict=True) if u == unit)
                for unit in units]  # fmt: skip

    shared = np.array([column(one, [f"d{n}" for n in range(8)]) for one in (first, second)]).T
    joint = compute_max_t(
        [Family(np.stack([0 * one, one], axis=1)) for one in (shared, np.array([column(third, range(30))]).T)],
        rules.alpha, two_sided=rules.two_sided, resamples=rules.resamples, seed=rules.seed,
    )  # fmt: skip
    tested = [found[0][0], found[0][2], found[2][0]]
    for one, adjusted in zip(tested, joint.adjusted, strict=True):
        assert one.adjusted == pytest.approx(max(adjusted, one.p_value))
        assert (one.tests, one.critical) == (3, pytest.approx(joint.critical))
    for untested in (found[0][1], found[1][0]):
        assert (untested.p_value, untested.adjusted, untested.test) == (None, None, None)
        assert (untested.tests, untested.critical) == (3, tested[0].critical)


def test_a_family_without_pairs_changes_nothing_among_many_units():
    many = pair([1.0] * 5001, [0.5, *[1.0] * 5000])
    assert weigh([[pair([], [])], [many, many]], ONE_SIDED)[1] == weigh([[many, many]], ONE_SIDED)[0]


def test_no_adjustment_makes_a_p_value_smaller():
    same, rules = pair(OLD, NEW), SignificanceRules(resamples=50)
    for one in weigh([[same, same]], rules)[0]:
        assert one.adjusted >= one.p_value


@pytest.mark.parametrize("rules", [ONE_SIDED, TWO_SIDED])
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(("sign", "units", "count"), [(1, None, 1), (-1, DOCUMENTS, 1), (1, None, 2)])
def test_what_would_be_found_is_computed_with_the_test_that_was_made(rules, binary, sign, units, count):
    """Worse is positive, alpha is one-sided, and a critical value is of several tests only."""
    runs = [[float(value > 0.5) for value in run] if binary else run for run in (OLD, NEW, OTHER)]
    family = [pair(runs[0], new, units, sign=sign, bounds=(0.0, 1.0)) for new in runs[1:]]
    evidence = weigh([family[:count]], rules)[0][0]
    power = Power(
        [-sign * difference for difference in family[0].differences],
        None if units is None else [n % 8 for n in range(30)],
        is_binary=binary,
        alpha=rules.alpha / (2 if rules.two_sided else 1),
        critical=evidence.critical if count > 1 else None,
    )
    assert evidence.compute_detectable() == detection.compute_detectable(power)
    assert evidence.compute_needed(0.1) == detection.compute_needed(power, 0.1)
    assert evidence.compute_needed_to_exclude(0.1) == detection.compute_needed_to_exclude(
        detection.compute_moments(power), 0.1, rules.alpha, 1.0
    )


def test_too_few_units_find_nothing():
    assert weigh_one(pair([0.9, 0.8, 0.7], [0.5, 0.6, 0.1]), ONE_SIDED).compute_detectable() is None
    untested = Evidence(pair(OLD, NEW), Estimate(30), TWO_SIDED)
    assert (untested.tests, untested.critical, untested.is_significant) == (0, math.inf, False)


def test_units_that_changed_are_those_whose_differences_do_not_cancel():
    assert Evidence(pair([0.1, 0.2, 0.3], [0.1, 0.4, 0.5]), Estimate(3), ONE_SIDED).changed == 2
    together = pair([0.3, 0.1, 0.5, 0.5], [0.1, 0.3, 0.5, 0.4], ["a", "a", "b", "c"])
    assert Evidence(together, Estimate(3), ONE_SIDED).changed == 1


def test_the_p_value_beside_a_margin_tests_the_margin():
    """Twelve losses in a hundred show a drop, but not one beyond 0.1: p grows with the margin, and power falls."""
    scores = pair([1.0] * 100, [0.0] * 12 + [1.0] * 88, bounds=(0.0, 1.0))
    plain, small, large = (weigh_one(replace(scores, margin=m), ONE_SIDED) for m in (0.0, 0.02, 0.1))
    assert (plain.test, small.test) == ("McNemar", "bounded")
    assert plain.p_value < 0.001 < small.p_value < 0.01
    assert large.p_value > 0.3
    assert not large.is_significant


def test_tests_of_a_margin_are_adjusted_by_holm_and_share_alpha_with_the_others():
    drops = pair([1.0] * 100, [0.0] * 12 + [1.0] * 88, bounds=(0.0, 1.0))
    family = [replace(drops, margin=0.02), replace(drops, margin=0.04), drops]
    found = weigh([family], ONE_SIDED)[0]
    alone = [weigh_one(one, ONE_SIDED).p_value for one in family]
    assert found[0].adjusted == pytest.approx(min(1, 3 / 2 * 2 * alone[0]))
    assert found[1].adjusted == pytest.approx(max(found[0].adjusted, min(1, 3 / 2 * alone[1])))
    assert found[2].adjusted >= alone[2]


def test_five_attempts_against_one_use_all_of_them():
    """A sample that passed 5 of 5 and fails now is rarer than one that passed 1 of 1: p is near (1/6)^n."""
    attempts = [[1.0] * 5 + [0.0]] * 2 + [[1.0] * 6] * 10
    old, new = [1.0] * 12, [0.0] * 2 + [1.0] * 10
    pooled = weigh_one(pair(old, new, attempts=attempts), ONE_SIDED)
    assert pooled.p_value == pytest.approx(1 / 36, abs=0.006)
    assert weigh_one(pair(old, new), ONE_SIDED).p_value == pytest.approx(1 / 4)
    assert (pooled.units_needed, weigh_one(pair(old, new), ONE_SIDED).units_needed) == (2, 5)
