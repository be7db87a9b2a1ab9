"""The plan: every name of the manifest turned into an object, every problem found before anything is asked."""
