"""Find out how an agent behind HTTP is asked: send one question in the usual forms, and stop at the first answer.

Replies are foreign: a mapping names only keys of letters, digits and a few signs.
"""

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import ServiceError, Unmeasurable
from evalspec.base.json_path import as_id, as_object, render_location, select_values
from evalspec.base.plural import counted
from evalspec.base.text import excerpt, parse_event
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import AgentReply, Sample
from evalspec.targets.agents.base import AgentTarget
from evalspec.targets.agents.http import AGENT, HttpAgent
from evalspec.targets.agents.request_forms import NAME, Form, list_first, list_next, list_operations
from evalspec.targets.agents.wire import StreamReader, find_wire, open_stream
from evalspec.targets.http.client import OutgoingRequest, open_client, parse_body, read_whole, refuse_status, send
from evalspec.targets.http.error_body import find_message, is_marked_as_error, parse_error
from evalspec.targets.http.failures import looks_like_html
from evalspec.targets.http.routes import choose_route

MOST_REQUESTS = 12
"""Of one search, with the one that proves its result."""

_DEEPEST = 6
_MOST_ITEMS = 20
_ANSWER_KEYS = (
    *("answer", "response", "reply", "output", "output_text", "generated_text", "completion", "result"),
    *("answer_text", "response_text", "reply_text", "delta", "token", "chunk", "content", "text", "message"),
)
_OTHER_KEYS = {
    *("id", "role", "type", "model", "object", "status", "event", "name", "lang", "language", "version", "url"),
    *("finish_reason", "created_at", "timestamp", "question", "query", "input", "prompt", "error", "detail"),
}
"""Keys of texts that are no answers."""
_KEY_OF_ID = re.compile(r"(?:.*[_-])?ids?|.*[a-z]Ids?", re.DOTALL)
_ID = re.compile(r"[0-9a-fA-F-]{12,}")
_PASSAGE_KEYS = (
    *("contexts", "retrieved_contexts", "context", "source_documents", "documents", "docs", "passages", "chunks"),
    *("sources", "citations", "references", "hits", "context_ids", "retrieved_context_ids", "source_ids"),
)
_TEXT_KEYS = ("text", "content", "page_content", "passage", "snippet", "chunk", "excerpt", "body")
_ID_KEYS = ("id", "doc_id", "docId", "document_id", "documentId", "chunk_id", "chunkId", "source", "url")
_ACCEPTED = 202
_ADVICE = {
    401: "; pass its credentials, as in --header 'Authorization: $env:TOKEN', or correct that variable",
    403: "; pass other credentials by --header 'Authorization: $env:TOKEN'",
    429: "; run the command again later",
}
"""What to do after a status that no other request would change."""

Place = tuple[str | int, ...]


class Recognised(Struct, frozen=True):
    """How an agent is asked: its url, `chatEndpoint` as in a manifest, and its reply as it is read."""

    url: str
    endpoint: dict[str, Any]
    reply: AgentReply


