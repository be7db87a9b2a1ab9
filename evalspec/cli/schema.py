"""`evalspec schema`: JSON Schemas of the manifest, datasets, reports, plans, checkups, comparisons and calibrations."""

from collections.abc import Callable
from typing import Any

import click

from evalspec.base.json_text import render_lines
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.streams import emit


def _manifest() -> dict[str, Any]:
    from evalspec.inputs.datasets.base import DATASETS
    from evalspec.inputs.manifest.schema import manifest_json_schema
    from evalspec.targets.agents.wire import WIRES

    schema = manifest_json_schema(_list_parameters())
    schema["$defs"]["ChatEndpoint"]["properties"]["protocol"]["anyOf"][0] = {"enum": WIRES.names(), "type": "string"}
    for model, key in (("DatasetConfig", "compat"), ("HttpSearch", "preset")):
        named = [known.name for known in DATASETS if getattr(known, key) is not None]
        schema["$defs"][model]["properties"][key]["anyOf"][0] = {"enum": named, "type": "string"}
    return schema


def _list_parameters() -> dict[str, Any]:
    """Return the JSON Schema of each parameter of a metric, by name."""
    from evalspec.scoring.metrics.base import METRICS

    found: dict[str, list[dict[str, Any]]] = {}
    for metric in METRICS:
        for one in metric.parameters:
            described = {"description": f"For {metric.name}: {one.describe()}."}
            found.setdefault(one.name, []).append(one.to_schema() | described)
    return {name: _join(schemas) for name, schemas in found.items()}


def _join(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a parameter that several metrics may have, with what it means for each."""
    if len(schemas) == 1:
        return schemas[0]
    return {"description": " ".join(one["description"] for one in schemas), "anyOf": schemas}


def _dataset() -> dict[str, Any]:
    from evalspec.inputs.datasets.jsonl_strict import JsonlSample
    from evalspec.inputs.manifest.fields import UntitledKeys

    return JsonlSample.model_json_schema(schema_generator=UntitledKeys)


def _report() -> dict[str, Any]:
    from evalspec.reports.json_report import report_json_schema

    return report_json_schema()


def _plan() -> dict[str, Any]:
    from evalspec.model.forecasts import Forecast
    from evalspec.model.json_schemas import describe_document

    return describe_document(Forecast)


def _checkup() -> dict[str, Any]:
    from evalspec.model.checkups import Checkup
    from evalspec.model.json_schemas import describe_document

    return describe_document(Checkup)


def _comparison() -> dict[str, Any]:
    from evalspec.model.comparisons import Comparison
    from evalspec.model.json_schemas import describe_document

    return describe_document(Comparison)


def _calibration() -> dict[str, Any]:
    from evalspec.model.calibrations import JudgeCalibration
    from evalspec.model.json_schemas import describe_document

    return describe_document(JudgeCalibration)


_SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "manifest": _manifest,
    "dataset": _dataset,
    "report": _report,
    "plan": _plan,
    "doctor": _checkup,
    "comparison": _comparison,
    "calibration": _calibration,
}


@click.command("schema", cls=OrderedCommand)
@click.argument("what", type=click.Choice(list(_SCHEMAS)))
def command(what: str) -> None:
    """Print the JSON Schema of the manifest, of one dataset line, or of a document that a command prints.

    \b
    Examples:
      evalspec schema manifest > agent.schema.json
      # agent.yaml, line 1: # yaml-language-server: $schema=agent.schema.json
    """
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | _SCHEMAS[what]()
    emit(render_lines(schema))
