"""How many samples may be missing before the others no longer speak for all of them."""

_ROUNDING = 1e-9
"""29 % of 100 samples may come out a little under 29."""


def exceeds_share(missing: int, total: int, share: float, *, at_least: int = 1) -> bool:
    """Whether more of `total` are missing than a share allows. 0 allows none; above it, `at_least` are always fine."""
    return missing > (max(at_least, share * total + _ROUNDING) if share else 0)
