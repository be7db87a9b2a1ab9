"""`evalspec validate`: every error of a manifest and its datasets, without calling anything."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from evalspec.api.public import Validation, validate
from evalspec.base.errors import ExitCode, Problem
from evalspec.base.foreign_text import inert
from evalspec.base.plural import counted
from evalspec.cli.documents import emit_document, problem_document
from evalspec.cli.options import (
    dataset_option,
    held_out_option,
    json_option,
    manifest_argument,
    no_judge_option,
    render_counted,
    slice_option,
    url_option,
    warn_all,
)
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.streams import emit_line, notify
from evalspec.cli.trust_options import trust_options
from evalspec.model import list_unenforced


@click.command("validate", cls=OrderedCommand)
@manifest_argument
@dataset_option
@url_option
@no_judge_option
@slice_option
@held_out_option
@trust_options("manifest")
@json_option
def command(
    manifest: Path,
    datasets: tuple[str, ...],
    url: str | None,
    no_judge: bool,
    slice: str | None,
    held_out: bool,
    as_json: bool,
) -> ExitCode:
    """Report every error of MANIFEST and its datasets as `file:line: field: problem. fix`.

    Nothing is called and no secret is read.

    \b
    Examples:
      evalspec validate agent.yaml
      evalspec validate agent.yaml --json | jq .errors
      evalspec validate theirs/agent.yaml --untrusted --url http://127.0.0.1:4000
    """
    found = validate(manifest, datasets=datasets, url=url, no_judge=no_judge, slice=slice, held_out=held_out)
    if as_json:
        emit_document(_describe(found), ExitCode.OK if found.is_valid else ExitCode.INVALID)
    else:
        warn_all(found.warnings)
        for line in render_counted(found.notes):
            notify(f"note: {line}")
        for line in (line for name, limits in found.limits.items() for line in list_unenforced(name, limits)):
            notify(f"note: {inert(line)}")
        for problem in found.problems:
            emit_line(problem.render())
        emit_line(_sentence(manifest, found.problems, found.samples))
    return ExitCode.OK if found.is_valid else ExitCode.INVALID


def _describe(found: Validation) -> dict[str, Any]:
    from msgspec import to_builtins

    return {
        "valid": found.is_valid,
        "errors": [*map(problem_document, found.problems)],
        "warnings": [*map(problem_document, found.warnings)],
        "notes": [*map(problem_document, found.notes)],
        "datasets": [
            {"name": name, "samples": count, "limits": to_builtins(found.limits.get(name, ()))}
            for name, count in found.samples.items()
        ],
    }


def _sentence(manifest: Path, problems: Sequence[Problem], counts: Mapping[str, int]) -> str:
    if problems:
        return f"{manifest} is not valid: {counted(len(problems), 'error')}"
    samples = sum(counts.values())
    return f"{manifest} is valid: {counted(len(counts), 'dataset')}, {counted(samples, 'sample')}"
