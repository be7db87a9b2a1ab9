"""`evalspec token`: create, list and revoke tokens of the service."""

import getpass
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.registry import near_miss
from evalspec.cli.documents import emit_document
from evalspec.cli.options import json_option, option
from evalspec.cli.service_options import check_user, choose_database, database_option, require_service
from evalspec.cli.streams import emit_line, notify

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from evalspec.service.tokens import Caller

_DAY_SECONDS = 86_400
_SCOPES = ("read", "push", "run", "review", "admin")


@click.group("token")
def command() -> None:
    """Create, list and revoke tokens of the service.

    \b
    Examples:
      evalspec token create --user ana@example.com --scope run --namespace default
      evalspec token list
      evalspec token revoke 0123456789ab
    """


@command.command("create")
@option("--user", required=True, metavar="EMAIL", help="Who uses the token. Reviews are made in this name.")
@option("--scope", "scopes", multiple=True, required=True, type=click.Choice(_SCOPES), help="Permission; repeatable.")
@option("--namespace", "namespaces", multiple=True, metavar="NS", help="Valid for this namespace; repeatable.")
@option("--all-namespaces", is_flag=True, help="Valid for every namespace.")
@option("--days", type=click.IntRange(1, 3650), default=90, show_default=True, metavar="N", help="Valid for N days.")
@option(
    "--login",
    "is_login",
    is_flag=True,
    help="Print a path instead: appended to the address of the server, it opens one session.",
)
@database_option
@json_option
def create(
    user: str,
    scopes: Sequence[str],
    namespaces: Sequence[str],
    days: int,
    database: str | None,
    *,
    all_namespaces: bool,
    is_login: bool,
    as_json: bool,
) -> None:
    """Create a token and print it. It is stored as a hash and cannot be shown again.

    \b
    Examples:
      evalspec token create --user ana@example.com --scope run --namespace default
    """
    require_service()
    from evalspec.service.audit import record
    from evalspec.service.sessions import create_link
    from evalspec.service.tokens import Scope, create_token, parse_id

    check_user(user, "--user")
    if bool(namespaces) == all_namespaces:
        raise InvalidInput("name the namespaces of the token", "--namespace NS, or --all-namespaces")
    valid_for = None if all_namespaces else list(namespaces)
    granted = [Scope(scope) for scope in scopes]
    with _open(database) as engine:
        _check_namespaces(engine, namespaces)
        if is_login:
            path = create_link(engine, user, granted, valid_for)
            emit_document({"path": path}) if as_json else emit_line(path)
            notify("valid once, within 10 minutes; open it at the address of the server")
            return
        token = create_token(engine, user, granted, valid_for, days * _DAY_SECONDS)
        id = parse_id(token)
        namespace = namespaces[0] if len(namespaces) == 1 else None
        record(engine, "token create", user=getpass.getuser(), target=f"{id} {user}", namespace=namespace)
    if as_json:
        shown = {"id": id, "token": token, "user": user, "scopes": sorted(scopes), "namespaces": valid_for}
        emit_document({**shown, "days": days})
    else:
        emit_line(token)
    notify(f"valid for {days} days; send it as `Authorization: Bearer TOKEN`")


@command.command("list")
@database_option
@json_option
def list_all(database: str | None, *, as_json: bool) -> None:
    """List tokens and sessions, newest first, without their secrets. Invalid ones are listed for 30 days.

    `of the roles`: the roles of this person decide, which an admin gives on /people.

    The last login at the identity provider is that of the token's user, or else of its creator on /tokens.

    \b
    Examples:
      evalspec token list --json | jq -r '.tokens[].user'
    """
    require_service()
    from evalspec.service.tokens import SESSION, TOKEN, list_tokens

    with _open(database) as engine:
        rows = [_describe(*found) for found in list_tokens(engine, (TOKEN, SESSION))]
    if as_json:
        emit_document({"tokens": rows})
        return
    if not rows:
        notify("no tokens")
    for row in rows:
        valid_for = "all namespaces" if row["namespaces"] is None else ",".join(row["namespaces"])
        ends = f"revoked {row['revokedAt']}" if row["revokedAt"] else f"expires {row['expiresAt']}"
        login = f"last login {row['lastLogin']}" if row["lastLogin"] else "no login"
        scopes = "of the roles" if row["grantedBy"] and row["kind"] == SESSION else ",".join(row["scopes"])
        emit_line("  ".join([row["id"], row["kind"], row["user"], scopes, valid_for, ends, login]))


@command.command("revoke")
@click.argument("id")
@database_option
def revoke(id: str, database: str | None) -> None:
    """Revoke the token or session with this ID. It is invalid from the next request on.

    \b
    Examples:
      evalspec token revoke 0123456789ab
    """
    require_service()
    from evalspec.service.audit import record
    from evalspec.service.tokens import revoke_token

    with _open(database) as engine:
        if not revoke_token(engine, id):
            raise InvalidInput(f"there is no valid token {id}", "evalspec token list shows them")
        record(engine, "token revoke", user=getpass.getuser(), target=id)
    notify(f"revoked {id}")


@contextmanager
def _open(database: str | None) -> "Iterator[Engine]":
    from evalspec.service.database import migrate, open_database

    engine = open_database(choose_database(database, is_new=False))
    try:
        migrate(engine)
        yield engine
    finally:
        engine.dispose()


def _check_namespaces(engine: "Engine", namespaces: Sequence[str]) -> None:
    """Raise InvalidInput for a namespace that no server knows. Before the first server starts, any may be named."""
    from evalspec.service.stores import list_namespaces

    known = list_namespaces(engine)
    unknown = [name for name in namespaces if known and name not in known]
    if unknown:
        raise InvalidInput([Problem(f"no namespace is named '{name}'", near_miss(name, known)) for name in unknown])


def _describe(caller: "Caller", revoked_at: float | None, last_login: float | None) -> Mapping[str, Any]:
    from evalspec.service.timestamps import render_time

    return {
        "id": caller.token_id,
        "kind": caller.kind,
        "user": caller.user,
        "scopes": sorted(caller.scopes),
        "namespaces": None if caller.namespaces is None else sorted(caller.namespaces),
        "grantedBy": caller.granted_by,
        "createdAt": render_time(caller.created_at),
        "expiresAt": render_time(caller.expires_at),
        "revokedAt": render_time(revoked_at),
        "lastLogin": render_time(last_login),
    }
