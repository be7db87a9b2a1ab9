"""The judge and the embeddings: transport, verdict validation and usage; what is computed with them is ragas."""
