"""`evalspec gold import`: triples from datasets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from evalspec.base.errors import ExitCode, InvalidInput, Problem
from evalspec.base.plural import counted
from evalspec.cli.documents import emit_document, problem_document
from evalspec.cli.gold.options import acting, corpus_option, render_states, source_option
from evalspec.cli.options import warn_all
from evalspec.cli.streams import emit_line, notify
from evalspec.curation.gold.describing import describe_entry
from evalspec.curation.gold.importing import Imported, import_dataset

_PATH = click.Path(path_type=Path)


@click.command("import")
@click.argument("dataset", metavar="SRC", type=_PATH)
@click.option("--from", "format_name", metavar="FORMAT", help="Format of SRC; detected from its content by default.")
@corpus_option
@source_option
@click.option("--meta", "metadata", multiple=True, metavar="KEY=VALUE", help="Metadata of all triples; repeatable.")
@click.option(
    "--keep-reviews", is_flag=True, help="Keep reviews of triples that two people besides the author accepted in SRC."
)
@acting
def import_command(
    dataset: Path,
    format_name: str | None,
    corpus: Path | None,
    source: str | None,
    metadata: Sequence[str],
    keep_reviews: bool,
    root: Path,
    by: str,
    as_json: bool,
) -> ExitCode:
    """Add a triple for each sample of the dataset SRC, in any format. All are pending.

    Samples without a relevant document are refused by name. With --corpus, or if SRC has documents, blocks are pinned.
    Kept reviews are marked as imported, and agreement statistics leave them out.

    \b
    Examples:
      evalspec gold import evals/rag.jsonl --corpus corpus.jsonl --source public
      evalspec gold import accepted.yaml --keep-reviews --as ada
    """
    pairs = [*metadata, *([f"source={source}"] if source else [])]
    done = import_dataset(
        root, dataset, by, format_name=format_name, corpus=corpus, metadata=pairs, keep_reviews=keep_reviews
    )
    problems = [Problem(f"{name}: not imported: {why}", file=str(dataset)) for name, why in done.refused.items()]
    if problems and not done.added and not done.known:
        raise InvalidInput(problems)
    _warn(done, problems, dataset)
    if as_json:
        emit_document(_describe(done))
        return ExitCode.OK
    for line in render_states(done.added):
        emit_line(line)
    known = f", {len(done.known)} already there" if done.known else ""
    reviews = f", {counted(done.reviews, 'review')} kept" if done.reviews else ""
    notify(f"{counted(len(done.added), 'triple')} added{known}, {len(done.refused)} refused{reviews}")
    return ExitCode.OK


def _warn(done: Imported, problems: Sequence[Problem], source: Path) -> None:
    lost = [Problem(f"a triple cannot hold {loss}", file=str(source)) for loss in done.losses]
    left = [Problem(f"{name}: reviews not kept: {why}", file=str(source)) for name, why in done.left_reviews.items()]
    warn_all((*done.warnings, *problems, *lost, *left))


def _describe(done: Imported) -> dict[str, Any]:
    return {
        "triples": [describe_entry(entry) for entry in done.added],
        "known": done.known,
        "refused": done.refused,
        "losses": done.losses,
        "reviewsKept": done.reviews,
        "reviewsLeft": done.left_reviews,
        "warnings": [problem_document(one) for one in done.warnings],
    }
