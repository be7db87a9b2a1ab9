"""Texts to vectors: the built-in static model, or an OpenAI-compatible endpoint.

A cosine of embeddings tells how alike two texts are, not whether they agree: with wordllama, "within 30 days" and
"within 90 days" in the same sentence are 0.95 alike.
"""

import asyncio
import logging
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from evalspec.errors import InvalidInput, MissingPackage, install_fix
from evalspec.judge.vectors import check_vectors
from evalspec.manifest.schema import EmbeddingsConfig

if TYPE_CHECKING:
    from evalspec.judge.vectors import Vectors

MAX_TEXTS_PER_REQUEST = 128
_CONCURRENCY = 4


class Embedder(Protocol):
    """Turns texts into vectors of one length, with a direction each."""

    async def load(self) -> None:
        """Make ready what the first text would have to wait for.

        Raises:
            InvalidInput: a package that it needs is missing or broken.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> "Vectors":
        """One row for each text, in their order.

        Raises:
            MetricError: there is no usable vector for one of them.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...


def create_embedder(config: EmbeddingsConfig) -> Embedder:
    """The embedder that the manifest names; nothing is loaded or opened before the first text."""
    if config.provider == "local":
        return LocalEmbedder()
    from evalspec.judge.http_embeddings import HttpEmbedder

    return HttpEmbedder(config, MAX_TEXTS_PER_REQUEST, _CONCURRENCY)


class LocalEmbedder:
    """wordllama's static model of 256 dimensions, from the installed package; never uses the network."""

    def __init__(self) -> None:
        self._model: Any = None
        self._turn = asyncio.Lock()

    async def load(self) -> None:
        """Load the model, in a thread.

        Raises:
            MissingPackage: wordllama is not installed.
            InvalidInput: it is, and does not load.
        """
        async with self._turn:
            if self._model is None:
                self._model = await asyncio.to_thread(_load_wordllama)

    async def embed(self, texts: Sequence[str]) -> "Vectors":
        """One row for each text.

        Raises:
            InvalidInput: as in `load`.
            MetricError: a text has no token that the model knows.
        """
        import numpy as np

        await self.load()
        async with self._turn:  # one thread at a time in the tokenizer
            vectors = await asyncio.to_thread(self._model.embed, list(texts))
        return check_vectors(texts, np.asarray(vectors, dtype=np.float64))

    async def aclose(self) -> None:
        """Nothing is open."""


def _load_wordllama() -> Any:
    """The model and tokenizer of the wheel.

    `WordLlama.load()` looks for the tokenizer in a folder that the wheel does not have and then wants to download it;
    with the package's own folder as the cache it finds both. Importing it would also set up the root logger, at INFO.
    """
    root, quiet = logging.getLogger(), logging.NullHandler()
    root.addHandler(quiet)
    try:
        wordllama = import_module("wordllama")
        folder = Path(str(wordllama.__file__)).parent
        return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    except ModuleNotFoundError as error:
        if error.name != "wordllama":
            raise _unusable(error) from error
        raise MissingPackage("provider: local of spec.evaluation.embeddings", "wordllama", "local") from error
    except Exception as error:
        raise _unusable(error) from error
    finally:
        root.removeHandler(quiet)


def _unusable(error: Exception) -> InvalidInput:
    line = " ".join(f"{type(error).__name__}: {error}".split())
    return InvalidInput(f"wordllama does not load: {line}", f"{install_fix('local')} brings the release that does")
