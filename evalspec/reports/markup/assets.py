"""Styles and scripts of the elements, for reports and pages. Each of them adds what only it has."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

_STYLES = ("tokens", "layout", "forms", "tables", "charts", "sample")
_SCRIPTS = ("elements", "keys", "folds")


@cache
def read_style(package: str, own: str) -> str:
    """Return the styles of all elements, followed by the one that a package adds."""
    shared = "".join(_read_shared(f"{name}.css") for name in _STYLES)
    return shared + read_asset(package, f"{own}.css")


@cache
def read_script(package: str, own: Sequence[str]) -> str:
    """Return the scripts of all elements, followed by those that a package adds.

    They are in one function, so their names are not global. `own`: in order, without suffix; hashable.
    """
    shared = "".join(_read_shared(f"{name}.js") for name in _SCRIPTS)
    added = "".join(read_asset(package, f"{name}.js") for name in own)
    return f'(() => {{\n"use strict";\n{shared}{added}}})();\n'


def read_asset(package: str, name: str) -> str:
    """Return the text of a file in the folder `assets` of a package."""
    return files(package).joinpath("assets", name).read_text(encoding="utf-8")


def _read_shared(name: str) -> str:
    return read_asset(__package__, name)
