"""Real servers on loopback, for tests that speak HTTP."""
