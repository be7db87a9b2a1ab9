"""The command group, and the only place that turns errors into messages and exit codes."""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from evalspec.base.collector import long_lived
from evalspec.base.errors import EvalspecError, ExitCode
from evalspec.cli.commands import COMMANDS, HELP, VARIABLE
from evalspec.cli.failure import CommandFailed, describe, explain_path_error
from evalspec.cli.lazy_group import LazyGroup
from evalspec.cli.streams import emit, is_result_printed, notify, notify_lines, reserve_stdout

_HELP = {"--help", "-h"}
_OFF = {"", "0", "false", "f", "off", "no", "n"}
"""Values of an environment variable that click reads as an unset flag."""


def _load(name: str) -> Any:
    with long_lived():
        return import_module(f"evalspec.cli.{name}").command


class _Evalspec(LazyGroup):
    """The command line."""

    def get_help(self, ctx: click.Context) -> str:  # noqa: ARG002 - click's signature
        """Return `HELP`, which the fast path prints too."""
        return HELP.rstrip()


@click.group(
    cls=_Evalspec,
    summaries=COMMANDS,
    load=_load,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
def group() -> None:
    """All commands."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return a documented exit code. Errors are printed on stderr, without a traceback."""
    with reserve_stdout(for_help=not _HELP.isdisjoint(arguments) or VARIABLE in os.environ) as results:
        code = _run(arguments)
        results.flush()
        if results.error is not None:
            reason = results.error.strerror or results.error
            notify(f"evalspec: cannot write the result to standard output: {reason}")
            code = code or ExitCode.UNMEASURED
    return code


def _run(arguments: Sequence[str]) -> int:
    as_json = "--json" in arguments or os.environ.get("EVALSPEC_JSON", "").casefold() not in _OFF
    try:
        result = group.main(args=list(arguments), prog_name="evalspec", standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "evalspec"
        return _tell(CommandFailed.usage(error.format_message(), f"see {command} --help"), as_json)
    except (KeyboardInterrupt, click.Abort):
        return _tell(CommandFailed(ExitCode.INTERRUPTED, ["interrupted"]), as_json)
    except CommandFailed as failure:
        return _tell(failure, as_json)
    except EvalspecError as error:
        return _tell(describe(error), as_json)
    except Exception as error:
        if os.environ.get("EVALSPEC_DEBUG") and explain_path_error(error) is None:
            import traceback

            notify_lines(traceback.format_exc().rstrip())
        return _tell(describe(error), as_json)
    return int(result) if isinstance(result, int) else ExitCode.OK


def _tell(failure: CommandFailed, as_json: bool) -> int:
    for line in failure.lines:
        notify(f"evalspec: {line}")
    if as_json and not is_result_printed():
        emit(failure.to_json())
    return failure.exit_code
