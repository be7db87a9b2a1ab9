"""What the target of a retriever says about where its documents are, and how it is asked."""

from evalspec.base.text import strip_userinfo
from evalspec.inputs.manifest.retriever_schema import (
    HttpTarget,
    PluginOptions,
    PythonTarget,
    QdrantOptions,
    RetrieverTarget,
)

DEFAULT_RETRIES = 2


def is_in_memory(target: RetrieverTarget) -> bool:
    """Return whether a target keeps documents in the memory of this process. Unknown targets (other packages, the
    user's own code) are assumed not to.
    """
    if isinstance(target, QdrantOptions):
        return not target.url and not target.path
    return not isinstance(target, HttpTarget | PythonTarget | PluginOptions)


def store_address(target: RetrieverTarget, url: str | None) -> str | None:
    """Return the address of a target's document store; None for the memory of this process. For other packages and the
    user's own code the address is unknown, and their name is used.
    """
    if is_in_memory(target):
        return None
    if isinstance(target, HttpTarget):
        return strip_userinfo(target.http.url or url or "") or None
    if isinstance(target, QdrantOptions):
        return f"{strip_userinfo(target.url) if target.url else target.path}#{target.collection}"
    return target.python if isinstance(target, PythonTarget) else target.builtin


def count_retries(target: RetrieverTarget) -> int:
    """Return how often a failed query is retried. A retry repeats the search, whichever stage failed."""
    if not isinstance(target, HttpTarget):
        return DEFAULT_RETRIES
    calls = (target.http.search, target.http.rerank)
    return max(call.max_retries for call in calls if call is not None)