class Recogniser:
    """One search. `headers`: resolved. `tell`: gets a line for each request, which may contain foreign text."""

    def __init__(self, url: str, headers: Mapping[str, str], model: str | None, tell: Callable[[str], None]) -> None:
        parts = urlsplit(url)
        self._url, self._path = f"{parts.scheme}://{parts.netloc}", parts.path
        self._queue = deque(list_first(self._path, parts.query))
        self._headers, self._model, self._tell, self._route = headers, model, tell, choose_route(url)

    async def find(self, question: str, declared: Mapping[str, str]) -> Recognised:
        """Send a question until it is answered, at most eleven times. `declared`: the headers with references.

        Raises:
            Unmeasurable: there is no answer, or the agent refuses to answer.
        """
        seen: list[Form | str] = []
        while self._queue and len(seen) < MOST_REQUESTS - 1:
            one = self._queue.popleft()
            if one not in seen:
                seen.append(one)
                found = await (self._read_document(one) if isinstance(one, str) else self._try(one, question))
                if found is not None:
                    headers = {"headers": dict(declared)} if declared else {}
                    return replace(found, endpoint=found.endpoint | headers)
        raise Unmeasurable(
            f"{counted(len(seen), 'request')} got no answer that can be read. a 404, 405 or 422 may be about the body, "
            "so it does not prove that a path is wrong. pass the url with its path or its OpenAPI document, --model if "
            "requests name one, or write chatEndpoint.path, request and response yourself: docs/how-to/agents.md"
        )

    async def _try(self, form: Form, question: str) -> Recognised | None:
        """Send the question in one form. Return what is known if it is answered, else queue what may be right."""
        is_plain = form.protocol in (None, "custom")
        given = {"protocol": form.protocol, "model": None if is_plain else self._model}
        given["request"] = json.loads(form.request or "null")
        given["method"] = None if form.method == "POST" else form.method
        declared = {"path": form.path} | {key: value for key, value in given.items() if value}
        reading = _Guess(declared, question)
        endpoint = reading.endpoint({"answer": "$"} if form.request else None)
        target = AgentTarget(self._url + form.path, endpoint, {**find_wire(endpoint).headers, **self._headers})
        agent = HttpAgent(target, self._route, None, *((reading.read, reading.open) if is_plain else ()))
        shown, started = f"{form.method} {form.path.partition('?')[0]} {form.shown}", perf_counter()
        try:
            reply = await agent.ask(Sample("connect", question, session=uuid4().hex))
        except ServiceError as error:
            said = "an HTML page" if looks_like_html(error.reply) else find_message(error.reply) or str(error)
            self._tell(f"{shown} {agent.status or 'no reply'}: {excerpt(said)}")
            if perf_counter() - started >= endpoint.timeout_seconds:
                raise Unmeasurable(str(error)) from error
            _stop_if_later(agent.status)
            _stop_if_refused(error)
            named = said if looks_like_html(error.reply) else error.reply or said
            named = named.replace(question, "").replace(form.path, "")
            takes_get = agent.status == 405 and self._names_get(agent.allowed, form)
            self._queue.extendleft(reversed(list_next(form, agent.status, named, takes_get=takes_get)))
            return None
        finally:
            await agent.aclose()
        self._tell(f"{shown} {agent.status}")
        _stop_if_later(agent.status)
        return Recognised(self._url, declared | ({"response": reading.response} if reading.response else {}), reply)

    def _names_get(self, allowed: str | None, form: Form) -> bool:
        """Return whether a reply with 405 leaves GET. `allowed`: its header `Allow`, which few leave out."""
        own = form.path.partition("?")[0] == self._path
        return own if allowed is None else "GET" in allowed.upper()

    async def _read_document(self, place: str) -> None:
        """Queue the operations of an OpenAPI document that take a question."""
        request = OutgoingRequest(self._url + place, ChatEndpoint().timeout_seconds, method="GET")
        try:
            async with open_client(self._headers, self._route) as client, send(client, request, AGENT) as response:
                self._tell(f"GET {place} {response.status_code}")
                await refuse_status(response, AGENT)
                document = as_object(parse_body(await read_whole(response), request.url, AGENT))
        except ServiceError as error:
            _stop_if_refused(error)
        else:
            self._queue.extendleft(reversed(list_operations(document, self._path)))


def _stop_if_refused(error: ServiceError) -> None:
    """Raise an error if no other request can succeed: nothing answers, or 401, 403, 429 or a redirect.

    Raises:
        Unmeasurable: so it is.
    """
    if error.unreachable or error.status in _ADVICE or (error.fatal and error.status not in (404, 405)):
        raise Unmeasurable(f"{error}{_ADVICE.get(error.status or 0, '')}") from error


def _stop_if_later(status: int | None) -> None:
    """Raise an error if a request only started a job: each further one would start another."""
    if status == _ACCEPTED:
        raise Unmeasurable("the agent answers later, which `chatEndpoint.poll` describes: docs/how-to/agents.md")


