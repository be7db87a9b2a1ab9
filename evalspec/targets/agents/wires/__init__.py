"""Wires of agents: a module each, which nothing imports. `agents.wire.WIRES` finds their top-level definitions."""
