"""Ports of the loopback interface."""

import atexit
import random
import socket
from pathlib import Path

_RESERVED: list[socket.socket] = []
_CHOICE = random.Random()  # of this process: tests that seed the shared one would all begin with the same ports


@atexit.register
def _release() -> None:
    for reserved in _RESERVED:
        reserved.close()


def _first_temporary() -> int:
    """The first port that the system gives to clients, and to servers that ask for any."""
    known = Path("/proc/sys/net/ipv4/ip_local_port_range")
    return int(known.read_text().split()[0]) if known.exists() else 32_768


def find_free_port() -> int:
    """Return a port on which nothing listens, and which nobody else gets before this process ends."""
    while True:
        try:
            reserved = reserve_port(_CHOICE.randrange(10_000, max(_first_temporary(), 20_000)))
        except OSError:
            continue
        port: int = reserved.getsockname()[1]
        return port


def reserve_port(port: int = 0) -> socket.socket:
    """Return a socket that keeps a port, or any if 0, and listens to nobody. A server that reuses addresses can."""
    reserved = socket.socket()
    try:
        reserved.bind(("127.0.0.1", port))
    except OSError:
        reserved.close()
        raise
    _RESERVED.append(reserved)  # of an agent that nobody stops, too
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # only now: before, two could bind one port
    return reserved
