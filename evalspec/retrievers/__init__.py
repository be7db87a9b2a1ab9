"""Retrievers under test: what one must be able to do, and the baselines that need no server."""
