"""`evalspec metrics`: list the available metrics."""

import re
from collections.abc import Mapping
from typing import Any

import click

from evalspec.base.errors import InvalidInput
from evalspec.base.foreign_text import inert
from evalspec.base.json_text import render_lines
from evalspec.base.registry import near_miss
from evalspec.cli.name_completion import complete_metric
from evalspec.cli.options import json_option
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.streams import emit
from evalspec.model import Direction, Need
from evalspec.scoring.metrics.base import METRICS, MetricDefinition, read_text
from evalspec.scoring.metrics.columns import find_definition

_STAGES = {
    "retrieved.NAME, gain.NAME": "A retrieval metric before reranking, and the gain from reranking.",
    "embed.NAME, retrieve.NAME, rerank.NAME": "The latency of one retriever stage, if the retriever reports timings.",
}
"""Prefixes of stage metrics. Listing each of these metrics would triple the list."""

_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


@click.command("metrics", cls=OrderedCommand)
@click.argument("name", required=False, shell_complete=complete_metric)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the metrics with their inputs, direction, range and engine, or show the metric NAME.

    \b
    Examples:
      evalspec metrics
      evalspec metrics nDCG@10
      evalspec metrics --json | jq -r '.metrics[].name'
    """
    if name is not None:
        document = _document(found := _find(name))
        document["text"] = read_text(found.name)
        emit(render_lines({"schemaVersion": 1, **document}) if as_json else _describe(document))
        return
    if as_json:
        documents = [_document(definition) for definition in METRICS]
        emit(render_lines({"schemaVersion": 1, "metrics": documents}))
        return
    for document in (_document(definition) for definition in METRICS if not definition.is_staged):
        summary = inert(document["summary"])
        emit(
            "\n".join(
                [f"{_show_name(document)}\n    {summary}\n    {_list_facts(document)}", *_list_parameters(document)]
            )
        )
    for names, meaning in _STAGES.items():
        emit(f"{names}\n    {meaning}")


def _find(name: str) -> MetricDefinition:
    """Return the metric of a name, which may have a cut-off.

    Raises:
        InvalidInput: There is no such metric, or the cut-off is no number above 0.
    """
    plain, at, cutoff = name.partition("(")[0].partition("@")
    if at and not (cutoff.isdecimal() and int(cutoff)):
        raise InvalidInput(f"'{name}' has no cut-off; a cut-off is at least 1", f"write {plain}@10")
    found = find_definition(plain)
    if found is None or (at and not found.takes_cutoff):
        names = [known for one in METRICS for known in (one.name, *one.aliases)]
        raise InvalidInput(f"no metric is named '{name}'", near_miss(name, names))
    return found


def _describe(document: Mapping[str, Any]) -> str:
    """Return a metric with an example of its threshold."""
    low, high = document["range"]
    is_maximum = document["direction"] == Direction.LOWER
    middle = (
        "2000" if high is None else f"{low + (high - low) * (0.1 if is_maximum else 0.8):g}" if low is not None else "0"
    )
    side = "max" if is_maximum else "min"
    cutoff = "@10" if document["cutoff"] else ""
    lines = [_show_name(document), f"    {inert(document['summary'])}", f"    {_list_facts(document)}"]
    lines += [f"    statistic: {document['statistic']}"]
    lines += [f"    also called {', '.join(map(inert, document['aliases']))}"] if document["aliases"] else []
    lines += [*_list_parameters(document), "    in agent.yaml:"]
    lines += [f"      metrics: [{inert(document['name'])}{cutoff}]"]
    lines += [f"      thresholds: {{{inert(document['name'])}{cutoff}: {{{side}: {middle}}}}}"]
    text = _LINK.sub(r"\1", document["text"])
    return "\n".join([*lines, "", text] if text else lines)


def _show_name(document: Mapping[str, Any]) -> str:
    return f"{inert(document['name'])}{'[@k]' if document['cutoff'] else ''}"


def _list_facts(document: Mapping[str, Any]) -> str:
    needs = ", ".join(document["needs"]) or "nothing but a reply"
    low, high = ("…" if bound is None else f"{bound:g}" for bound in document["range"])
    return f"{document['direction']} is better · {low} to {high} · {inert(document['engine'])} · needs {needs}"


def _list_parameters(document: Mapping[str, Any]) -> list[str]:
    return [f"    parameter {inert(one['name'])}: {inert(one['description'])}" for one in document["parameters"]]


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
        "parameters": [{"name": one.name} | one.to_schema() for one in definition.parameters],
    }
