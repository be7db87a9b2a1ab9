"""Create the retriever of a target in the manifest.

Built-in retrievers and those of installed packages (entry point group `evalspec.retrievers`) are found by name.
"""

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, cast

from evalspec.base.errors import EvalspecError, InvalidInput, RetrieverError
from evalspec.base.registry import Registry
from evalspec.base.text import strip_userinfo
from evalspec.inputs.manifest.retriever_schema import (
    Bm25Options,
    BuiltinOptions,
    HttpTarget,
    HybridOptions,
    PluginOptions,
    PythonTarget,
    QdrantOptions,
    RetrieverTarget,
)
from evalspec.targets.retrievers.base import Retriever
from evalspec.targets.retrievers.bm25 import Bm25Retriever
from evalspec.targets.retrievers.dense import DenseRetriever
from evalspec.targets.retrievers.hybrid import HybridRetriever
from evalspec.targets.retrievers.qdrant import QdrantRetriever
from evalspec.targets.retrievers.vectors import TextVectors

DEFAULT_RETRIES = 2
RetrieverFactory = Callable[[Any, TextVectors], Retriever]
"""Makes a retriever from its options and the vectors that all retrievers of a run share."""

RETRIEVERS: Registry[RetrieverFactory] = Registry("builtin retriever", "evalspec.retrievers")


def open_retriever(target: RetrieverTarget, url: str | None, folder: Path, vectors: TextVectors) -> Retriever:
    """Return the retriever. Nothing is loaded, called or connected yet, except that the user's own module is imported.

    `target`: with references resolved. `url`: for a service without its own. `folder`: the manifest's.

    Raises:
        InvalidInput: a package is missing, an option is wrong, or the user's code cannot be imported.
    """
    if isinstance(target, HttpTarget):
        from evalspec.targets.http.routes import choose_route
        from evalspec.targets.retrievers.http_target import RemoteRetriever

        address = target.http.url or url or ""
        return RemoteRetriever(target.http, address, choose_route(address))
    if isinstance(target, PythonTarget):
        from evalspec.targets.retrievers.python_target import OwnRetriever

        return OwnRetriever(target, folder)
    return create_builtin(target, vectors)


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


def create_builtin(options: BuiltinOptions, vectors: TextVectors) -> Retriever:
    """Return the retriever of a `{builtin: …}` target with resolved references. Nothing is loaded or opened yet.

    Raises:
        InvalidInput: the name is unknown, an option is wrong, or a package is missing.
    """
    create = RETRIEVERS.find(options.builtin)
    if create is None:
        raise InvalidInput(f"unknown builtin retriever '{options.builtin}'", RETRIEVERS.hint(options.builtin))
    if not RETRIEVERS.is_plugin(options.builtin):
        return create(options, vectors)
    with RETRIEVERS.blaming(options.builtin):
        return cast(Retriever, _Guarded(create(options, vectors), options.builtin))


class _Guarded:
    """A plugin's retriever, whose exceptions are reported with the plugin's name. It has the plugin's attributes, so
    that `isinstance` with the protocols of retrievers.base gives the same result.
    """

    def __init__(self, retriever: Retriever, name: str) -> None:
        for attribute in dir(retriever):
            if not attribute.startswith("_"):
                value = getattr(retriever, attribute)
                setattr(self, attribute, _guard(value, name) if iscoroutinefunction(value) else value)

    async def aclose(self) -> None:
        """Do nothing if the plugin has no such method."""


def _guard(method: Callable[..., Awaitable[Any]], name: str) -> Callable[..., Awaitable[Any]]:
    async def guarded(*given: Any, **named: Any) -> Any:
        try:
            return await method(*given, **named)
        except EvalspecError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise RetrieverError(f"the plugin {name} failed: {reason}") from error

    return guarded


def _create_hybrid(options: HybridOptions, vectors: TextVectors) -> Retriever:
    bm25 = Bm25Retriever(Bm25Options(builtin="bm25"))
    return HybridRetriever(bm25, DenseRetriever(vectors), options.rrf_k)


RETRIEVERS.add("bm25", lambda options, _vectors: Bm25Retriever(options))
RETRIEVERS.add("dense", lambda _options, vectors: DenseRetriever(vectors))
RETRIEVERS.add("hybrid", _create_hybrid)
RETRIEVERS.add("qdrant", QdrantRetriever)
