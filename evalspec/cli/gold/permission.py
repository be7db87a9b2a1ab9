"""`evalspec gold grant` and `revoke`: the permission of customers."""

from collections.abc import Sequence
from pathlib import Path

import click
from msgspec.structs import asdict
from pydantic.alias_generators import to_camel

from evalspec.base.errors import ExitCode
from evalspec.base.json_text import render_lines
from evalspec.base.plural import counted
from evalspec.cli.documents import emit_document
from evalspec.cli.gold.options import acting
from evalspec.cli.streams import emit, emit_line, notify
from evalspec.curation.gold.files import show, to_plain
from evalspec.curation.gold.granting import grant
from evalspec.curation.gold.permission import grant_path


@click.command("grant")
@click.option("--customer", required=True, metavar="NAME", help="Who permits it, as in metadata.customer.")
@click.option("--evidence", required=True, metavar="TEXT", help="Where the permission is documented.")
@click.option("--granted-by", metavar="NAME", help="Who granted it; by default you.")
@click.option("--expires", metavar="DATE", help="The last day on which it counts, as 2027-06-30; or never.")
@click.option("--term", "terms", multiple=True, metavar="TEXT", help="Redact this in the customer's text; repeatable.")
@click.option("--domain", "domains", multiple=True, metavar="NAME", help="A domain that it covers; repeatable.")
@click.option("--renew", is_flag=True, help="Replace the grant; terms, domains and last day are kept unless given.")
@acting
def grant_command(
    customer: str,
    evidence: str,
    granted_by: str | None,
    expires: str | None,
    terms: Sequence[str],
    domains: Sequence[str],
    renew: bool,
    root: Path,
    by: str,
    as_json: bool,
) -> ExitCode:
    """Record that a customer permits the use of its questions.

    Triples of a customer without an active grant are revoked: they are not evaluated. Terms are names and products that
    identify the customer. They are redacted when a triple is added or revised.

    \b
    Examples:
      evalspec gold grant --customer acme --evidence "contract 17" \\
        --term "Acme Corp" --expires 2027-06-30
      evalspec gold grant --customer acme --evidence "mail of 2027-06-01" --renew
    """
    made = grant(
        root,
        customer,
        by,
        evidence=evidence,
        granted_by=granted_by,
        domains=domains,
        expires=expires,
        terms=terms,
        renew=renew,
    )
    if as_json:
        emit_document({"customer": customer, **{to_camel(key): value for key, value in to_plain(made).items()}})
    notify(f"recorded in {show(grant_path(root, customer))}")
    return ExitCode.OK


@click.command("revoke")
@click.option("--customer", required=True, metavar="NAME", help="Whose permission ends.")
@click.option("--dry-run", is_flag=True, help="List what would change, and change nothing.")
@acting
def revoke_command(customer: str, dry_run: bool, root: Path, by: str, as_json: bool) -> ExitCode:
    """Delete the text of a customer from the set, its exports, the stored runs and the baselines.

    Ids, states and scores stay. Lists where the text may still be. Exits with 3 if something could not be changed; run
    the command again then.

    \b
    Example:
      evalspec gold revoke --customer acme --dry-run
    """
    from evalspec.api.gold_revoke import revoke

    done = revoke(root, customer, by, dry_run=dry_run)
    code = ExitCode.UNMEASURED if done.failed else ExitCode.OK
    if as_json:
        document = {to_camel(key): value for key, value in asdict(done).items()}
        emit(render_lines({"schemaVersion": 1, "exitCode": int(code), **document}))
        return code
    lines = {
        "searched for stored runs": done.stores,
        "searched for files": done.folders,
        "deleted": [*done.triples, *done.blocks],
        "removed from slices": [f"{path}: {', '.join(members)}" for path, members in done.slices.items()],
        "removed from exports": done.exports,
        "erased from runs": [f"{run}: {counted(count, 'sample')}" for run, count in done.runs.items()],
        "removed runs": done.removed_runs,
        "erased from labels": [f"{run}: {counted(count, 'label')}" for run, count in done.labels.items()],
        "reissued baselines": [f"{path}: without {counted(count, 'sample')}" for path, count in done.baselines.items()],
        "failed": done.failed,
        "out of reach": done.unreachable,
    }
    for title, entries in lines.items():
        for entry in entries:
            emit_line(f"{title}: {entry}")
    notify(f"{'would revoke' if dry_run else 'revoked'} {counted(len(done.triples), 'triple')} of {customer}")
    return code
