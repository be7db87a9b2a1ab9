"""Embed texts with the built-in static model or an OpenAI-compatible endpoint.

The cosine of two embeddings measures similarity, not agreement: with wordllama, two sentences that differ only in
"within 30 days" and "within 90 days" have a similarity of 0.95.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspec.base.errors import InvalidInput, JudgeError, MetricError, MissingPackage, install_fix
from evalspec.inputs.manifest.judge_schema import EmbeddingsConfig

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evalspec.scoring.judge.cache import JudgeCache
    from evalspec.targets.http.keys import KeyPlace

    Vectors = NDArray[np.float64]

MAX_TEXTS_PER_REQUEST = 128
_CONCURRENCY = 4

_PIECE = 100_000
"""Characters that the tokenizer reads at once. It needs up to 200 bytes for each."""
_TOKENS = 16_384
"""Token vectors that are added at once."""
_UNSETTLED = 64
"""Tokens at the end of a piece that the rest of the text may change."""
_MARKS = 3
"""The first token id that is no mark: 0 to 2 are `<unk>`, `<s>` and `</s>`, also where a text spells them."""
_GUARD = "\n"
"""Precedes every piece but the first. The tokenizer begins a text with a space, which would join the first word, and
merges no line break with its neighbours. So this gives two tokens, and those of the piece are the same as without a
cut."""


class LocalEmbedder:
    """wordllama's static model of 256 dimensions, from the installed package. It never uses the network."""

    clock_skew: float | None = None
    """There is no other machine."""

    def __init__(self) -> None:
        self._model: Any = None
        self._turn = asyncio.Lock()

    async def load(self) -> None:
        """Load the model in a thread.

        Raises:
            MissingPackage: wordllama is not installed.
            InvalidInput: wordllama is installed but cannot be loaded.
        """
        async with self._turn:
            if self._model is None:
                self._model = await asyncio.to_thread(_load_wordllama)

    async def embed(self, texts: Sequence[str]) -> "Vectors":
        """Return the embeddings, one row per text. Memory does not depend on the length of the texts.

        Raises:
            InvalidInput: as in `load`.
            MetricError: a text has no token that the model knows.
        """
        import numpy as np

        await self.load()
        async with self._turn:  # the tokenizer runs in one thread at a time
            vectors = await asyncio.to_thread(_embed_one_by_one, self._model, texts)
        return _check_vectors(texts, np.asarray(vectors, dtype=np.float64))

    async def aclose(self) -> None:
        """Do nothing: no connection is open."""


class HttpEmbedder:
    """Embeddings by `POST {baseUrl}/embeddings`, with MAX_TEXTS_PER_REQUEST texts per request."""

    def __init__(
        self, config: EmbeddingsConfig, cache: "JudgeCache | None" = None, keys: "KeyPlace | None" = None
    ) -> None:
        from evalspec.scoring.judge.cached_answers import CachedVectors
        from evalspec.scoring.judge.endpoint import Endpoint
        from evalspec.scoring.judge.parameters import identify_model

        self._cached = CachedVectors(cache, identify_model(config))
        self._config = config
        name, setting = "the embeddings service", "spec.evaluation.embeddings"
        self._endpoint = Endpoint(name, setting, "embeddings", config, _CONCURRENCY, keys)

    async def embed(self, texts: Sequence[str]) -> "Vectors":
        """Return the embeddings, one row per text.

        Raises:
            JudgeError: the endpoint failed, or did not return one vector per text, all of the same length.
            MetricError: a vector is zero or not finite.
        """
        import numpy as np

        known = {text: row for text in texts if (row := await self._cached.find(text)) is not None}
        missing = [text for text in texts if text not in known]
        for start in range(0, len(missing), MAX_TEXTS_PER_REQUEST):
            batch = missing[start : start + MAX_TEXTS_PER_REQUEST]
            known |= zip(batch, await self._embed_batch(batch), strict=True)
        rows = [known[text] for text in texts]
        lengths = {len(row) for row in rows}
        if len(lengths) > 1:
            raise JudgeError(f"{self._endpoint} returned vectors of different lengths: {sorted(lengths)}")
        vectors = _check_vectors(texts, np.asarray(rows, dtype=np.float64))
        for text in missing:
            self._cached.keep(text, known[text])
        return vectors

    @property
    def clock_skew(self) -> float | None:
        """Seconds that this machine's clock is ahead of the endpoint's; None: unknown."""
        return self._endpoint.clock_skew

    async def load(self) -> None:
        """Do nothing: the endpoint has the model."""

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()

    async def _embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        from evalspec.targets.http.pacing import persist

        body = {"model": self._config.model, "input": list(texts), "encoding_format": "float"}

        async def attempt() -> list[list[float]]:
            answer = await self._endpoint.post(body)
            rows = _rows_in_order(answer.get("data"))
            if rows is None or len(rows) != len(texts):
                got = "no vectors" if rows is None else f"{len(rows)} vectors"
                raise JudgeError(f"{self._endpoint} returned {got} for {len(texts)} texts", retryable=True)
            return rows

        return await persist(attempt, self._config.max_retries)


