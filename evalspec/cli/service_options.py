"""Options that `evalspec serve`, `worker` and `token` share."""

import functools
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from evalspec.base.errors import InvalidInput, MissingPackage, Problem
from evalspec.base.trust import Trust
from evalspec.cli.options import Command, group_options, option
from evalspec.cli.trust_options import add_trust_options, refuse_idle

if TYPE_CHECKING:
    from evalspec.service.settings import Project

_PACKAGES = ("fastapi", "uvicorn", "sqlalchemy", "alembic")

database_option = option(
    "--database",
    metavar="URL",
    help="SQLite file or PostgreSQL database, as sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME. "
    "Default: .evalspec/service.db.",
)
project_option = option(
    "--project",
    "given",
    multiple=True,
    metavar="NS=DIR",
    help="The namespace NS is the project in DIR; repeatable. Default: `default` is the working directory.",
)
lease_option = option(
    "--lease",
    "lease_seconds",
    type=click.IntRange(1, 3600),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How long a job waits for a worker that no longer answers before another takes it over.",
)

max_runs_option = option(
    "--max-runs",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    metavar="N",
    help="How many jobs of each namespace run at the same time.",
)


_add_code_options = group_options(
    option(
        "--isolation",
        type=click.Choice(["uid", "bubblewrap", "off"]),
        help="What keeps the code of namespaces apart. Default: off for one namespace, else the first that works.",
    ),
    option(
        "--env",
        "variables",
        multiple=True,
        metavar="NS:NAME[=VARIABLE]",
        help="Give the code of namespace NS this variable, or VARIABLE under this name; repeatable.",
    ),
    add_trust_options,
)


def code_options(command: Command) -> Command:
    """Add the options for the code of projects. The command gets `code`: fields of ServiceSettings, with `projects`."""

    @functools.wraps(command)
    def collected(
        *, given: tuple[str, ...], isolation: str | None, variables: tuple[str, ...], untrusted: bool, **settings: Any
    ) -> Any:
        allowed = {"variables": settings.pop("allow_env"), "hosts": settings.pop("allow_host")}
        if not untrusted:
            refuse_idle(*allowed.values())
        require_service()
        from evalspec.service.isolation import choose_isolation
        from evalspec.service.settings import Isolation, declare_variables

        projects = read_projects(given)
        chosen = choose_isolation(Isolation(isolation) if isolation else None, projects)
        is_limited = untrusted or chosen is not Isolation.OFF
        projects = declare_variables(projects, variables, is_limited=is_limited)
        trust = Trust(is_limited=untrusted, **allowed)
        return command(code={"projects": projects, "isolation": chosen, "trust": trust}, **settings)

    return _add_code_options(collected)  # type: ignore[return-value]


def require_service() -> None:
    """Raise MissingPackage if a package of the extra `service` is not installed."""
    for package in _PACKAGES:
        try:
            import_module(package)
        except ImportError:
            raise MissingPackage("the service", package, "service") from None


def check_user(user: str, option_name: str) -> None:
    """Raise InvalidInput for a name that is blank or not printable: reviews and audit entries are made in it."""
    if not user.strip() or not user.isprintable():
        raise InvalidInput(Problem("not a name", "write an address or a name on one line", field=option_name))


def read_projects(given: tuple[str, ...]) -> "dict[str, Project]":
    """Return the projects of `--project`. See settings.parse_projects."""
    from evalspec.service.settings import parse_projects

    return parse_projects(given)


def choose_database(url: str | None) -> str:
    """Return the database of `--database`, or the default one."""
    from evalspec.service.settings import default_database

    return url or default_database()
