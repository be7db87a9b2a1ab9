"""`evalspec gold export`: write the accepted triples, for internal use or to publish them."""

from collections.abc import Sequence
from pathlib import Path

import click

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.base.plural import counted
from evalspec.cli.documents import emit_document
from evalspec.cli.gold.options import open_as, set_options
from evalspec.cli.options import warn
from evalspec.cli.streams import emit_line, notify


@click.command("export")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, metavar="PATH", help="File or folder.")
@click.option("--to", "to_name", metavar="FORMAT", help="Dataset format; by default: triples.")
@click.option("--lossy", is_flag=True, help="Write even if the format cannot represent everything.")
@click.option("--stress", is_flag=True, help="Write what models wrote and two people have not confirmed.")
@click.option("--public", "is_public", is_flag=True, help="Write a folder to publish, without customers and names.")
@click.option("--allow", multiple=True, metavar="ID:KIND", help="Publish this hit of the scrubber; repeatable.")
@click.option("--with-blocks", is_flag=True, help="Publish the pinned texts of the blocks too.")
@click.option("--force", is_flag=True, help="Replace PATH if it exists.")
@set_options
def export_command(
    output: Path,
    to_name: str | None,
    lossy: bool,
    stress: bool,
    is_public: bool,
    allow: Sequence[str],
    with_blocks: bool,
    force: bool,
    person: str | None,
    folder: Path | None,
    as_json: bool,
) -> ExitCode:
    """Write the accepted triples to PATH, with their reviewers and resolutions.

    With --stress, PATH has the triples for stress tests, which are never part of the set.

    Without --public, the export is for internal use: questions of customers are included while their grants are active.

    With --public, PATH is a folder with public and synthetic triples, their JSON Schema, a data card, and a manifest
    that runs a retriever against them. Annotators get pseudonyms. Personal data, keys, terms of grants and matches of
    `private` in set.yaml fail the export. --allow records your decision that one of them may be published.

    \b
    Examples:
      evalspec gold export -o gold.jsonl --to jsonl
      evalspec gold export --stress -o stress.jsonl --to jsonl
      evalspec gold export --public -o public --allow contact-page:phone
    """
    if stress and is_public:
        raise InvalidInput(Problem("triples for stress tests are not published", "remove it", field="--stress"))
    root, by = open_as(folder, person)
    if not is_public:
        if allow or with_blocks:
            raise InvalidInput(Problem("only a public export has this option", "add --public", field="--allow"))
        return _export(root, output, by, to_name, lossy=lossy, force=force, stress=stress, as_json=as_json)
    if to_name is not None or lossy:
        raise InvalidInput(Problem("a public export is a folder of its own form", "remove it", field="--to"))
    from evalspec.api.gold_publish import publish

    done = publish(root, output, by, allow=list(map(_parse_hit, allow)), with_blocks=with_blocks, force=force)
    if as_json:
        counts = {"triples": done.triples, "leftOut": done.left_out, "keysLeftOut": done.keys_left_out}
        emit_document({"path": str(done.path), **counts, "allowed": done.allowed})
    else:
        for cause, count in done.left_out.items():
            emit_line(f"left out: {count} {cause}")
    notify(f"wrote {counted(done.triples, 'triple')} to {done.path}")
    return ExitCode.OK


def _export(
    root: Path, output: Path, by: str, to_name: str | None, *, lossy: bool, force: bool, stress: bool, as_json: bool
) -> ExitCode:
    from evalspec.api.gold_export import export

    done = export(root, output, by, to=to_name or "triples", lossy=lossy, force=force, stress=stress, warn=warn)
    if as_json:
        emit_document({"path": str(done.path), "format": done.format, "triples": done.samples})
    notify(f"wrote {counted(done.samples, 'triple')} to {done.path}")
    return ExitCode.OK


def _parse_hit(text: str) -> tuple[str, str]:
    name, colon, kind = text.rpartition(":")
    if not colon or not name or not kind:
        raise InvalidInput(Problem(f"'{text}' is not ID:KIND", "write --allow contact-page:phone", field="--allow"))
    return name, kind
