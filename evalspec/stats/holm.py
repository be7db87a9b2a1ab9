"""Several tests at once: what their p-values are worth together."""

from collections.abc import Sequence


def compute_holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted by Holm (1979), in the order given: reject where one is at most alpha.

    With the hypotheses sorted by p-value, the i-th of m (from 0) is multiplied by m - i, never below the one before it
    and never above 1. The chance of even one false alarm among them is then at most alpha, however they depend on each
    other. Give it the tests that were made and no others: one without a p-value is not a test.

    Raises:
        ValueError: a p-value is not between 0 and 1.
    """
    for p_value in p_values:
        if not 0 <= p_value <= 1:
            raise ValueError(f"a p-value lies between 0 and 1, not {p_value:g}")
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = least
    return adjusted
