"""Who is acting on a gold set: the named person, or the one that git knows."""

from pathlib import Path

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.git import read_git_setting
from evalspec.base.registry import near_miss
from evalspec.curation.gold.schema import SetFile


def find_person(root: Path, config: SetFile, given: str | None = None) -> str:
    """Return the acting person: the given name, or the person with the name or email of git's configuration.

    Raises:
        InvalidInput: The person is not in set.yaml.
    """
    if given is not None:
        return require_person(config, given)
    name, email = read_git_setting(root, "user.name"), read_git_setting(root, "user.email")
    for person, details in config.people.items():
        if person == name or (email is not None and details.email == email):
            return person
    who = f"git says {name} <{email}>, who is not in set.yaml" if name or email else "git has no user.name"
    raise InvalidInput(Problem(f"unknown person: {who}", f"pass --as NAME; known: {', '.join(config.people)}"))


def find_known_person(root: Path, config: SetFile, given: str | None = None) -> str | None:
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
