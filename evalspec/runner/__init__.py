"""The run: who is asked when, how it is scored, and what is made of it."""
