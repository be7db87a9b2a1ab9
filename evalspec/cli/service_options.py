"""Options that `evalspec serve`, `worker` and `token` share."""

from importlib import import_module
from typing import TYPE_CHECKING

import click

from evalspec.base.errors import InvalidInput, MissingPackage, Problem
from evalspec.cli.options import option

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
