"""Formats of other systems, one module or folder each. Only `datasets.base.DATASETS` loads them.

Each has a function `register_format` that takes the registry, like an entry point of another package.
"""

from importlib import import_module
from pkgutil import iter_modules

from evalspec.datasets.base import DatasetFormat
from evalspec.registry import Registry


def register_formats(registry: Registry[DatasetFormat]) -> None:
    """Register the format of each module and folder in this package."""
    for found in iter_modules(__path__):
        import_module(f"{__name__}.{found.name}").register_format(registry)
