"""`evalspec worker`: execute the jobs of a server in another process or on another machine."""

import threading
from collections.abc import Mapping
from typing import Any

import click

from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.service_options import (
    choose_database,
    code_options,
    database_option,
    lease_option,
    max_runs_option,
    project_option,
)


@click.command("worker", cls=OrderedCommand)
@database_option
@project_option
@code_options
@lease_option
@max_runs_option
def command(database: str | None, code: Mapping[str, Any], lease_seconds: float, max_runs: int) -> None:
    """Execute the jobs of a server. Its projects are folders that worker and server share.

    \b
    Examples:
      evalspec worker --database postgresql://app@db/evalspec --project shop=/srv
    """
    from evalspec.service.isolation import check_isolation
    from evalspec.service.settings import ServiceLimits, ServiceSettings
    from evalspec.service.worker_process import run_worker

    limits = ServiceLimits(concurrent_runs=max_runs)
    settings = ServiceSettings(database=choose_database(database), lease_seconds=lease_seconds, limits=limits, **code)
    check_isolation(settings)
    run_worker(settings, threading.Event())
