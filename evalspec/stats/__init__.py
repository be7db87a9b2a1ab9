"""Statistics of scores: pure, deterministic for a seed, and numpy is imported only where a function needs it."""

from evalspec.stats.bootstrap import bootstrap_interval
from evalspec.stats.descriptive import compute_statistic
from evalspec.stats.interval import compute_interval

__all__ = ["bootstrap_interval", "compute_interval", "compute_statistic"]
