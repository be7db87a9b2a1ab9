"""The trust policy: what the files of a project may make evalspec do. Everything, or with --untrusted almost nothing.

One policy applies to the whole process, because it guards process-wide resources: the environment, imported modules,
the network. Code that opens a project file, connects, reads a variable, imports a module or starts a program calls
`require` first. Validation calls `explain`, so every refusal is reported before anything is called.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem

_PORTS = {"http": 80, "https": 443}
_CHOSEN_BY_THE_COMMAND_LINE = frozenset({"evalspec.reporters"})
"""Entry point groups that only the command line selects from. A manifest cannot name their objects."""


class Act(Enum):
    """Something that a project can make evalspec do. In brackets: the subject that `explain` and `require` take."""

    IMPORT = auto()
    """Import the project's own code (`module:object`)."""
    START = auto()
    """Start a program (the command)."""
    PRINT_KEY = auto()
    """Run a command that prints a token (the command)."""
    READ_VARIABLE = auto()
    """Use the value of an environment variable (its name)."""
    READ_FILE = auto()
    """Read a file or folder of the project (its path)."""
    READ_RUN = auto()
    """Read a run to compare with, from the project or from evalspec's store (its path)."""
    WRITE_FILE = auto()
    """Write a file (its path)."""
    KEEP_STORE = auto()
    """Keep a database in a folder that the manifest specifies (its path)."""
    CONNECT = auto()
    """Send a request (its url)."""
    USE_PLUGINS = auto()
    """Use objects that other installed packages register (the entry point group)."""


class Host(NamedTuple):
    """A host that evalspec may connect to. `port`: None for every port."""

    name: str
    port: int | None = None

    def __str__(self) -> str:
        """Return the host in the syntax of --allow-host."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"


class Refused(InvalidInput):
    """The current policy does not permit an act."""


class Trust(Struct, frozen=True):
    """A policy. Without `is_limited` everything is permitted, and the other fields have no effect.

    `folders`: the only folders in which files may be read. `store`: evalspec's own folder, whose runs the project may
    not read. `here`: folder that writes may not leave through a symbolic link. All paths are resolved.
    """

    is_limited: bool = False
    variables: frozenset[str] = frozenset()
    hosts: frozenset[Host] = frozenset()
    folders: tuple[Path, ...] = ()
    store: Path | None = None
    here: Path = Path()

    def to_options(self) -> list[str]:
        """Return the command-line options for this policy."""
        if not self.is_limited:
            return []
        named = [("--allow-env", name) for name in sorted(self.variables)]
        named += [("--allow-host", str(host)) for host in sorted(self.hosts, key=str)]
        return ["--untrusted", *(word for option in named for word in option)]

    def permits(self, act: Act, subject: str) -> bool:
        """Return whether this policy permits an act."""
        return not self.is_limited or _RULES[act].permits(self, subject)


class _Rule(Struct, frozen=True):
    """When an act is permitted, and the message and fix if it is not. `{}` is replaced by `shown(subject)`."""

    permits: Callable[[Trust, str], bool]
    message: str
    fix: str
    shown: Callable[[str], str] = str


_POLICIES = [Trust()]
"""Stack of policies. The last one applies."""


def current_trust() -> Trust:
    """Return the current policy of this process."""
    return _POLICIES[-1]


@contextmanager
def limiting(trust: Trust) -> Iterator[None]:
    """Apply a policy in all threads until the block ends."""
    _POLICIES.append(trust)
    try:
        yield
    finally:
        _POLICIES.pop()


def explain(act: Act, subject: str, named: str = "") -> tuple[str, str] | None:
    """Return why the policy forbids an act, and the fix. None if it permits the act.

    `named`: shown in place of a subject that must not be shown.
    """
    if current_trust().permits(act, subject):
        return None
    rule = _RULES[act]
    shown = named or rule.shown(subject)
    return rule.message.format(shown), rule.fix.format(shown)


def require(act: Act, subject: str) -> None:
    """Check that the policy permits an act. Call this immediately before the act.

    Raises:
        Refused: The policy forbids it.
    """
    refused = explain(act, subject)
    if refused is not None:
        raise Refused(Problem(*refused))


def require_file(path: Path) -> None:
    """Check that the policy permits reading a file or folder.

    Raises:
        Refused: The path is outside the project's folder, or a link leads out of it.
    """
    require(Act.READ_FILE, str(path))


def permitted_variables(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment variables that the policy permits reading."""
    trust = current_trust()
    return {name: environ[name] for name in trust.variables if name in environ} if trust.is_limited else environ


