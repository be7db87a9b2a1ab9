"""Metrics: one module per family. The registry (`metrics.base.METRICS`) finds their top-level definitions."""
