"""The process that runs Ray for a driver: it starts nodes, passes on tasks, and collects what they find.

It is started by the driver and ends with it. No record is kept here.
"""

import asyncio
import os
import secrets
import shutil
import socket
import sys
import tempfile
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import ray
from msgspec import Struct, field
from msgspec.structs import replace
from ray.exceptions import RayError

from evalspec.base.plural import counted
from evalspec.runs.cluster.messages import (
    Done,
    Finish,
    ForNode,
    FoundRecord,
    LostAttempt,
    Message,
    NodeEnded,
    NodeRefused,
    Parcel,
    Placement,
    Task,
    Told,
    Welcome,
    decode,
    encode,
    read,
    write,
)
from evalspec.runs.cluster.node import Node
from evalspec.runs.runner.results import AttemptIndex

_MOST_HELD = 256
_LEAST_HELD = 4
_SECONDS_TO_ANSWER = 10.0
_SECONDS_TO_START = 30.0
"""A machine that has no room for another node within this time does without."""
_AFTER = 0.01
_SUSPECTS = 32
"""The oldest tasks of a node that ended. The others were waiting in its queue."""
_TAG_BYTES = 32
_QUIET: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
_ENDED_TWICE = "two processes ended while they worked on it, so it is not tried a third time"


class _Actor(Struct):
    """A node, as the bridge sees it. `number`: no other has or had it. `machine`: Ray's id of its host.

    `held`: the tasks that it has, oldest first. `room`: how many it may have. `is_alone`: it works on the tasks that
    may have ended another node, one at a time, once it has no others.
    """

    handle: Any
    number: int
    machine: str = ""
    held: dict[AttemptIndex, Task] = field(default_factory=dict)
    room: int = _LEAST_HELD
    is_alone: bool = False


