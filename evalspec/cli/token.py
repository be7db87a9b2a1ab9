"""`evalspec token`: create, list and revoke tokens of the service."""

from collections.abc import Sequence

import click

from evalspec.cli.options import option
from evalspec.cli.service_options import choose_database, database_option, require_service
from evalspec.cli.streams import emit_line, notify
from evalspec.errors import InvalidInput

_DAY_SECONDS = 86_400
_SCOPES = ("read", "push", "run", "review", "admin")


@click.group("token")
def command() -> None:
    """Create, list and revoke tokens of the service.

    \b
    Examples:
      evalspec token create --user ana@example.com --scope run --namespace default
    """


@command.command("create")
@option("--user", required=True, metavar="EMAIL", help="Who uses the token. Reviews are made in this name.")
@option("--scope", "scopes", multiple=True, required=True, type=click.Choice(_SCOPES), help="Permission; repeatable.")
@option("--namespace", "namespaces", multiple=True, metavar="NS", help="Valid for this namespace; repeatable.")
@option("--all-namespaces", is_flag=True, help="Valid for every namespace.")
@option("--days", type=click.IntRange(min=1), default=90, show_default=True, metavar="N", help="Valid for N days.")
@database_option
def create(
    user: str,
    scopes: Sequence[str],
    namespaces: Sequence[str],
    days: int,
    database: str | None,
    *,
    all_namespaces: bool,
) -> None:
    """Create a token and print it. It is stored as a hash and cannot be shown again.

    \b
    Examples:
      evalspec token create --user ana@example.com --scope run --namespace default
    """
    require_service()
    from evalspec.service.database import migrate, open_database
    from evalspec.service.tokens import Scope, create_token

    if bool(namespaces) == all_namespaces:
        raise InvalidInput("name the namespaces of the token", "--namespace NS, or --all-namespaces")
    engine = open_database(choose_database(database))
    migrate(engine)
    valid_for = None if all_namespaces else namespaces
    emit_line(create_token(engine, user, [Scope(scope) for scope in scopes], valid_for, days * _DAY_SECONDS))
    notify(f"valid for {days} days; send it as `Authorization: Bearer TOKEN`")
