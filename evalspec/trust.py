"""What the files of a project may make evalspec do: everything, or with --untrusted next to nothing.

One policy is in force for the whole process, because what it guards belongs to the whole process: the environment,
the modules that are imported, the network. Every door asks it here: whoever opens a file of the project, connects,
reads a variable, imports or starts something calls `require`. Validation calls `explain`, so that everything that a
door would refuse is reported before anything is called. A caller that forgets to validate is stopped at the door.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from evalspec.errors import InvalidInput, Problem

_PORTS = {"http": 80, "https": 443}
_CHOSEN_BY_THE_COMMAND_LINE = frozenset({"evalspec.reporters"})
"""Entry point groups of which a manifest can name nothing."""


class Act(Enum):
    """Something that a project can make evalspec do. In brackets: what `explain` and `require` are given."""

    IMPORT = auto()
    """Import the project's own code (`module:object`)."""
    START = auto()
    """Start a program (the command)."""
    READ_VARIABLE = auto()
    """Use the value of an environment variable (its name)."""
    READ_FILE = auto()
    """Read a file or folder of the project (its path)."""
    READ_RUN = auto()
    """Read a run to compare with: a file of the project, or evalspec's own (its path)."""
    WRITE_FILE = auto()
    """Write a file (its path)."""
    KEEP_STORE = auto()
    """Keep a database in a folder that the manifest names (its path)."""
    CONNECT = auto()
    """Send a request (its url)."""
    USE_PLUGINS = auto()
    """Use what other installed packages register (the entry point group)."""


class Host(NamedTuple):
    """A host that may be connected to; `port` None: at every port."""

    name: str
    port: int | None = None

    def __str__(self) -> str:
        """As --allow-host takes it."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"


class Refused(InvalidInput):
    """Something that the policy in force does not permit."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What is permitted. Without `is_limited` everything is, and the rest says nothing.

    `folders`: files are read in these only. `store`: evalspec's own folder, whose runs are none of the project's
    business. `here`: the folder in which no link is followed out of it when something is written. All are resolved.
    """

    is_limited: bool = False
    variables: frozenset[str] = frozenset()
    hosts: frozenset[Host] = frozenset()
    folders: tuple[Path, ...] = ()
    store: Path | None = None
    here: Path = Path()

    def to_options(self) -> list[str]:
        """The options of a command line that is trusted as little."""
        if not self.is_limited:
            return []
        named = [("--allow-env", name) for name in sorted(self.variables)]
        named += [("--allow-host", str(host)) for host in sorted(self.hosts, key=str)]
        return ["--untrusted", *(word for option in named for word in option)]

    def permits(self, act: Act, subject: str) -> bool:
        """Whether something may be done."""
        return not self.is_limited or _RULES[act].permits(self, subject)


@dataclass(frozen=True, slots=True)
class _Rule:
    """When an act is permitted, and what is said where it is not: `{}` stands for `shown` of the subject."""

    permits: Callable[[Trust, str], bool]
    message: str
    fix: str
    shown: Callable[[str], str] = str


_POLICIES = [Trust()]
"""The policies, the one in force last."""


def in_force() -> Trust:
    """The policy of this process."""
    return _POLICIES[-1]


@contextmanager
def limiting(trust: Trust) -> Iterator[None]:
    """Put a policy in force, in all threads, until the block ends."""
    _POLICIES.append(trust)
    try:
        yield
    finally:
        _POLICIES.pop()


def explain(act: Act, subject: str, named: str = "") -> tuple[str, str] | None:
    """Why something may not be done, and the fix; None where it may. `named`: what to call the subject, where that
    must not be shown."""
    if in_force().permits(act, subject):
        return None
    rule = _RULES[act]
    shown = named or rule.shown(subject)
    return rule.message.format(shown), rule.fix.format(shown)


def require(act: Act, subject: str) -> None:
    """See that something may be done. Every door calls this before it opens.

    Raises:
        Refused: it may not.
    """
    refused = explain(act, subject)
    if refused is not None:
        raise Refused(Problem(*refused))


def require_file(path: Path) -> None:
    """See that a file or folder may be read.

    Raises:
        Refused: it is outside the project's folder, or leads there.
    """
    require(Act.READ_FILE, str(path))


def permitted_variables(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment as far as it may be read."""
    trust = in_force()
    return {name: environ[name] for name in trust.variables if name in environ} if trust.is_limited else environ


