"""What the caller of a run may choose beside the manifest."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `evalspec evaluate`; None means that the manifest or the default decides."""

    datasets: tuple[str, ...] = ()
    url: str | None = None
    sample_size: int | None = None
    seed: int = 0
    tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()
    concurrency: int = 10
    timeout: float | None = None
    no_judge: bool = False
    responses: Path | None = None