class _Guess(StreamReader):
    """Reads a reply by the mapping that fits it, which becomes `response`. `declared`: the endpoint without it."""

    def __init__(self, declared: Mapping[str, Any], question: str) -> None:
        self._declared, self._question = declared, question
        self._data: list[str] = []
        self.response: Mapping[str, Any] | None = None

    def endpoint(self, response: Mapping[str, Any] | None) -> ChatEndpoint:
        """Return the endpoint with a mapping."""
        return ChatEndpoint.model_validate({**self._declared, **({"response": response} if response else {})})

    def read(self, value: Any, _endpoint: ChatEndpoint, _question: str) -> AgentReply:
        """Return a whole reply, as `wire.read_reply`."""
        error = parse_error(value)
        if error is not None or (isinstance(value, dict) and is_marked_as_error(value)):
            raise error or ServiceError(f"the reply is marked as an error: {json.dumps(value)}")
        self._data = [json.dumps(value)]
        return self.reply()

    def open(self, _endpoint: ChatEndpoint, _question: str) -> StreamReader:
        """Return the reader of a stream, as `wire.open_stream`."""
        return self

    def add(self, data: str) -> bool:
        """See wire.StreamReader."""
        self._data.append(data)
        return True

    def reply(self) -> AgentReply:
        """Return the reply by the first mapping that reads it, or by the protocol if that has a form of its own."""
        values = []
        for data in self._data:
            with suppress(ServiceError):  # an event may be plain text
                values.append(parse_event(data))
        for response in (*_map_reply(values, self._question), *(() if "request" in self._declared else (None,))):
            reader = open_stream(self.endpoint(response), self._question)
            with suppress(ServiceError):
                for data in self._data:
                    reader.add(data)
                reply, self.response = reader.reply(), response
                return reply
        raise ServiceError(f"the reply has no text that may be an answer: {json.dumps(values)}")


def _map_reply(values: Sequence[Any], question: str) -> list[dict[str, str]]:
    """Return mappings of a reply, or of the events of a stream: with what was retrieved, and of the answer alone.

    The answer of a stream is what most events have a part of.
    """
    parts: dict[Place, list[str]] = defaultdict(list)
    for value in values:
        for place, text in _list_texts(value, question, ()):
            parts[place].append(text)
    if not parts:
        return []
    is_stream = len(values) > 1
    place = min(parts, key=lambda one: (is_stream and len(parts[one]) == 1, *_rank(one, "".join(parts[one]))))
    passages: dict[str, str] = {}
    for value in values:
        for depth in range(len(place)):
            for holder in select_values(render_location(place[:depth]), value):
                passages |= _map_passages(as_object(holder), place[:depth])
    answer = {"answer": render_location(place)}
    return [answer | passages, answer]


def _list_texts(value: Any, question: str, place: Place) -> Iterator[tuple[Place, str]]:
    """Yield the texts of a reply that may be its answer, with their places. Of a conversation, the last message."""
    if isinstance(value, str):
        name = next((step for step in reversed(place) if isinstance(step, str)), "")
        is_other = _fold(name) in _OTHER_KEYS or _KEY_OF_ID.fullmatch(name) or _ID.fullmatch(value.strip())
        if value.strip() not in ("", question.strip()) and not is_other:
            yield place, value
    elif isinstance(value, dict) and len(place) < _DEEPEST:
        for key, item in value.items():
            if NAME.fullmatch(key) and _fold(key) not in _PASSAGE_KEYS:
                yield from _list_texts(item, question, (*place, key))
    elif isinstance(value, list) and len(place) < _DEEPEST:
        is_conversation = len(value) > 1 and all("content" in as_object(item) for item in value)
        for index in [-1] if is_conversation else range(min(len(value), _MOST_ITEMS)):
            yield from _list_texts(value[index], question, (*place, index))


def _fold(key: str) -> str:
    """Return a key in small letters, its words joined by `_`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()


def _rank(place: Place, text: str) -> tuple[int, int, int]:
    """Return how unlikely a text is the answer: by the best key above it, by its own key, and by its length."""
    keys = [_fold(key) for key in place if isinstance(key, str)]
    ranks = [_ANSWER_KEYS.index(key) if key in _ANSWER_KEYS else 99 for key in keys]
    return min(ranks, default=99), ranks[-1] if ranks else 99, -len(text)


def _map_passages(holder: Mapping[str, Any], place: Place) -> dict[str, str]:
    """Return the queries for what was retrieved: lists of texts, of ids, or of objects with them."""
    found: dict[str, str] = {}
    names = {_fold(name): name for name in holder if NAME.fullmatch(name)}
    for key in (names[key] for key in _PASSAGE_KEYS if key in names):
        items, where = holder[key], f"{render_location((*place, key))}[*]"
        if not isinstance(items, list) or not items:
            continue
        if all(isinstance(item, str) for item in items):
            found.setdefault("contexts" if any(" " in item for item in items) else "contextIds", where)
        for name, keys in (("contexts", _TEXT_KEYS), ("contextIds", _ID_KEYS)):
            shared = [one for one in keys if all(as_id(as_object(item).get(one)) is not None for item in items)]
            found |= {name: f"{where}.{shared[0]}"} if shared and name not in found else {}
    return found
