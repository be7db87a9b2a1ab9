"""agent.yaml: its schema, its references and how it is loaded."""
