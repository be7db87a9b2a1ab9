"""Send the results of runs to other systems, for `--export`."""

from collections.abc import Iterable

from msgspec import Struct

from evalspec.base.errors import InvalidInput, Problem, ServiceError
from evalspec.base.registry import returned
from evalspec.base.trust import Act, current_trust, explain
from evalspec.inputs.manifest.export_schema import EXPORTS_PLACE, ExportConfig
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.model import Run
from evalspec.reports.base import StoredExchanges
from evalspec.reports.exports.base import EXPORTERS, Exporter
from evalspec.runs.planning.services import explain_bad_url, resolve_config

_OPTION = "--export"


class PlannedExport(Struct, frozen=True):
    """An exporter, and where it sends to."""

    exporter: Exporter
    to: ExportConfig


def plan_exports(loaded: LoadedManifest, names: Iterable[str]) -> list[PlannedExport]:
    """Return the exports of a command line, checked, with the settings of the manifest.

    Raises:
        InvalidInput: An exporter is unknown, not set up in the manifest, or not permitted. Lists all problems.
        MissingPackage: An exporter needs a package that is not installed.
    """
    problems: list[Problem] = []
    planned = [_plan(loaded, name, problems) for name in dict.fromkeys(names)]
    if problems:
        raise InvalidInput(problems)
    return [one for one in planned if one is not None]


def _plan(loaded: LoadedManifest, name: str, problems: list[Problem]) -> PlannedExport | None:
    exporter, declared = EXPORTERS.find(name), loaded.manifest.spec.evaluation.exports
    if exporter is None:
        problems.append(Problem(f"unknown exporter '{name}'", EXPORTERS.hint(name), field=_OPTION))
        return None
    exporter.check_installed()
    if exporter.name not in declared:
        fix = f"add exports: {{{exporter.name}: {{url: http://…}}}}"
        problems.append(loaded.problem(EXPORTS_PLACE[:-1], f"it does not say where {_OPTION} {name} sends to", fix))
        return None
    place, known = (*EXPORTS_PLACE, exporter.name), len(problems)
    to = resolve_config(declared[exporter.name], place, loaded, problems)
    if len(problems) == known:
        problems += [loaded.problem((*place, key), *found) for key, found in _check(exporter, to).items() if found]
    return PlannedExport(exporter, to)


def _check(exporter: Exporter, to: ExportConfig) -> dict[str, tuple[str, str] | None]:
    """Return the message and the fix for what is wrong, by key."""
    found = {"url": explain_bad_url(to.url) or explain(Act.CONNECT, to.url)}
    if exporter.connects_itself and current_trust().is_limited:
        message = f"{exporter.name} connects by itself, and --untrusted cannot limit where to"
        found["url"] = (message, f"export the run from another job: evalspec report RUN {_OPTION} {exporter.name}")
    if exporter.connects_itself and to.headers:
        found["headers"] = (f"{exporter.name} sends no headers", "remove them; use the variables of its package")
    return found


async def send_export(export: PlannedExport, run: Run, exchanges: StoredExchanges) -> str:
    """Send a finished run, and return in words what was sent.

    Raises:
        EvalspecError: The other system did not take it, or a plug-in failed.
    """
    with EXPORTERS.attribute_errors(export.exporter.name, ServiceError):
        return returned(await export.exporter.send(run, exchanges, export.to), str)
