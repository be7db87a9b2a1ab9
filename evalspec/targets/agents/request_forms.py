"""The forms in which agents take a question: the usual ones, those of an OpenAPI document, and those that errors name.

Documents and errors are foreign. Only names and values of letters, digits and a few signs are taken from them, so that
no text of theirs becomes a reference such as `$env:NAME`, or a placeholder, in a manifest.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.json_path import as_object

NAME = re.compile(r"[\w -]{1,60}", re.ASCII)
"""What may be taken from foreign documents as a key."""

_VALUE = re.compile(r"[\w.:/@ -]{1,80}", re.ASCII)
_PATH = re.compile(r"/[\w./~-]*", re.ASCII)
_INPUT, _MESSAGES = "{{input}}", "{{messages}}"
_FIRST_KEYS = ("message", "question", "query", "input", "prompt", "messages")
_QUESTION_KEYS = ("question", "query", "message", "messages", "input", "prompt", "user_input", "text", "q", "content")
"""Keys that carry the question, the likeliest first."""
_PARAMETERS = ("q", "query", "question", "input", "text")
"""Query parameters that carry the question."""
_LISTS = re.compile(r"messages|turns|history", re.IGNORECASE)
"""Keys of conversations."""
_SESSION_KEY = re.compile(r"(session|conversation|thread|chat)_?id", re.IGNORECASE)
_ASKING = re.compile(r"ask|chat|answer|query|question|invoke|complet|generat|respond|agent|assist|rag", re.IGNORECASE)
_CHANGING = re.compile(r"(?<![a-z])(feedback|upload|ingest|index|document|log|auth|token|delet|embed|admin)", re.I)
"""Paths to which no question is sent because a document lists them: they may store it."""
_QUOTED = re.compile(r"['\"`]([A-Za-z_]\w{0,40})['\"`](?!\s*:)", re.ASCII)
_COMPOUND = re.compile(r"\b[a-z]+(?:_[a-z]+|[A-Z][a-z]+){1,4}\b", re.ASCII)
"""A name of several words, such as `chatInput`, which needs no quotes to be known as one."""
_LACKS = re.compile(r"missing|required|expected|KeyError|must|\bno\b", re.IGNORECASE)
_STEPS = re.compile(r'"(?:loc|path)"\s*:\s*\[((?:\s*,?\s*"[\w -]{1,60}")+)', re.ASCII)
"""The place that an error of pydantic or zod is about, up to the first index of a list."""
_DOTTED = re.compile(r"\b[A-Za-z_]\w{0,40}(?:\.[A-Za-z_]\w{0,40}){1,5}\b", re.ASCII)
_LINK = re.compile(r"https?://\S+")
_WANTS_LIST = re.compile(r"\b(list|array)", re.IGNORECASE)
_MOST_OPERATIONS, _MOST_NAMED, _MOST_DOTTED = 5, 3, 2
_DEEPEST = 4


class Form(Struct, frozen=True):
    """One way to send the question. `request`: the template of protocol custom, as JSON."""

    path: str
    protocol: str | None = None
    request: str | None = None
    method: str = "POST"

    @property
    def shown(self) -> str:
        """What is sent, for people."""
        return self.request or self.protocol or '{"message": "{{input}}"}'


def _make_form(path: str, template: Mapping[str, Any], method: str = "POST") -> Form:
    is_default = template == {"message": _INPUT} and method == "POST"
    return Form(path) if is_default else Form(path, "custom", json.dumps(template), method)


def _make_short(path: str, *place: str, method: str = "POST", leaf: str | None = None) -> Form:
    """Return a form that has only the question, at a place. `leaf`: what is sent there; None: as the last key says."""
    value: Any = leaf or (_MESSAGES if _LISTS.fullmatch(place[-1]) else _INPUT)
    return _make_form(path, reduce(lambda inner, key: {key: inner}, reversed(place), value), method)


_USUAL = (
    *(Form("/v1/chat"), Form("/v1/chat/completions", "openai-compatible"), Form("/api/chat", "ollama")),
    *(Form("/v1/messages", "anthropic"), Form("/v1/responses", "openai-responses"), _make_short("/invoke", "input")),
    *(Form("/chat"), _make_short("/ask", "question"), Form("/")),
)
_PRODUCTS: Mapping[str, Mapping[str, Any]] = {
    ":generateContent": {"contents": [{"role": "user", "parts": [{"text": _INPUT}]}]},
    "/converse": {"messages": [{"role": "user", "content": [{"text": _INPUT}]}]},
    "/chat-messages": {"inputs": {}, "query": _INPUT, "user": "{{session}}"},
    "/webhooks/rest/webhook": {"sender": "{{session}}", "message": _INPUT},
}
"""Ends of paths of Gemini, Bedrock, Dify and Rasa, with their requests."""
_WIRES = [(form.path.removeprefix("/v1"), form.protocol) for form in _USUAL if form.protocol and not form.request]
"""Ends of paths, with their protocols."""


def list_first(path: str, query: str) -> Iterator[Form | str]:
    """Yield what to send first, and the paths of OpenAPI documents as text. `path`, `query`: of the given url."""
    own, base = path + (f"?{query}" if query else ""), path.rstrip("/")
    last = base.rpartition("/")[2]
    if path.endswith((".json", "/api-docs")):
        yield own
        return
    yield from (Form(own, wire) for end, wire in _WIRES if path.endswith(end))
    yield from (_make_form(own, template) for end, template in _PRODUCTS.items() if path.endswith(end))
    if last in ("", "api", "v1"):
        yield "/openapi.json"
        yield from (replace(form, path=base + form.path.removeprefix(f"/{last}" if last else "")) for form in _USUAL)
    else:
        named = last.replace("invoke", "input").replace("ask", "question")
        first, *others = sorted(_FIRST_KEYS, key=lambda key: key not in named)
        yield _make_short(own, first)
        yield "/openapi.json"
        yield from (_make_short(own, key) for key in others)
        yield from (f"{base}/openapi.json", f"{base}/v3/api-docs")
    yield from ("/v3/api-docs", "/swagger.json")


def list_next(form: Form, status: int | None, said: str, *, takes_get: bool = False) -> list[Form]:
    """Return what to send to the same path after an error: the keys that the service names, else the usual ones.

    `status`: None: no reply arrived. `said`: the reply of the service. A path that is not there, as far as one knows,
    is tried again only if the service names a key. `takes_get`: it says that the method is wrong, and GET is right.
    """
    if takes_get and form.method != "GET":
        return [_make_short(form.path, key, method="GET") for key in _PARAMETERS]
    after_messages = ("messages", *_FIRST_KEYS) if form.protocol not in (None, "custom") else _FIRST_KEYS
    usual = () if status in (404, 405, 501) or form.method == "GET" else after_messages
    plain = [key for key in _QUESTION_KEYS if key != "message" and re.search(rf"\b{key}\b", said)]
    quoted = [*_COMPOUND.findall(said), *_QUOTED.findall(said)] if _LACKS.search(said) and not plain else []
    keys = [key for key in (*plain, *quoted) if f'"{key}"' not in form.shown]
    found = list(_list_named(form, said)) or [_make_short(form.path, key, method=form.method) for key in keys]
    return found[:_MOST_NAMED] or [_make_short(form.path, key) for key in usual]


def _list_named(form: Form, said: str) -> Iterator[Form]:
    """Yield forms with the question at a place that an error names, the likeliest first.

    A place where it was means that something else belongs there: a list, or an object whose keys the next error names.
    """
    source = "body" if form.method != "GET" else "query"
    listed = [tuple(re.findall(r'"([^"]+)"', steps)) for steps in _STEPS.findall(said)]
    dotted = _DOTTED.findall(_LINK.sub("", said)) if _LACKS.search(said) and not listed else []
    named = listed or [tuple(one.split(".")) for one in dotted[:_MOST_DOTTED]]
    places = dict.fromkeys(one[one[0] == source :] for one in named)
    sessions = {one[0]: "{{session}}" for one in places if len(one) == 1 and _SESSION_KEY.fullmatch(one[0])}
    for place in sorted(places, key=lambda one: not one or one[-1] not in _QUESTION_KEYS):
        if place and not _SESSION_KEY.fullmatch(place[-1]):
            one = _make_short(form.path, *place, method=form.method)
            if one == form:
                is_list = _WANTS_LIST.search(said) and not _LISTS.fullmatch(place[-1])
                deeper = (*place, "text")
                one = _make_short(form.path, *(place if is_list else deeper), leaf=_MESSAGES if is_list else None)
            body = json.loads(one.request) if one.request else {"message": _INPUT}
            yield _make_form(form.path, body | sessions, form.method)


def list_operations(document: Mapping[str, Any], path: str) -> list[Form]:
    """Return how an OpenAPI document says that a question is asked, the likeliest first. `path`: of the given url."""
    found: list[Form] = []
    base = _find_base(document)
    for named, operations in as_object(document.get("paths")).items():
        place = base + named
        if _PATH.fullmatch(place) and (place == path or not _CHANGING.search(place)):
            for method, schema in _list_schemas(as_object(operations), document):
                template = _fill(schema, document, 0)
                found += [Form(place, wire) for end, wire in _WIRES if place.endswith(end) and method == "POST"]
                found += [_make_form(place, template, method)] if isinstance(template, dict) else []
    found.sort(key=lambda form: (form.method == "GET", not _ASKING.search(form.path), "stream" in form.path))
    return ([form for form in found if form.path == path] or found)[:_MOST_OPERATIONS]


def _find_base(document: Mapping[str, Any]) -> str:
    """Return the path below which the operations of a document are."""
    servers = document.get("servers")
    first = as_object(servers[0]).get("url") if isinstance(servers, list) and servers else document.get("basePath")
    return urlsplit(str(first or "")).path.rstrip("/")


def _list_schemas(operations: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the methods of a path that may take a question, with the schema of a body or of the query parameters."""
    body = _resolve(as_object(operations.get("post")).get("requestBody"), document)
    schema = as_object(as_object(body.get("content")).get("application/json")).get("schema")
    of_post = as_object(operations.get("post")).get("parameters")  # Swagger 2 has the body among them
    bodies = [_resolve(one, document) for one in of_post] if isinstance(of_post, list) else []
    schema = schema or next((one.get("schema") for one in bodies if one.get("in") == "body"), None)
    if schema:
        yield "POST", schema
    listed = as_object(operations.get("get")).get("parameters")
    given = [_resolve(one, document) for one in listed] if isinstance(listed, list) else []
    properties = {str(one.get("name")): one.get("schema") for one in given if one.get("in") == "query"}
    if not properties.keys().isdisjoint(_PARAMETERS):
        required = [str(one.get("name")) for one in given if one.get("required") is True]
        yield "GET", {"properties": properties, "required": required}


