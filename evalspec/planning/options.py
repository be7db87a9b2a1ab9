"""What the caller of a run may choose beside the manifest."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic.alias_generators import to_camel

RETRIEVER_OPTIONS = (
    "retriever",
    "mode",
    "top_k",
    "rerank_top_k",
    "scope_prefix",
    "no_ingest",
    "cleanup",
    "allow_custom_prefix",
    "depth",
)
"""Options of a run that say how retrievers are asked: kept, so that it is gone on with in the same way."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `evalspec evaluate`; None means that the manifest or the default decides.

    `agent`: a Python function that is asked in place of the url.
    `repeat`: how often each sample is asked; `judge_repeat`: how often each reply is graded. `no_content`: only what
    was measured is written, no texts. `stored`: ids of the samples, by dataset, of which replies are at hand: only
    these are selected, and no agent is needed.

    `only`: ids of the samples, by dataset, that are asked; a dataset without ids is asked all.

    `retriever`: the variant that the datasets are asked of, whatever they name themselves; `mode` to `depth`: how.
    `no_ingest`: ask what is indexed already. `cleanup`: when the documents are deleted again. `depth`: down to which
    rank missing documents are looked for, 0 for not at all.
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
    agent: Callable[[Any], Any] | None = None
    stored: Mapping[str, frozenset[str]] | None = None
    only: Mapping[str, frozenset[str]] | None = None
    retriever: str | None = None
    mode: str | None = None
    top_k: int | None = None
    rerank_top_k: int | None = None
    scope_prefix: str | None = None
    no_ingest: bool = False
    cleanup: str = "none"
    allow_custom_prefix: bool = False
    depth: int = 100

    @property
    def needs_url(self) -> bool:
        """Whether the agent is asked over HTTP."""
        return not self.has_replies and self.agent is None

    @property
    def has_replies(self) -> bool:
        """Whether all replies are at hand, so that no agent is asked."""
        return self.responses is not None or self.stored is not None

    def describe_selection(self) -> dict[str, Any]:
        """What a run is made of, as its fingerprint keeps it."""
        return {
            "datasets": list(self.datasets),
            "sampleSize": self.sample_size,
            "seed": self.seed,
            "tags": list(self.tags),
            "excludeTags": list(self.exclude_tags),
            **{to_camel(name): getattr(self, name) for name in RETRIEVER_OPTIONS},
        }
