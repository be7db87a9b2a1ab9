"""A threaded HTTP server that can hang up on all of its clients."""

import socket
import threading
from http.server import ThreadingHTTPServer
from typing import Any, Self


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


class Served:
    """What a server serves within a `with` block."""

    def __init__(self, handler: Any) -> None:
        self._server = HangingUpServer(0, handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.hang_up()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"
