"""Descriptors of this process that no longer lead where their paths say, such as that of standard output."""

MOVED: dict[int, int] = {}
"""By such a descriptor, the one that leads there now. What is written to /dev/fd/1 goes to that of 1, for example."""
