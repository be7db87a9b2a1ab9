"""What may be said of scores: the one place that decides on intervals, tests and what could have been found.

A statement needs a licence from the data: independent units, enough of them scored, and a metric that is the same on
both sides. `coverage` says how many may be missing, `estimates` speaks of one run, `changes` of two runs over the same
samples.
"""
