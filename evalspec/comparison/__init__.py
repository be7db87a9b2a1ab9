"""Runs held against each other: what changed, whether chance explains it, and whether a gate may let it pass."""
