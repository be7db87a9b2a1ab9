"""A run to compare, with the name that the user gave."""

from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from evalspec.model import PeopleScores, Run, StoredExchange
from evalspec.model.comparisons import ComparedRun
from evalspec.model.shards import refuse_shard

Texts = Callable[[Collection[tuple[str, str]]], Iterable[StoredExchange]]
"""Reads the exchanges of the given samples, as (dataset, id)."""


class NamedRun(Struct, frozen=True):
    """A run and the name that the user gave. `kind`: its source. `notes`: information that the comparison lacks.

    `texts`: reads its texts, None if it has none. `anchor`: of a baseline that has one.
    `people`: what people say about its scores. `max_removed`: ciGate.maxRemoved, if its manifest states that.
    """

    name: str
    run: Run
    kind: str = "run"
    notes: tuple[str, ...] = ()
    texts: Texts | None = None
    anchor: Run | None = None
    people: tuple[PeopleScores, ...] = ()
    max_removed: float | None = None

    def __post_init__(self) -> None:
        """Refuse a shard, which has a part of the samples."""
        refuse_shard(self.run.id, self.run.fingerprint, "compared")

    def describe(self) -> ComparedRun:
        """Return what a comparison says about the run."""
        return ComparedRun(self.name, self.run.id, self.kind, self.notes)
