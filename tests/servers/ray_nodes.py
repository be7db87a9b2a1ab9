"""A Ray of several raylets on loopback, in a process of its own. Each raylet is a machine to Ray.

Run as a program, it starts the raylets, prints the port, and does what it reads from its input, a line each: kill or
drain the raylet of a number, or add another one.
"""

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

TOKEN: Mapping[str, str] = {
    "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t" * 64, "RAY_USAGE_STATS_ENABLED": "0",
}  # fmt: skip
"""The variables that a driver needs to join."""


_ALL = -1


class RayNodes:
    """Raylets, each with variables of its own. `folder`: gets all that Ray writes.

    `names`: hostnames of the raylets; empty: that of this machine. Only root may give others.
    """

    def __init__(self, variables: Sequence[Mapping[str, str]], names: Sequence[str] = ()) -> None:
        self.variables = variables[0]
        self.folder = Path(tempfile.mkdtemp(prefix="ray-"))  # the paths of sockets have to be short
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self.folder), json.dumps([dict(one) for one in variables]), *names],
            env={**os.environ, **TOKEN},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        address = self._read()
        if not address:
            self.close()
            raise RuntimeError("the raylets did not start")
        self.address = f"ray:{address}"
        """Where a driver joins, as `--on` takes it."""

    def kill(self, number: int) -> None:
        """Kill a raylet, from 0, with all that it started."""
        self._do("kill", number)

    def add(self, variables: Mapping[str, str]) -> None:
        """Start another raylet."""
        self._do("add", dict(variables))

    def drain(self, number: int) -> None:
        """Say that the machine of a raylet goes in a minute."""
        self._do("drain", number)

    def _do(self, what: str, argument: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([what, argument]).encode() + b"\n")
        self._process.stdin.flush()
        self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()

    def close(self) -> None:
        """Kill all."""
        if self._process.poll() is None:
            self.kill(_ALL)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


def main(folder: str, variables: Sequence[Mapping[str, str]], names: Sequence[str]) -> None:
    """Start the raylets, and do what the input says."""
    from ray._common.utils import get_default_ray_temp_dir
    from ray.cluster_utils import Cluster

    Path(get_default_ray_temp_dir()).mkdir(parents=True, exist_ok=True)  # the cluster writes its address there
    cluster = Cluster()
    nodes: list[Any] = []

    def add(own: Mapping[str, str], name: str = "") -> None:
        first = {"temp_dir": folder, "include_dashboard": False}
        if name:
            _rename(name)
        nodes.append(cluster.add_node(num_cpus=1, env_vars={**os.environ, **own}, **({} if nodes else first)))

    for number, own in enumerate(variables):
        add(own, names[number] if names else "")
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)
    for line in sys.stdin:
        what, argument = json.loads(line)
        if what == "add":
            add(argument)
        elif what == "drain":
            _drain(cluster.address, nodes[argument].node_id)
        else:
            for node in nodes[::-1] if argument == _ALL else [nodes[argument]]:
                cluster.remove_node(node, allow_graceful=False)
        print("done", flush=True)


def _rename(name: str) -> None:
    """Give this process, and those that it starts from now on, a hostname that nobody else sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x04000000) != 0:  # CLONE_NEWUTS
        raise OSError(ctypes.get_errno(), "unshare")
    socket.sethostname(name)


def _drain(address: str, node_id: str) -> None:
    command = [str(Path(sys.executable).with_name("ray")), "drain-node", "--address", address, "--node-id", node_id]
    why = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "-"]
    subprocess.run([*command, *why, "--deadline-remaining-seconds", "60"], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:])
