"""Exporters: send the results of a run to another system."""
