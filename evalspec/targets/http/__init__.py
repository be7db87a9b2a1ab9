"""HTTP requests to the services of the manifest: agent, retrievers, judge and embeddings."""
