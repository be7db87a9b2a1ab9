"""A server on loopback that speaks Qdrant's REST for what the retriever asks, before a real embedded store.

The store does the work and the client's own models read and write the wire; only the routing is ours.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, Self

from qdrant_client import QdrantClient, models


class QdrantServer:
    """`fault`: a status with a body and headers, answered instead of the store's. `seen`: (method, path, api key)."""

    def __init__(self) -> None:
        self.store = QdrantClient(":memory:")
        self.turn = Lock()
        self.seen: list[tuple[str, str, str | None]] = []
        self.fault: tuple[int, Any, Mapping[str, Any]] | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *arguments: object) -> None:
                pass

            def do_GET(self) -> None:
                server.handle(self)

            def do_PUT(self) -> None:
                server.handle(self)

            def do_POST(self) -> None:
                server.handle(self)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.store.close()

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers.get("content-length", 0))) or b"null")
        path = request.path.partition("?")[0]
        self.seen.append((request.command, path, request.headers.get("api-key")))
        status, content, headers = self.fault or self.answer(request.command, path.split("/")[2:], body)
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        with suppress(OSError):
            request.send_response(status)
            for name, value in {"content-type": "application/json", "content-length": len(data), **headers}.items():
                request.send_header(name, str(value))
            request.end_headers()
            request.wfile.write(data)

    def answer(self, method: str, parts: list[str], body: Any) -> tuple[int, Any, Mapping[str, Any]]:
        with self.turn:
            result = self.ask_store(method, parts[0], "/".join(parts[1:]), body)
        return 200, {"result": result, "status": "ok", "time": 0.0}, {}

    def ask_store(self, method: str, name: str, rest: str, body: Any) -> Any:
        done = {"operation_id": 0, "status": "completed"}
        match method, rest:
            case "GET", "exists":
                return {"exists": self.store.collection_exists(name)}
            case "GET", "":
                return self.store.get_collection(name).model_dump(mode="json")
            case "PUT", "":
                wanted = models.CreateCollection(**body)
                return self.store.create_collection(name, vectors_config=wanted.vectors)
            case "PUT", "index":
                return done
            case "PUT", "points":
                self.store.upsert(name, points=models.PointsBatch(**body).batch)
                return done
            case "POST", "points/delete":
                selector = models.FilterSelector if "filter" in body else models.PointIdsList
                self.store.delete(name, points_selector=selector(**body))
                return done
            case "POST", "points/query":
                query: Any = models.QueryRequest(**body)
                found = self.store.query_points(
                    name, query.query, query_filter=query.filter, limit=query.limit, with_payload=query.with_payload
                )
                return found.model_dump(mode="json")
        raise AssertionError(f"nobody should ask {method} {rest}")
