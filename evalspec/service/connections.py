"""Connections of the server: one that does not finish its headers in time is closed, or a body that was refused.

The guard limits the time of bodies. It never sees a request without complete headers, nor what arrives after its
answer, and uvicorn ends neither. Each connection costs a file descriptor, and a process has about a thousand of them.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 20.0
"""How long a client may take from its connection, or the first byte of a further request, to the end of the headers.

A client may also continue a body for so long after the answer: one that reads after it has sent would lose the answer
otherwise."""


class ServiceConnection(H11Protocol):
    """A connection with a deadline for headers, and for bodies that nobody reads any more."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._bound_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._forget_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        is_answered = self.cycle is not None and self.cycle.response_complete
        if self.conn.their_state is h11.IDLE or (is_answered and self.conn.their_state is h11.SEND_BODY):
            self._bound_headers()
        else:
            self._forget_deadline()

    def _bound_headers(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._end)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self) -> None:
        self.transport.close()
