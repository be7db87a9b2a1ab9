"""Retrievers under test: their interface, HTTP and Python targets, and built-in baselines."""
