"""What intervals and tests promise, over many drawn data sets whose truth is known. Seeds are fixed.

A rate over N data sets has a Monte Carlo error: three standard deviations of it are allowed on top of alpha. Coverage
is held to 95 % ± 1.5 points as it was measured, for the shapes and from the number of samples named here; what stays
outside is in docs/statistics.md.
"""

import math

import numpy as np
import pytest
import scipy.stats

from evalspec.stats import compute_interval
from evalspec.stats.effects import compute_minimum_detectable_change
from evalspec.stats.holm import compute_holm
from evalspec.stats.paired import compute_mcnemar_test, compute_randomisation_test

ALPHA = 0.05


def draw_mixture(generator, count):
    """A judged score: most replies are perfect, some are worthless, the others lie between."""
    kind = generator.random(count)
    return np.where(kind < 0.6, 1.0, np.where(kind < 0.75, 0.0, generator.beta(4, 2, count)))


def draw_graded(generator, count):
    return generator.choice([0, 0.25, 0.5, 0.75, 1], p=[0.05, 0.05, 0.1, 0.2, 0.6], size=count)


SHAPES = {
    "bell": (lambda generator, count: generator.normal(0.7, 0.2, count), 0.7),
    "skewed": (lambda generator, count: generator.beta(8, 2, count), 0.8),
    "piled up at 1": (lambda generator, count: generator.beta(5, 1, count), 5 / 6),
    "good or bad": (lambda generator, count: generator.beta(0.5, 0.5, count), 0.5),
    "mixture": (draw_mixture, 0.6 + 0.25 * 4 / 6),
    "five grades": (draw_graded, 0.8125),
}


def covers(interval, truth):
    return interval[0] - 1e-12 <= truth <= interval[1] + 1e-12


def allowed(alpha, trials):
    return alpha + 3 * math.sqrt(alpha * (1 - alpha) / trials)


@pytest.mark.parametrize("count", [50, 150])
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_of_scores_cover_the_true_mean(shape, count):
    draw, truth = SHAPES[shape]
    generator = np.random.default_rng(count)
    drawn = [draw(generator, count).tolist() for _ in range(1000)]
    covered = [covers(compute_interval(values, resamples=1000, seed=seed), truth) for seed, values in enumerate(drawn)]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("count", [20, 50, 100, 200])
@pytest.mark.parametrize("around", [0.5, 0.8, 0.9, 0.95])
def test_intervals_of_binary_scores_cover_the_true_share(around, count):
    """No data sets are drawn: every number of passes has its probability, so that the coverage is exact.

    It jumps with the share, as the number of passes is whole (Brown, Cai and DasGupta 2001): it is the mean over the
    shares near by that keeps its word; none of them is covered in less than 89 %.
    """
    intervals = [compute_interval([1.0] * passes + [0.0] * (count - passes)) for passes in range(count + 1)]
    coverages = []
    for share in np.linspace(around - 0.03, around + 0.03, 61):
        covered = [covers(interval, share) for interval in intervals]
        coverages.append(scipy.stats.binom.pmf(np.arange(count + 1), count, share)[covered].sum())
    assert np.mean(coverages) == pytest.approx(0.95, abs=0.015)
    assert min(coverages) > 0.89


def draw_clustered(generator, clusters, spread):
    """Questions on so many documents, which differ in how hard they are; labels and values."""
    labels = np.repeat(np.arange(clusters), generator.integers(1, 8, clusters))
    return labels.tolist(), generator.normal(0, spread, clusters)[labels] + generator.normal(0, 0.2, len(labels))


def test_intervals_cover_the_true_mean_of_clusters_only_if_told_of_them():
    generator = np.random.default_rng(1)
    covered = {"told": [], "not told": []}
    for seed in range(1000):
        labels, values = draw_clustered(generator, clusters=40, spread=0.2)
        for name, clusters in (("told", labels), ("not told", None)):
            interval = compute_interval(values.tolist(), resamples=1000, seed=seed, clusters=clusters)
            covered[name].append(covers(interval, 0))
    assert np.mean(covered["told"]) == pytest.approx(0.95, abs=0.015)
    assert np.mean(covered["not told"]) < 0.85


