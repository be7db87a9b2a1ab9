"""Runs: planned, executed, concluded, stored. The only room with concurrency."""
