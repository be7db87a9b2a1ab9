"""Datasets: one reader a format, all giving the same samples; importing this package registers them all."""

import evalspec.datasets.autorag
import evalspec.datasets.jsonl
import evalspec.datasets.mixpeek
import evalspec.datasets.trec
import evalspec.datasets.triples
import evalspec.datasets.unrag  # noqa: F401