TextEmbedder = LocalEmbedder | HttpEmbedder


def _embed_one_by_one(model: Any, texts: Sequence[str]) -> "NDArray[np.float32]":
    """Return the vectors that `model.embed` returns.

    That method pads the tokens of 64 texts to the longest one, which takes gigabytes for one document of 100 KB.
    """
    import numpy as np

    model.tokenizer.no_padding()
    vectors = np.zeros((len(texts), model.embedding.shape[1]), dtype=np.float32)
    for vector, text in zip(vectors, texts, strict=True):
        total, count = np.zeros(len(vector)), 0
        for ids in _iterate_tokens(model.tokenizer, text):
            for start in range(0, len(ids), _TOKENS):
                total += model.embedding[ids[start : start + _TOKENS]].sum(axis=0)
            count += len(ids)
        vector[:] = total.astype(np.float32) / np.float32(max(count, 1))
    return vectors


def _iterate_tokens(tokenizer: Any, text: str) -> Iterator[list[int]]:
    """Yield the token ids of a text in pieces, so that memory does not grow with its length.

    A piece ends between two tokens of its text: what follows cannot change the tokens before, and vice versa.
    """
    start, guard = 0, ""
    while start < len(text):
        tokens = tokenizer.encode(guard + text[start : start + _PIECE], add_special_tokens=False)
        first, end = 2 * len(guard), len(tokens)
        if start + _PIECE < len(text):
            end -= _UNSETTLED
            while not _is_clean_cut(tokens, end):
                end -= 1
            start += tokens.token_to_chars(end)[0] - len(guard)
        else:
            start = len(text)
        yield tokens.ids[first:end]
        guard = _GUARD


def _is_clean_cut(tokens: Any, place: int) -> bool:
    """Return whether a text may be cut before a token: not within a character, or at a space that is added.

    The tokenizer adds a space after the likes of `<s>`, as it does at the beginning of a text.
    """
    is_after_mark = tokens.ids[place - 1] < _MARKS <= tokens.ids[place]
    return not is_after_mark and tokens.token_to_chars(place)[0] != tokens.token_to_chars(place - 1)[0]


def create_embedder(
    config: EmbeddingsConfig, cache: "JudgeCache | None" = None, keys: "KeyPlace | None" = None
) -> TextEmbedder:
    """Return the embedder that the manifest configures. The first text loads it or sends the first request.

    `cache`: has the vectors of an endpoint. Those of this machine are computed faster than the cache is read.

    Raises:
        JudgeError: the base url is not usable.
    """
    return LocalEmbedder() if config.provider == "local" else HttpEmbedder(config, cache, keys)


def compute_cosine(one: "NDArray[np.float64]", other: "NDArray[np.float64]") -> float:
    """Return the cosine of the angle between two nonzero vectors, from -1 to 1."""
    import numpy as np

    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))


def _load_wordllama() -> Any:
    """Return wordllama's model with its tokenizer, both from the wheel.

    `WordLlama.load()` looks for the tokenizer in a folder that the wheel does not have, and then downloads it. With the
    package's own folder as the cache, it finds both files. Importing wordllama would also configure the root logger
    with level INFO; the handler prevents that.
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
    return InvalidInput(f"wordllama cannot be loaded: {line}", f"{install_fix('local')} installs a release that can")


def _check_vectors(texts: Sequence[str], vectors: "Vectors") -> "Vectors":
    """Return the vectors if each is finite and not zero.

    Raises:
        MetricError: a vector is zero or not finite. The message names its text.
    """
    import numpy as np

    usable = np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)
    if not usable.all():
        text = texts[int(np.argmin(usable))]
        raise MetricError(f"the embedding of {text[:60]!r} is zero or not finite, so it has no cosine")
    return vectors


def _rows_in_order(data: Any) -> list[list[float]] | None:
    """Return the vectors in the order of their `index`; None if the data is not one list of numbers per index."""
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        return None
    by_index = {item.get("index", position): item.get("embedding") for position, item in enumerate(data)}
    if set(by_index) != set(range(len(data))):
        return None
    rows = [by_index[position] for position in range(len(data))]
    return rows if all(_is_vector(row) for row in rows) else None


def _is_vector(row: Any) -> bool:
    return isinstance(row, list) and bool(row) and all(type(number) in (int, float) for number in row)
