"""Measure comparisons of two runs: the paired test against scipy's, and tests and intervals of many pairs at once.

Each figure is a whole process minus a process that only creates the data, so imports count for neither side.
"""

import argparse
import sys
from collections.abc import Sequence

from harness import PYTHON, Cost, cpu, describe_machine, interleave, peak, print_goal, print_table, wall

KINDS = ("judged", "graded", "binary", "latency", "rounded")
DRAW = """
import numpy
def draw(kind, count):
    generator = numpy.random.default_rng(len(kind))
    if kind == "judged":  # as many different values as pairs
        values = generator.beta(8, 2, (2, count))
    elif kind == "graded":
        values = generator.choice([0, 0.25, 0.5, 0.75, 1], (2, count))
    elif kind == "binary":
        values = generator.choice([0.0, 1.0], (2, count), p=[0.2, 0.8])
    elif kind == "latency":
        values = generator.lognormal(6, 1, (2, count))
    else:  # "rounded", to whole percents
        values = generator.beta(8, 2, (2, count)).round(2)
    return values[0].tolist(), values[1].tolist()
"""
LOAD_OURS = """
from evalspec.verdict.stats.bounded import compute_bounded_interval
from evalspec.verdict.stats.paired import compute_differences, compute_randomisation_test
"""
LOAD_SCIPY = "import scipy.stats\n"
OURS = "compute_randomisation_test(compute_differences(old, new), resamples=9999)"
REPEATS = 50
"""Number of evalspec's tests in one process. A single test is too short to measure."""

SCIPY = """scipy.stats.permutation_test(
    (numpy.array(new) - numpy.array(old),), numpy.mean, permutation_type="samples", n_resamples=9999, batch=1000,
    vectorized=True)"""
MANY = """
for kind in KINDS:
    old, new = draw(kind, 100_000)
    WORK
"""
COMPARE = """differences = compute_differences(old, new)
    compute_randomisation_test(differences, resamples=10_000)
    compute_bounded_interval(differences, (min(differences), max(differences)))"""


def write_program(*parts: str) -> Sequence[str]:
    return [PYTHON, "-c", "\n".join(parts)]


def less(costs: Sequence[Cost], base: Sequence[Cost]) -> tuple[float, float]:
    """Return the medians of wall and CPU seconds minus those of the base."""
    return wall(costs) - wall(base), cpu(costs) - cpu(base)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    rounds = options.parse_args().rounds
    print(f"{describe_machine('numpy', 'scipy')}; medians of {rounds} interleaved rounds\n")
    compare_with_scipy(rounds)
    print()
    compare_many(rounds)


def compare_with_scipy(rounds: int) -> None:
    """Compare two-sided tests of one metric with 9,999 resamples. All scores differ, which is evalspec's worst case."""
    commands: dict[str, Sequence[str]] = {}
    sizes = (200, 1000, 5000)
    for size in sizes:
        data = f"old, new = draw('judged', {size})"
        commands[f"base evalspec {size}"] = write_program(DRAW, LOAD_OURS, data)
        commands[f"evalspec {size}"] = write_program(DRAW, LOAD_OURS, data, f"for _ in range({REPEATS}):\n    {OURS}")
        commands[f"base scipy {size}"] = write_program(DRAW, LOAD_SCIPY, data)
        commands[f"scipy {size}"] = write_program(DRAW, LOAD_SCIPY, data, SCIPY)
    costs = interleave(commands, rounds)
    rows, ratios = [], []
    for size in sizes:
        ours = [part / REPEATS for part in less(costs[f"evalspec {size}"], costs[f"base evalspec {size}"])]
        theirs = less(costs[f"scipy {size}"], costs[f"base scipy {size}"])
        ratios.append(theirs[1] / ours[1])
        rows.append([f"{size:,} pairs", *(f"{1000 * part:.1f}" for part in (*ours, *theirs)), f"{ratios[-1]:.0f}"])
    print_table(["9,999 resamples", "evalspec ms", "CPU ms", "scipy ms", "CPU ms", "× CPU"], rows)
    print()
    print_goal("evalspec's test against scipy's, CPU, worst size", 1 / min(ratios), 0.1, " ×")


def compare_many(rounds: int) -> None:
    """Measure tests and intervals of the differences of five metrics with 100,000 pairs each and 10,000 resamples."""
    kinds = {kind: f"KINDS = ['{kind}']" for kind in KINDS} | {"all five": f"KINDS = {KINDS}"}
    commands: dict[str, Sequence[str]] = {}
    for name, chosen in kinds.items():
        commands[f"base {name}"] = write_program(DRAW, LOAD_OURS, chosen, MANY.replace("WORK", "pass"))
        commands[name] = write_program(DRAW, LOAD_OURS, chosen, MANY.replace("WORK", COMPARE))
    costs = interleave(commands, rounds)
    rows = [
        [name, *(f"{part:.2f}" for part in less(costs[name], costs[f"base {name}"])), f"{peak(costs[name]):.0f}"]
        for name in kinds
    ]
    print_table(["100,000 pairs, test and interval", "wall s", "CPU s", "peak MiB"], rows)
    print()
    print_goal("CPU of five metrics", less(costs["all five"], costs["base all five"])[1], 7.5, " s")
    print_goal("peak memory of five metrics", peak(costs["all five"]), 1024, " MiB")


if __name__ == "__main__":
    sys.exit(main())
