"""Build the plan of a run: resolve every name of the manifest and report every problem before the first request."""
