"""The options of a run besides the manifest."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from evalspec.inputs.datasets.selection import Selection, parse_selection
from evalspec.model.fingerprints import Cleanup, RetrieverMode, SelectionDigest
from evalspec.model.shards import Shard

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
"""Options for querying retrievers. They are stored, so a resumed run uses the same ones."""

SAME = Path("same")
"""The value of `responses` for replies that are in the files of the datasets."""


class RunOptions(Struct, frozen=True):
    """The options of `evalspec evaluate`. None means that the manifest or the default applies.

    `agent`: a Python function that is called instead of the URL. `responses`: the file of recorded replies, or SAME.
    `repeat`: attempts per sample. `judge_repeat`: judge
    calls per reply. `no_content`: write scores only, no texts. `stored`: ids of samples with stored replies, by
    dataset; only these are selected, and no agent is needed.

    `max_cost`, `max_judge_calls`, `max_tokens`, `max_time`: limits of the run, in place of the manifest's. `fail_fast`:
    ask the judge only while a score can change the verdict.

    `batch`: collect the judge's requests into batches of its provider.

    `no_cache`: neither read nor write the judge's cache. `fresh`: ask for everything, and write the cache.

    `where`: conditions such as `key=value`. `stratify`: keys whose values keep their shares among `sample_size`.
    `slice`, `held_out`: use only that slice of a gold set, or its held-out share.

    `allow_actions`: ask an agent whose tools can destroy, although no environment can be reset.

    `traces`: receive the agent's spans, as if the manifest said so.

    `dry_run`: the plan is only shown, so the project's code is not imported.

    `shard`: evaluate only this part of the selected samples. `on`: where attempts are worked on, in place of the
    manifest's: `here`, `ray` or `ray:HOST:PORT`.

    `only`: ids of the samples to run, by dataset; a dataset without ids runs all.

    `retriever`: the variant for all datasets, which overrides their own; `mode` to `depth`: its settings. `no_ingest`:
    query the existing index. `cleanup`: when to delete the documents. `depth`: search for missing documents down to
    this rank; 0 disables the search.
    """

    datasets: tuple[str, ...] = ()
    url: str | None = None
    sample_size: int | None = None
    seed: int = 0
    tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    stratify: tuple[str, ...] = ()
    slice: str | None = None
    held_out: bool = False
    shard: Shard | None = None
    on: str | None = None
    concurrency: int = 10
    timeout: float | None = None
    no_judge: bool = False
    responses: Path | None = None
    repeat: int = 1
    judge_repeat: int = 1
    no_content: bool = False
    no_cache: bool = False
    fresh: bool = False
    max_cost: float | None = None
    max_judge_calls: int | None = None
    max_tokens: int | None = None
    max_time: float | None = None
    fail_fast: bool = False
    batch: bool = False
    dry_run: bool = False
    allow_actions: bool = False
    traces: bool = False
    agent: Callable[[Any], Any] | None = None
    stored: Mapping[str, frozenset[str]] | None = None
    only: Mapping[str, frozenset[str]] | None = None
    retriever: str | None = None
    mode: RetrieverMode | None = None
    top_k: int | None = None
    rerank_top_k: int | None = None
    scope_prefix: str | None = None
    no_ingest: bool = False
    cleanup: Cleanup = Cleanup.NONE
    allow_custom_prefix: bool = False
    depth: int = 100

    @property
    def needs_url(self) -> bool:
        """Return whether the agent is called over HTTP."""
        return not self.has_replies and self.agent is None

    @property
    def is_selective(self) -> bool:
        """Return whether the options may leave no sample, because they select samples by what they are."""
        chosen = (self.tags, self.exclude_tags, self.where, self.stratify, self.slice is not None, self.held_out)
        return any(chosen)

    @property
    def replies_file(self) -> Path | None:
        """Return the file of recorded replies; None if there is none besides the datasets."""
        return None if self.responses == SAME else self.responses

    @property
    def has_replies(self) -> bool:
        """Return whether all replies are available, so no agent is called."""
        return self.responses is not None or self.stored is not None

    def parse_selection(self) -> Selection:
        """Return which samples to use.

        Raises:
            InvalidInput: A condition cannot be read, or there are strata without a sample size.
        """
        return parse_selection(
            tags=self.tags,
            exclude_tags=self.exclude_tags,
            where=self.where,
            size=self.sample_size,
            seed=self.seed,
            stratify=self.stratify,
        )

    def describe_selection(self) -> SelectionDigest:
        """Return the selection for the fingerprint of a run."""
        return SelectionDigest(**{name: getattr(self, name) for name in SelectionDigest.__struct_fields__})


def choose_first(*candidates: tuple[Any, str]) -> tuple[Any, str]:
    """Return the first candidate that is set, with its origin."""
    return next(candidate for candidate in candidates if candidate[0] is not None)
