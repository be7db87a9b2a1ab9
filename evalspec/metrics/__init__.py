"""Metrics: one file a family; importing this package registers them all."""

import evalspec.metrics.contexts
import evalspec.metrics.judged
import evalspec.metrics.operational
import evalspec.metrics.retrieval
import evalspec.metrics.safety
import evalspec.metrics.similarity
import evalspec.metrics.text  # noqa: F401
