"""A Ray of several raylets on loopback, in a process of its own. Each raylet is a machine to Ray.

Run as a program, it starts the raylets, prints the port, and kills the raylet whose number it reads from its input.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

TOKEN: Mapping[str, str] = {
    "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t" * 64, "RAY_USAGE_STATS_ENABLED": "0",
}  # fmt: skip
"""The variables that a driver needs to join."""


_ALL = -1


class RayNodes:
    """Raylets, each with variables of its own. `folder`: gets all that Ray writes."""

    def __init__(self, variables: Sequence[Mapping[str, str]]) -> None:
        self.variables = variables[0]
        self.folder = Path(tempfile.mkdtemp(prefix="ray-"))  # the paths of sockets have to be short
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self.folder), json.dumps([dict(one) for one in variables])],
            env={**os.environ, **TOKEN},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.address = f"ray:{self._read()}"
        """Where a driver joins, as `--on` takes it."""

    def kill(self, number: int) -> None:
        """Kill a raylet, from 0, with all that it started."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d\n" % number)
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


def main(folder: str, variables: Sequence[Mapping[str, str]]) -> None:
    """Start the raylets, and kill those that are named."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    first = {"temp_dir": folder, "include_dashboard": False}
    nodes = [
        cluster.add_node(num_cpus=1, env_vars={**os.environ, **own}, **(first if not number else {}))
        for number, own in enumerate(variables)
    ]
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)
    for line in sys.stdin:
        for node in nodes[::-1] if int(line) == _ALL else [nodes[int(line)]]:
            cluster.remove_node(node, allow_graceful=False)
        print("killed", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
