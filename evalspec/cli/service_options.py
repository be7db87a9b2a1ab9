"""Options that `evalspec serve`, `worker` and `token` share."""

import functools
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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


_add_oidc_options = group_options(
    option("--oidc-issuer", metavar="URL", help="People log in at this OpenID provider, besides with links."),
    option("--oidc-client-id", metavar="ID", help="The server's id there. Its redirect URI is /login/callback."),
    option("--oidc-client-secret", metavar="REF", help="$env:NAME or $secret:name. Default: a public client."),
    option(
        "--oidc-scope",
        default="openid email profile",
        show_default=True,
        metavar="TEXT",
        help="What the server asks the provider for.",
    ),
    option("--oidc-user-claim", default="email", show_default=True, metavar="NAME", help="Claim that names the user."),
    option(
        "--oidc-role-claim", metavar="NAME", help="Claim with groups; with --oidc-role it sets roles at each login."
    ),
    option(
        "--oidc-role",
        "oidc_roles",
        multiple=True,
        metavar="VALUE=[NS:]ROLE",
        help="Role of people whose claim has VALUE, in namespace NS or all: viewer, reviewer, editor or admin; "
        "repeatable.",
    ),
    option(
        "--oidc-default-role",
        type=click.Choice(["viewer", "reviewer", "editor", "admin"]),
        help="Role of people who have none when they first log in. Default: no access until an admin gives one.",
    ),
)


def oidc_options(command: Command) -> Command:
    """Add the options of logins at an identity provider. The command gets `oidc`: an OidcSettings, or None."""

    @functools.wraps(command)
    def collected(
        *,
        oidc_issuer: str | None,
        oidc_client_id: str | None,
        oidc_client_secret: str | None,
        oidc_scope: str,
        oidc_user_claim: str,
        oidc_role_claim: str | None,
        oidc_roles: tuple[str, ...],
        oidc_default_role: str | None,
        **settings: Any,
    ) -> Any:
        given = oidc_client_id, oidc_client_secret, oidc_role_claim, oidc_roles, oidc_default_role
        if not oidc_issuer:
            if any(given):
                raise InvalidInput(Problem("the other --oidc options need it", "name it", field="--oidc-issuer"))
            return command(oidc=None, **settings)
        _check_issuer(oidc_issuer, oidc_client_id, oidc_client_secret)
        if bool(oidc_role_claim) != bool(oidc_roles):
            raise InvalidInput(Problem("is needed with --oidc-role", "give both, or none", field="--oidc-role-claim"))
        from evalspec.service.people import parse_grants
        from evalspec.service.settings import OidcSettings

        grants = parse_grants(oidc_roles, settings["code"]["projects"])
        found = OidcSettings(
            oidc_issuer, oidc_client_id or "", oidc_client_secret, oidc_scope, oidc_user_claim, oidc_role_claim, grants,
            oidc_default_role,
        )  # fmt: skip
        return command(oidc=found, **settings)

    return _add_oidc_options(collected)  # type: ignore[return-value]


def _check_issuer(issuer: str, client_id: str | None, secret: str | None) -> None:
    """Raise InvalidInput if people could not log in safely, or MissingPackage."""
    from evalspec.inputs.manifest.references import References, UnresolvedReference
    from evalspec.targets.http.routes import is_loopback

    try:
        import_module("joserfc")
    except ImportError:
        raise MissingPackage("--oidc-issuer", "joserfc", "service") from None
    parts, problems = urlsplit(issuer), []
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        problems.append(Problem(f"'{issuer}' is not an https address", "write https://…", field="--oidc-issuer"))
    if not client_id:
        problems.append(Problem("is missing", "register this server at the issuer", field="--oidc-client-id"))
    if secret and not secret.startswith(("$env:", "$secret:")):
        fix = "export it, and write $env:NAME or $secret:name"
        problems.append(Problem("a secret is not given in the clear", fix, field="--oidc-client-secret"))
    elif secret:
        try:
            References(Path()).resolve(secret)
        except UnresolvedReference as error:
            problems.append(Problem(str(error), error.fix, field="--oidc-client-secret"))
    if problems:
        raise InvalidInput(problems)


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


def choose_database(url: str | None, *, is_new: bool = True) -> str:
    """Return the database of `--database`, or the default one.

    Raises:
        InvalidInput: The default one may not be new, and does not exist.
    """
    from evalspec.service.settings import default_database

    return url or default_database(is_new=is_new)
