"""`--untrusted`, and the options that permit single things again."""

import functools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from evalspec.cli.options import option
from evalspec.errors import InvalidInput, Problem
from evalspec.store.run_store import OWN_INPUTS, STORE
from evalspec.trust import Act, Host, Refused, Trust, explain, host_of, limiting, parse_host

Command = TypeVar("Command", bound=Callable[..., Any])

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _parse_hosts(_context: click.Context, _parameter: click.Parameter, texts: Sequence[str]) -> frozenset[Host]:
    try:
        return frozenset(parse_host(text) for text in texts)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _parse_variables(_context: click.Context, _parameter: click.Parameter, names: Sequence[str]) -> frozenset[str]:
    for name in names:
        if _VARIABLE.fullmatch(name) is None:
            raise click.BadParameter(f"'{name}' is not the name of a variable")
    return frozenset(names)


_OPTIONS = (
    option("--untrusted", is_flag=True,
           help="Take the project for a stranger's: no code, command, plugin, variable, host or file elsewhere."),
    option("--allow-env", multiple=True, metavar="NAME", callback=_parse_variables,
           help="With --untrusted: this environment variable may be read; repeatable."),
    option("--allow-host", multiple=True, metavar="HOST[:PORT]", callback=_parse_hosts,
           help="With --untrusted: this host may be connected to; repeatable."),
)  # fmt: skip


def trust_options(*inputs: str) -> Callable[[Command], Command]:
    """Add them to a command. `inputs`: its parameters that name files of the project, in whose folders it may read."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def limited(
            *arguments: Any,
            untrusted: bool,
            allow_env: frozenset[str],
            allow_host: frozenset[Host],
            **settings: Any,
        ) -> Any:
            if not untrusted:
                _refuse_idle(allow_env, allow_host)
                return command(*arguments, **settings)
            named = [settings[name] for name in inputs if settings[name] is not None]
            with limiting(_find_trust(allow_env, allow_host, named, settings.get("url"))):
                _refuse_linked_store()
                return command(*arguments, **settings)

        added: Any = limited
        for add in reversed(_OPTIONS):
            added = add(added)
        return added  # type: ignore[no-any-return]

    return decorate


def _refuse_idle(variables: Iterable[str], hosts: Iterable[Host]) -> None:
    """Raise where something is permitted again that nothing forbids: --untrusted was meant and is missing."""
    given = {"--allow-env": variables, "--allow-host": hosts}
    idle = [
        Problem("it loosens --untrusted", "add --untrusted", field=name) for name, values in given.items() if values
    ]
    if idle:
        raise InvalidInput(idle)


def _find_trust(variables: frozenset[str], hosts: frozenset[Host], named: Sequence[Path], url: str | None) -> Trust:
    """The policy of one command line: what it names itself is permitted."""
    own = None if url is None else host_of(url)
    return Trust(
        is_limited=True,
        variables=variables,
        hosts=hosts if own is None else hosts | {own},
        folders=tuple(dict.fromkeys(map(_folder_of, named))),
        store=STORE.resolve(),
        here=Path.cwd().resolve(),
    )


def _folder_of(path: Path) -> Path:
    """The folder that a path names its last part in. A link there is not followed: it may lead anywhere."""
    return Path(os.path.normpath(Path.cwd() / path)).parent.resolve()


def _refuse_linked_store() -> None:
    """Raise where the project brought a link in place of a folder that runs are written to."""
    for place in (STORE, *(own.path for own in OWN_INPUTS)):
        refused = explain(Act.WRITE_FILE, str(place))
        if refused is not None:
            raise Refused(Problem(*refused))
