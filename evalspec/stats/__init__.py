"""Statistics of scores: pure, deterministic for a seed, and numpy is imported only where a function needs it."""

from evalspec.stats.descriptive import STATISTICS, compute_statistic

__all__ = ["STATISTICS", "compute_statistic"]
