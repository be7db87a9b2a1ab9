"""The only way to ragas: without its telemetry, and with one clear line where it cannot be imported."""

import os
from importlib import import_module

from evalspec.errors import InvalidInput, MissingPackage, install_fix


def import_ragas() -> None:
    """Import ragas and what stands between it and the judge: 5 to 10 seconds of CPU, once in a process.

    ragas posts an event for each judge call, and blocks while doing so, unless this variable says no; it reads it
    once, so it is set before the import.

    Raises:
        MissingPackage: ragas is not installed.
        InvalidInput: it is, and cannot be imported, which newer releases of its own dependencies bring about.
    """
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    try:
        import_module("evalspec.judge.ragas_adapter")
    except ModuleNotFoundError as error:
        if error.name == "ragas":
            raise MissingPackage("a judged metric", "ragas") from error
        raise _unusable(error) from error
    except Exception as error:
        raise _unusable(error) from error


def _unusable(error: Exception) -> InvalidInput:
    line = " ".join(f"{type(error).__name__}: {error}".split())
    fix = f"{install_fix()} brings the releases that work together"
    return InvalidInput(f"ragas is installed but cannot be imported: {line}", fix)