def parse_host(text: str) -> Host:
    """Return the host in `host`, `host:port` or `[::1]:port`.

    Raises:
        ValueError: The text has none of these forms.
    """
    parts = urlsplit(f"//{text}")
    host = _find_host(f"//{text}")
    if host is None or parts.path or parts.query or parts.fragment or "@" in text:
        raise ValueError(f"'{text}' is not a host; write example.com, example.com:8080 or [::1]:8080")
    return host


def host_of(url: str) -> Host | None:
    """Return the host and port of a URL. None if the text is not a URL."""
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
    except ValueError:  # includes UnicodeError
        return None


def _show_host(url: str) -> str:
    host = host_of(url)
    if host is None:
        return "a URL without a host"
    name = f"[{host.name}]" if ":" in host.name else host.name
    is_usual = host.port is None or host.port == _PORTS.get(urlsplit(url).scheme)
    return name if is_usual else f"{name}:{host.port}"


def _connects(trust: Trust, url: str) -> bool:
    host = host_of(url)
    return host is not None and (host in trust.hosts or Host(host.name) in trust.hosts)


def _reads_file(trust: Trust, path: str) -> bool:
    if ".git" in Path(os.path.realpath(path)).parts:  # may contain the access token of the checkout
        return False
    return _is_within(path, trust.folders) and not (trust.store and _is_within(path, (trust.store,)))


def _reads_run(trust: Trust, path: str) -> bool:
    return _is_within(path, (*trust.folders, *([trust.store] if trust.store else [])))


def _writes_file(trust: Trust, path: str) -> bool:
    """Return whether no symbolic link of the project redirects a write to this path."""
    place = Path(os.path.normpath(Path.cwd() / path))
    around = [folder for folder in (trust.here, *trust.folders) if place.is_relative_to(folder)]
    return all(_is_within(path, (folder,)) for folder in around) and (bool(around) or not Path(path).is_symlink())


def _is_within(path: str, folders: Collection[Path]) -> bool:
    try:
        place = Path(path).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or an invalid file name
        return False
    return any(place.is_relative_to(folder) for folder in folders)


def _never(_trust: Trust, _subject: str) -> bool:
    return False


_RULES: Mapping[Act, _Rule] = {
    Act.IMPORT: _Rule(_never, "--untrusted does not import the project's code: {}", "remove it"),
    Act.START: _Rule(_never, "--untrusted does not start commands", "start the agent yourself, and pass --url"),
    Act.PRINT_KEY: _Rule(
        _never, "--untrusted does not run commands", "write ${{env:NAME}} in headers, and pass --allow-env NAME"
    ),
    Act.READ_VARIABLE: _Rule(
        lambda trust, name: name in trust.variables,
        "--untrusted does not read the variable {}",
        "pass --allow-env {}",
    ),
    Act.READ_FILE: _Rule(
        _reads_file,
        "'{}' is outside the project's folder, and --untrusted reads only files in it",
        "copy the file into the folder of the manifest",
    ),
    Act.READ_RUN: _Rule(
        _reads_run,
        "'{}' is outside the project's folder, and --untrusted reads only files in it",
        "copy the file into the folder of the manifest",
    ),
    Act.WRITE_FILE: _Rule(
        _writes_file,
        "'{}' leads through a link, and --untrusted does not write through links",
        "remove the link, or choose another path",
    ),
    Act.KEEP_STORE: _Rule(
        _never, "--untrusted does not write a store to the manifest's path", "omit the path to keep the store in memory"
    ),
    Act.CONNECT: _Rule(_connects, "--untrusted does not connect to {}", "pass --allow-host {}", _show_host),
    Act.USE_PLUGINS: _Rule(
        lambda _trust, group: group in _CHOSEN_BY_THE_COMMAND_LINE,
        "--untrusted does not load plugins of {}",
        "use one of evalspec's own",
    ),
}
