"""`evalspec serve`: the REST API and its workers."""

import click

from evalspec.cli.options import option
from evalspec.cli.service_options import (
    choose_database,
    database_option,
    lease_option,
    project_option,
    read_projects,
    require_service,
)
from evalspec.cli.streams import notify


@click.command("serve")
@option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@option("--port", type=click.IntRange(1, 65535), default=8321, show_default=True, metavar="N", help="Port.")
@database_option
@project_option
@option("--workers", type=click.IntRange(min=0), default=1, show_default=True, metavar="N", help="Worker processes.")
@lease_option
@option("--reindex", is_flag=True, help="Rebuild the index of the runs, and adopt folders that have moved.")
def command(
    host: str,
    port: int,
    database: str | None,
    given: tuple[str, ...],
    workers: int,
    lease_seconds: float,
    *,
    reindex: bool,
) -> None:
    """Serve evaluations by REST over the runs of projects.

    \b
    Examples:
      evalspec serve
      evalspec serve --project shop=./shop --project docs=./docs --workers 2
      evalspec serve --database postgresql://evalspec@db/evalspec --host 0.0.0.0
    """
    require_service()
    from evalspec.typed_json import growing

    with growing():  # the server answers a sixth of a second earlier
        from evalspec.service.serving import prepare_database, serve
        from evalspec.service.settings import ServiceSettings

    settings = ServiceSettings(
        read_projects(given),
        choose_database(database),
        host,
        port,
        workers=workers,
        lease_seconds=lease_seconds,
    )
    engine = prepare_database(settings, reindex=reindex)
    notify(f"serving {', '.join(settings.projects)} at http://{host}:{port}")
    serve(settings, engine)
