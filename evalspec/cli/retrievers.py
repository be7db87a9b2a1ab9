"""`evalspec retrievers check`: check that a retriever isolates scopes and deletes only what it should."""

import asyncio
from pathlib import Path

import click

from evalspec.base.errors import EvalspecError, ExitCode, Problem
from evalspec.base.foreign_text import inert
from evalspec.cli.documents import render_document
from evalspec.cli.failure import CommandFailed, describe, ended_like_ctrl_c, redacting
from evalspec.cli.options import json_option, manifest_argument, option
from evalspec.cli.streams import emit, notify
from evalspec.cli.trust_options import trust_options
from evalspec.inputs.manifest.loader import load_manifest
from evalspec.targets.retrievers.scope_check import Checkable, ScopeCheck, ScopeFinding, check_scopes, start_check

_WIDTH = max(map(len, ScopeFinding)) + 2


@click.group("retrievers", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Check the retrievers of a manifest.

    \b
    Examples:
      evalspec retrievers check pages agent.yaml
      evalspec retrievers check pages --json | jq .findings
    """
    if context.invoked_subcommand is None:
        emit(context.get_help())


@command.command("check")
@click.argument("name")
@manifest_argument
@option("--url", metavar="URL", help="URL of a service without its own; overrides spec.api.url.")
@option(
    "--wait",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="S",
    help="Seconds until documents must be found after ingestion, and gone after deletion.",
)
@trust_options("manifest")
@json_option
def check(name: str, manifest: Path, url: str | None, wait: float, as_json: bool) -> ExitCode:
    """Check that the retriever NAME of MANIFEST isolates scopes and finds the documents that it ingests.

    The check ingests, searches and deletes a few documents below two new prefixes, eval:check-…_1: and eval:check-…A1:,
    and always cleans up. If a delete ignores the prefix, it deletes everything: use a test store.

    \b
    Exit codes:
      0  all checks pass
      1  a check fails
      2  invalid input, or the retriever cannot ingest or delete
      3  a call failed, or documents are left behind

    \b
    Examples:
      evalspec retrievers check pages
      evalspec retrievers check pages agent.yaml --wait 30 --json
    """
    from evalspec.runs.planning.opening import open_checkable

    loaded = load_manifest(manifest)
    with redacting(loaded.references.redact):
        retriever = open_checkable(loaded, name, url)
        found = start_check()
        failure = _run(retriever, found, wait)
        left = [
            Problem(f"documents may be left below '{prefix}' ({reason.rstrip('.')})", "delete them manually")
            for prefix, reason in found.left_behind.items()
        ]
        if failure is not None:
            told = describe(failure)
            lines = [*told.lines, *(problem.render() for problem in left)]
            raise CommandFailed(told.exit_code, lines, [*told.problems, *left]) from failure
        code = ExitCode.UNMEASURED if left else ExitCode.GATE_FAILED if found.problems else ExitCode.OK
        emit(_render_json(name, found, code) if as_json else _render(name, found))
        for problem in left:
            notify(f"evalspec: {loaded.references.redact(problem.render())}")
        return code


class _Interrupted(EvalspecError):
    """Ctrl-C. The ingested documents were deleted."""

    exit_code = ExitCode.INTERRUPTED


def _run(retriever: Checkable, found: ScopeCheck, wait: float) -> EvalspecError | None:
    """Run the check and close the retriever. Return the error that ended it early, if any."""

    async def run() -> None:
        try:
            await check_scopes(retriever, found, wait)
        finally:
            await asyncio.create_task(retriever.aclose())

    try:
        with ended_like_ctrl_c():
            asyncio.run(run())
    except KeyboardInterrupt:
        return _Interrupted("interrupted")
    except EvalspecError as error:
        return error
    return None


def _render(name: str, found: ScopeCheck) -> str:
    lines = [f"{inert(name)}: {' and '.join(found.prefixes)}"]
    for finding in ScopeFinding:
        if finding not in found.checked:
            mark, said = "?", "not checked"
        else:
            mark, said = ("✗", found.problems[finding]) if finding in found.problems else ("✓", "")
        lines.append(f"  {mark} {finding:<{_WIDTH}}{inert(said)}".rstrip())
    times = ", ".join(f"{inert(step)} {took:,.1f} ms" for step, took in found.took_ms.items())
    return "\n".join([*lines, f"  took: {times}"])


def _render_json(name: str, found: ScopeCheck, code: ExitCode) -> str:
    document = {
        "retriever": name,
        "scopePrefixes": list(found.prefixes),
        "findings": [
            {
                "name": finding.name.casefold(),
                "summary": str(finding),
                "holds": finding not in found.problems if finding in found.checked else None,
                "problem": found.problems.get(finding),
            }
            for finding in ScopeFinding
        ],
        "tookMs": found.took_ms,
        "leftBehind": found.left_behind,
    }
    return render_document(document, code)
