"""Reports: one file a form, each a function from a Run to text."""
