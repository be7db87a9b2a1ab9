"""The baselines by name, and those of installed packages (entry point group `evalspec.retrievers`)."""

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any, cast

from evalspec.errors import EvalspecError, InvalidInput, RetrieverError
from evalspec.manifest.retriever_schema import Bm25Options, BuiltinOptions, HybridOptions, QdrantOptions
from evalspec.registry import Registry
from evalspec.retrievers.base import Retriever
from evalspec.retrievers.bm25 import Bm25Retriever
from evalspec.retrievers.dense import DenseRetriever
from evalspec.retrievers.hybrid import HybridRetriever
from evalspec.retrievers.qdrant import QdrantRetriever
from evalspec.retrievers.vectors import TextVectors

RetrieverFactory = Callable[[Any, TextVectors], Retriever]
"""Makes a retriever of its options and of the vectors that all retrievers of a run share."""

RETRIEVERS: Registry[RetrieverFactory] = Registry("builtin retriever", "evalspec.retrievers")


def create_builtin(options: BuiltinOptions, vectors: TextVectors) -> Retriever:
    """The retriever of a `{builtin: …}` target, with nothing loaded or opened yet. References in it are resolved.

    Raises:
        InvalidInput: there is none of this name, an option is wrong, or a package is missing.
    """
    create = RETRIEVERS.find(options.builtin)
    if create is None:
        raise InvalidInput(f"unknown builtin retriever '{options.builtin}'", RETRIEVERS.hint(options.builtin))
    if not RETRIEVERS.is_plugin(options.builtin):
        return create(options, vectors)
    with RETRIEVERS.blaming(options.builtin):
        return cast(Retriever, _Guarded(create(options, vectors), options.builtin))


class _Guarded:
    """The retriever of a plugin: what its methods raise is told with its name. It has what the plugin's has, so that
    `isinstance` with the protocols of retrievers.base tells the same."""

    def __init__(self, retriever: Retriever, name: str) -> None:
        for attribute in dir(retriever):
            if not attribute.startswith("_"):
                value = getattr(retriever, attribute)
                setattr(self, attribute, _guard(value, name) if iscoroutinefunction(value) else value)

    async def aclose(self) -> None:
        """Nothing to close, where the plugin's has no such method."""


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


def _create_bm25(options: Bm25Options, _vectors: TextVectors) -> Retriever:
    return Bm25Retriever(options)


def _create_dense(_options: Any, vectors: TextVectors) -> Retriever:
    return DenseRetriever(vectors)


def _create_hybrid(options: HybridOptions, vectors: TextVectors) -> Retriever:
    bm25 = Bm25Retriever(Bm25Options(builtin="bm25"))
    return HybridRetriever(bm25, DenseRetriever(vectors), options.rrf_k)


def _create_qdrant(options: QdrantOptions, vectors: TextVectors) -> Retriever:
    return QdrantRetriever(options, vectors)


RETRIEVERS.add("bm25", _create_bm25)
RETRIEVERS.add("dense", _create_dense)
RETRIEVERS.add("hybrid", _create_hybrid)
RETRIEVERS.add("qdrant", _create_qdrant)
