"""Talking JSON over HTTP to a service that the manifest describes: an agent, or a retriever."""
