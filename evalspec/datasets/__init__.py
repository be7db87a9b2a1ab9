"""Datasets: one reader a format, all giving the same samples."""
