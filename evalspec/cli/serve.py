"""`evalspec serve`: the REST API and its workers."""

import getpass
from collections.abc import Callable, Mapping
from typing import Any

import click

from evalspec.cli.options import Command, option
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.service_options import (
    check_user,
    choose_database,
    code_options,
    database_option,
    lease_option,
    max_runs_option,
    oidc_options,
    project_option,
)
from evalspec.cli.streams import emit_line, notify


def _limit(
    flag: str, name: str, meaning: str, default: int | None = None, *, least: int = 1, unit: str = "N"
) -> Callable[[Command], Command]:
    """Return the option of one of the limits."""
    bounds, is_shown = click.IntRange(min=least), default is not None
    return option(flag, name, type=bounds, default=default, show_default=is_shown, metavar=unit, help=meaning)


@click.command("serve", cls=OrderedCommand)
@option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@option("--port", type=click.IntRange(1, 65535), default=8321, show_default=True, metavar="N", help="Port.")
@database_option
@project_option
@code_options
@oidc_options
@option("--workers", type=click.IntRange(min=0), default=1, show_default=True, metavar="N", help="Worker processes.")
@lease_option
@option(
    "--server-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="A name that clients use for this server, besides localhost and its address; repeatable.",
)
@option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Believe X-Forwarded-For and -Proto from this address or network; repeatable.",
)
@option(
    "--alert",
    "alerts",
    multiple=True,
    metavar="NS:URL=SECRET",
    help="Send alerts of namespace NS to a webhook. URL and SECRET are names of variables, which have its url and the "
    "secret that signs (whsec_…); repeatable.",
)
@option("--alert-private", is_flag=True, help="Let webhooks have http urls, and addresses that are not public.")
@option("--public-url", metavar="URL", help="Address of this server in the links of alerts.")
@option("--login-user", metavar="EMAIL", help="Whom the printed link logs in. Default: the user of the system.")
@max_runs_option
@_limit("--calls-a-day", "calls_a_day", "Calls of targets per namespace in 24 hours.")
@_limit("--retention", "retention_days", "Delete runs that are older, except labelled and promoted ones.", unit="DAYS")
@_limit("--audit-retention", "audit_days", "Delete audit entries that are older.", 365, unit="DAYS")
@_limit("--requests-a-minute", "requests_a_minute", "Requests per token or session.", 600)
@_limit("--max-body", "body_bytes", "Largest body of a request.", 16 * 1024 * 1024, least=1024, unit="BYTES")
@_limit("--max-push", "push_bytes", "Largest run that can be pushed.", 256 * 1024 * 1024, least=1024, unit="BYTES")
@option("--reindex", is_flag=True, help="Rebuild the index of the runs, and adopt folders that have moved.")
@option("--check", "is_check", is_flag=True, help="Start nothing; check options, database, port, projects, retention.")
def command(
    host: str,
    port: int,
    database: str | None,
    code: Mapping[str, Any],
    oidc: Any,
    workers: int,
    lease_seconds: float,
    names: tuple[str, ...],
    proxies: tuple[str, ...],
    alerts: tuple[str, ...],
    public_url: str | None,
    login_user: str | None,
    max_runs: int,
    *,
    alert_private: bool,
    reindex: bool,
    is_check: bool,
    **limits: Any,
) -> None:
    """Serve evaluations by REST over the runs of projects.

    \b
    Examples:
      evalspec serve
      evalspec serve --project shop=./shop --project docs=./docs --workers 2
      evalspec serve --host 0.0.0.0 --server-name evals.example.com
      evalspec serve --alert default:SLACK_URL=ALERT_SECRET
      evalspec serve --oidc-issuer https://sso.example.com --oidc-client-id evals
    """
    if login_user is not None:
        check_user(login_user, "--login-user")
    from evalspec.base.collector import growing
    from evalspec.service.isolation import check_isolation
    from evalspec.service.settings import (
        ServiceLimits,
        ServiceSettings,
        check_names,
        check_public_url,
        declare_alerts,
        parse_proxies,
    )

    with growing():  # the server answers a sixth of a second earlier
        from evalspec.service.connections import listen
        from evalspec.service.serving import list_findings, prepare_database, serve

    settings = ServiceSettings(
        database=choose_database(database),
        host=host,
        port=port,
        hosts=check_names(names),
        proxies=parse_proxies(proxies),
        workers=workers,
        lease_seconds=lease_seconds,
        limits=ServiceLimits(concurrent_runs=max_runs, **limits),
        alerts=declare_alerts(code["projects"], alerts, allows_private=alert_private),
        public_url=check_public_url(public_url),
        oidc=oidc,
        **code,
    )
    check_isolation(settings)
    if is_check:
        for line in list_findings(settings):
            emit_line(line)
        return
    from evalspec.service.oidc import Issuer
    from evalspec.service.origins import describe_address
    from evalspec.service.sessions import create_link
    from evalspec.service.tokens import Scope

    engine = prepare_database(settings, reindex=reindex)
    sockets = listen(settings)  # the link must not be shown for a port that somebody else has
    notify(f"serving {', '.join(settings.projects)} at {describe_address(settings)}")
    link = create_link(engine, login_user or getpass.getuser(), [Scope.ADMIN], None)
    if oidc is not None and (failure := Issuer(oidc).find_failure()):
        notify(f"people cannot log in at {oidc.issuer} yet: {failure}")
    notify(f"log in once, within 10 minutes: {describe_address(settings)}{link}")
    serve(settings, engine, sockets)
