"""An agent that answers every request after a fixed time with very little CPU: raw HTTP/1.1 with keep-alive.

    python slow_agent.py --latency 0.05        prints its port; exits at the end of its standard input

GET on any path returns and resets the counts since the last GET:
{"requests", "span": seconds from the first request in to the last reply out, "peak": most requests at once}.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_GRADE = {"role": "assistant", "content": '{"reason": "It says so.", "value": "good"}'}
_ANSWER = json.dumps(
    {
        "response": "To the mainland a parcel takes two working days.",
        "hits": [{"id": f"d{n}"} for n in range(1, 11)],
        "choices": [{"message": _GRADE, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10},
    }
).encode()
"""An answer for requests to an agent, hits for requests to a retriever, and a grade for requests to a judge."""


def _http(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@dataclass(slots=True)
class Seen:
    """Counts since the last GET."""

    requests: int = 0
    active: int = 0
    peak: int = 0
    first_in: float = 0.0
    last_out: float = 0.0

    def as_json(self) -> bytes:
        """Return the counts as JSON."""
        span = self.last_out - self.first_in
        return json.dumps({"requests": self.requests, "span": span, "peak": self.peak}).encode()


class SlowAgent(asyncio.Protocol):
    """One connection, which receives one request at a time."""

    seen = Seen()
    latency = 0.05
    reply = _http(_ANSWER)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self._buffer, 0, end)
        if len(self._buffer) < end + 4 + (int(length[1]) if length else 0):
            return
        is_look = self._buffer.startswith(b"GET")
        self._buffer = b""
        if is_look:
            self._transport.write(_http(self.seen.as_json()))
            SlowAgent.seen = Seen()
        else:
            self._begin()

    def _begin(self) -> None:
        seen, now = self.seen, self._loop.time()
        seen.first_in = seen.first_in or now
        seen.requests += 1
        seen.active += 1
        seen.peak = max(seen.peak, seen.active)
        self._loop.call_later(self.latency, self._answer)

    def _answer(self) -> None:
        self.seen.active -= 1
        if not self._transport.is_closing():
            self._transport.write(self.reply)
        self.seen.last_out = self._loop.time()


async def _serve(latency: float) -> None:
    SlowAgent.latency = latency
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SlowAgent(loop), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until the parent exits or closes it
    server.close()


@contextmanager
def running_agent(latency: float) -> Iterator[str]:
    """Run the agent in a separate process. Yields its url."""
    command = [sys.executable, str(Path(__file__)), "--latency", str(latency)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.communicate()


def look(url: str) -> dict[str, Any]:
    """Return the counts of the agent since the last call."""
    with urllib.request.urlopen(url, timeout=10) as reply:
        seen: dict[str, Any] = json.load(reply)
    return seen


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--latency", type=float, default=0.05, help="seconds")
    asyncio.run(_serve(options.parse_args().latency))
