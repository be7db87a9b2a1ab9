"""An object of the user's own module: imported once, called sync or async, its failures told in one line."""

import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from evalspec.errors import EvalspecError
from evalspec.trust import Act, explain
from evalspec.user_code.modules import check_module, import_module


def check_target(folder: Path, target: str) -> list[str]:
    """Why `module:name` cannot be used from a folder: one line each. The module is read, not run."""
    refused = explain(Act.IMPORT, target)
    if refused is not None:
        return ["; ".join(refused)]
    module, _, name = target.partition(":")
    return check_module(folder, module, name.partition(".")[0])


class UserCode:
    """`module:name` of a folder. `error`: what every failure of the user's code is raised as."""

    def __init__(self, target: str, folder: Path, error: type[EvalspecError]) -> None:
        self.target = target
        self._folder = folder
        self._error = error
        self._loading = Lock()
        self._loaded: list[Any] = []
        self._failure: str | None = None

    def load(self) -> Any:
        """The object. Its module is imported at the first call; a failure is remembered, so that it is met once.

        Raises:
            EvalspecError: `error`, where importing raises or there is no such name.
        """
        with self._loading:
            if self._failure is not None:
                raise self._error(self._failure)
            if not self._loaded:
                try:
                    self._loaded.append(self._import())
                except self._error as error:
                    self._failure = str(error)
                    raise
            return self._loaded[0]

    async def load_aside(self) -> Any:
        """As `load`, which may take a while: the first time in a thread."""
        import asyncio

        return self._loaded[0] if self._loaded else await asyncio.to_thread(self.load)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of the object, or of a method of it. A sync one runs in a thread, so that it holds up nobody.

        Raises:
            EvalspecError: `error`, for whatever it raises.
        """
        import asyncio

        if inspect.iscoroutinefunction(function):
            return await self._finish(function(*arguments))
        result = await asyncio.to_thread(self.call_here, function, *arguments)
        return await self._finish(result) if inspect.isawaitable(result) else result

    def call_here(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a sync call in this thread.

        Raises:
            EvalspecError: as `call`.
        """
        with self._own_failures():
            return function(*arguments)

    def _import(self) -> Any:
        module, _, name = self.target.partition(":")
        with self._own_failures():
            found: Any = import_module(self._folder, module)
            for part in name.split("."):
                found = getattr(found, part)
        return found

    async def _finish(self, result: Any) -> Any:
        with self._own_failures():
            return await result

    @contextmanager
    def _own_failures(self) -> Iterator[None]:
        """Whatever it raises, SystemExit and CancelledError too: the user's code must not choose how the command ends.

        An error of the wanted kind, Ctrl-C and a cancellation of our own task come through.
        """
        try:
            yield
        except self._error:
            raise
        except BaseException as error:
            if ends_the_run(error):
                raise
            kind, message = type(error).__name__, str(error)
            described = f"{kind}: {message}" if message else kind
            raise self._error(described + _own_place(error, self._folder)) from error


def describe_value(value: Any) -> str:
    """What the user's code returned, for a message: the kind, and of a text its beginning."""
    kind = type(value).__name__
    return f"the {kind} {value[:60]!r}" if isinstance(value, str) else f"a {kind}"


def ends_the_run(error: BaseException) -> bool:
    """Whether an exception is Ctrl-C, or the current task is being cancelled, and not a failure of foreign code."""
    import asyncio

    if isinstance(error, KeyboardInterrupt):
        return True
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without an event loop
        return False
    return task is not None and task.cancelling() > 0


def _own_place(error: BaseException, folder: Path) -> str:
    """`, cites.py:12`: the innermost line of the user's own code, or nothing where it was not reached."""
    root = folder.resolve()
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        file = Path(frame.filename)
        if file.is_relative_to(root) and "site-packages" not in file.parts:
            place = f", {file.relative_to(root)}:{frame.lineno}"
    return place
