"""What driver, bridge and nodes say to each other. No message has a secret: whoever sends redacts first."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct, msgpack

from evalspec.inputs.manifest.redaction import Redaction, has_placeholders
from evalspec.model import JudgeUsage
from evalspec.model.log import StoredRecord, change_texts
from evalspec.runs.runner.results import AttemptIndex
from evalspec.runs.store.log_records import decode_line, encode_record
from evalspec.scoring.judge.cache_file import CacheEntry

_LENGTH_BYTES = 4
_Kind = TypeVar("_Kind", bound=StoredRecord)


class Parcel(Struct, frozen=True, tag=True):
    """What every node gets, once: nothing that is not needed to ask and to score.

    `manifest`: its name. `files`: content by path, relative to the manifest's folder. `options`: of RunOptions.
    `metrics`: entries of metrics by dataset. `identities`: of these metrics, by dataset and name. `versions`: of
    packages. `threads`: variables that limit threads, as the driver has them. `seconds`: how
    long the run was worked on. `starts_agent`: whether each node starts the agent's command.
    """

    manifest: str
    files: Mapping[str, bytes]
    options: Mapping[str, Any]
    metrics: Mapping[str, Sequence[Mapping[str, Any]]]
    identities: Mapping[str, Mapping[str, Mapping[str, str]]]
    versions: Mapping[str, str]
    threads: Mapping[str, str]
    seconds: float
    starts_agent: bool


class Placement(Struct, frozen=True, tag=True):
    """Where nodes run. `address`: of a running Ray; None: a Ray of this machine, for this run. `nodes`: None: as many
    as there are free processors. `most`: at most so many. `cpus`, `memory`: of each node; memory in bytes.
    """

    address: str | None
    most: int
    nodes: int | None = None
    cpus: float = 1
    memory: int | None = None


class Task(Struct, frozen=True, tag=True):
    """An attempt to work on. `sample`, `reply`, `scores`: lines of a log. Without `reply`, it is to be asked."""

    job: AttemptIndex
    metrics: Sequence[str]
    sample: bytes
    reply: bytes | None = None
    scores: bytes | None = None


class FoundRecord(Struct, frozen=True, tag=True):
    """A record of a job, as a line of a log."""

    job: AttemptIndex
    line: bytes


class Done(Struct, frozen=True, tag=True):
    """A job has all scores that it was to get."""

    job: AttemptIndex


class LostAttempt(Struct, frozen=True, tag=True):
    """Two nodes ended while they worked on this job, so nobody asks a third time."""

    job: AttemptIndex
    why: str


class Welcome(Struct, frozen=True, tag=True):
    """A node is ready. `references`: digests of the values that it redacts. `host`, `machine`: its name, and Ray's."""

    node: int
    host: str
    machine: str
    references: Mapping[str, str]


class NodeRefused(Struct, frozen=True, tag=True):
    """Nothing was asked. `problems`: as lines. `is_down`: because an agent did not start."""

    problems: Sequence[str]
    is_down: bool = False


class Told(Struct, frozen=True, tag=True):
    """Something beside attempts.

    `learned`: what the judge's replies say about it. `waits`: the judge's next request is in so many seconds. `says`: a
    message to show. `ended`: the limit that ended the judge's work, and the reason.
    """

    learned: Mapping[str, Mapping[str, str]] = {}
    waits: float | None = None
    says: str | None = None
    ended: tuple[str, str] | None = None


class Farewell(Struct, frozen=True, tag=True):
    """A node has finished. `notes`, `lag_ms`: for the report."""

    notes: Sequence[str]
    lag_ms: float


class Finish(Struct, frozen=True, tag=True):
    """There is no more work."""


class Slot(Struct, frozen=True, tag=True):
    """A slot for requests to a service. `name`: its section of the manifest. `most`: of the slots of all nodes."""

    name: str
    most: int


