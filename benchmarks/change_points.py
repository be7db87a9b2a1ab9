"""Measure how often trends show a change of level that is none, and how soon they find one.

Histories of 100 runs with 10 metrics, looked at after every run. The function is that of the pages. Seeds are fixed;
1 minute. `--calibrate` prints the limits that change_points.py has a formula for.
"""

import argparse
import math
from collections.abc import Callable

import numpy as np
from harness import print_table
from numpy.typing import NDArray

from evalspec.verdict.stats.change_points import list_changes

Noise = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]

RUNS, METRICS, SHIFT_AT, WITHIN = 100, 10, 50, 15


def correlate(rng: np.random.Generator, size: tuple[int, int]) -> NDArray[np.float64]:
    """Metrics that share half of their variance."""
    return (rng.standard_normal(size) + rng.standard_normal((size[0], 1))) / math.sqrt(2)


NOISES: dict[str, Noise] = {
    "normal": lambda rng, size: rng.standard_normal(size),
    "normal, metrics correlated 0.5": correlate,
    "heavy tails (t, 3 degrees)": lambda rng, size: rng.standard_t(3, size) / math.sqrt(3),
    "skewed (exponential)": lambda rng, size: rng.exponential(size=size),
    "shares of 20 samples, 0.9": lambda rng, size: rng.binomial(20, 0.9, size) / 20 / math.sqrt(0.9 * 0.1 / 20),
}
"""Run noise with a standard deviation of 1: rows are runs, columns are metrics."""


def share_with_a_change(noise: Noise, histories: int) -> float:
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(histories):
        values = noise(rng, (RUNS, METRICS))
        found += any(list_changes(values[:, metric].tolist(), METRICS) for metric in range(METRICS))
    return found / histories


def share_found(noise: Noise, histories: int, shifted: int, size: float, runs: int = WITHIN) -> tuple[float, float]:
    """Return how often a metric that shifted is marked within some runs, and how often the mark is within 5 runs.

    `shifted`: how many metrics shift, `size`: by how many standard deviations. Marks before the shift do not count.
    """
    rng = np.random.default_rng(2)
    found, near = 0, 0
    for _ in range(histories):
        values = noise(rng, (SHIFT_AT + runs, METRICS))
        values[SHIFT_AT:, :shifted] += size
        marks = [
            place
            for metric in range(shifted)
            for place in set(list_changes(values[:, metric].tolist(), METRICS))
            - set(list_changes(values[:SHIFT_AT, metric].tolist(), METRICS))
        ]
        found += bool(marks)
        near += bool(marks) and min(abs(place - SHIFT_AT) for place in marks) <= 5
    return found / histories, near / max(found, 1)


def share_found_by_the_best(histories: int) -> float:
    """Return how often the best chart marks a shift of one metric by 1 sd within 15 runs, knowing all but its time.

    It knows the level, the noise and the size and direction of the shift, which no trend does: a CUSUM of the log
    likelihood ratio, whose limit is exceeded by 5 % of histories without a change.
    """
    rng = np.random.default_rng(3)

    def run(values: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.zeros(values.shape[:-1])
        highest = np.zeros((*values.shape[:-1], values.shape[-1]))
        for number in range(values.shape[-1]):
            sums = np.maximum(sums, 0) + values[..., number] - 0.5
            highest[..., number] = sums
        return highest

    quiet = run(rng.standard_normal((20_000, METRICS, RUNS))).max(axis=(1, 2))
    limit = np.quantile(quiet, 0.95)
    values = rng.standard_normal((histories, SHIFT_AT + WITHIN))
    values[:, SHIFT_AT:] += 1
    return float((run(values)[:, SHIFT_AT:].max(axis=1) > limit).mean())


def calibrate(histories: int) -> None:
    """Print the limit that 4 % of histories without a change exceed, for numbers of metrics."""
    rng = np.random.default_rng(20261128)
    looks, before = np.arange(1, RUNS + 1)[:, None], np.arange(1, RUNS + 1)
    scale = np.tril(1 / np.sqrt(np.maximum(before * (looks - before), 1) * (looks + 1) / 3), -1).astype(np.float32)
    largest = []
    for _ in range(histories // 500):
        values = rng.random((500, RUNS), dtype=np.float32)
        signs = np.sign(values[:, :, None] - values[:, None, :])
        largest.append(np.abs(signs.cumsum(axis=1).cumsum(axis=2) * scale).max(axis=(1, 2)))
    all_of_them = np.concatenate(largest)
    rows = []
    for metrics in (1, 2, 3, 5, 10, 20, 50, 100):
        needed = float(np.quantile(all_of_them, 1 - 0.04 / metrics))
        rows.append([str(metrics), f"{needed:.3f}", f"{math.sqrt(12.6 + 1.7 * math.log(metrics)):.3f}"])
    print_table(["metrics", "needed", "limit"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--calibrate", action="store_true")
    given = parser.parse_args()
    if given.calibrate:
        calibrate(300_000)
        return
    rows = [[name, f"{share_with_a_change(noise, given.histories):.1%}"] for name, noise in NOISES.items()]
    print_table(["noise without a change", "histories with a change shown"], rows)
    rows = []
    for name, shifted, size, runs in (
        *(("normal", shifted, 1.0, WITHIN) for shifted in (1, 2, 3, 5, 10)),
        ("normal, metrics correlated 0.5", 10, 1.0, WITHIN),
        ("normal", 1, 1.0, 30),
        ("normal", 1, 1.0, 50),
        ("normal", 1, 1.5, WITHIN),
        ("normal", 1, 2.0, WITHIN),
    ):
        found, near = share_found(NOISES[name], given.histories, shifted, size, runs)
        rows.append([name, str(shifted), f"{size:g} sd", str(runs), f"{found:.1%}", f"{near:.0%}"])
    print_table(["noise", "metrics that shift", "by", "within runs", "found", "of these within 5 runs of it"], rows)
    best = share_found_by_the_best(10_000)
    print(f"one metric by 1 sd within {WITHIN} runs, by the best chart that knows level, noise and shift: {best:.1%}")


if __name__ == "__main__":
    main()
