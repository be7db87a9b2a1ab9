"""What the caller of a run may choose beside the manifest."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `evalspec evaluate`; None means that the manifest or the default decides.

    `repeat`: how often each sample is asked; `judge_repeat`: how often each reply is graded. `no_content`: only what
    was measured is written, no texts. `stored`: ids of the samples, by dataset, of which replies are at hand: only
    these are selected, and no agent is needed.
    """

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
    repeat: int = 1
    judge_repeat: int = 1
    no_content: bool = False
    stored: Mapping[str, frozenset[str]] | None = None

    @property
    def has_replies(self) -> bool:
        """Whether all replies are at hand, so that no agent is asked."""
        return self.responses is not None or self.stored is not None
