"""`--untrusted`, and the options that allow exceptions."""

import functools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.trust import Host, Trust, host_of, limiting, parse_host
from evalspec.cli.options import Command, group_options, option

_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"


def _parse_hosts(_context: click.Context, _parameter: click.Parameter, texts: Sequence[str]) -> frozenset[Host]:
    try:
        return frozenset(parse_host(text) for text in texts)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _parse_variables(_context: click.Context, _parameter: click.Parameter, names: Sequence[str]) -> frozenset[str]:
    for name in names:
        if re.fullmatch(_VARIABLE, name) is None:
            raise click.BadParameter(f"'{name}' is not a valid variable name")
    return frozenset(names)


add_trust_options = group_options(
    option("--untrusted", is_flag=True,
           help="Do not trust the project: allow no code, commands, plugins, variables, hosts or outside files."),
    option("--allow-env", multiple=True, metavar="NAME", callback=_parse_variables,
           help="With --untrusted: allow this variable; repeatable."),
    option("--allow-host", multiple=True, metavar="HOST[:PORT]", callback=_parse_hosts,
           help="With --untrusted: allow this host; repeatable."),
)  # fmt: skip


def trust_options(*inputs: str) -> Callable[[Command], Command]:
    """Add these options to a command.

    `inputs`: the parameters with project files. With `--untrusted`, the command may read in the folders of these files,
    or if it takes none, in the current one.
    """

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
                refuse_idle(allow_env, allow_host)
                return command(*arguments, **settings)
            from evalspec.runs.store.run_store import STORE, refuse_linked_store

            named = [settings[name] for name in inputs if settings[name] is not None] if inputs else [STORE]
            with limiting(_find_trust(allow_env, allow_host, named, STORE, settings.get("url"))):
                refuse_linked_store()
                return command(*arguments, **settings)

        return add_trust_options(limited)  # type: ignore[return-value]

    return decorate


def refuse_idle(variables: Iterable[str], hosts: Iterable[Host]) -> None:
    """Raise InvalidInput if an exception is allowed without --untrusted, which was probably forgotten."""
    given = {"--allow-env": variables, "--allow-host": hosts}
    idle = [
        Problem("has no effect without --untrusted", "add --untrusted", field=name)
        for name, values in given.items()
        if values
    ]
    if idle:
        raise InvalidInput(idle)


def _find_trust(
    variables: frozenset[str], hosts: frozenset[Host], named: Sequence[Path], store: Path, url: str | None
) -> Trust:
    """Return the policy of a command line. Files and URLs given on the command line itself are allowed."""
    own = None if url is None else host_of(url)
    return Trust(
        is_limited=True,
        variables=variables,
        hosts=hosts if own is None else hosts | {own},
        folders=tuple(dict.fromkeys(map(_folder_of, named))),
        store=store.resolve(),
        here=Path.cwd().resolve(),
    )


def _folder_of(path: Path) -> Path:
    """Return the resolved parent folder of a path. A link at the path itself is not followed: it may lead anywhere."""
    return Path(os.path.normpath(Path.cwd() / path)).parent.resolve()
