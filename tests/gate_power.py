"""The power that `evalspec plan` computes, and that of the gate: its own tests, in turn, on drawn attempts."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.verdict.stats.power import AttemptModel, Design, compute_power
from evalspec.verdict.validity.changes import PairedScores, SignificanceRules, weigh

Array = NDArray[Any]

STEP = 0.25
_DEVIATIONS = 400


@dataclass(frozen=True)
class Gate:
    """An agent whose rates are known, and what the gate compares.

    `is_graded`: scores in quarters; else 0 or 1. `before`: attempts of each sample in the baseline. `own`: in the run,
    and in its confirmation. `clusters`: 0 where samples are independent. `concentration`: of the rates of 0/1 scores,
    Beta with a mean of 0.85.
    """

    samples: int
    before: int = 1
    own: int = 1
    margin: float = 0.0
    is_confirmed: bool = True
    is_graded: bool = False
    clusters: int = 0
    concentration: float = 1.0
    alpha: float = 0.05

    def __str__(self) -> str:
        scores = f"{'graded' if self.is_graded else '0/1'}, {self.samples}" + f" in {self.clusters}" * bool(
            self.clusters
        )
        confirmed = ", confirmed" * self.is_confirmed
        return f"{scores}, {self.own} against {self.before}, maxDrop {self.margin:g}{confirmed}"

    @cached_property
    def rates(self) -> Array:
        """The true mean of each sample; of graded scores, before they are rounded to grades."""
        rng = np.random.default_rng([self.samples, self.clusters])
        if self.is_graded:
            return rng.uniform(0.7, 1, self.samples)
        return rng.beta(0.85 * self.concentration, 0.15 * self.concentration, self.samples)

    @cached_property
    def labels(self) -> NDArray[np.intp]:
        return np.arange(self.samples) % (self.clusters or self.samples)

    @cached_property
    def model(self) -> AttemptModel:
        """What `plan` would know of the agent with an endless baseline."""
        if not self.is_graded:
            order = np.argsort(self.labels, kind="stable")
            sizes = tuple(np.bincount(self.labels).tolist()) if self.clusters else ()
            return AttemptModel(tuple(self.rates[order].tolist()), sizes=sizes)
        drawn = self._draw(np.random.default_rng(9), 5 * _DEVIATIONS, np.zeros(self.samples))
        deviations = np.zeros((self.labels.max() + 1, _DEVIATIONS))
        np.add.at(deviations, self.labels, (drawn - drawn.mean(axis=1, keepdims=True))[:, :_DEVIATIONS])
        sizes = tuple(np.bincount(self.labels).tolist())
        return AttemptModel((), tuple(deviations.ravel().tolist()), sizes, STEP if self.is_graded else 1.0)

    def plan(self, seed: int = 0) -> Callable[[float], float]:
        """The power as a function of the true drop."""
        design = Design(self.before, self.own, self.alpha, self.margin, 1.0, confirmed=self.is_confirmed)
        return compute_power(self.model, design, seed)

    def find_drop(self, power: float = 0.7) -> float:
        """The true drop that the plan finds with about this power: where it errs, its figures differ most."""
        planned, low, high = self.plan(), 0.0, min(0.6, self.model.largest)
        for _ in range(10):
            middle = (low + high) / 2
            low, high = (low, middle) if planned(middle) >= power else (middle, high)
        return high

    def simulate(self, drop: float, runs: int, resamples: int = 999) -> float:
        """The share of runs that the gate fails, each against a baseline of its own."""
        rng, rules = np.random.default_rng(1), SignificanceRules(self.alpha, two_sided=False, resamples=resamples)
        return float(np.mean([self._fails(rng, drop, rules) for _ in range(runs)]))

    def _fails(self, rng: np.random.Generator, drop: float, rules: SignificanceRules) -> bool:
        """Decide a run, and a second one that loses the same steps."""
        before, lost = self._draw(rng, self.before, np.zeros(self.samples)), self._draw_losses(rng, drop)
        for _ in range(1 + self.is_confirmed):
            run = self._draw(rng, self.own, lost)
            if not weigh([[self._pair(before, run)]], rules)[0][0].is_significant:
                return False
        return True

    def _draw_losses(self, rng: np.random.Generator, drop: float) -> Array:
        """Graded scores fall by whole steps, some by one more. 0/1 scores fall by the same share of their rate."""
        if self.is_graded:
            steps = drop / STEP
            return STEP * (math.floor(steps) + (rng.random(self.samples) < steps % 1))
        return np.full(self.samples, drop / self.rates.mean())

    def _draw(self, rng: np.random.Generator, attempts: int, lost: Array) -> Array:
        if not self.is_graded:
            return np.asarray(rng.random((self.samples, attempts)) < (self.rates * (1 - lost))[:, None]) * 1.0
        noise = 0.12 * rng.standard_normal((self.samples, attempts))
        return np.clip(np.round((self.rates[:, None] + noise) / STEP) * STEP, 0, 1) - lost[:, None]

    def _pair(self, before: Array, run: Array) -> PairedScores:
        old, new = before.mean(axis=1), run.mean(axis=1)
        both = np.hstack([before, run])
        return PairedScores(
            old.tolist(),
            new.tolist(),
            (new - old).round(12).tolist(),
            self.labels.tolist(),
            bool(self.clusters),
            (0.0, 1.0),
            attempts=both.tolist() if both.shape[1] > 2 else (),
            own=self.own,
            margin=self.margin,
        )
