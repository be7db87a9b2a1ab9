"""Statistics of scores: pure functions, deterministic for a seed. numpy is imported only by functions that need it."""

from evalspec.verdict.stats.descriptive import compute_statistic

__all__ = ["compute_statistic"]
