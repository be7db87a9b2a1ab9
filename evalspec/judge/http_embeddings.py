"""Embeddings from an OpenAI-compatible endpoint."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import JudgeError
from evalspec.judge.endpoint import Endpoint
from evalspec.judge.place import find_place
from evalspec.judge.vectors import check_vectors
from evalspec.manifest.schema import EmbeddingsConfig
from evalspec.retries import persist

if TYPE_CHECKING:
    from evalspec.judge.vectors import Vectors


class HttpEmbedder:
    """`POST {baseUrl}/embeddings`, `batch` texts a request."""

    def __init__(self, config: EmbeddingsConfig, batch: int, concurrency: int) -> None:
        place = find_place("the embeddings service", "spec.evaluation.embeddings", config.base_url, "embeddings")
        self._config = config
        self._batch = batch
        self._endpoint = Endpoint(place, config.api_key, config.timeout_seconds, concurrency)

    async def embed(self, texts: Sequence[str]) -> "Vectors":
        """One row for each text.

        Raises:
            JudgeError: the endpoint failed, or answered other than one vector a text, all of one length.
            MetricError: a vector without a direction.
        """
        rows: list[list[float]] = []
        for start in range(0, len(texts), self._batch):
            rows += await self._embed_batch(texts[start : start + self._batch])
        lengths = {len(row) for row in rows}
        if len(lengths) > 1:
            raise JudgeError(f"{self._endpoint.place} gave vectors of different lengths: {sorted(lengths)}")
        return check_vectors(texts, np.asarray(rows, dtype=np.float64))

    async def load(self) -> None:
        """Nothing to load: the model is elsewhere."""

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()

    async def _embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        body = {"model": self._config.model, "input": list(texts), "encoding_format": "float"}

        async def attempt() -> list[list[float]]:
            answer = await self._endpoint.post(body)
            rows = _rows_in_order(answer.get("data"))
            if rows is None or len(rows) != len(texts):
                got = "no vectors" if rows is None else f"{len(rows)} vectors"
                raise JudgeError(f"{self._endpoint.place} gave {got} for {len(texts)} texts", retryable=True)
            return rows

        return await persist(attempt, self._config.max_retries)


def _rows_in_order(data: Any) -> list[list[float]] | None:
    """The vectors by their `index`; None where the data is anything but one list of numbers for each index."""
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        return None
    by_index = {item.get("index", position): item.get("embedding") for position, item in enumerate(data)}
    if set(by_index) != set(range(len(data))):
        return None
    rows = [by_index[position] for position in range(len(data))]
    return rows if all(_is_vector(row) for row in rows) else None


def _is_vector(row: Any) -> bool:
    return isinstance(row, list) and bool(row) and all(type(number) in (int, float) for number in row)
