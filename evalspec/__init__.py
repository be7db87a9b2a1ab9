"""evalspec, pytest for RAG agents: numbers that can be trusted and a CI verdict that cannot lie."""

__version__ = "0.1.0"
