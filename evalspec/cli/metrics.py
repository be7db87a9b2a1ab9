"""`evalspec metrics`: what can be measured."""

import json
from typing import Any

import click

import evalspec.metrics  # noqa: F401 - registers every metric
from evalspec.cli.options import json_option
from evalspec.metrics.base import METRICS, MetricDefinition
from evalspec.records import Need


@click.command("metrics")
@json_option
def command(as_json: bool) -> None:
    """List the metrics: what each needs, which way it improves, its range, whose code computes it.

    \b
    Examples:
      evalspec metrics
      evalspec metrics --json | jq -r '.metrics[].name'
    """
    documents = [_document(definition) for definition in METRICS]
    if as_json:
        click.echo(json.dumps({"schemaVersion": 1, "metrics": documents}, indent=2, ensure_ascii=False))
        return
    for document in documents:
        needs = ", ".join(document["needs"]) or "nothing but a reply"
        low, high = ("…" if bound is None else f"{bound:g}" for bound in document["range"])
        facts = f"{document['direction']} is better · {low} to {high} · {document['engine']} · needs {needs}"
        click.echo(f"{document['name']}{'[@k]' if document['cutoff'] else ''}\n    {document['summary']}\n    {facts}")


def _document(definition: MetricDefinition) -> dict[str, Any]:
    return {
        "name": definition.name,
        "aliases": list(definition.aliases),
        "cutoff": definition.takes_cutoff,
        "summary": definition.summary,
        "needs": [need.value for need in Need if need in definition.needs],
        "direction": definition.direction.value,
        "range": list(definition.bounds),
        "engine": definition.engine,
        "statistic": definition.statistic,
    }
