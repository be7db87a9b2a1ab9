"""What people said about the replies to a customer's questions goes with the texts."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from evalspec.labels.erasing import erase_labels
from evalspec.model.labels import Label
from evalspec.store.erasing import Key


def erase_revoked_labels(
    store: Path,
    erased: Mapping[str, Collection[Key]],
    ids: Collection[str],
    quotes: Callable[[bytes], bool],
    *,
    dry_run: bool,
) -> dict[str, int]:
    """Erase words and hashes from labels on revoked samples, and labels that quote the texts. Return counts by run.

    Args:
        store: The `.evalspec` folder.
        erased: Erased samples by run. For other runs, which were removed, only `ids` are known.
        ids: Ids of the revoked triples.
        quotes: Whether bytes quote a text of the customer.
        dry_run: Only count.

    Raises:
        EvalspecError: A file of labels is damaged, or cannot be written.
    """

    def is_wanted(label: Label) -> bool:
        keys = erased.get(label.run)
        is_revoked = label.sample in ids if keys is None else (label.dataset, label.sample) in keys
        return is_revoked or (label.note is not None and quotes(label.note.encode()))

    return erase_labels(store, is_wanted, dry_run=dry_run)
