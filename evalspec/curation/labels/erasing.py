"""Erase what labels say in words, and hashes of erased texts. The verdicts stay."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from evalspec.curation.labels.files import list_labelled_runs, replace_labels
from evalspec.model.labels import Label


def without_erased(label: Label) -> Label:
    """Return a label of a sample whose texts were erased: the verdict, without note and hashes of texts."""
    return replace(label, note=None, sample_digest=None, reply_digest=None)


def erase_labels(root: Path, is_wanted: Callable[[Label], bool], *, dry_run: bool) -> dict[str, int]:
    """Erase words and hashes from the wanted labels of all runs, also removed ones. Return their number by run.

    `root`: the `.evalspec` folder. `dry_run`: only count.

    Raises:
        InvalidInput: A file of labels is damaged.
        StoreError: A file cannot be written.
    """

    def change(label: Label) -> Label:
        return without_erased(label) if is_wanted(label) else label

    found = {run: replace_labels(root, run, change, dry_run=dry_run) for run in list_labelled_runs(root)}
    return {run: count for run, count in found.items() if count}