@pytest.mark.parametrize("count", [8, 12, 40], ids=["8 exact", "12 exact", "40 drawn"])
@pytest.mark.parametrize("shape", ["piled up at 1", "mixture", "five grades"])
@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
def test_the_randomisation_test_keeps_its_level(shape, count, alternative):
    """Both runs draw from one shape, so that every finding is a false alarm."""
    generator = np.random.default_rng(count)
    draw = SHAPES[shape][0]
    differences = [(draw(generator, count) - draw(generator, count)).tolist() for _ in range(1000)]
    alarms = [
        compute_randomisation_test(values, alternative, resamples=499, seed=seed).p_value <= ALPHA
        for seed, values in enumerate(differences)
    ]
    assert np.mean(alarms) <= allowed(ALPHA, 1000)


def test_the_randomisation_test_keeps_its_level_with_clusters_only_if_told_of_them():
    generator = np.random.default_rng(2)
    alarms = {"told": [], "not told": []}
    for seed in range(1000):
        labels, values = draw_clustered(generator, clusters=20, spread=0.2)
        for name, clusters in (("told", labels), ("not told", None)):
            test = compute_randomisation_test(values.tolist(), clusters=clusters, resamples=499, seed=seed)
            alarms[name].append(test.p_value <= ALPHA)
    assert np.mean(alarms["told"]) <= allowed(ALPHA, 1000)
    assert np.mean(alarms["not told"]) > 0.15


def find_mcnemar_alarms(changed):
    """The numbers of gains among so many changed pairs that are found significant."""
    baselines = [[0.0] * gained + [1.0] * (changed - gained) for gained in range(changed + 1)]
    tests = [compute_mcnemar_test(baseline, [1 - score for score in baseline]) for baseline in baselines]
    return [test.gained for test in tests if test.p_value <= ALPHA]


@pytest.mark.parametrize("changing", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("count", [10, 30, 100])
def test_mcnemar_keeps_its_level_exactly(count, changing):
    """Every number of changed pairs, and of gains among them, has its probability: no Monte Carlo error is allowed."""
    level = 0.0
    for changed in range(1, count + 1):
        alarms = scipy.stats.binom.pmf(find_mcnemar_alarms(changed), changed, 0.5).sum()
        level += scipy.stats.binom.pmf(changed, count, changing) * alarms
    assert 0 < level <= ALPHA


def test_holm_keeps_the_level_of_a_family():
    """Five metrics of the same replies, which rise and fall together; only the first truly got better."""
    generator = np.random.default_rng(5)
    alarms, found = [], []
    for seed in range(1000):
        differences = generator.normal(0, 1, (5, 30)) + generator.normal(0, 0.7, 30)
        differences[0] += 1.0
        p_values = [compute_randomisation_test(d.tolist(), resamples=999, seed=seed).p_value for d in differences]
        adjusted = compute_holm(p_values)
        alarms.append(min(adjusted[1:]) <= ALPHA)
        found.append(adjusted[0] <= ALPHA)
    assert np.mean(alarms) <= allowed(ALPHA, 1000)
    assert np.mean(found) > 0.5


def test_a_change_of_the_detectable_size_is_found_four_times_in_five():
    generator = np.random.default_rng(6)
    change = 0.2 * (scipy.stats.norm.isf(ALPHA / 2) + scipy.stats.norm.isf(0.2)) / math.sqrt(60)
    found, told = [], []
    for seed in range(1000):
        differences = generator.normal(change, 0.2, 60).tolist()
        told.append(compute_minimum_detectable_change(differences))
        found.append(compute_randomisation_test(differences, resamples=999, seed=seed).p_value <= ALPHA)
    assert np.mean(told) == pytest.approx(change, rel=0.02)
    assert np.mean(found) == pytest.approx(0.8, abs=0.04)
