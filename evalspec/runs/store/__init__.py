"""The run store: replies, scores and reports, written to disk as soon as they exist."""
