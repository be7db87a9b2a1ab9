"""Scores whose truth is known, and the bounded interval of many samples at once: for simulations of what it covers.

`benchmarks/simulations.py` prints the tables of benchmarks/simulations.md from the same shapes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.stats import multinomial

from comparison.small_runs import make_run
from evalspec.verdict.comparison.compare_runs import compare_runs
from evalspec.verdict.comparison.named_runs import NamedRun
from evalspec.verdict.comparison.regression import ANCHOR_SHARE
from evalspec.verdict.stats.gamma_sums import compute_tails
from evalspec.verdict.validity.changes import Evidence, PairedScores, SignificanceRules
from evalspec.verdict.validity.estimates import Estimate

Array = NDArray[Any]
Draw = Callable[[np.random.Generator, tuple[int, int]], Array]
Shape = tuple[Draw, float]
"""How to draw so many samples of so many values, and the mean of the population."""


def choose(values: list[float], chances: list[float]) -> Shape:
    """Grades with their chances."""
    edges = np.cumsum(chances)[:-1]
    return lambda rng, size: np.array(values)[np.searchsorted(edges, rng.random(size), "right")], float(
        np.dot(values, chances)
    )


def pile_up(ones: float, zeros: float, low: float = 0.0) -> Shape:
    """A share of ones, a share of zeros, and the rest spread evenly above `low`."""

    def draw(rng: np.random.Generator, size: tuple[int, int]) -> Array:
        kind = rng.random(size)
        return np.where(kind < ones, 1.0, np.where(kind < ones + zeros, 0.0, rng.uniform(low, 1, size)))

    return draw, ones + (1 - ones - zeros) * (1 + low) / 2


def beta(a: float, b: float) -> Shape:
    return lambda rng, size: rng.beta(a, b, size), a / (a + b)


def drop(zeros: float) -> Shape:
    """Most pairs are equal, the others fall by up to 1."""
    return lambda rng, size: -rng.random(size) * (rng.random(size) >= zeros), -(1 - zeros) / 2


SCORES: dict[str, Shape] = {
    "graded, 90 % best": choose([1.0, 0.75, 0.5, 0.0], [0.9, 0.05, 0.03, 0.02]),
    "graded, 60 % best": choose([1.0, 0.75, 0.5, 0.25, 0.0], [0.6, 0.2, 0.1, 0.05, 0.05]),
    "85 % ones, 5 % zeros": pile_up(0.85, 0.05),
    "95 % ones, 2 % zeros": pile_up(0.95, 0.02),
    "beta(8, 2)": beta(8, 2),
    "beta(2, 2)": beta(2, 2),
    "beta(½, ½)": beta(0.5, 0.5),
    "beta(1, 9)": beta(1, 9),
    "narrow bell": beta(51.2, 12.8),
}
FLIPS = ((0.02, 0.02), (0.05, 0.05), (0.10, 0.10), (0.01, 0.05), (0.0, 0.03), (0.05, 0.15))
"""Shares of the samples that 0/1 scores gain and lose: differences are enumerated, not drawn."""
DIFFERENCES: dict[str, Shape] = {
    "normal, sd 0.2": (lambda rng, size: np.clip(rng.normal(0, 0.2, size), -1, 1), 0.0),
    "80 % zeros, drops": drop(0.80),
    "95 % zeros, drops": drop(0.95),
    "graded steps": choose([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5], [0.02, 0.05, 0.05, 0.8, 0.05, 0.03]),
}


def find_misses(
    sums: Array, sizes: Array, truth: float, bounds: tuple[float, float], confidence: float = 0.95
) -> tuple[Array, Array]:
    """Whether `compute_bounded_interval` is below the truth, and above it, for many samples: shape (samples,) each.

    `sums` and `sizes` of the units have the shape (samples, units). An end misses the truth where its p-value is at
    most the tail, which needs no search for the end.
    """
    unseen, tail = (sizes**3).sum(axis=1) / (sizes**2).sum(axis=1), (1 - confidence) / 2
    off, shapes = sums - truth * sizes, np.ones((len(sums), sums.shape[1] + 1))
    missed = [
        compute_tails(np.column_stack([sign * off, sign * (bound - truth) * unseen]), shapes) <= tail * (1 + 1e-9)
        for sign, bound in ((1, bounds[1]), (-1, bounds[0]))
    ]
    return missed[0], missed[1]


def find_worst_exclusion(pairs: int, margin: float, alpha: float = 0.05) -> tuple[float, float]:
    """The largest share of runs that exclude a drop of `margin`, although it is the true drop; and the gains with it.

    Pairs lose 1 with probability margin + gains, and gain 1 with probability gains. All counts are enumerated.
    """
    lost, gained = (side.ravel() for side in np.meshgrid(np.arange(pairs + 1), np.arange(pairs + 1), indexing="ij"))
    lost, gained = lost[lost + gained <= pairs], gained[lost + gained <= pairs]
    equal = pairs - lost - gained
    values = np.broadcast_to(np.array([1.0, 0.0, -1.0]) + margin, (len(lost), 3))
    shapes = np.column_stack([gained, equal, lost + 1]).astype(np.float64)
    excluded = compute_tails(-values, shapes) <= alpha
    worst = (0.0, 0.0)
    for gains in np.linspace(0, 0.44, 45):
        chances = (gains, 1 - margin - 2 * gains, margin + gains)
        found = float(multinomial.pmf(np.column_stack([gained, equal, lost]), pairs, chances)[excluded].sum())
        worst = max(worst, (found, float(gains)))
    return worst


def simulate_history(
    rng: np.random.Generator, samples: int, concentration: float, drift: float, *, moving: bool, runs: int
) -> float:
    """The share of histories of 20 commits in which a confirmed test fails the gate.

    The baseline, or the anchor if the baseline is promoted after each PASS (`moving`), has five attempts. Samples pass
    with chances from a Beta distribution of mean 0.85, which fall by `drift` with each commit.
    """
    chances = rng.beta(0.85 * concentration, 0.15 * concentration, (runs, samples))
    anchor, last, failed = rng.binomial(5, chances), None, np.zeros(runs, bool)
    for commit in range(1, 21):
        now = chances * (1 - drift * commit / 0.85)
        attempts = [(rng.random(now.shape) < now).astype(int) for _ in "12"]
        share = 1.0 if last is None else ANCHOR_SHARE
        fails = np.logical_and(*(_is_worse(anchor, 5, one, 0.05 * share) for one in attempts))
        if last is not None:
            fails |= np.logical_and(*(_is_worse(last, 1, one, 0.05 * (1 - share)) for one in attempts))
        if moving:
            last = attempts[0] if last is None else np.where(fails[:, None], last, attempts[0])
        failed |= fails
    return float(failed.mean())


def _is_worse(before: NDArray[np.int64], attempts: int, now: NDArray[np.int64], alpha: float) -> NDArray[np.bool_]:
    """Whether one attempt has significantly fewer passes, if all attempts at a sample could change places.

    Given its number of passes, each sample passes now with the share of passes, so that the number of passes now is
    Poisson binomial. Its distribution is the inverse Fourier transform of its characteristic function.
    """
    runs, samples = before.shape
    total = before + now
    counts = np.stack([(total == passes).sum(axis=1) for passes in range(attempts + 2)], axis=1)
    angles = 2 * np.pi * np.arange(samples + 1) / (samples + 1)
    shares = np.arange(attempts + 2) / (attempts + 1)
    logs = np.log((1 - shares)[:, None] + shares[:, None] * np.exp(1j * angles) + 1e-300)
    chances = np.fft.fft(np.exp(counts @ logs), axis=1).real / (samples + 1)
    return np.asarray(np.cumsum(chances, axis=1)[np.arange(runs), now.sum(axis=1)] < alpha)


def simulate_best(
    rng: np.random.Generator, kind: str, count: int, samples: int, worse: float, comparisons: int
) -> tuple[float, float]:
    """Shares of the comparisons that name one of several equal best runs, and that exclude any of them.

    All runs are equal, or if `worse` is positive the first two, and the others lose that share of their passes, or so
    much of each score. Samples are as hard in each run. Intervals do not matter here and take most of the time.
    """
    named = excluded = 0
    equal = count if not worse else 2
    for _ in range(comparisons):
        hard, noise = rng.random(samples), rng.random((count, samples))
        lost = np.where(np.arange(count) < equal, 0.0, worse)[:, None]
        if kind == "binary":
            scores = ((hard < 0.5) | (noise < 0.5)) & (rng.random(noise.shape) >= lost)
        else:
            scores = np.clip(np.round(4 * hard + 3 * noise - 1.5 - 4 * lost), 0, 4) / 4
        runs = [
            NamedRun(f"r{number}", make_run({"a": one.astype(float).tolist()})) for number, one in enumerate(scores)
        ]
        with (
            patch("evalspec.verdict.validity.changes.estimate_difference", lambda scores, _: Estimate(len(scores))),
            patch.object(Evidence, "compute_detectable", lambda _: None),
        ):
            (best,) = compare_runs(runs[0], runs[1:], SignificanceRules(resamples=500)).best_runs
        named += len(best.possible) == 1
        excluded += not {f"r{number}" for number in range(equal)} <= {*best.possible}
    return named / comparisons, excluded / comparisons


def miss(shape: Shape, units: int, bounds: tuple[float, float], samples: int, seed: int = 1) -> tuple[float, float]:
    """Shares of samples whose interval is below the truth and above it."""
    draw, truth = shape
    values = draw(np.random.default_rng([seed, units]), (samples, units))
    below, above = find_misses(values, np.ones_like(values), truth, bounds)
    return float(below.mean()), float(above.mean())


SIZES: dict[str, Callable[[int], NDArray[np.int64]]] = {
    "equal": lambda clusters: np.full(clusters, 5),
    "very unequal": lambda clusters: np.resize([1, 1, 2, 3, 8, 25], clusters),
    "one with a fifth of all": lambda clusters: np.array([1 + clusters // 4] + [1] * (clusters - 1)),
}
"""How many samples each cluster has."""


def draw_clusters(
    rng: np.random.Generator, shape: tuple[int, int], chances: tuple[float, ...], icc: float, sizes: NDArray[np.int64]
) -> tuple[Array, Array]:
    """How often each outcome occurs in each cluster, and its size: (samples, clusters, outcomes), (samples, clusters).

    Each cluster has chances of its own, from a Dirichlet distribution with that correlation inside a cluster.
    """
    whole = np.broadcast_to(sizes, shape)
    weights = rng.standard_gamma(np.array(chances) * (1 - icc) / icc, (*shape, len(chances))) + 1e-300
    return rng.multinomial(whole, weights / weights.sum(axis=2, keepdims=True)), whole.astype(np.float64)


def miss_clusters(
    outcomes: tuple[float, ...],
    chances: tuple[float, ...],
    sizes: NDArray[np.int64],
    icc: float,
    samples: int,
) -> tuple[float, float]:
    """Shares of samples of clusters whose interval is below the truth and above it; bounds: the outer outcomes."""
    rng = np.random.default_rng([len(sizes), int(100 * icc), sizes.sum()])
    counts, whole = draw_clusters(rng, (samples, len(sizes)), chances, icc, sizes)
    truth = float(np.dot(outcomes, chances))
    below, above = find_misses(counts @ np.array(outcomes), whole, truth, (min(outcomes), max(outcomes)))
    return float(below.mean()), float(above.mean())


@dataclass(frozen=True)
class Setting:
    """Two runs of one agent over the same samples, and what a drop does to the candidate.

    `kind`: "normal" differences, "binary" scores of which nine in ten are stable, or "graded" ones in quarters that
    lose a step. `shared`: correlation of the metrics. `repeats`: attempts whose mean is a score. `clusters`: 0 where
    samples are independent.
    """

    kind: str
    samples: int
    metrics: int = 1
    shared: float = 0.0
    clusters: int = 0
    repeats: int = 1

    def __str__(self) -> str:
        parts = [self.kind, f"n={self.samples}", f"m={self.metrics}"]
        parts += [f"shared={self.shared:g}"] * bool(self.shared) + [f"K={self.clusters}"] * bool(self.clusters)
        return " ".join(parts + [f"repeats={self.repeats}"] * (self.repeats > 1))

    def draw(self, rng: np.random.Generator, drop: float = 0.0) -> list[PairedScores]:
        """Both runs; the first metric truly falls by the drop."""
        labels = rng.permutation(np.arange(self.samples) % self.clusters) if self.clusters else np.arange(self.samples)
        family = []
        common = rng.standard_normal((2, self.samples, self.repeats))
        for metric in range(self.metrics):
            noise = math.sqrt(self.shared) * common
            noise = noise + math.sqrt(1 - self.shared) * rng.standard_normal(noise.shape)
            if self.clusters:
                noise = math.sqrt(0.8) * noise + math.sqrt(0.2) * rng.standard_normal((2, self.clusters, 1))[:, labels]
            baseline, candidate = self._score(rng, noise, drop if metric == 0 else 0.0)
            family.append(
                PairedScores(
                    baseline.tolist(),
                    candidate.tolist(),
                    (candidate - baseline).round(12).tolist(),
                    labels.tolist(),
                    bool(self.clusters),
                    None if self.kind == "normal" else (0.0, 1.0),
                )
            )
        return family

    def _score(self, rng: np.random.Generator, noise: Array, drop: float) -> tuple[Array, Array]:
        shape = (self.samples, 1)
        if self.kind == "normal":
            baseline, candidate = 0.14 * noise
            return baseline.mean(axis=1), candidate.mean(axis=1) - drop
        hard = rng.random(shape)
        if self.kind == "binary":
            baseline, candidate = np.where(hard < 0.8, 1.0, (noise < 0) * 1.0)
            lost = rng.random(noise.shape[1:]) < drop / 0.9
            return baseline.mean(axis=1), np.where(lost, 0.0, candidate).mean(axis=1)
        baseline, candidate = np.clip(np.floor(2 * noise) + np.floor(hard * 4), 0, 3) / 4 + 0.25
        lost = rng.random(noise.shape[1:]) < 4 * drop
        return baseline.mean(axis=1), (candidate - 0.25 * lost).mean(axis=1)
