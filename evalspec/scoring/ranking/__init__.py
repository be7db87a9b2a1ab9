"""Evaluate rankings against judgements: hits, measures and diagnosis, for one query or many at once."""
