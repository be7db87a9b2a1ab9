"""How the wire of a judge sends many requests as one batch, which a provider answers within a day for less."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct


class BatchedRequest(Struct, frozen=True):
    """One request of a batch. `id`: at most 64 letters and digits. `body`: as it would be posted alone."""

    id: str
    body: Mapping[str, Any]


class BatchState(Struct, frozen=True):
    """What a provider says of a batch.

    `status`: in the provider's words. `size`: number of requests; None: unknown. `created`: seconds since the epoch; 0:
    unknown. `intent`: the mark that it was submitted with; None: the provider keeps none. `results`: paths of the
    results, after the base url, once the batch has ended. `error`: why no request was answered.
    """

    id: str
    status: str
    is_ended: bool
    size: int | None = None
    created: float = 0.0
    intent: str | None = None
    results: Sequence[str] = ()
    error: str | None = None


class BatchResult(Struct, frozen=True):
    """What became of one request.

    `status`: as the endpoint would have answered it alone; None: the request was not processed, so it may be submitted
    again. `reply`: the JSON object of that answer.
    """

    id: str
    status: int | None = None
    reply: Mapping[str, Any] = {}


class BatchPost(Protocol):
    """Posts to a path after the judge's base url."""

    async def __call__(self, path: str, content: bytes, content_type: str = "application/json", /) -> dict[str, Any]:
        """Return the JSON object of the reply.

        Raises:
            JudgeError: there is none.
        """
        ...


class BatchSubmitter(Protocol):
    """Submits batches."""

    async def __call__(self, post: BatchPost, requests: Sequence[BatchedRequest], intent: str, /) -> dict[str, Any]:
        """Submit requests and return the batch as the provider describes it. `intent`: to find the batch by, later.

        Raises:
            JudgeError: the provider did not confirm the batch.
        """
        ...


class BatchWire(Struct, frozen=True):
    """The batches of a wire. `path`: of the list of batches, after the base url. `cursor`: the query's key for its next
    page. `read_state`: reads a description of a batch, `read_result` a line of its results; of something else, they
    raise KeyError, TypeError, ValueError or AttributeError. `most_requests`, `most_bytes`: limits of one batch, so that
    its results are read at once.
    """

    path: str
    cursor: str
    submit: BatchSubmitter
    read_state: Callable[[Mapping[str, Any]], BatchState]
    read_result: Callable[[Mapping[str, Any]], BatchResult]
    most_requests: int = 5_000
    most_bytes: int = 50_000_000
