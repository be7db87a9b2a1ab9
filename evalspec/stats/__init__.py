"""Statistics of scores: pure, deterministic for a seed, and numpy is imported only where a function needs it."""

from evalspec.stats.descriptive import compute_statistic

__all__ = ["compute_statistic"]
