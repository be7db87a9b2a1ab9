"""A world to act on, with its agent, on loopback: a desk that books flights when it is asked to.

with BookingDesk() as desk:
    desk.url                     # POST /chat books; GET /state; POST /reset; each with ?session=…
    desk.script = ["act_then_hang", "act_then_drop", "act_then_500", "refuse", "slow", "steal"]  # the next chats
    desk.reset_fails = True      # 500 for resets from now on
    desk.events                  # ("reset" | "chat" | "state", session), in order
    desk.most_at_once            # chats that were in work at one moment
"""

import json
import threading
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from servers.hanging_up import Served


class BookingDesk(Served):
    """Holds the worlds by session; "" is the one that all share."""

    def __init__(self) -> None:
        self.worlds: dict[str, dict[str, Any]] = defaultdict(_make_world)
        self.script: list[str] = []
        self.reset_fails = False
        self.delay = self.reset_delay = 0.0
        self.events: list[tuple[str, str]] = []
        self.most_at_once = self._at_once = 0
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        super().__init__(_make_handler(self))

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        super().__exit__(*error)

    def count(self, kind: str) -> int:
        """Return how many requests of a kind arrived."""
        return sum(event == kind for event, _ in self.events)

    def book(self, session: str, city: str) -> str:
        """Act on a chat: book a flight, as the script says. Returns how the request goes on."""
        with self._lock:
            mode = self.script.pop(0) if self.script else "ok"
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        if mode == "slow":
            time.sleep(0.3)
        with self._lock:
            if mode != "refuse":
                world = self.worlds[session]
                world["bookings"].append({"city": city, "status": "confirmed"})
                world["updatedAt"] = time.time()
            if mode == "steal":
                del self.worlds[session]["bookings"][0]
        if mode == "act_then_hang":
            self._is_over.wait()
        time.sleep(self.delay)
        with self._lock:
            self._at_once -= 1
        return mode


def _make_world() -> dict[str, Any]:
    return {"bookings": [{"city": "Oslo", "status": "confirmed"}], "updatedAt": 0}


def _make_handler(desk: BookingDesk) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            session = self._note("state")
            self._send(200, desk.worlds[session])

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            if self.path.startswith("/reset"):
                session = self._note("reset")
                if desk.reset_fails:
                    return self._send(500, {"error": "no"})
                time.sleep(desk.reset_delay)
                desk.worlds.pop(session, None)
                return self._send(200, {})
            session = self._note("chat")
            mode = desk.book(session, body["text"])
            if mode in ("act_then_drop", "act_then_hang"):
                self.close_connection = True
                return None
            codes = {"act_then_500": 500, "refuse": 429}
            return self._send(codes.get(mode, 200), {"response": f"Booked {body['text']}"})

        def _note(self, kind: str) -> str:
            session = parse_qs(urlsplit(self.path).query).get("session", [""])[0]
            desk.events.append((kind, session))
            return session

        def _send(self, code: int, value: Any) -> None:
            raw = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(raw)

    return Handler
