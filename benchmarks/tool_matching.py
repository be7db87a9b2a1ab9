"""How long it takes to pair 1,000 expected calls of tools with 1,000 made ones: exact, with matchers, and all alike.

    python -m benchmarks.tool_matching

Prints the median of five runs of all comparisons: the pairs, the order, and the nearest arguments.
"""

import time
from statistics import median

from evalspec.model import ExpectedCall, ToolCall
from evalspec.scoring.tool_matching import CallComparison, are_exact

COUNT, RUNS = 1_000, 5
MADE = [ToolCall("book", {"seat": COUNT - n, "city": "Paris"}) for n in range(COUNT)]
CASES = {
    "exact": [ExpectedCall("book", {"seat": n, "city": "Paris"}) for n in range(COUNT)],
    "matchers": [
        ExpectedCall("book", {"seat": {"near": n, "tolerance": 3}, "city": {"matches": "^P"}}) for n in range(COUNT)
    ],
    "any arguments": [ExpectedCall("book")] * COUNT,
}


def measure(expected: list[ExpectedCall]) -> float:
    """Return the seconds of one run."""
    started = time.perf_counter()
    compared = CallComparison(expected, MADE)
    _ = compared.right, are_exact(compared), compared.pairs
    return time.perf_counter() - started


def main() -> None:
    """Print the medians."""
    for name, expected in CASES.items():
        print(f"{name:>14}  {median(measure(expected) for _ in range(RUNS)):.2f} s")


if __name__ == "__main__":
    main()
