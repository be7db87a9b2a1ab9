"""The files of events: one for each thing that somebody did. None is ever overwritten."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalspec.curation.gold.files import compute_hash, to_plain, write_record
from evalspec.curation.gold.layout import EVENTS
from evalspec.curation.gold.schema import Event
from evalspec.inputs.datasets.located import make_record


def make_event(values: Mapping[str, Any]) -> Event:
    """Return an event.

    Raises:
        InvalidInput: A value is invalid.
    """
    return make_record(Event, {key: value for key, value in values.items() if value is not None})


def write_event(root: Path, name: str, event: Event) -> Path:
    """Write an event file, and return its path. The name contains a hash of the event, so names never clash.

    Raises:
        InvalidInput: The file cannot be written.
    """
    path = root / EVENTS / name / event_name(event)
    write_record(path, event)
    return path


def event_name(event: Event) -> str:
    """Return the name of an event's file: revision, kind, person and a hash of the content."""
    digest = compute_hash(to_plain(event))[:8]
    return f"{event.revision}-{event.kind}-{event.by}-{digest}.yaml"
