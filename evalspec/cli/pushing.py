"""Push runs from the command line: the options, and what is printed."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.base.errors import EvalspecError, InvalidInput, Problem
from evalspec.base.trust import current_trust
from evalspec.cli.options import group_options, option
from evalspec.cli.streams import notify, notify_github

if TYPE_CHECKING:
    from evalspec.api.pushing import PushedRun
    from evalspec.api.server import PushServer

server_options = group_options(
    option("--to", metavar="URL", help="The server of runs and baselines. Its token is in EVALSPEC_TOKEN."),
    option("--allow-http", is_flag=True, help="Send the token without TLS, in a private network."),
)
push_option = option("--push", is_flag=True, help="Push the run to the server of --to when it is finished.")


def choose_push_server(to: str | None, *, is_wanted: bool, is_named: bool, allow_http: bool) -> "PushServer | None":
    """Return the server that a run is pushed to when it is finished. None: the run is not pushed.

    `is_named`: --to is on the command line, not only in the environment.

    Raises:
        InvalidInput: The options do not fit together, or the url or the token is unusable.
    """
    if not is_wanted:
        if is_named:
            raise InvalidInput(Problem("has no effect without --push", "add --push", field="--to"))
        return None
    if current_trust().is_limited:
        message = "an untrusted project must not be near a token"
        raise InvalidInput(Problem(message, "push the run from another job: evalspec runs push", field="--push"))
    from evalspec.api.server import choose_server

    return choose_server(to, os.environ, allow_http=allow_http)


def push_stored(folder: Path, server: "PushServer") -> "PushedRun":
    """Push a run, and print where the server shows it.

    Raises:
        InvalidInput: The run is not finished, or is being written.
        StoreError: The run is damaged.
        Unmeasurable: The server refused the run, or could not be reached.
    """
    from evalspec.api.loops import run_here
    from evalspec.api.pushing import push_run

    pushed = run_here(lambda: push_run(folder, server, notify))
    notify(f"{'pushed' if pushed.is_new else 'already pushed'}: {pushed.page}")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        from evalspec.reports.github import write_run_url

        for line in write_run_url(pushed.page, os.environ):
            notify_github(line)
    return pushed


def push_finished(folder: Path, server: "PushServer | None") -> list[Problem]:
    """Push a run that has just finished. Return the problem if that fails: the verdict must still be printed."""
    if server is None:
        return []
    try:
        push_stored(folder, server)
    except EvalspecError as error:
        again = f"to push it again: evalspec runs push {folder.name} --to {server.url}"
        return [Problem(str(error), again, field="--push")]
    return []
