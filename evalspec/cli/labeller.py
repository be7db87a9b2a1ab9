"""Who labels: the named person, or the one that git knows."""

from pathlib import Path

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.git import read_git_setting
from evalspec.curation.labels.records import explain_name


def find_labeller(given: str | None) -> str:
    """Return the name of the person who labels: the given one, or that of git's configuration.

    Raises:
        InvalidInput: There is no name, or it is invalid.
    """
    name = read_git_setting(Path(), "user.name") if given is None else given
    if name is None:
        raise InvalidInput(Problem("unknown person: git has no user.name", "pass --as NAME"))
    fault = explain_name(name)
    if fault is not None:
        raise InvalidInput(Problem(*fault, field="--as"))
    return name
