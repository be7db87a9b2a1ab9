"""Scores of single samples: metrics, the judge, ranking measures."""
