"""Export runs from the command line: the option, and what is printed."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.base.errors import EvalspecError, Problem
from evalspec.cli.options import option
from evalspec.cli.streams import notify
from evalspec.model import Run
from evalspec.reports.base import StoredExchanges

if TYPE_CHECKING:
    from evalspec.api.exporting import PlannedExport
    from evalspec.inputs.manifest.loader import LoadedManifest

export_option = option(
    "--export", "exports", multiple=True, metavar="NAME",
    help="Send the results to the system that spec.evaluation.exports names: otel, mlflow, phoenix; repeatable.",
)  # fmt: skip


def choose_exports(manifest: "LoadedManifest | Path", names: Sequence[str]) -> "Sequence[PlannedExport]":
    """Return the exports of a command line, checked. `manifest`: is only read if there are names.

    Raises:
        InvalidInput: An exporter is unknown, not installed, not set up in the manifest, or not permitted.
    """
    if not names:
        return ()
    from evalspec.api.exporting import plan_exports
    from evalspec.inputs.manifest.loader import load_manifest

    return plan_exports(load_manifest(manifest) if isinstance(manifest, Path) else manifest, names)


def export_finished(run: Run, exchanges: StoredExchanges, exports: "Iterable[PlannedExport]") -> list[Problem]:
    """Export a run that is finished and stored. Return the problems: the verdict must still be printed."""
    return [problem for one in exports if (problem := _export(run, exchanges, one)) is not None]


def _export(run: Run, exchanges: StoredExchanges, export: "PlannedExport") -> Problem | None:
    from evalspec.api.exporting import send_export
    from evalspec.api.loops import run_here

    name = export.exporter.name
    try:
        said = run_here(lambda: send_export(export, run, exchanges))
    except Exception as error:  # of any package; the run is stored
        said = str(error) if isinstance(error, EvalspecError) else f"{type(error).__name__}: {error}"
        again = f"to export it again: evalspec report {run.id} --export {name}"
        return Problem(f"not exported to {name}: {' '.join(said.split())}", again, field="--export")
    notify(f"exported to {name}: {said}")
    return None
