"""Connections of the server: one that does not finish its headers in time is closed, or a body that was refused.

The guard limits the time of bodies. It never sees a request without complete headers, nor what arrives after its
answer, and uvicorn ends neither. Each connection costs a file descriptor, and a process has about a thousand of them.
"""

import asyncio
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from evalspec.base.errors import InvalidInput, Problem
from evalspec.service.settings import ServiceSettings

HEADER_SECONDS = 20.0
"""How long a client may take from its connection, or the first byte of a further request, to the end of the headers.

A client may also continue a body for so long after the answer: one that reads after it has sent would lose the answer
otherwise."""

_BACKLOG = 2048


def listen(settings: ServiceSettings) -> list[socket.socket]:
    """Return sockets that listen on each address of the host. Connections wait until the server accepts them.

    Raises:
        InvalidInput: The port is in use, or the host is not an address of this machine.
    """
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((family, address[:2]) for family, _, _, _, address in found):
            sockets.append(socket.create_server(address, family=family, backlog=_BACKLOG))
            # connections inherit it; without it the end of an answer waits 40 ms for the client to confirm the rest
            sockets[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        for one in sockets:
            one.close()
        cause = str(error.strerror).partition(" (")[0]
        message = f"cannot listen on {settings.host}:{settings.port}: {cause}"
        raise InvalidInput(Problem(message, "choose another --port or --host", field="--port")) from None
    return sockets


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
