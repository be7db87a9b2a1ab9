"""The names of a gold set's files and folders, and of the metadata that its samples get."""

from pathlib import Path

SET_FILE = "set.yaml"
BLOCKS = "blocks"
CALIBRATIONS = "calibrations"
EVENTS = "events"
EXCEPTIONS = "exceptions"
EXPORTS = "exports"
GRANTS = "permissions"
HELD_OUT = "held-out"
SLICES = "slices"
TRIPLES = "triples"
OWN_FOLDER = ".evalspec"
"""What commands keep for themselves; git ignores it."""

OF_RECORDS = (TRIPLES, SLICES, GRANTS, CALIBRATIONS, HELD_OUT, EXCEPTIONS, EXPORTS)
"""Folders that have YAML files only. `events/` has a folder of them for each triple."""
PARTS = (SET_FILE, EVENTS, BLOCKS, *OF_RECORDS, OWN_FOLDER)

BLOCKS_KEY = "expected_block"
"""The metadata key for the whole block or blocks, if they contain more than ids."""
DISPUTE_KEY = "dispute"
"""The metadata key for the category of a dispute that ended with the triple in the set."""


def find_root(inside: Path) -> Path | None:
    """Return the folder of the gold set that a path is inside, None if there is none.

    Neither a link into a set nor one that is part of a set hides it.
    """
    folders = (*inside.resolve().parents, *inside.absolute().parents)
    return next((one for one in folders if (one / SET_FILE).is_file() and (one / TRIPLES).is_dir()), None)
