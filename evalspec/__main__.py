"""Entry point of `evalspec` and `python -m evalspec`. `--version` and `--help` import nothing else of the package."""

import os
import sys

from evalspec import __version__


def main() -> int:
    """Run the command line and return its exit code."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        return _say(f"evalspec {__version__}\n")
    if arguments in ([], ["--help"], ["-h"]) and "_EVALSPEC_COMPLETE" not in os.environ:
        from evalspec.cli.commands import HELP

        return _say(HELP)
    if arguments == ["requirements", "--slim"]:  # an installation without any dependency can say what it needs
        from evalspec.base.distribution import list_requirements

        return _say("".join(f"{line}\n" for line in list_requirements()))
    from evalspec.base.collector import long_lived

    with long_lived():
        from evalspec.base.errors import ExitCode
        from evalspec.cli.failure import explain_sudden_end
        from evalspec.cli.main import run
        from evalspec.cli.streams import keep_own_streams
    keep_own_streams()
    explain_sudden_end()
    try:
        code = run(arguments)
    except KeyboardInterrupt:  # a second one, while the first is reported
        code = ExitCode.INTERRUPTED
    sys.stdout = sys.stderr  # threads of user code may still print, and the result is complete
    return code


def _say(text: str) -> int:
    if sys.stdout is None:  # closed by the parent process
        return 0
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader is gone: discard the buffer, or flushing it at exit fails again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
