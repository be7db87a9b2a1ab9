"""The manifest agent.yaml: its schema, its references, and loading."""
