"""A service behind a token endpoint on loopback, whose answers may be jobs. Each request is recorded.

with JobDesk() as desk:
    desk.script = [reply(503)]         # of the token endpoint, before it grants tokens
    desk.accepts = {"token-2"}         # tokens that requests need; None: any request is answered
    desk.jobs = [reply(202), …]        # of GET, one each, before the result
    desk.grants_now.clear()            # the token endpoint does not answer until it is set
    desk.started                       # reply to POST; None: the result itself
"""

import json
import ssl
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs

RESULT = {"response": "Paris", "state": "completed"}


class Said(NamedTuple):
    """A reply of the desk."""

    status: int
    body: Any
    headers: Mapping[str, str]


class Heard(NamedTuple):
    """A request to the desk. `headers`: names in lower case, with the values of equal ones joined by commas."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


def reply(status: int, body: Any = "", **headers: str) -> Said:
    return Said(status, body, {name.replace("_", "-"): text for name, text in headers.items()})


class JobDesk:
    """See above. `tls`: the context of a server behind https."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.grants: list[dict[str, list[str]]] = []
        self.grant: dict[str, Any] = {"token_type": "Bearer", "expires_in": 3600}
        self.heard: list[Heard] = []
        self.script: list[Said] = []
        self.accepts: set[str] | None = None
        self.jobs: list[Said] = []
        self.started: Said | None = None
        self.result: Any = RESULT
        self.on_request: Callable[[], None] = lambda: None
        self.grants_now = threading.Event()
        self.grants_now.set()
        self._lock = threading.Lock()
        desk = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): ", ".join(self.headers.get_all(name, ())) for name in self.headers}
                if self.path == "/token":
                    desk.grants_now.wait(30)
                with desk._lock:
                    said = desk._reply(Heard(self.command, self.path, headers, body))
                raw = said.body.encode() if isinstance(said.body, str) else json.dumps(said.body).encode()
                self.send_response(said.status)
                for name, text in {**said.headers, "Content-Length": str(len(raw))}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(raw)

            do_GET = do_POST = _answer  # noqa: N815 - http.server's names

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a refused client
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{port}" if tls is None else f"https://localhost:{port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.grants_now.set()
        self._server.shutdown()
        self._server.server_close()

    def tokens(self) -> list[str]:
        """The credentials of the requests to the service, in order."""
        return [one.headers.get("authorization", "").removeprefix("Bearer ") for one in self.heard]

    def _reply(self, heard: Heard) -> Said:
        if heard.path == "/token":
            if self.script:
                return self.script.pop(0)
            self.grants.append(parse_qs(heard.body.decode()) | {"basic": [heard.headers.get("authorization", "")]})
            return reply(200, {"access_token": f"fleeting-token-{len(self.grants)}", **self.grant})
        self.heard.append(heard)
        self.on_request()
        if self.accepts is not None and self.tokens()[-1] not in self.accepts:
            return reply(401, {"error": f"not {self.tokens()[-1]}"})
        if heard.method == "POST":
            return self.started or reply(200, self.result)
        return self.jobs.pop(0) if self.jobs else reply(200, self.result)
