"""What is asked: an agent behind HTTP, or replies recorded earlier."""
