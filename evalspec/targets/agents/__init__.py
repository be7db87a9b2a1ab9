"""Agents: an HTTP service, a Python function, or recorded replies."""