class Bridge:
    """Passes on tasks until the driver has no more."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: deque[Task] = deque()
        self._suspects: deque[Task] = deque()
        self._suspected: set[AttemptIndex] = set()
        self._actors: list[_Actor] = []
        self._pumps: set[asyncio.Task[None]] = set()
        self._news = asyncio.Condition()
        self._numbers = count(1)
        self._is_finished = False
        self._parcel: Any = None
        self._options: dict[str, Any] = {}

    async def run(self) -> None:
        """Start the nodes, and work until the driver says that it has finished."""
        first = await read(self._reader)
        placement = next(one for one in first if isinstance(one, Placement))
        parcel = encode([next(one for one in first if isinstance(one, Parcel))])
        with _connected(placement):
            working = asyncio.create_task(self._work_all(placement, parcel))
            reading = asyncio.create_task(self._take_tasks())
            await asyncio.wait({working, reading}, return_when=asyncio.FIRST_COMPLETED)
            for task in (reading, working):
                if task.done():
                    task.result()  # reading ends when the driver does

    async def _work_all(self, placement: Placement, parcel: bytes) -> None:
        self._options, self._parcel = _list_options(placement), ray.put(parcel)
        actors = await self._find_room(_count_nodes(placement))
        if not actors:
            self._say_found([NodeRefused([_describe_need(placement)])])
            return
        welcomes = await asyncio.gather(*map(self._start, actors))
        refused = next((one for one in welcomes if isinstance(one, NodeRefused)), None)
        self._say_found([refused] if refused else [*welcomes, Told(says=self._describe(welcomes))])
        for actor in () if refused else actors:
            self._pump(actor)
        while self._pumps:
            await asyncio.wait(self._pumps)
        self._say_found([Finish()])
        await self._writer.drain()

    async def _find_room(self, most: int) -> list[_Actor]:
        """Return as many actors as there is room for, at most so many."""
        actors = [self._create() for _ in range(most)]
        ready = {asyncio.ensure_future(_await(actor.handle.__ray_ready__.remote())): actor for actor in actors}
        done, waiting = await asyncio.wait(ready, timeout=_SECONDS_TO_START)
        for task in waiting:
            task.cancel()
            ray.kill(ready[task].handle)
        return [actor for task, actor in ready.items() if task in done and task.exception() is None]

    def _describe(self, welcomes: Sequence[Message]) -> str:
        hosts = {one.host for one in welcomes if isinstance(one, Welcome)}
        return f"{counted(len(welcomes), 'node')} on {counted(len(hosts), 'machine')} of Ray"

    def _create(self) -> _Actor:
        return _Actor(ray.remote(Node).options(**self._options).remote(), next(self._numbers))

    async def _start(self, actor: _Actor) -> Message:
        (welcome,) = decode(await actor.handle.start.remote(self._parcel, actor.number))
        actor.machine = welcome.machine if isinstance(welcome, Welcome) else ""
        return welcome

    async def _take_tasks(self) -> None:
        """Take tasks, and pass on what is for one node, until the driver ends."""
        while True:
            for message in await read(self._reader):
                if isinstance(message, Task):
                    self._waiting.append(message)
                elif isinstance(message, ForNode):
                    for actor in self._actors:
                        if actor.number == message.node:
                            actor.handle.receive.remote(encode([message]))
                self._is_finished |= isinstance(message, Finish)
            async with self._news:
                self._news.notify_all()

    def _pump(self, actor: _Actor) -> None:
        self._actors.append(actor)
        task = asyncio.create_task(self._work(actor))
        self._pumps.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._pumps.discard(task)
        if not task.cancelled() and task.exception() is not None:
            traceback.print_exception(task.exception())
            self._writer.close()  # the driver notices, and quotes the last line

    async def _work(self, actor: _Actor) -> None:
        """Give an actor tasks and collect what it finds, until there are none or it ends."""
        try:
            while (tasks := await self._choose(actor)) is not None:
                actor.held.update((task.job, task) for task in tasks)
                found = decode(await actor.handle.exchange.remote(encode(tasks)))
                self._note(actor, found)
                self._say_found(found)
            self._say_found([*decode(await actor.handle.finish.remote()), NodeEnded(actor.number)])
            self._actors.remove(actor)
        except RayError as error:
            await self._replace(actor, error)

    async def _choose(self, actor: _Actor) -> list[Task] | None:
        """Return the next tasks of an actor, perhaps none; None once nothing is left to do."""
        async with self._news:
            while not (actor.held or self._waiting or self._suspects or self._is_finished):
                await self._news.wait()
        if actor.is_alone and not self._suspects and not actor.held:
            actor.is_alone = False
        source, room = (self._suspects, 1) if actor.is_alone else (self._waiting, actor.room)
        tasks = [source.popleft() for _ in range(min(room - len(actor.held), len(source)))]
        is_over = self._is_finished and not (self._waiting or self._suspects)
        if not tasks and not actor.held and not is_over:
            await asyncio.sleep(_AFTER)  # what is left is for another actor
        return None if is_over and not tasks and not actor.held else tasks

    def _note(self, actor: _Actor, found: Sequence[Message]) -> None:
        """Take note of what an actor has found, so that nothing is asked again that it has."""
        done = 0
        for message in found:
            if isinstance(message, FoundRecord) and b'"kind":"reply"' in message.line[:_TAG_BYTES]:
                actor.held[message.job] = replace(actor.held[message.job], reply=message.line)
            elif isinstance(message, Done):
                del actor.held[message.job]
                done += 1
        actor.room = min(_MOST_HELD, max(actor.room, 3 * done))

    async def _replace(self, actor: _Actor, error: RayError) -> None:
        """Hand the tasks of an actor that has ended to others, and start another one.

        The oldest tasks may have ended it, so they are asked again one at a time. One that was alone has. The end of a
        machine accuses nobody.
        """
        self._actors.remove(actor)
        ray.kill(actor.handle)  # it may only be out of reach
        held = [*actor.held.values()]
        try:
            is_alive = await asyncio.wait_for(asyncio.to_thread(_is_alive, actor.machine), _SECONDS_TO_ANSWER)
        except TimeoutError:
            raise RuntimeError("the head of Ray does not answer") from error
        if is_alive:
            suspects, held = held[:_SUSPECTS], held[_SUSPECTS:]
            if len(suspects) == 1 and suspects[0].job in self._suspected:
                self._say_found([LostAttempt(suspects.pop().job, _ENDED_TWICE)])
            self._suspected.update(task.job for task in suspects)
            self._suspects.extend(suspects)
        self._waiting.extendleft(reversed(held))
        self._say_found([NodeEnded(actor.number), Told(says=f"a node has ended ({type(error).__name__})")])
        other = self._create()
        try:
            welcome = await asyncio.wait_for(self._start(other), _SECONDS_TO_START)
        except (TimeoutError, RayError):
            ray.kill(other.handle)
            if not self._actors:
                raise
            other = self._actors[0]  # there is no room for another
        else:
            if isinstance(welcome, NodeRefused):
                self._say_found([welcome])
                raise RuntimeError("; ".join(welcome.problems))  # noqa: TRY004 - no type is wrong
            self._pump(other)
        other.is_alone = bool(self._suspects)

    def _say_found(self, messages: Sequence[Message]) -> None:
        if messages:
            write(self._writer, messages)


@contextmanager
def _connected(placement: Placement) -> Iterator[None]:
    """Connect to Ray for the duration of the block. A Ray of this machine ends with it, with all its files."""
    if placement.address is not None:
        ray.init(address=placement.address, **_QUIET)
        try:
            yield
        finally:
            ray.shutdown()
        return
    folder = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="evalspec-ray-")  # nobody else may enter it
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else Ray writes one to the home directory
    try:
        ray.init(address="local", _temp_dir=f"{folder}/r", **_QUIET)
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


async def _await(reference: Any) -> None:
    await reference


def _describe_need(placement: Placement) -> str:
    memory = "" if placement.memory is None else f", memoryMb: {placement.memory >> 20}"
    return f"Ray has no room for a node with cpus: {placement.cpus:g}{memory}. ask for less in spec.evaluation.run"


def _list_options(placement: Placement) -> dict[str, Any]:
    """Return the options of an actor. Ray repeats nothing by itself."""
    options: dict[str, Any] = {"num_cpus": placement.cpus, "max_restarts": 0, "max_task_retries": 0}
    return options | ({} if placement.memory is None else {"memory": placement.memory})


def _count_nodes(placement: Placement) -> int:
    free = int(ray.available_resources().get("CPU", 1) / placement.cpus)
    return max(1, min(placement.nodes or free, placement.most))


def _is_alive(machine: str) -> bool:
    """Return whether a machine is part of Ray."""
    return any(one["NodeID"] == machine and one["Alive"] for one in ray.nodes())


async def main(descriptor: int) -> None:
    """Work for the driver at the other end of a socket."""
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    with suppress(asyncio.IncompleteReadError, ConnectionError):  # the driver has ended
        await Bridge(reader, writer).run()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
