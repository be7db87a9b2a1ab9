"""Run an evaluation: query agents and retrievers, score replies, summarise, and decide the verdict."""
