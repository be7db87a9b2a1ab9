"""Names and defaults of Unrag. Its models are in schema.py, which takes longer to import."""

from collections.abc import Mapping

OWN_KEY = "unrag"
"""The metadata key of samples and documents for fields that only Unrag has."""

AS_LISTED = "relevant"
"""The key in `metadata["unrag"]` for the original list of relevant ids, if some are repeated."""

DEFAULT_TOP_K = 10
"""Unrag's default cut-off."""

RANKING_LIMITS: Mapping[str, str] = {"hitAtK": "Success", "recallAtK": "Recall", "mrrAtK": "RR"}
"""Metrics that may have a minimum: Unrag's names and ours."""

LATENCY = "latency_p95"
"""Our name for the only metric that may have a maximum."""
