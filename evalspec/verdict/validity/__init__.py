"""Statistical inference on scores: all decisions about intervals, tests and detectable changes.

Inference requires independent units, enough scored samples, and in comparisons the same metric in both runs.
`coverage`: how many samples may be missing. `estimates`: inference on one run. `changes`: inference on two runs over
the same samples.
"""
