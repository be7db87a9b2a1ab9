"""Defects that are known and not fixed yet: violations as the rules word them, each with what it is. Best empty."""

KNOWN: dict[str, str] = {}
