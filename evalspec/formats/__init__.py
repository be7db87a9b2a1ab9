"""Formats of other systems: a module or a folder each, which nothing imports; `datasets.base.DATASETS` finds them here.

Each has a function `register_format` that is given the registry, as the entry point of another package is.
"""

from importlib import import_module
from pkgutil import iter_modules

from evalspec.datasets.base import DatasetFormat
from evalspec.registry import Registry


def register_formats(registry: Registry[DatasetFormat]) -> None:
    """Let each module and folder in here register its format."""
    for found in iter_modules(__path__):
        import_module(f"{__name__}.{found.name}").register_format(registry)
