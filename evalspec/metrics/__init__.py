"""Metrics: one file a family. What a module defines at its top level is found here (`metrics.base.METRICS`)."""
