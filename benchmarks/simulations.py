"""Compute the tables of benchmarks/simulations.md: coverage, worst cases, histories, several tests, power.

Seeds are fixed. Shapes and settings are those of tests/validity, which checks the bounds. Takes about 20 minutes on one
slow core.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
from harness import print_table
from scipy.stats import binom, poisson

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from evalspec.verdict.stats.max_t import Family, compute_max_t
from evalspec.verdict.stats.paired import compute_randomisation_test
from evalspec.verdict.validity import changes
from evalspec.verdict.validity.changes import SignificanceRules, weigh
from evalspec.verdict.validity.estimates import Estimate, compute_percentile_interval, count_needed
from gate_power import Gate
from simulated import (
    DIFFERENCES,
    SCORES,
    SIZES,
    Array,
    Setting,
    find_misses,
    find_worst_exclusion,
    miss,
    miss_clusters,
    simulate_best,
    simulate_history,
)
from worst_cases import (
    Classes,
    Worst,
    draw_classes,
    find_worst_clusters,
    find_worst_three,
    screen_and_confirm,
    search_clusters,
    search_grades,
    simulate_clusters,
    simulate_grades,
)

ALPHA = 0.05
FIVE, SEVEN = (0, 0.25, 0.5, 0.75, 1), (0, 0.25, 0.375, 0.5, 0.625, 0.75, 1)
"""Grades, and differences of grades: −1, −½, −¼, 0, ¼, ½ and 1 on a scale from 0 to 1."""
RULES = SignificanceRules(ALPHA, two_sided=False, resamples=1000)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def print_coverage(samples: int) -> None:
    """Print the worst coverage over all shapes."""
    rows = []
    for units in (5, 10, 20, 50, 100, 200):
        means = min(1 - sum(miss(shape, units, (0, 1), samples)) for shape in SCORES.values())
        pairs = min(1 - sum(miss(shape, units, (-1, 1), samples)) for shape in DIFFERENCES.values())
        rows.append([f"{units}", percent(means), percent(pairs)])
    print_table(["samples", "means", "differences"], rows)
    rows = []
    for clusters in (4, 10, 20, 100):
        worst = [
            min(
                1 - sum(miss_clusters(outcomes, chances, size(clusters), icc, samples))
                for size in SIZES.values()
                for icc in (0.05, 0.3)
                for chances in all_chances
            )
            for outcomes, all_chances in (
                ((1, 0), [(0.5, 0.5), (0.8, 0.2), (0.95, 0.05)]),
                ((1, -1, 0), [(0.1, 0.1, 0.8), (0.05, 0.15, 0.8), (0.001, 0.03, 0.969)]),
            )
        ]
        rows.append([f"{clusters}", *map(percent, worst)])
    print_table(["clusters", "means", "differences"], rows)
    print_percentiles(samples)


def print_percentiles(samples: int) -> None:
    """Print the worst coverage of percentiles: exact for continuous values, drawn for ties and for clusters.

    The interval of a percentile in clusters holds where that of the share up to it holds.
    """
    rows = []
    for statistic, share in (("median", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        least = int(count_needed(statistic))
        exact = []
        for count in range(least, least + 200):
            low, high = compute_percentile_interval(range(1, count + 1), statistic)
            exact.append((1 - binom.cdf(low - 1, count, share) - binom.sf(high - 1, count, share), count))
        tied = []
        for count in (least, 2 * least):
            values, truth = np.random.default_rng(count).poisson(4, (samples, count)), poisson.ppf(share, 4)
            ends = np.array([compute_percentile_interval(one, statistic) for one in values.tolist()])
            tied.append(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])))
        clustered = [
            1 - sum(miss_clusters((1, 0), (share, 1 - share), size(clusters), icc, samples))
            for size in SIZES.values()
            for clusters in (20, 100)
            for icc in (0.05, 0.3)
        ]
        worst, count = min(exact)
        cells = [f"{percent(worst)} ({count})", *(percent(min(found)) for found in (tied, clustered))]
        rows.append([statistic, f"{least}", *cells])
    print_table(["percentile", "values needed", "any number of values", "with ties", "clusters"], rows)


def adjust_by_holm(p_values: Sequence[float]) -> Array:
    order = np.argsort(p_values)
    steps = np.maximum.accumulate(np.array(p_values)[order] * np.arange(len(p_values), 0, -1))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1, steps)
    return adjusted


def print_joint(samples: int) -> None:
    """Print results for normal differences, with drops of 2.9 standard errors in one metric and of 2.5 in all."""
    rows = []
    for units, metrics, shared in ((20, 5, 0.0), (20, 5, 0.8), (50, 5, 0.0), (50, 5, 0.8), (50, 20, 0.5)):
        rng, cells = np.random.default_rng([units, metrics]), [f"{units}", f"{metrics}", f"{shared:g}"]
        for dropped, size in ((0, 0.0), (1, 2.9), (metrics, 2.5)):
            found = []
            for _ in range(samples):
                worse = rng.normal(size=(units, metrics)) * np.sqrt(1 - shared)
                worse += rng.normal(size=(units, 1)) * np.sqrt(shared)
                worse[:, :dropped] += size / np.sqrt(units)
                tests = [compute_randomisation_test(one.tolist(), "greater", resamples=1000) for one in worse.T]
                p_values = [test.p_value for test in tests if test]
                columns = np.stack([np.zeros_like(worse), worse], axis=1)
                joint = compute_max_t([Family(columns)], ALPHA, two_sided=False, resamples=1000).adjusted
                wanted = slice(dropped or metrics)
                both = adjust_by_holm(p_values), np.maximum(joint, p_values)
                found.append([(adjusted[wanted] < ALPHA).any() for adjusted in both])
            cells.append(" / ".join(percent(share) for share in np.mean(found, axis=0)))
        rows.append(cells)
    print_table(["pairs", "metrics", "correlation", "false alarms: Holm / maxT", "one drops", "all drop"], rows)


def print_worst(samples: int) -> None:
    """Print the worst shares of false statements: of excluded drops, of graded scores, of clusters."""
    rows = []
    for margin in (0.02, 0.05, 0.1):
        found = [find_worst_exclusion(pairs, margin) for pairs in (50, 100, 200)]
        rows.append([f"{margin:g}", *(f"{percent(share)} (gains {gains:g})" for share, gains in found)])
    print_table(["maxDrop", "50 pairs", "100", "200"], rows)
    print_worst_grades()
    print_worst_clusters(samples)


def print_worst_grades() -> None:
    """Print the worst limits and chances of three grades, enumerated; of more grades, enumerated or drawn."""
    rows = []
    for units in (5, 10, 20, 50, 100, 200):
        for alpha in (0.025, 0.05):
            cells = [f"{units}", percent(alpha)]
            for least in (0.0, 0.05):
                all_grades = ((0, middle, 1) for middle in ((0.5,) if units == 200 else (0.25, 0.5, 0.75)))
                found = [(find_worst_three(grades, units, alpha, least), grades) for grades in all_grades]
                cells += describe(*max(found, key=lambda one: one[0]))
            rows.append(cells)
    heads = ["scores", "level", "any chances", "limit", "grades and chances", "each 5 %", "limit", "grades and chances"]
    print_table(heads, rows)
    rows = []
    for grades, units in ((FIVE, 5), (FIVE, 10), (FIVE, 20), (SEVEN, 5), (SEVEN, 9)):
        found = search_grades(np.random.default_rng(units), grades, units, ALPHA, 6)
        rows.append([f"{len(grades)}", f"{units}", "enumerated", *describe(found, grades)])
    for units in (50, 100, 200):
        rng = np.random.default_rng(units)
        cases = [chances + 1e-9 for chances in rng.dirichlet(np.full(7, 0.3), 150)]
        cases = [chances / chances.sum() for chances in cases]
        share, chances = screen_and_confirm(
            cases,
            lambda rng, chances, draws, units=units: simulate_grades(rng, SEVEN, chances, units, ALPHA, draws),
            5,
        )[0]
        found = Worst(share, float(chances @ SEVEN), tuple(chances.round(3).tolist()), ALPHA)
        rows.append(["7", f"{units}", "drawn", *describe(found, SEVEN)])
    print_table(["grades", "scores", "how", "worst", "limit", "grades and chances"], rows)


def describe(worst: Worst, grades: Sequence[float]) -> list[str]:
    used = (f"{grade:g}: {chance:g}" for grade, chance in zip(grades, worst.case, strict=True) if chance)
    return [f"{100 * worst.share:.3f} %", f"{worst.limit:.4g}", ", ".join(used)]


KNOWN: tuple[Classes, ...] = (((1, 584), (2, 4)), ((1, 455), (2, 1)), ((1, 247), (2, 2)))


def list_sizes(classes: Classes) -> str:
    return ", ".join(f"{count} of {size}" for size, count in classes)


def print_worst_clusters(samples: int) -> None:
    """Print the worst clusters, whose members score the same (enumerated), or are correlated (drawn)."""
    rows = []
    for alpha in (0.025, 0.05):
        every = search_clusters(np.random.default_rng(int(1000 * alpha)), samples, alpha)
        kinds = {"of longer searches": [find_worst_clusters(classes, alpha) for classes in KNOWN]}
        kinds["equal"] = [one for one in every if len(one.case) == 1]
        kinds["unequal"] = [one for one in every if len(one.case) > 1]
        kinds["at most 5 of each size"] = [one for one in every if all(count <= 5 for _, count in one.case)]
        kinds["one with a fifth or more"] = [
            one
            for one in every
            if len(one.case) > 1 and max(one.case)[0] >= 0.2 * sum(size * count for size, count in one.case)
        ]
        for name, worst in kinds.items():
            best = max(worst, default=Worst(0.0, 0.0))
            sizes = ", ".join(f"{count} of {size}" for size, count in best.case)
            rows.append(
                [percent(alpha), name, f"{len(worst)}", f"{100 * best.share:.3f} %", f"{best.limit:.4f}", sizes]
            )
    with patch("worst_cases.compute_unseen_size", lambda sizes: (sizes**2).sum() / sizes.sum()):
        smaller = find_worst_clusters(((1, 183), (30, 3)), ALPHA)
    found = [f"{100 * smaller.share:.3f} %", f"{smaller.limit:.4f}", list_sizes(smaller.case)]
    rows.append([percent(ALPHA), "an unseen cluster of Σn² / Σn", "1", *found])
    print_table(["level", "sizes", "configurations", "worst", "limit", "clusters"], rows)
    rng = np.random.default_rng(7)
    drawn = draw_classes(rng)
    cases = [
        (next(drawn), float(rng.choice([0.0, 0.05, 0.3, 0.7])), float(rng.uniform(0.02, 0.98)), ALPHA)
        for _ in range(samples // 2)
    ]
    rows = []
    for share, (classes, correlation, limit, alpha) in screen_and_confirm(
        cases, lambda rng, case, draws: simulate_clusters(rng, *case, draws), 5
    ):
        found = [f"{100 * share:.2f} %", f"{limit:.3f}", list_sizes(classes)]
        rows.append([percent(alpha), f"{correlation:g}", *found])
    print_table(["level", "correlation", "worst", "limit", "clusters"], rows)


def print_history(samples: int) -> None:
    """Print false FAILs in 20 commits, and how often a drift of 0.5 points a commit is found."""
    rows = []
    for name, moving in (("fixed, five runs", False), ("promoted after each PASS", True)):
        for concentration in (1, 5):
            rng = np.random.default_rng(concentration)
            chosen = {"moving": moving, "runs": samples}
            cells = [simulate_history(rng, count, concentration, 0.0, **chosen) for count in (50, 100, 300)]
            cells.append(simulate_history(rng, 100, concentration, 0.005, **chosen))
            rows.append([name, f"{concentration}", *map(percent, cells)])
    print_table(["baseline", "concentration", "false FAIL: 50", "100", "300", "drift found: 100"], rows)


def print_best(samples: int) -> None:
    """Print how often one of several equal best runs is named the best, or excluded."""
    rows = []
    for kind in ("binary", "graded"):
        for count, worse in ((3, 0.0), (5, 0.0), (8, 0.0), (3, 0.7), (5, 0.7)):
            rng = np.random.default_rng([count, int(10 * worse)])
            found = simulate_best(rng, kind, count, 40, worse, samples)
            rows.append([kind, f"{count}", "two" if worse else "all", *map(percent, found)])
    print_table(["scores", "runs", "equal best runs", "one is named", "one is excluded"], rows)


def draw_flips(churn: float) -> Callable[[np.random.Generator, tuple[int, int], float], Array]:
    def draw(rng: np.random.Generator, size: tuple[int, int], drop: float) -> Array:
        drawn = rng.random(size)
        return np.where(drawn < churn, 1.0, np.where(drawn < 2 * churn + drop, -1.0, 0.0))

    return draw


def print_excluded(samples: int) -> None:
    kinds = {
        "5 % flip each way, 0.02": (draw_flips(0.05), 0.02),
        "10 % flip each way, 0.05": (draw_flips(0.1), 0.05),
        "normal, sd 0.2, 0.02": (lambda rng, size, drop: np.clip(rng.normal(-drop, 0.2, size), -1, 1), 0.02),
    }
    rows = []
    for name, (draw, limit) in kinds.items():
        for true in (limit, 0.0):
            cells = []
            for units in (50, 200, 1000):
                differences = draw(np.random.default_rng(units), (samples, units), true)
                sizes = np.ones_like(differences)
                excluded = find_misses(differences, sizes, -limit, (-1, 1), 1 - 2 * ALPHA)[1]
                cells.append(percent(excluded.mean()))
            rows.append([name, f"{true:g}", *cells])
    print_table(["noise, maxDrop", "true drop", "50 pairs", "200", "1,000"], rows)


def print_detectable(samples: int) -> None:
    changes.estimate_difference = lambda scores, _: Estimate(len(scores))  # slow, and not needed here
    settings = [Setting(kind, count) for kind in ("normal", "binary", "graded") for count in (20, 50, 200)]
    settings += [Setting("normal", 50, 5), Setting("binary", 100, 5), Setting("graded", 100, 5)]
    settings += [Setting("normal", 50, 20), Setting("normal", 100, clusters=20), Setting("binary", 200, clusters=30)]
    rows = []
    for setting in [*settings, Setting("binary", 60, repeats=4)]:
        rng, found, sizes = np.random.default_rng(1), [], []
        for _ in range(samples):
            change = weigh([setting.draw(rng)], RULES)[0][0].compute_detectable()
            if change is not None:
                sizes.append(change)
                again = [weigh([setting.draw(rng, change)], RULES)[0][0].is_significant for _ in range(6)]
                found.append(np.mean(again))
        error = np.std(found) / np.sqrt(len(found))
        cells = [setting.kind, setting.samples, setting.metrics, setting.clusters or "–", setting.repeats]
        rows.append([*map(str, cells), f"{np.median(sizes):.3f}", f"{percent(np.mean(found))} ± {100 * error:.1f}"])
    print_table(["scores", "pairs", "metrics", "clusters", "repeats", "median change", "found"], rows)


def print_power(runs: int) -> None:
    """Print the power that a plan computes, and the share of runs that the gate fails, where the plan says 70 %."""
    changes.estimate_difference = lambda scores, _: Estimate(len(scores))  # slow, and not needed here
    rows = []
    for is_graded, clusters, margin in product((False, True), (0, 20), (0.0, 0.05)):
        for before, own, is_confirmed in ((1, 1, False), (1, 1, True), (5, 1, True), (3, 3, True), (5, 5, True)):
            gate = Gate(100 if clusters else 60, before, own, margin, is_confirmed, is_graded, clusters)
            drop = gate.find_drop()
            planned, found = gate.plan()(drop), gate.simulate(drop, runs, 499)
            cells = ["graded" if is_graded else "0/1", f"{gate.samples}", f"{clusters or '–'}", f"{margin:g}"]
            cells += [f"{before}", f"{own}", "yes" if is_confirmed else "no", f"{drop:.3f}"]
            rows.append([*cells, percent(planned), percent(found), f"{100 * (planned - found):+.1f}"])
    heads = ["scores", "samples", "clusters", "maxDrop", "baseline", "run", "confirmed", "drop", "plan", "gate", "off"]
    print_table(heads, rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--samples", type=int, default=2000, help="simulated runs for a figure")
    parts = ["coverage", "worst", "history", "joint", "best", "excluded", "detectable", "power"]
    options.add_argument("--only", choices=parts)
    chosen = options.parse_args()
    tables = {
        "coverage": (print_coverage, chosen.samples),
        "worst": (print_worst, chosen.samples // 5),
        "history": (print_history, chosen.samples // 2),
        "joint": (print_joint, chosen.samples // 2),
        "best": (print_best, chosen.samples // 2),
        "excluded": (print_excluded, chosen.samples),
        "detectable": (print_detectable, chosen.samples // 20),
        "power": (print_power, chosen.samples // 2),
    }
    for name, (show, samples) in tables.items():
        if chosen.only in (None, name):
            print(f"{name}, {samples:,} simulated runs for a figure\n")
            show(samples)
            print()


if __name__ == "__main__":
    main()
