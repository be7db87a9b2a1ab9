"""Traces of agents: spans as they arrive, and what they say in the vocabularies of instrumentations."""
