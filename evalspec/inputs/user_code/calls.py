"""Calls of objects in the user's modules, and what they return. Failures are reported in one line.

Passages of LangChain and LlamaIndex are recognised by their attributes, so that neither is imported.
"""

import inspect
import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from msgspec import Struct

from evalspec.base.errors import EvalspecError
from evalspec.base.foreign_text import cut
from evalspec.base.trust import Act, explain
from evalspec.inputs.user_code.modules import check_module, import_module

_LONGEST_MESSAGE = 2000
"""In characters. Some exceptions quote a whole prompt or document."""


def check_target(folder: Path, target: str) -> list[str]:
    """Return why `module:name` in a folder cannot be used, one line per problem. Does not run the module."""
    refused = explain(Act.IMPORT, target)
    if refused is not None:
        return ["; ".join(refused)]
    module, _, name = target.partition(":")
    return check_module(folder, module, name.partition(".")[0])


class UserCode:
    """The object `module:name` in a folder. `error`: exception type for all failures of the user's code."""

    def __init__(self, target: str, folder: Path, error: type[EvalspecError]) -> None:
        self.target = target
        self._folder = folder
        self._error = error
        self._loading = Lock()
        self._loaded: list[Any] = []
        self._failure: str | None = None

    def load(self) -> Any:
        """Return the object. The first call imports the module. Later calls raise the same error if that failed.

        Raises:
            EvalspecError: `error`, if the import raises or the name is not defined.
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
        """Return the object like `load`. The import, which may be slow, runs in a thread."""
        import asyncio

        return self._loaded[0] if self._loaded else await asyncio.to_thread(self.load)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of calling the object or one of its methods. Sync functions run in a thread.

        Raises:
            EvalspecError: `error`, if the call raises.
        """
        import asyncio

        if inspect.iscoroutinefunction(function):
            return await self._finish(self.call_here(function, *arguments))
        result = await asyncio.to_thread(self.call_here, function, *arguments)
        return await self._finish(result) if inspect.isawaitable(result) else result

    def call_here(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a sync call in this thread.

        Raises:
            EvalspecError: `error`, if the call raises.
        """
        with self._own_failures():
            return function(*arguments)

    def as_json(self, result: Any, who: str) -> Any:
        """Return a copy of a result as JSON has it. `who`: the function, in the message.

        Raises:
            EvalspecError: `error`, if it is no JSON value.
        """
        try:
            return json.loads(json.dumps(result, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise self._error(f"{who} returned what is no JSON: {error}") from error

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
        """Convert all exceptions of the user's code to `error`.

        This includes SystemExit and CancelledError, because the user's code must not end the command. Exceptions that
        are already of type `error`, Ctrl-C and a cancellation of the current task pass through.
        """
        try:
            yield
        except self._error:
            raise
        except BaseException as error:
            if ends_the_run(error):
                raise
            raise self._error(describe_exception(error) + _own_place(error, self._folder)) from error


def describe_value(value: Any) -> str:
    """Return a description of a value that the user's code returned: its type, and the beginning of a text."""
    kind = type(value).__name__
    return f"the {kind} {value[:60]!r}" if isinstance(value, str) else f"a {kind}"


def describe_exception(error: BaseException) -> str:
    """Return the type of an exception and its message, if it has one."""
    kind = type(error).__name__
    try:
        message = str(error)
    except BaseException as failure:
        message = f"its message cannot be shown ({type(failure).__name__})"
    return f"{kind}: {cut(message, _LONGEST_MESSAGE)}" if message else kind


def ends_the_run(error: BaseException) -> bool:
    """Return whether an exception is Ctrl-C or a cancellation of the current task, not a failure of the user's code."""
    import asyncio

    if isinstance(error, KeyboardInterrupt):
        return True
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without an event loop
        return False
    return task is not None and task.cancelling() > 0


def _own_place(error: BaseException, folder: Path) -> str:
    """Return the innermost line of the user's code in a traceback, as `, cites.py:12`. Empty if there is none."""
    root = folder.resolve()
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        file = Path(frame.filename)
        if file.is_relative_to(root) and "site-packages" not in file.parts:
            place = f", {file.relative_to(root)}:{frame.lineno}"
    return place


class Passage(Struct, frozen=True):
    """A retrieved passage. `id`, `document_id`: unchecked, as the framework has them; None if it has none."""

    text: str
    id: Any = None
    document_id: Any = None
    score: Any = None


def read_passage(item: Any) -> Passage | None:
    """Return a Document of LangChain, or a node of LlamaIndex with or without its score; None for anything else.

    A Document without an id has the id in its metadata, if there is one. `document_id` in the metadata is the document
    that it is a chunk of. For a node, that is its source document.
    """
    text = getattr(item, "page_content", None)
    if isinstance(text, str):
        metadata = getattr(item, "metadata", None) or {}
        return Passage(text, getattr(item, "id", None) or metadata.get("id"), metadata.get("document_id"))
    node = getattr(item, "node", item)
    if not hasattr(node, "node_id") or not callable(getattr(node, "get_content", None)):
        return None
    return Passage(node.get_content(), node.node_id, getattr(node, "ref_doc_id", None), getattr(item, "score", None))
