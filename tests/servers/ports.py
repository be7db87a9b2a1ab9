"""Ports of the loopback interface."""

import random
import socket
import sys
from pathlib import Path

_CHOICE = random.Random()  # of this process: tests that seed the shared one would all begin with the same ports
_kept: list[socket.socket] = []
"""On Linux, a port on which a socket is bound is found by no other process. A server can listen there all the same."""


def _first_temporary() -> int:
    """The first port that the system gives to clients, and to servers that ask for any."""
    known = Path("/proc/sys/net/ipv4/ip_local_port_range")
    return int(known.read_text().split()[0]) if known.exists() else 32_768


def find_free_port() -> int:
    """Return a port on which nothing listens, and which nobody else is given before the caller uses it."""
    while True:
        port, kept = _CHOICE.randrange(10_000, max(_first_temporary(), 20_000)), socket.socket()
        try:
            kept.bind(("127.0.0.1", port))
        except OSError:
            kept.close()
            continue
        if sys.platform == "linux":
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after it was bound, so that it had no rival
            _kept.append(kept)
        else:
            kept.close()
        return port
