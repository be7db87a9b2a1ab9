"""From a target of the manifest to the retriever that it stands for."""

from pathlib import Path

from evalspec.manifest.retriever_schema import HttpTarget, PluginOptions, PythonTarget, QdrantOptions, RetrieverTarget
from evalspec.retrievers.base import Retriever
from evalspec.retrievers.vectors import TextVectors

DEFAULT_RETRIES = 2


def open_retriever(target: RetrieverTarget, url: str | None, folder: Path, vectors: TextVectors) -> Retriever:
    """The retriever, with nothing loaded, called or connected yet; only the user's own module is imported.

    `target`: its references resolved. `url`: of a service that names none itself. `folder`: the manifest's.

    Raises:
        InvalidInput: a package is missing, an option is wrong, or the user's code cannot be imported.
    """
    if isinstance(target, HttpTarget):
        from evalspec.http.routes import choose_route
        from evalspec.retrievers.http_target import RemoteRetriever

        address = target.http.url or url or ""
        return RemoteRetriever(target.http, address, choose_route(address))
    if isinstance(target, PythonTarget):
        from evalspec.retrievers.python_target import OwnRetriever

        return OwnRetriever(target, folder)
    from evalspec.retrievers.builtin import create_builtin

    return create_builtin(target, vectors)


def is_in_memory(target: RetrieverTarget) -> bool:
    """Whether it keeps documents in the memory of this process. Of another package and of the user's own code that is
    not known, and not assumed."""
    if isinstance(target, QdrantOptions):
        return not target.url and not target.path
    return not isinstance(target, HttpTarget | PythonTarget | PluginOptions)


def store_address(target: RetrieverTarget, url: str | None) -> str | None:
    """The address of what a target keeps documents in, None where that is the memory of this process. Where another
    package or the user's own code keeps them is not known: their name stands for it."""
    if is_in_memory(target):
        return None
    if isinstance(target, HttpTarget):
        return target.http.url or url
    if isinstance(target, QdrantOptions):
        return f"{target.url or target.path}#{target.collection}"
    return target.python if isinstance(target, PythonTarget) else target.builtin


def count_retries(target: RetrieverTarget) -> int:
    """How often a query is asked again that failed for a while: it begins with its search, whatever failed."""
    if not isinstance(target, HttpTarget):
        return DEFAULT_RETRIES
    calls = (target.http.search, target.http.rerank)
    return max(call.max_retries for call in calls if call is not None)
