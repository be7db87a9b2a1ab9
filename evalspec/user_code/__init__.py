"""The user's own Python beside the manifest: found, imported and called."""
