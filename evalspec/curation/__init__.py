"""What people decide: gold sets, labels of scores, re-chunked corpora."""
