"""The type of a reporter: a name, file suffixes, and a function from a run to the content of a file."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from evalspec.base.errors import InvalidInput, check_packages
from evalspec.base.registry import Registry
from evalspec.model import Run, StoredExchange

StoredExchanges = Callable[[], Iterable[StoredExchange]]
"""Reads the texts of a run, in the order of its samples. Empty if the run keeps no texts. Can be called repeatedly."""


def no_exchanges() -> Iterable[StoredExchange]:
    """Return no texts."""
    return ()


class Renderer(Protocol):
    """Renders a run as the content of a file."""

    def __call__(self, run: Run, exchanges: StoredExchanges, /) -> str | bytes:
        """Return the content for a finished run; text is written as UTF-8. Equal runs have equal reports.

        Texts of datasets, agents and judges are untrusted: escape them. An exception fails only this report.
        """
        ...


class Reporter(Struct, frozen=True):
    """A reporter. `suffixes`: file suffixes with a leading dot. They may contain several dots, as in `.junit.xml`.

    `imports`: required packages that not every installation has. `extra`: evalspec's extra that installs them.
    """

    name: str
    suffixes: tuple[str, ...]
    render: Renderer
    imports: tuple[str, ...] = ()
    extra: str = ""

    def register(self, registry: "Registry[Reporter]") -> None:
        """Register the reporter under its name and suffixes.

        Raises:
            ValueError: The name or a suffix is taken.
        """
        registry.add(self.name, self, self.suffixes)

    def check_installed(self) -> None:
        """Check before a run that the required packages are installed, without importing them.

        Raises:
            MissingPackage: One of `imports` is not installed.
        """
        check_packages(f"a report with the suffix {self.suffixes[0]}", self.imports, self.extra)


REPORTERS: Registry[Reporter] = Registry("reporter", "evalspec.reporters", ("evalspec.reports",), Reporter)


def reporter_for(path: Path) -> Reporter:
    """Return the reporter for a file name: the one with the longest suffix that matches.

    Raises:
        InvalidInput: No suffix matches. The message lists the known suffixes.
        MissingPackage: The reporter needs a package that is not installed.
    """
    by_suffix = {suffix: reporter for reporter in REPORTERS for suffix in reporter.suffixes}
    fitting = [suffix for suffix in by_suffix if path.name.casefold().endswith(suffix.casefold())]
    if not fitting:
        suffixes = ", ".join(sorted(by_suffix))
        fix = f"end the name with one of {suffixes}, or write the format before it, as in junit:{path.name}"
        raise InvalidInput(f"'{path}' has no known report suffix", fix)
    reporter = by_suffix[max(fitting, key=len)]
    reporter.check_installed()
    return reporter
