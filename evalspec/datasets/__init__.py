"""Datasets: samples from files, in the native format or in that of another system (`evalspec.formats`)."""
