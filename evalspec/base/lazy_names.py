"""Names of a package that are imported on first use, so that a command imports only what it needs."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attach(package: str, names: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package.

    `names`: by module, the names that it defines, separated by blanks. Some modules may be above the package.
    """
    places = {name: module for module, listed in names.items() for name in listed.split()}
    every = sorted(places)

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        found = getattr(import_module(places[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return every, find, lambda: every
