"""Rankings against judgements: what a ranking found, the measures of it, and both for many queries at once."""
