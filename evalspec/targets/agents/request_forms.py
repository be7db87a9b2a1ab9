"""The forms in which agents take a question: the usual ones, those of an OpenAPI document, and those that errors name.

Documents and errors are foreign. Only names and values of letters, digits and a few signs are taken from them, so that
no text of theirs becomes a reference such as `$env:NAME`, or a placeholder, in a manifest.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

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
_SESSION_KEY = re.compile(r"(session|conversation|thread|chat)_?id", re.IGNORECASE)
_ASKING = re.compile(r"ask|chat|answer|query|question|invoke|complet|generat|respond|agent|assist|rag", re.IGNORECASE)
_CHANGING = re.compile(r"(?<![a-z])(feedback|upload|ingest|index|document|log|auth|token|delet|embed|admin)", re.I)
"""Paths to which no question is sent because a document lists them: they may store it."""
_QUOTED = re.compile(r"['\"`]([A-Za-z_]\w{0,40})['\"`](?!\s*:)", re.ASCII)
_LACKS = re.compile(r"missing|required|expected|KeyError|must", re.IGNORECASE)
_MOST_OPERATIONS, _MOST_NAMED = 5, 3
_DEEPEST = 4


class Form(Struct, frozen=True):
    """One way to send the question. `request`: the template of protocol custom, as JSON."""

    path: str
    protocol: str | None = None
    request: str | None = None

    @property
    def shown(self) -> str:
        """What is sent, for people."""
        return self.request or self.protocol or '{"message": "{{input}}"}'


def _make_form(path: str, template: Mapping[str, Any]) -> Form:
    return Form(path) if template == {"message": _INPUT} else Form(path, "custom", json.dumps(template))


def _make_short(path: str, key: str) -> Form:
    """Return a form whose body has one key."""
    return _make_form(path, {key: _MESSAGES if key == "messages" else _INPUT})


_USUAL = (
    *(Form("/v1/chat"), Form("/v1/chat/completions", "openai-compatible"), Form("/api/chat", "ollama")),
    *(Form("/v1/messages", "anthropic"), Form("/v1/responses", "openai-responses"), _make_short("/invoke", "input")),
    *(Form("/chat"), _make_short("/ask", "question"), Form("/")),
)
_WIRES = [(form.path.removeprefix("/v1"), form.protocol) for form in _USUAL if form.protocol and not form.request]
"""Ends of paths, with their protocols."""


def list_first(path: str, query: str) -> Iterator[Form | str]:
    """Yield what to send first, and the paths of OpenAPI documents as text. `path`, `query`: of the given url."""
    own, base = path + (f"?{query}" if query else ""), path.rstrip("/")
    last = base.rpartition("/")[2]
    yield from (Form(own, wire) for end, wire in _WIRES if path.endswith(end))
    yield "/openapi.json"
    if last not in ("", "api", "v1"):
        named = last.replace("invoke", "input").replace("ask", "question")
        yield from (_make_short(own, key) for key in sorted(_FIRST_KEYS, key=lambda key: key not in named))
    yield from (replace(form, path=base + form.path.removeprefix(f"/{last}" if last else "")) for form in _USUAL)
    yield "/v3/api-docs"


def list_next(form: Form, status: int | None, said: str) -> list[Form]:
    """Return what to send to the same path after an error: the keys that the service names, else the usual ones.

    `status`: None: no reply arrived. `said`: the message of the service. A path that is not there, as far as one knows,
    is tried again only if the service names a key.
    """
    after_messages = ("messages", *_FIRST_KEYS) if form.protocol not in (None, "custom") else _FIRST_KEYS
    usual = () if status in (404, 405, 501) else after_messages
    plain = [key for key in _QUESTION_KEYS if key != "message" and re.search(rf"\b{key}\b", said)]
    quoted = _QUOTED.findall(said) if _LACKS.search(said) and not plain else []
    named = [key for key in (*plain, *quoted) if f'"{key}"' not in form.shown][:_MOST_NAMED]
    return [_make_short(form.path, key) for key in named or usual]


def list_operations(document: Mapping[str, Any], path: str) -> list[Form]:
    """Return how an OpenAPI document says that a question is asked, the likeliest first. `path`: of the given url."""
    found: list[Form] = []
    for place, operations in as_object(document.get("paths")).items():
        body = _resolve(as_object(as_object(operations).get("post")).get("requestBody"), document)
        schema = as_object(as_object(body.get("content")).get("application/json")).get("schema")
        if schema and _PATH.fullmatch(place) and (place == path or not _CHANGING.search(place)):
            template = _fill(schema, document, 0)
            found += [Form(place, wire) for end, wire in _WIRES if place.endswith(end)]
            found += [_make_form(place, template)] if isinstance(template, dict) else []
    found.sort(key=lambda form: (not _ASKING.search(form.path), "stream" in form.path))
    return ([form for form in found if form.path == path] or found)[:_MOST_OPERATIONS]


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
