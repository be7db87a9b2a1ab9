"""Limits on missing samples."""

_ROUNDING = 1e-9
"""Tolerance for rounding errors: 0.29 * 100 is slightly below 29."""


def exceeds_share(missing: int, total: int, share: float, *, at_least: int = 1) -> bool:
    """Return whether more of `total` are missing than a share allows.

    A share of 0 allows none. Any other share allows at least `at_least`.
    """
    return missing > (max(at_least, share * total + _ROUNDING) if share else 0)