def parse_host(text: str) -> Host:
    """`host`, `host:port` or `[::1]:port`.

    Raises:
        ValueError: it is none of these.
    """
    parts = urlsplit(f"//{text}")
    host = _find_host(f"//{text}")
    if host is None or parts.path or parts.query or parts.fragment or "@" in text:
        raise ValueError(f"'{text}' is no host; write example.com, example.com:8080 or [::1]:8080")
    return host


def host_of(url: str) -> Host | None:
    """The host and port that a url leads to; None for a text that is no url."""
    host = _find_host(url)
    if host is None:
        return None
    return host if host.port is not None else Host(host.name, _PORTS.get(urlsplit(url).scheme))


def _find_host(url: str) -> Host | None:
    try:
        parts = urlsplit(url)
        name = (parts.hostname or "").rstrip(".")
        if not name.isascii():
            name = name.encode("idna").decode()
        return Host(name.casefold(), parts.port) if name else None
    except ValueError:  # UnicodeError is one
        return None


def _show_host(url: str) -> str:
    host = host_of(url)
    if host is None:
        return "a url that names no host"
    name = f"[{host.name}]" if ":" in host.name else host.name
    is_usual = host.port is None or host.port == _PORTS.get(urlsplit(url).scheme)
    return name if is_usual else f"{name}:{host.port}"


def _connects(trust: Trust, url: str) -> bool:
    host = host_of(url)
    return host is not None and (host in trust.hosts or Host(host.name) in trust.hosts)


def _reads_file(trust: Trust, path: str) -> bool:
    if ".git" in Path(os.path.realpath(path)).parts:  # where a checkout keeps its token
        return False
    return _is_within(path, trust.folders) and not (trust.store and _is_within(path, (trust.store,)))


def _reads_run(trust: Trust, path: str) -> bool:
    return _is_within(path, (*trust.folders, *([trust.store] if trust.store else [])))


def _writes_file(trust: Trust, path: str) -> bool:
    """Whether writing goes where the path says: no link of the project leads it elsewhere."""
    place = Path(os.path.normpath(Path.cwd() / path))
    around = [folder for folder in (trust.here, *trust.folders) if place.is_relative_to(folder)]
    return all(_is_within(path, (folder,)) for folder in around) and (bool(around) or not Path(path).is_symlink())


def _is_within(path: str, folders: Collection[Path]) -> bool:
    try:
        place = Path(path).resolve()
    except (OSError, RuntimeError, ValueError):  # a circle of links, or no name that a file can have
        return False
    return any(place.is_relative_to(folder) for folder in folders)


def _never(_trust: Trust, _subject: str) -> bool:
    return False


_RULES: Mapping[Act, _Rule] = {
    Act.IMPORT: _Rule(_never, "--untrusted imports no code of the project, and this names {}", "remove it"),
    Act.START: _Rule(_never, "--untrusted starts no command", "start the agent yourself, and name it with --url"),
    Act.READ_VARIABLE: _Rule(
        lambda trust, name: name in trust.variables,
        "--untrusted does not read the variable {}",
        "pass --allow-env {}",
    ),
    Act.READ_FILE: _Rule(
        _reads_file,
        "'{}' is outside the project's folder, where --untrusted reads nothing",
        "put the file itself into the folder of the manifest",
    ),
    Act.READ_RUN: _Rule(
        _reads_run,
        "'{}' is outside the project's folder, where --untrusted reads nothing",
        "put the file itself into the folder of the manifest",
    ),
    Act.WRITE_FILE: _Rule(
        _writes_file,
        "'{}' is a link to another place, and --untrusted writes through none",
        "remove the link, or choose another place",
    ),
    Act.KEEP_STORE: _Rule(
        _never, "--untrusted keeps no store where the manifest says", "leave it out: the store is in memory then"
    ),
    Act.CONNECT: _Rule(_connects, "--untrusted does not connect to {}", "pass --allow-host {}", _show_host),
    Act.USE_PLUGINS: _Rule(
        lambda _trust, group: group in _CHOSEN_BY_THE_COMMAND_LINE,
        "--untrusted uses no plugins of {}",
        "name one of evalspec's own",
    ),
}
