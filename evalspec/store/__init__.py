"""The run store: everything a run learns, on disk as soon as it is known."""
