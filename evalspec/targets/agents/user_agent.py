"""The user's agent: a function, an object, or a class, of the user's own code or of a framework.

Objects of LangChain and LlamaIndex are recognised by their methods, so that neither is imported. Answers may come in
pieces: generators of text, of LangChain's chunks, or of dicts, and LlamaIndex's streaming responses.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, nullcontext
from time import perf_counter
from typing import Any

from msgspec import Struct

from evalspec.base.errors import ServiceError
from evalspec.inputs.user_code.calls import describe_exception, ends_the_run
from evalspec.targets.agents.call_thread import CallThread, RaisedInThread, close_object
from evalspec.targets.agents.entry import CALL, ENGINE, defines_entry, find_entry
from evalspec.targets.agents.results import ANSWER_KEYS, read_text

_TEXT_KEYS = ("input", "question", "query")
_MESSAGES_KEY = "messages"

Question = str | list[dict[str, str]]
"""A question, or a conversation as a list of `{"role", "content"}`."""


class UserAgent:
    """The user's agent, for all workers of a run. Each worker instantiates a class; any other object is shared.

    An object with a method `reset` has a state. The workers take turns with it if they share it. `notices`: why
    instances could not be closed.
    """

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self.notices: list[str] = []
        self._is_class = inspect.isclass(agent) and defines_entry(agent)
        has_state = not inspect.isclass(agent) and callable(getattr(agent, "reset", None))
        self.turns = asyncio.Lock() if has_state else nullcontext()

    async def open(self, thread: CallThread) -> "AgentInstance":
        """Return the agent for one worker. `thread`: where sync code of the worker runs, also the constructor.

        Raises:
            ServiceError: the constructor raised an exception.
        """
        if not self._is_class:
            return AgentInstance(self._agent, thread, is_shared=True)
        try:
            if inspect.iscoroutinefunction(getattr(self._agent, find_entry(self._agent) or CALL)):
                return AgentInstance(self._agent(), thread, is_shared=False)
            return AgentInstance(await thread.call(self._agent), thread, is_shared=False)
        except RaisedInThread as raised:
            raise _describe_construction(raised.error) from raised.error
        except BaseException as error:  # user code may raise anything, also SystemExit
            if ends_the_run(error):
                raise
            raise _describe_construction(error) from error

    async def close(self, own: Any, thread: CallThread) -> None:
        """Close an object of the user's, and note why that failed."""
        failure = await close_object(own, thread)
        if failure is not None and failure not in self.notices:
            self.notices.append(failure)


def _describe_construction(error: BaseException) -> ServiceError:
    return ServiceError(f"the agent cannot be created: {describe_exception(error)}", unreachable=True)


class AgentInstance:
    """An object that answers the questions of one worker, one at a time."""

    def __init__(self, own: Any, thread: CallThread, *, is_shared: bool) -> None:
        self.is_shared = is_shared
        self.own = own
        self._thread = thread
        entry = find_entry(own) or CALL
        self._call = own if entry == CALL else getattr(own, entry)
        self._takes_one_question = entry in ENGINE
        self._keys = _list_input_keys(self._call)

    async def reset(self) -> None:
        """Call the object's method `reset`, if it has one.

        Raises:
            RaisedInThread: it raised an exception in the thread.
        """
        reset = None if inspect.isclass(self.own) else getattr(self.own, "reset", None)
        if callable(reset):
            await self._thread.call(reset)

    def prepare(self, question: Question) -> Any:
        """Return the question in the form that the object takes.

        Raises:
            ServiceError: the object cannot take a conversation, or takes unknown keys.
        """
        if self._takes_one_question and not isinstance(question, str):
            name = getattr(self._call, "__name__", "the agent")
            message = f"the sample is a conversation, but {name} takes one question; write a function that calls it"
            raise ServiceError(message)
        return _fill_keys(self._keys, question) if self._keys else question

    async def answer(self, prepared: Any) -> Any:
        """Return what the object returns for a prepared question, and a stream as `Streamed`.

        Raises:
            RaisedInThread: it raised an exception in the thread.
        """
        if inspect.iscoroutinefunction(self._call):
            result = await self._call(prepared)
        else:
            result = await self._thread.call(_call_and_join, self._call, prepared)
        stream = open_stream(result)
        if stream is None:
            return result
        return await (join_stream_async(stream) if stream.is_async else self._thread.call(join_stream, stream))


def _call_and_join(call: Callable[[Any], Any], prepared: Any) -> Any:
    """Return what a call returns. A stream is read here, in the thread of the call."""
    result = call(prepared)
    stream = open_stream(result)
    return result if stream is None or stream.is_async else join_stream(stream)


