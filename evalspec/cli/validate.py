"""`evalspec validate`: everything wrong with a manifest and its datasets, without calling anything."""

from collections.abc import Sequence
from pathlib import Path

import click

from evalspec.cli.failure import problem_document
from evalspec.cli.options import dataset_option, json_option, manifest_argument, no_judge_option, url_option, warn
from evalspec.cli.streams import emit, emit_line, notify
from evalspec.cli.trust_options import trust_options
from evalspec.errors import ExitCode, InvalidInput, Problem
from evalspec.json_text import render_lines
from evalspec.manifest.loader import load_manifest
from evalspec.plan.checks import validate_manifest
from evalspec.plan.options import RunOptions
from evalspec.plan.scope_checks import recommend_checks
from evalspec.reporters.wording import counted


@click.command("validate")
@manifest_argument
@dataset_option
@url_option
@no_judge_option
@trust_options("manifest")
@json_option
def command(manifest: Path, datasets: tuple[str, ...], url: str | None, no_judge: bool, as_json: bool) -> ExitCode:
    """Report every error of MANIFEST and its datasets in one go, as file:line: field: problem. fix.

    Nothing is called and no secret is read: it can run anywhere, before anything is spent.

    \b
    Examples:
      evalspec validate agent.yaml
      evalspec validate agent.yaml --json | jq .errors
      evalspec validate theirs/agent.yaml --untrusted --url http://127.0.0.1:4000
    """
    problems: Sequence[Problem] = ()
    warnings: Sequence[Problem] = ()
    notes: Sequence[Problem] = ()
    counts: dict[str, int] = {}
    try:
        loaded = load_manifest(manifest)
        warnings, counts = validate_manifest(loaded, RunOptions(datasets=datasets, url=url, no_judge=no_judge))
        notes = list(recommend_checks(loaded))
    except InvalidInput as error:
        problems = error.problems
    if as_json:
        emit(_document(problems, warnings, notes, counts))
    else:
        for warning in warnings:
            warn(warning)
        for note in notes:
            notify(f"note: {note.render()}")
        for problem in problems:
            emit_line(problem.render())
        emit_line(_sentence(manifest, problems, counts))
    return ExitCode.INVALID if problems else ExitCode.OK


def _document(
    problems: Sequence[Problem], warnings: Sequence[Problem], notes: Sequence[Problem], counts: dict[str, int]
) -> str:
    document = {
        "schemaVersion": 1,
        "valid": not problems,
        "exitCode": int(ExitCode.INVALID if problems else ExitCode.OK),
        "errors": [problem_document(problem) for problem in problems],
        "warnings": [problem_document(warning) for warning in warnings],
        "notes": [problem_document(note) for note in notes],
        "datasets": [{"name": name, "samples": count} for name, count in counts.items()],
    }
    return render_lines(document)


def _sentence(manifest: Path, problems: Sequence[Problem], counts: dict[str, int]) -> str:
    if problems:
        return f"{manifest} is not valid: {counted(len(problems), 'error')}"
    samples = sum(counts.values())
    return f"{manifest} is valid: {counted(len(counts), 'dataset')}, {counted(samples, 'sample')}"
