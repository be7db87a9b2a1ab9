"""List the labels of a run, as far as the person who looks may see them."""

from pathlib import Path

from evalspec.curation.labels.current import list_current, list_shown
from evalspec.curation.labels.files import list_labelled_runs, read_labels
from evalspec.model.labels import Label
from evalspec.runs.store.run_store import STORE, RunStore


def list_labels(
    run: str = "latest", *, viewer: str | None = None, history: bool = False, store: Path | str = STORE
) -> list[Label]:
    """Return the labels of a run, oldest first: of each person the latest on each thing.

    Args:
        run: Id of a run, its beginning, a name of the run, or `latest`; of a removed run, its id.
        viewer: Who looks. They see the labels of others only on what they have labelled. Default: see all labels.
        history: Include labels that were replaced or withdrawn.
        store: Folder of the runs.

    Raises:
        InvalidInput: There is no such run, or a file of labels is damaged.
    """
    opened = RunStore(Path(store))
    labels = read_labels(opened.root, find_labelled(opened, run))
    if viewer is None:
        return labels if history else list_current(labels)
    return list(list_shown(labels, viewer, history=history))


def find_labelled(store: RunStore, name: str) -> str:
    """Return the id of a run to read labels of. A removed run is found by its id.

    Raises:
        InvalidInput: There is no such run.
    """
    return name if name in list_labelled_runs(store.root) else store.find_own(name).name
