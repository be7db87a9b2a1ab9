"""Requests to services that the manifest names: agent, retrievers, judge and embeddings."""
