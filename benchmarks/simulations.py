"""Compute the tables of docs/explanation/statistics.md: coverage, worst cases, histories, several tests, power.

Seeds are fixed. Shapes and settings are those of tests/validity, which checks the bounds. Takes about 10 minutes on one
slow core.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from harness import print_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from evalspec.stats.max_t import Family, compute_max_t
from evalspec.stats.paired import compute_randomisation_test
from evalspec.validity import changes
from evalspec.validity.changes import Rules, weigh
from evalspec.validity.estimates import Estimate
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

ALPHA = 0.05
RULES = Rules(ALPHA, two_sided=False, resamples=1000)


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


def print_worst(_samples: int) -> None:
    """Print the worst share of wrong PASSes over gains of 0 to 45 %, by enumeration."""
    rows = []
    for margin in (0.02, 0.05, 0.1):
        found = [find_worst_exclusion(pairs, margin) for pairs in (50, 100, 200)]
        rows.append([f"{margin:g}", *(f"{percent(share)} (gains {gains:g})" for share, gains in found)])
    print_table(["maxDrop", "50 pairs", "100", "200"], rows)


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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--samples", type=int, default=2000, help="simulated runs for a figure")
    parts = ["coverage", "worst", "history", "joint", "best", "excluded", "detectable"]
    options.add_argument("--only", choices=parts)
    chosen = options.parse_args()
    tables = {
        "coverage": (print_coverage, chosen.samples),
        "worst": (print_worst, 0),
        "history": (print_history, chosen.samples // 2),
        "joint": (print_joint, chosen.samples // 2),
        "best": (print_best, chosen.samples // 2),
        "excluded": (print_excluded, chosen.samples),
        "detectable": (print_detectable, chosen.samples // 20),
    }
    for name, (show, samples) in tables.items():
        if chosen.only in (None, name):
            print(f"{name}, {samples:,} simulated runs for a figure\n")
            show(samples)
            print()


if __name__ == "__main__":
    main()
