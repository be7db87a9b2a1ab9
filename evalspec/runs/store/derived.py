"""Files that are derived from a stored run, such as an index of its samples: `.evalspec/index/<run id>/`.

They can be created again at any time. They quote texts of the run, so they are removed with its texts.
"""

import shutil
from pathlib import Path

import evalspec
from evalspec.runs.store.files import store_errors
from evalspec.runs.store.inputs import INPUTS_NAME
from evalspec.runs.store.run_log import DESCRIPTION_NAME, LOG_NAME, REPORT_NAME

_SIGNED = (DESCRIPTION_NAME, REPORT_NAME, LOG_NAME, INPUTS_NAME)


def derived_folder(run: Path) -> Path:
    """Return the folder of what is derived from a run, which may not exist. `run`: the run's folder."""
    return run.parent.parent / "index" / run.name


def sign_run(run: Path) -> str:
    """Return sizes and times of the files of a run. What was derived from others, or by another release, is outdated.

    Raises:
        StoreError: A file cannot be examined.
    """
    return ",".join([evalspec.__version__, *(_sign(run / name) for name in _SIGNED)])


def _sign(path: Path) -> str:
    with store_errors(path):
        try:
            found = path.stat()
        except FileNotFoundError:
            return "-"
    return f"{found.st_mtime_ns}:{found.st_size}"


def remove_derived(run: Path) -> None:
    """Remove everything that was derived from a run.

    Raises:
        StoreError: It cannot be removed.
    """
    folder = derived_folder(run)
    with store_errors(folder):
        if folder.is_dir():
            shutil.rmtree(folder)
