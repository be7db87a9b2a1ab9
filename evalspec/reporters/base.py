"""What a reporter is: a name, the file suffixes that ask for it, and a function from a run to a file's content."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from evalspec.errors import InvalidInput, MissingPackage
from evalspec.model import Run, StoredExchange
from evalspec.registry import Registry

StoredExchanges = Callable[[], Iterable[StoredExchange]]
"""Reads the texts of a run again at each call, in the order of its samples. Nothing comes where they are not kept."""


def no_exchanges() -> Iterable[StoredExchange]:
    """The texts of a run that has none."""
    return ()


@dataclass(frozen=True, slots=True)
class Reporter:
    """One form of report. `suffixes` begin with a dot and may hold more than one, as in `.junit.xml`.

    `render` is given the finished run and what reads its texts; text that it returns is written as UTF-8. `imports`:
    packages that it needs and that are not in every installation; `extra`: the extra of ours that brings them.
    """

    name: str
    suffixes: tuple[str, ...]
    render: Callable[[Run, StoredExchanges], str | bytes]
    imports: tuple[str, ...] = ()
    extra: str = ""

    def register(self, registry: "Registry[Reporter]") -> None:
        """Make it known under its name and suffixes.

        Raises:
            ValueError: the name or a suffix is taken.
        """
        registry.add(self.name, self, self.suffixes)

    def check_installed(self) -> None:
        """Say before a run what its report would lack; nothing is imported.

        Raises:
            MissingPackage: one of `imports` is not there.
        """
        for package in self.imports:
            if find_spec(package) is None:
                raise MissingPackage(f"a report with the suffix {self.suffixes[0]}", package, self.extra)


REPORTERS: Registry[Reporter] = Registry("reporter", "evalspec.reporters", "evalspec.reporters", Reporter)


def reporter_for(path: Path) -> Reporter:
    """The reporter whose suffix the file name ends with, the longest one where several do; it can run here.

    Raises:
        InvalidInput: there is none; the message lists the suffixes that are known.
        MissingPackage: there is one, and what it needs is not installed.
    """
    by_suffix = {suffix: reporter for reporter in REPORTERS for suffix in reporter.suffixes}
    fitting = [suffix for suffix in by_suffix if path.name.casefold().endswith(suffix.casefold())]
    if not fitting:
        raise InvalidInput(
            f"'{path}' names no form of report", f"end the name with one of {', '.join(sorted(by_suffix))}"
        )
    reporter = by_suffix[max(fitting, key=len)]
    reporter.check_installed()
    return reporter
