"""The way in: `evalspec` and `python -m evalspec`. `--version` and `--help` are answered without importing anything."""

import sys

from evalspec import __version__


def main() -> int:
    """Run the command line and return its exit code."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        sys.stdout.write(f"evalspec {__version__}\n")
        return 0
    if arguments in ([], ["--help"], ["-h"]):
        from evalspec.cli.commands import HELP

        sys.stdout.write(HELP)
        return 0
    from evalspec.cli.main import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
