"""Datasets: one reader a format, all giving the same samples; importing this package registers them all."""

import evalspec.datasets.jsonl  # noqa: F401
