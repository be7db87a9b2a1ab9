"""What is evaluated: agents and retrievers, over one HTTP layer."""