class PaceTurn(Struct, frozen=True, tag=True):
    """A turn to send a request with so many tokens. `requests`, `per_minute`: the pace, as the manifest has it."""

    name: str
    requests: int | None
    per_minute: int | None
    tokens: int


class Reserve(Struct, frozen=True, tag=True):
    """The most that a request for a metric may use."""

    metric: str
    most: JudgeUsage


class Recall(Struct, frozen=True, tag=True):
    """The entry of the judge's cache with the digest `key`, for a metric."""

    key: str
    metric: str


Wanted = Slot | PaceTurn | Reserve | Recall


class Ask(Struct, frozen=True, tag=True):
    """A node wants something of the driver, and calls it `number`."""

    node: int
    number: int
    wanted: Wanted


class Lent(Struct, frozen=True, tag=True):
    """A node gets what it asked for. `refused`: the limit that is used up, and the reason. `entry`: of the cache."""

    node: int
    number: int
    refused: tuple[str | None, str] | None = None
    entry: CacheEntry | None = None


class Returned(Struct, frozen=True, tag=True):
    """A node gives back a slot, or has used a turn.

    `amount`: requests that succeeded since it gave a slot back last, or tokens as the reply counts them.
    """

    node: int
    number: int
    amount: int


class ReleasedUsage(Struct, frozen=True, tag=True):
    """What a request has used, in place of what was reserved for it."""

    node: int
    metric: str
    reserved: JudgeUsage
    used: JudgeUsage


class Overload(Struct, frozen=True, tag=True):
    """A service refused a request of a node for load, or the node is to send none for so many seconds."""

    node: int
    name: str
    seconds: float | None


class Halt(Struct, frozen=True, tag=True):
    """The agent is down, so a node is to ask it no more."""

    node: int
    why: str


class Remember(Struct, frozen=True, tag=True):
    """An entry for the judge's cache."""

    key: str
    entry: CacheEntry


class Admitted(Struct, frozen=True, tag=True):
    """Whether a node that began later may work. `why`: the reason if it may not."""

    node: int
    why: str | None


class NodeEnded(Struct, frozen=True, tag=True):
    """A node has ended, in whatever way."""

    node: int


ForNode = Lent | Overload | Halt
FromNode = Ask | Returned | ReleasedUsage | Overload | Remember
_OfWork = Parcel | Placement | Task | FoundRecord | Done | LostAttempt | Finish
_OfNodes = Welcome | NodeRefused | Admitted | NodeEnded | Told | Farewell
Message = _OfWork | _OfNodes | ForNode | FromNode
_MESSAGES: Any = Sequence[Message]
_decoder = msgpack.Decoder(_MESSAGES)


def encode(messages: Sequence[Message]) -> bytes:
    """Return messages as bytes."""
    return msgpack.encode(messages)


def decode(data: bytes) -> Sequence[Message]:
    """Return the messages of `encode`."""
    found: Sequence[Message] = _decoder.decode(data)
    return found


async def read(stream: asyncio.StreamReader) -> Sequence[Message]:
    """Return the next messages of a stream.

    Raises:
        IncompleteReadError: The other side has ended.
    """
    length = int.from_bytes(await stream.readexactly(_LENGTH_BYTES))
    return decode(await stream.readexactly(length))


def write(stream: asyncio.StreamWriter, messages: Sequence[Message]) -> None:
    """Send messages, without waiting."""
    data = encode(messages)
    stream.write(len(data).to_bytes(_LENGTH_BYTES) + data)


def hide(record: StoredRecord, redaction: Redaction) -> bytes:
    """Return a record as a line without the values that a redaction knows."""
    line = encode_record(record, 1)
    return line if redaction.is_clean(line) else encode_record(change_texts(record, redaction.hide_data), 1)


def reveal(line: bytes, redaction: Redaction, kind: type[_Kind]) -> _Kind:
    """Return the record of a line of `hide`, with the values that this side knows."""
    record = decode_line(line, kind, "a message of a node")
    return change_texts(record, redaction.restore_known) if has_placeholders(line) else record
