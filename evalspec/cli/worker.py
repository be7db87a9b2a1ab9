"""`evalspec worker`: execute the jobs of a server in another process or on another machine."""

import threading

import click

from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.service_options import (
    choose_database,
    database_option,
    lease_option,
    max_runs_option,
    project_option,
    read_projects,
    require_service,
)


@click.command("worker", cls=OrderedCommand)
@database_option
@project_option
@lease_option
@max_runs_option
def command(database: str | None, given: tuple[str, ...], lease_seconds: float, max_runs: int) -> None:
    """Execute the jobs of a server. Its projects are folders that worker and server share.

    \b
    Examples:
      evalspec worker --database postgresql://app@db/evalspec --project shop=/srv
    """
    require_service()
    from evalspec.service.settings import ServiceLimits, ServiceSettings
    from evalspec.service.worker_process import run_worker

    projects = read_projects(given)
    limits = ServiceLimits(concurrent_runs=max_runs)
    settings = ServiceSettings(projects, choose_database(database), lease_seconds=lease_seconds, limits=limits)
    run_worker(settings, threading.Event())
