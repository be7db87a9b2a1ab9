"""A threaded HTTP server that can hang up on all of its clients."""

import socket
from http.server import ThreadingHTTPServer
from typing import Any


class HangingUpServer(ThreadingHTTPServer):
    """Knows its open connections."""

    request_queue_size = 256
    daemon_threads = False

    def __init__(self, port: int, handler: Any) -> None:
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)  # else a body waits 40 ms behind its headers
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Wake all threads that wait for a client."""
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # its client went first