def _list_input_keys(call: Any) -> tuple[str, ...]:
    """Return the keys of the input that a LangChain runnable takes, or none if it takes the question itself."""
    describe = getattr(getattr(call, "__self__", None), "get_input_jsonschema", None)
    if not callable(describe):
        return ()
    try:
        schema = describe()
    except Exception:  # some types have no JSON schema; such a runnable gets the question
        return ()
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return tuple(properties) if isinstance(properties, Mapping) else ()


def _fill_keys(keys: tuple[str, ...], question: Question) -> dict[str, Any]:
    messages = [{"role": "user", "content": question}] if isinstance(question, str) else question
    if _MESSAGES_KEY in keys:
        return {_MESSAGES_KEY: messages}
    named = [key for key in _TEXT_KEYS if key in keys] or keys
    if len(named) != 1:
        raise ServiceError(f"the runnable takes the keys {', '.join(keys)}; write a function that calls it with them")
    if len(messages) > 1:
        raise ServiceError(
            f"the sample is a conversation, but the runnable takes the text {named[0]}; write a function"
        )
    return {named[0]: messages[0]["content"]}


_LONGEST_ANSWER = 10 * 1_048_576
"""In characters, as a reply by HTTP: a generator without an end would use up the memory before its timeout."""
_OWN_SECONDS = 0.05
"""How long pieces that are ready at once may keep other samples and the timeout waiting."""


class Streamed(Struct, frozen=True):
    """What the pieces of a stream amount to. `first_token_at`: when the first text arrived, by `perf_counter`."""

    result: Any
    first_token_at: float | None


class Stream(Struct, frozen=True):
    """A stream of an agent. `finish`: makes the result from the joined pieces."""

    pieces: Any
    finish: Callable[[Any], Any]

    @property
    def is_async(self) -> bool:
        """Whether the pieces are read with `async for`."""
        return isinstance(self.pieces, AsyncIterator)


def open_stream(result: Any) -> Stream | None:
    """Return the stream that a call of an agent returned, or None for an answer in one piece."""
    if isinstance(result, Iterator | AsyncIterator):
        return Stream(result, lambda joined: joined)
    pieces = getattr(result, "response_gen", None)
    if not isinstance(pieces, Iterator | AsyncIterator):
        return None
    return Stream(pieces, lambda joined: {"answer": joined, "context": getattr(result, "source_nodes", None)})


def join_stream(stream: Stream) -> Streamed:
    """Return the joined pieces of a sync stream.

    Raises:
        ServiceError: there is no piece, there are too many, or they do not fit together.
    """
    joining = _Joining()
    for piece in stream.pieces:
        joining.add(piece)
    return joining.end(stream)


async def join_stream_async(stream: Stream) -> Streamed:
    """Return the joined pieces of an async stream, as `join_stream`."""
    joining = _Joining()
    if not hasattr(stream.pieces, "aclose"):
        await joining.add_all(stream.pieces)
        return joining.end(stream)
    async with aclosing(stream.pieces):
        await joining.add_all(stream.pieces)
    return joining.end(stream)


class _Joining:
    def __init__(self) -> None:
        self._total: Any = None
        self._size = 0
        self._first_token_at: float | None = None

    async def add_all(self, pieces: AsyncIterator[Any]) -> None:
        """Add the pieces of a stream that may neither wait for anything nor let itself be cancelled."""
        task, let_others_at = asyncio.current_task(), perf_counter() + _OWN_SECONDS
        async for piece in pieces:
            self.add(piece)
            if perf_counter() >= let_others_at:
                await asyncio.sleep(0)
                let_others_at = perf_counter() + _OWN_SECONDS
            if task is not None and task.cancelling():
                raise asyncio.CancelledError

    def add(self, piece: Any) -> None:
        text = read_text(piece)
        if self._first_token_at is None and text:
            self._first_token_at = perf_counter()
        self._size += len(text or "")
        if self._size > _LONGEST_ANSWER:
            raise ServiceError(f"the agent's stream has more than {_LONGEST_ANSWER:,} characters")
        self._total = piece if self._total is None else _join(self._total, piece)

    def end(self, stream: Stream) -> Streamed:
        if self._total is None:
            raise ServiceError("the agent's stream ended without any piece")
        return Streamed(stream.finish(self._total), self._first_token_at)


def _join(total: Any, piece: Any) -> Any:
    """Return two pieces as one. Answers in dicts are joined; of every other key the last value counts."""
    if isinstance(total, str) and isinstance(piece, str):
        return total + piece
    if isinstance(total, dict) and isinstance(piece, dict):
        joined = {key: _join(total[key], piece[key]) for key in ANSWER_KEYS if key in total and key in piece}
        return {**total, **piece, **joined}
    if hasattr(total, "content") and hasattr(piece, "content"):
        return total + piece
    kinds = f"{type(total).__name__} and {type(piece).__name__}"
    raise ServiceError(f"the pieces of the agent's stream are values of type {kinds}; yield text, or dicts")
