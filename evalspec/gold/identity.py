"""Who is acting on a gold set: the named person, or the one that git knows."""

import shutil
import subprocess
from pathlib import Path

from evalspec.errors import InvalidInput, Problem
from evalspec.gold.schema import SetFile
from evalspec.registry import near_miss

_SECONDS = 10


def find_person(root: Path, config: SetFile, given: str | None = None) -> str:
    """Return the acting person: the given name, or the person with the name or email of git's configuration.

    Raises:
        InvalidInput: The person is not in set.yaml.
    """
    if given is not None:
        return require_person(config, given)
    name, email = _ask_git(root, "user.name"), _ask_git(root, "user.email")
    for person, details in config.people.items():
        if person == name or (email is not None and details.email == email):
            return person
    who = f"git says {name} <{email}>, who is not in set.yaml" if name or email else "git has no user.name"
    raise InvalidInput(Problem(f"unknown person: {who}", f"pass --as NAME; known: {', '.join(config.people)}"))


def find_viewer(root: Path, config: SetFile, given: str | None = None) -> str | None:
    """Return who is looking at a set: as `find_person`, but None for somebody who is not one of its people.

    Raises:
        InvalidInput: The given person is not in set.yaml.
    """
    if given is not None:
        return require_person(config, given)
    try:
        return find_person(root, config)
    except InvalidInput:
        return None


def require_person(config: SetFile, name: str) -> str:
    """Return the name of a person of the set.

    Raises:
        InvalidInput: There is no such person.
    """
    if name not in config.people:
        message = f"'{name}' is not one of the people in set.yaml; add new people there"
        raise InvalidInput(Problem(message, near_miss(name, config.people)))
    return name


def _ask_git(root: Path, key: str) -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    try:
        asked = subprocess.run(
            [git, "config", "--get", key], cwd=root, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() or None
