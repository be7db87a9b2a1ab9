"""Shards: parts of one run, evaluated on several machines and merged afterwards."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from evalspec.base.errors import InvalidInput
from evalspec.model.base import Record

if TYPE_CHECKING:
    from evalspec.model.fingerprints import Fingerprint


class Shard(Record, frozen=True, omit_defaults=True):
    """Which part of a run this is. Its datasets are described with its own samples.

    `number`: from 1 to `of`. `selection_sha256`: of all samples of the run, those of the other shards included.
    """

    number: Annotated[int, Meta(ge=1)]
    of: Annotated[int, Meta(ge=1)]
    selection_sha256: str | None = None

    def __str__(self) -> str:
        """The shard as an option states it: `3/8`."""
        return f"{self.number}/{self.of}"

    def take_part(self, whole: int) -> int:
        """Return the part of a whole number. The parts of all shards add up to it, and differ by at most 1."""
        return (whole + self.of - self.number) // self.of


def refuse_shard(run_id: str, fingerprint: "Fingerprint", action: str) -> None:
    """Check that a run is no shard. `action`: what cannot be done with a part of a run.

    Raises:
        InvalidInput: It is.
    """
    shard = fingerprint.shard
    if shard is not None:
        message = f"run {run_id} is shard {shard}, and a part of a run cannot be {action}"
        raise InvalidInput(message, f"merge all {shard.of} shards: evalspec merge RUN…")
