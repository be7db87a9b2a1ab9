"""Where the spans of a run come from: a receiver on a loopback port, the file of a collector, or the agent's own
OpenTelemetry SDK if the agent is Python code in this process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from evalspec.base.errors import InvalidInput
from evalspec.inputs.manifest.traces_schema import TracesConfig
from evalspec.inputs.traces.otlp import MOST_BYTES, Batch, read_logs, read_traces
from evalspec.model.log import SpansRecord, TraceRecord
from evalspec.runs.planning.build import Plan
from evalspec.runs.runner.known_attempts import KnownAttempts
from evalspec.runs.runner.tracing import Tracing
from evalspec.targets.tracing import count_refusal

_POLL_SECONDS = 0.2
_READ_BYTES = 1 << 24


@asynccontextmanager
async def open_tracing(
    plan: Plan, config: TracesConfig, store: Callable[[SpansRecord | TraceRecord], None], known: KnownAttempts | None
) -> AsyncIterator[tuple[Tracing, Mapping[str, str]]]:
    """Receive spans for the duration of the block. Yields what joins them, and the variables for the agent's command.

    `store`: stores spans, and what they say.

    Raises:
        InvalidInput: the port is taken, or the file cannot be read.
    """
    index = known.index if known is not None and known.is_own else None
    tracing = Tracing(config, store, index)
    async with AsyncExitStack() as opened:
        environment: Mapping[str, str] = {}
        if config.file is not None:
            tracing.source = f"the collector that writes {config.file}"
            path = plan.loaded.references.path(config.file)
            if path.exists() and not path.is_file():
                raise InvalidInput(
                    f"{config.file} is no regular file", "name the file of the collector's file exporter"
                )
            follow = asyncio.create_task(follow_file(path, tracing))
            opened.push_async_callback(partial(_end, follow))
        else:
            from evalspec.targets.trace_receiver import TraceReceiver

            receiver = TraceReceiver(tracing.add, config.receive if isinstance(config.receive, int) else 0)
            if receiver.token:
                plan.loaded.references.redaction.add_printed(receiver.token)
            await receiver.start()
            opened.push_async_callback(receiver.aclose)
            tracing.source, environment = f"{receiver.source} (OTLP over HTTP)", receiver.environment
            tracing.refusals = receiver.refusals
        if plan.agent is not None:
            from evalspec.targets.agents.own_spans import listen_to_sdk

            opened.enter_context(listen_to_sdk(tracing.add))
            tracing.source = "a TracerProvider of the OpenTelemetry SDK, set in its module"
        yield tracing, environment


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


async def follow_file(path: Path, tracing: Tracing) -> None:
    """Read what a collector appends to a file from now on, until cancelled. A file that is replaced is read again."""
    place = path.stat().st_size if path.exists() else 0
    number = path.stat().st_ino if path.exists() else None
    rest = b""
    while True:
        try:
            state = path.stat()
            if state.st_size < place or number not in (None, state.st_ino):
                place, rest = 0, b""
            number = state.st_ino
            while place < state.st_size and (part := _read_part(path, place)):
                place += len(part)
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    _add_line(line, tracing)
                rest = rest[: MOST_BYTES + 1]
                await asyncio.sleep(0)
        except FileNotFoundError:
            pass  # it is not there yet, or is being replaced
        except OSError as error:
            count_refusal(tracing.refusals, f"{tracing.source}: {error.strerror}")
        await asyncio.sleep(_POLL_SECONDS)


def _read_part(path: Path, place: int) -> bytes:
    with path.open("rb") as file:
        file.seek(place)
        return file.read(_READ_BYTES)


def _add_line(line: bytes, tracing: Tracing) -> None:
    if not line.strip():
        return
    try:
        tracing.add(Batch(read_traces(line, is_json=True), read_logs(line, is_json=True)))
    except ValueError as error:
        count_refusal(tracing.refusals, f"{tracing.source}: {error}")