def _resolve(schema: Any, document: Mapping[str, Any], depth: int = 0) -> Mapping[str, Any]:
    """Return a part of a document, without references, and of alternatives the first one that is not null."""
    found = as_object(schema)
    options, ref = found.get("anyOf") or found.get("oneOf") or found.get("allOf"), found.get("$ref")
    if depth < _DEEPEST and isinstance(ref, str):
        target = reduce(lambda at, step: as_object(at.get(step)), ref.split("/")[1:], document)
        return _resolve(target, document, depth + 1)
    if depth < _DEEPEST and isinstance(options, list):
        resolved = (_resolve(option, document, depth + 1) for option in options[:3])
        return next((one for one in resolved if one.get("type") != "null"), {})
    return found


def _fill(given: Any, document: Mapping[str, Any], depth: int) -> Any:
    """Return a template with the question for a schema; None if it takes none, or requires what nobody knows."""
    schema = _resolve(given, document)
    if schema.get("type") == "string":
        return _INPUT
    if schema.get("type") == "array":
        keys = as_object(_resolve(schema.get("items"), document).get("properties"))
        return _MESSAGES if {"role", "content"} <= keys.keys() else None
    properties, listed = as_object(schema.get("properties")), schema.get("required")
    required = [key for key in properties if isinstance(listed, list) and key in listed and NAME.fullmatch(key)]
    known = sorted((key for key in _QUESTION_KEYS if key in properties), key=lambda key: key not in required)
    for key in (known or required[:1]) if depth < _DEEPEST else ():
        inner = _fill(properties[key], document, depth + 1)
        fixed = {other: _fix(other, _resolve(properties[other], document)) for other in required if other != key}
        if inner is not None and all(fixed.values()):
            return {key: inner} | {other: values[0] for other, values in fixed.items()}
    return None


def _fix(key: str, schema: Mapping[str, Any]) -> list[Any]:
    """Return the value of a required key in a list: of a session, or what the schema itself gives; else nothing."""
    options = schema.get("enum")
    given = [schema.get("const"), schema.get("default"), *(options if isinstance(options, list) else [])]
    plain = [one for one in given if isinstance(one, bool | int) or (isinstance(one, str) and _VALUE.fullmatch(one))]
    return ["{{session}}"] if _SESSION_KEY.fullmatch(key) else plain[:1]
