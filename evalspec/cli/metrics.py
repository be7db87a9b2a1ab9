"""`evalspec metrics`: list the available metrics."""

from typing import Any

import click

from evalspec.cli.options import json_option
from evalspec.cli.streams import emit
from evalspec.foreign_text import inert
from evalspec.json_text import render_lines
from evalspec.metrics.base import METRICS, MetricDefinition
from evalspec.model import Need

_STAGES = {
    "retrieved.NAME, gain.NAME": "A retrieval metric before reranking, and the gain from reranking.",
    "embed.NAME, retrieve.NAME, rerank.NAME": "The latency of one retriever stage, if the retriever reports timings.",
}
"""Prefixes of stage metrics. Listing each of these metrics would triple the list."""


@click.command("metrics")
@json_option
def command(as_json: bool) -> None:
    """List the metrics with their inputs, direction, range and engine.

    \b
    Examples:
      evalspec metrics
      evalspec metrics --json | jq -r '.metrics[].name'
    """
    if as_json:
        documents = [_document(definition) for definition in METRICS]
        emit(render_lines({"schemaVersion": 1, "metrics": documents}))
        return
    for document in (_document(definition) for definition in METRICS if not definition.is_staged):
        needs = ", ".join(document["needs"]) or "nothing but a reply"
        low, high = ("…" if bound is None else f"{bound:g}" for bound in document["range"])
        facts = f"{document['direction']} is better · {low} to {high} · {inert(document['engine'])} · needs {needs}"
        name, summary = inert(document["name"]), inert(document["summary"])
        emit(f"{name}{'[@k]' if document['cutoff'] else ''}\n    {summary}\n    {facts}")
    for names, meaning in _STAGES.items():
        emit(f"{names}\n    {meaning}")


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
