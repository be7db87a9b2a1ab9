"""What a reporter is: a name, the file suffixes that ask for it, and a function from a Run to text."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evalspec.errors import InvalidInput
from evalspec.records import Run
from evalspec.registry import Registry


@dataclass(frozen=True, slots=True)
class Reporter:
    """One form of report. `suffixes` begin with a dot and may hold more than one, as in `.junit.xml`."""

    name: str
    suffixes: tuple[str, ...]
    render: Callable[[Run], str]


REPORTERS: Registry[Reporter] = Registry("reporter", "evalspec.reporters")


def register(reporter: Reporter) -> Reporter:
    """Make a reporter known under its name and suffixes.

    Raises:
        ValueError: the name or a suffix is taken.
    """
    return REPORTERS.add(reporter.name, reporter, reporter.suffixes)


def reporter_for(path: Path) -> Reporter:
    """The reporter whose suffix the file name ends with, the longest one where several do.

    Raises:
        InvalidInput: there is none; the message lists the suffixes that are known.
    """
    by_suffix = {suffix: reporter for reporter in REPORTERS for suffix in reporter.suffixes}
    fitting = [suffix for suffix in by_suffix if path.name.casefold().endswith(suffix.casefold())]
    if not fitting:
        raise InvalidInput(f"'{path}' names no form of report", f"end the name with {' or '.join(sorted(by_suffix))}")
    return by_suffix[max(fitting, key=len)]
