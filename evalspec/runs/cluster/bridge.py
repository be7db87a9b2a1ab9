"""The process that runs Ray for a driver: it starts nodes, passes on tasks, and collects what they find.

It is started by the driver and ends with it. No record is kept here.
"""

import asyncio
import os
import secrets
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from math import inf
from typing import Any

import ray
from msgspec import Struct, field
from msgspec.structs import replace
from ray._private.state import state
from ray.exceptions import RayError

from evalspec.base.plural import counted
from evalspec.runs.cluster.messages import (
    Admitted,
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
from evalspec.runs.cluster.node import Node, open_folder
from evalspec.runs.runner.results import AttemptIndex

_MOST_HELD = 256
_LEAST_HELD = 4
_SECONDS_TO_ANSWER = 10.0
_SECONDS_TO_START = 30.0
"""A machine that has no room for another node within this time does without."""
_AFTER = 0.01
_NO_ROOM = "no machine of Ray has room for it"
_WATCH_SECONDS = 1.0
_SECONDS_BEFORE = 2.0
"""A node ends so long before its machine."""
_SUSPECTS = 32
"""The oldest tasks of a node that ended. The others were waiting in its queue."""
_TAG_BYTES = 32
_QUIET: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
_ENDED_TWICE = "two processes ended while they worked on it, so it is not tried a third time"


class _Actor(Struct):
    """A node, as the bridge sees it. `number`: no other has or had it. `machine`: Ray's id of its host.

    `held`: the tasks that it has, oldest first. `room`: how many it may have. `is_alone`: it works on the tasks that
    may have ended another node, one at a time, once it has no others. `ends`: when its machine goes, in seconds since
    1970, so that it gets no more; None: the machine stays.
    """

    handle: Any
    number: int
    machine: str = ""
    held: dict[AttemptIndex, Task] = field(default_factory=dict)
    room: int = _LEAST_HELD
    is_alone: bool = False
    ends: float | None = None


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
        self._admitting: dict[int, asyncio.Future[str | None]] = {}
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
        watching = asyncio.create_task(self._watch(placement))
        watching.add_done_callback(self._ended)
        while self._pumps:
            await asyncio.wait(self._pumps)
        watching.cancel()
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
                elif isinstance(message, Admitted):
                    self._admitting.pop(message.node).set_result(message.why)
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
            if actor.ends and not self._actors:
                await self._add_node()
        except RayError as error:
            await self._replace(actor, error)

    async def _choose(self, actor: _Actor) -> list[Task] | None:
        """Return the next tasks of an actor, perhaps none; None once nothing is left to do."""
        async with self._news:
            while not (actor.held or self._waiting or self._suspects or self._is_finished or actor.ends):
                await self._news.wait()
        if actor.is_alone and not self._suspects and not actor.held:
            actor.is_alone = False
        source, room = (self._suspects, 1) if actor.is_alone else (self._waiting, actor.room)
        most = 0 if actor.ends else min(room - len(actor.held), len(source))
        tasks = [source.popleft() for _ in range(most)]
        is_over = bool(actor.ends) or (self._is_finished and not (self._waiting or self._suspects))
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
        looking = asyncio.to_thread(_is_alive, actor.machine)
        try:
            is_alive = await asyncio.wait_for(looking, _SECONDS_TO_ANSWER) and not actor.ends
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
        await self._add_node()
        self._actors[-1].is_alone = bool(self._suspects)

    async def _add_node(self) -> None:
        """Start a node while others work, if there is room, and if the driver admits it.

        Raises:
            RuntimeError: It does not work, and no other is left.
        """
        actor, why = self._create(), _NO_ROOM
        with suppress(TimeoutError, RayError):
            async with asyncio.timeout(_SECONDS_TO_START):
                welcome = await self._start(actor)
                if isinstance(welcome, NodeRefused):
                    why = "; ".join(welcome.problems)
                else:
                    admitted = self._admitting[actor.number] = asyncio.get_running_loop().create_future()
                    self._say_found([welcome])
                    why = await admitted
        if why is None:
            self._pump(actor)
            return
        ray.kill(actor.handle)
        if not self._actors:
            raise RuntimeError(why)
        self._say_found([Told(says=f"no node was added: {why}")])

    async def _watch(self, placement: Placement) -> None:
        """Give nodes on machines that are going no more work, and use those that join."""
        most = min(placement.nodes or placement.most, placement.most)
        while placement.address is not None:
            await asyncio.sleep(_WATCH_SECONDS)
            going, has_room = await asyncio.to_thread(_look_around, placement)
            for actor in self._actors:
                if actor.machine in going and not actor.ends:
                    actor.ends = going[actor.machine] or inf
                    self._say_found([Told(says="a machine of Ray is draining, so its node gets no more work")])
                if actor.ends and time.time() > actor.ends - _SECONDS_BEFORE:
                    ray.kill(actor.handle)
            async with self._news:
                self._news.notify_all()
            if has_room and not self._is_finished and len(self._actors) < most:
                await self._add_node()
                self._say_found([Told(says=f"Ray has room for more: {counted(len(self._actors), 'node')} now")])

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
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else Ray writes one to the home directory
    with ExitStack() as opened:
        folder = os.environ["TMPDIR"] = str(open_folder(opened, "evalspec-ray-"))  # nobody else may enter it
        opened.callback(ray.shutdown)
        ray.init(address="local", _temp_dir=f"{folder}/r", **_QUIET)
        yield


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


def _look_around(placement: Placement) -> tuple[Mapping[str, float], bool]:
    """Return the machines that are draining with the end of each, 0 without one, and whether a node has room."""
    going = {machine: at / 1000 for machine, at in state.get_draining_nodes().items()}
    return going, ray.available_resources().get("CPU", 0) >= placement.cpus


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
