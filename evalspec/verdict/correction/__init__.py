"""What people would say about all replies, from what they say about some and the judge about all."""
