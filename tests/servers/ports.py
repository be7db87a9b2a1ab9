"""Ports of the loopback interface."""

import random
import socket
from pathlib import Path

_CHOICE = random.Random()  # of this process: tests that seed the shared one would all begin with the same ports


def _first_temporary() -> int:
    """The first port that the system gives to clients, and to servers that ask for any."""
    known = Path("/proc/sys/net/ipv4/ip_local_port_range")
    return int(known.read_text().split()[0]) if known.exists() else 32_768


def find_free_port() -> int:
    """Return a port on which nothing listens, and which the system gives to nobody before the caller uses it."""
    while True:
        port = _CHOICE.randrange(10_000, max(_first_temporary(), 20_000))
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
