"""Reports: one file a form, each a function from a Run to text. An import below makes a form known by its suffix."""

from evalspec.reporters import json_report

__all__ = ["json_report"]
