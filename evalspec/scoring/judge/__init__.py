"""The judge and the embeddings: transport, validation of verdicts, and usage. ragas computes the scores."""
