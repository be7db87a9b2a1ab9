"""The context of OpenTelemetry that a request carries, by which its spans are joined with its reply."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from secrets import token_hex

from evalspec.model.exchanges import TracedRequest

ATTEMPT_KEY = "evalspec.attempt"
"""The key of the baggage, which agents may copy to their spans."""

_TRACE_BYTES, _SPAN_BYTES = 16, 8


class OpenRequest:
    """One request for a reply, with all its tries, as one trace. `attempt`: an opaque id; None: no baggage is sent."""

    def __init__(self, attempt: str | None) -> None:
        self.trace_id = token_hex(_TRACE_BYTES)
        self.attempt = attempt
        self._parents: list[str] = []

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Make this the current request for one try. What failed is answered no more; calls before it were answered."""
        token = CURRENT.set(self)
        try:
            yield
        except Exception:
            del self._parents[-1:]
            raise
        finally:
            CURRENT.reset(token)

    def name_parent(self) -> str:
        """Return the id of a new span, the parent of whatever the agent does next."""
        self._parents.append(token_hex(_SPAN_BYTES))
        return self._parents[-1]

    def close(self) -> TracedRequest:
        """Return what identifies the spans of the answered try."""
        return TracedRequest(self.trace_id, tuple(self._parents))


CURRENT: ContextVar[OpenRequest | None] = ContextVar("evalspec_traced_request", default=None)


def trace_headers() -> dict[str, str]:
    """Return the headers that make the current request part of its trace; none without a trace."""
    request = CURRENT.get()
    if request is None:
        return {}
    baggage = {} if request.attempt is None else {"baggage": f"{ATTEMPT_KEY}={request.attempt}"}
    return {"traceparent": f"00-{request.trace_id}-{request.name_parent()}-01", **baggage}


def unsampled_headers() -> dict[str, str]:
    """Return the headers of a request that is no question, so that an agent records no spans of it."""
    return {"traceparent": f"00-{token_hex(_TRACE_BYTES)}-{token_hex(_SPAN_BYTES)}-00"}
