"""The world that an agent acts on: reset before an attempt, and looked at."""

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evalspec.base.errors import EnvironmentFailed, ServiceError
from evalspec.inputs.manifest.environment_schema import EnvironmentConfig, WorldCall
from evalspec.inputs.user_code.calls import UserCode
from evalspec.targets.http.client import (
    Connections,
    OutgoingRequest,
    encode_headers,
    open_client,
    parse_body,
    read_whole,
    refuse_status,
    send,
)
from evalspec.targets.http.failures import ServiceNames
from evalspec.targets.http.routes import choose_route
from evalspec.targets.http.template import as_text, fill_json, fill_path


class EnvironmentAccess:
    """The calls of an environment. Functions of the project get the id of the attempt."""

    def __init__(self, config: EnvironmentConfig, folder: Path) -> None:
        self.config = config
        is_shared = not config.isolated
        self._state = _Call("state", config.state, folder, "GET", is_shared=is_shared)
        self._reset = _Call("reset", config.reset, folder, "POST", is_shared=is_shared) if config.reset else None

    async def reset(self, names: Mapping[str, str]) -> None:
        """Bring the world to its beginning. `names`: values of placeholders, `session` and `id`.

        Raises:
            EnvironmentFailed: that failed.
        """
        if self._reset is not None:
            await self._reset.make(names)

    async def read(self, names: Mapping[str, str]) -> Any:
        """Return the state of the world as a JSON value.

        Raises:
            EnvironmentFailed: there is none.
        """
        return await self._state.make(names, is_read=True)

    async def aclose(self) -> None:
        """Close the connections."""
        for call in (self._state, self._reset):
            if call is not None:
                await call.aclose()


class _Call:
    """One call: a request, or a function of the project. `is_shared`: all attempts have the same world."""

    def __init__(self, kind: str, call: WorldCall, folder: Path, method: str, *, is_shared: bool) -> None:
        self._is_shared = is_shared
        self._late: asyncio.Future[Any] | None = None
        self._kind, self._call, self._method = kind, call, call.method or method
        self._code = UserCode(call.python or "", folder, ServiceError)
        self._service = ServiceNames("the environment", f"environment.{kind}")
        self._connections = Connections(lambda: open_client({}, choose_route(call.url or "")))

    async def make(self, names: Mapping[str, str], *, is_read: bool = False) -> Any:
        """Make the call, and return its result if it is read.

        Raises:
            EnvironmentFailed: it failed.
        """
        try:
            return await (self._run(names) if self._call.python else self._send(names, is_read=is_read))
        except ServiceError as error:
            raise error.named(EnvironmentFailed, f"environment.{self._kind}") from error

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()

    async def _run(self, names: Mapping[str, str]) -> Any:
        function = await self._code.load_aside()
        try:
            async with asyncio.timeout(self._call.timeout_seconds):
                if self._late is not None:
                    await asyncio.wait([self._late])
                result = await self._call_function(function, names["session"])
        except TimeoutError as error:
            raise ServiceError(f"the function took longer than {self._call.timeout_seconds:g} s") from error
        return self._code.as_json(result, "the function")

    async def _call_function(self, function: Callable[..., Any], session: str) -> Any:
        """Return what a function returns. A thread cannot be ended, so the world of all has to wait for its end.

        Otherwise a late reset would wipe the world of another attempt.
        """
        call = self._code.call(function, session)
        if inspect.iscoroutinefunction(function) or not self._is_shared:
            return await call
        self._late = asyncio.ensure_future(call)
        self._late.add_done_callback(lambda late: late.cancelled() or late.exception())  # nobody may wait for it
        result = await asyncio.shield(self._late)
        self._late = None
        return result

    async def _send(self, names: Mapping[str, str], *, is_read: bool) -> Any:
        call = self._call
        url = fill_path(call.url or "", names.__getitem__)
        headers = {name: as_text(fill_json(text, names.__getitem__)) for name, text in call.headers.items()}
        body = None if call.body is None else json.dumps(fill_json(call.body, names.__getitem__)).encode()
        request = OutgoingRequest(url, call.timeout_seconds, body, self._method, encode_headers(headers))
        async with self._connections.take() as client, send(client, request, self._service) as response:
            await refuse_status(response, self._service)
            raw = await read_whole(response)
            return parse_body(raw, url, self._service) if is_read else None
