"""The log of a run as if some of it had never been written, or something else."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evalspec.runs.store.log_records import renumber
from evalspec.runs.store.run_log import compute_checksum

FINGERPRINT = {
    "manifest": {"path": "agent.yaml"},
    "agent": {"sha256": None},
    "responses": None,
    "datasets": [{"name": "qa", "file": "qa.jsonl", "selected": 8}],
    "selection": {"datasets": [], "sampleSize": None, "seed": 7, "tags": [], "excludeTags": []},
    "repeats": {"agent": 1, "judge": 1},
    "noJudge": False,
    "references": {},
}
"""All that a run's description has to say of what it was made of."""


def keep_records(log: Path, wanted: Callable[[dict[str, Any]], bool]) -> None:
    lines = [line for line in log.read_bytes().splitlines(keepends=True) if wanted(json.loads(line))]
    log.write_bytes(b"".join(renumber(line, number) for number, line in enumerate(lines, 1)))


def seal_line(text: str, number: int) -> str:
    """A line of one's own as evalspec would have written it."""
    return renumber(text.encode() + b"\n", number).decode().removesuffix("\n")


def edit_description(run: Path, **values: Any) -> None:
    path = run / "run.json"
    document = json.loads(path.read_text()) | values
    path.write_text(json.dumps(document | {"sha256": compute_checksum(document)}))


def seal_inputs(run: Path) -> None:
    """Let the log of a finished run say that its inputs are as they were written."""
    log = run / "samples.jsonl"
    *lines, last = log.read_bytes().splitlines(keepends=True)
    record = json.loads(last) | {"inputsSha256": hashlib.sha256((run / "inputs.jsonl").read_bytes()).hexdigest()}
    number = record.pop("number")
    record.pop("crc")
    log.write_bytes(b"".join(lines) + (seal_line(json.dumps(record), number) + "\n").encode())
