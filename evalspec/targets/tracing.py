"""The context of OpenTelemetry that a request carries, by which its spans are joined with its reply."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from secrets import token_hex

from evalspec.model.exchanges import TracedRequest

ATTEMPT_KEY = "evalspec.attempt"
"""The key of the baggage, which agents may copy to their spans."""

_TRACE_BYTES, _SPAN_BYTES = 16, 8


_MOST_REASONS, _OTHER = 20, "other reasons"


def count_refusal(refusals: Counter[str], why: str) -> None:
    """Count why spans could not be read. Reasons are few, because whoever sends may write as many as it likes."""
    refusals[why if why in refusals or len(refusals) < _MOST_REASONS else _OTHER] += 1


class OpenRequest:
    """One request for a reply, with all its tries, as one trace. `attempt`: an opaque id; None: no baggage is sent."""

    def __init__(self, attempt: str | None) -> None:
        self.trace_id = token_hex(_TRACE_BYTES)
        self.attempt = attempt
        self._parents: list[str] = []
        self._failed: list[str] = []

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Make this the current request for one try. What failed is answered no more; calls before it were answered."""
        token, before = CURRENT.set(self), len(self._parents)
        try:
            yield
        except Exception:
            if len(self._parents) > before:
                self._failed.append(self._parents.pop())
            raise
        finally:
            CURRENT.reset(token)

    def name_parent(self) -> str:
        """Return the id of a new span, the parent of whatever the agent does next."""
        self._parents.append(token_hex(_SPAN_BYTES))
        return self._parents[-1]

    def close(self) -> TracedRequest:
        """Return what identifies the spans of the answered try."""
        return TracedRequest(self.trace_id, tuple(self._parents), tuple(self._failed))


CURRENT: ContextVar[OpenRequest | None] = ContextVar("evalspec_traced_request", default=None)


def add_trace_headers(headers: Mapping[str, str], fixed: Mapping[str, str]) -> dict[str, str]:
    """Return headers that make the current request part of its trace; the same ones without a trace.

    `fixed`: those that every request has. What the manifest has as baggage goes along.
    """
    request = CURRENT.get()
    if request is None:
        return dict(headers)
    own = {name.lower(): text for name, text in headers.items()}
    own["traceparent"] = f"00-{request.trace_id}-{request.name_parent()}-01"
    if request.attempt is not None:
        fixed_baggage = next((text for name, text in fixed.items() if name.lower() == "baggage"), "")
        known = own.get("baggage", fixed_baggage).strip()
        own["baggage"] = ",".join(filter(None, (known, f"{ATTEMPT_KEY}={request.attempt}")))
    return own


def unsampled_headers() -> dict[str, str]:
    """Return the headers of a request that is no question, so that an agent records no spans of it."""
    return {"traceparent": f"00-{token_hex(_TRACE_BYTES)}-{token_hex(_SPAN_BYTES)}-00"}
