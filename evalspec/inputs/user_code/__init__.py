"""Finding, importing and calling the user's Python code beside the manifest."""
