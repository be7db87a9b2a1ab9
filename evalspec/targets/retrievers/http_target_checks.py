"""Check the requests of an HTTP retriever before they are sent, and apply presets.

A preset describes the search of a known retrieval service (`search: {preset: …}`). It is part of its system in
`formats/`.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from evalspec.base.json_path import list_bad_queries
from evalspec.base.registry import near_miss
from evalspec.inputs.datasets.base import DATASETS, SearchPreset, find_system
from evalspec.inputs.manifest.retriever_schema import HttpCall, HttpIngest, HttpRetriever, HttpSearch
from evalspec.targets.http.template import list_foreign_values, list_placeholders
from evalspec.targets.retrievers.query_input import OPEN_NAMES, QUERY, WHOLE, is_of_query, takes_input

Found = tuple[tuple[str, ...], str]
"""The place below the retriever, by its keys in YAML, and the problem."""

_SCOPE = "scopePrefix"
_OF_DOCUMENT = ("id", "title", "text", "metadata")


def apply_preset(search: HttpSearch) -> HttpSearch:
    """Return the search with missing parts taken from its preset, if that is known.

    Raises:
        InvalidInput: a preset of another package is not valid.
    """
    preset = _find_preset(search)
    if preset is None:
        return search
    said = search.model_dump(by_alias=True, exclude_unset=True)
    with DATASETS.attribute_errors(search.preset or ""):
        return HttpSearch.model_validate({**preset.parts, **said})


def check_preset(search: HttpSearch) -> tuple[str, str] | None:
    """Return the key and the message if the preset cannot be applied, else None."""
    if search.preset is None:
        return None
    preset = _find_preset(search)
    if preset is None:
        known = [system.name for system in DATASETS if system.preset is not None]
        return "preset", f"unknown preset '{search.preset}'; {near_miss(search.preset, known)}{DATASETS.note_plugins()}"
    if search.path is None and "path" not in preset.parts:
        return "path", f"preset {search.preset} needs {preset.needed_path}"
    return None


def _find_preset(search: HttpSearch) -> SearchPreset | None:
    system = find_system(search.preset) if search.preset else None
    return system.preset if system else None


class _Carries(Struct, frozen=True):
    """`known`: the placeholders of a request. `needed`: sets with one required member each, and the problem without."""

    known: tuple[str, ...]
    needed: Mapping[tuple[str, ...], str]


_CARRIES: Mapping[str, _Carries] = {
    "search": _Carries(
        (QUERY, "topK", _SCOPE, "filters", WHOLE, *OPEN_NAMES),
        {(QUERY, WHOLE): "the request does not contain the question"},
    ),
    "rerank": _Carries(
        ("query", "topK", "ids", "documents"),
        {
            ("query",): "the request does not contain the question",
            ("ids", "documents"): "the request does not contain the hits to rerank",
        },
    ),
    "ingest": _Carries(
        ("documents", _SCOPE, *_OF_DOCUMENT), {("documents", "text"): "the request does not contain the documents"}
    ),
    "delete": _Carries((_SCOPE,), {(_SCOPE,): "the request contains no scope, so it could delete everything"}),
}


def check_http(options: HttpRetriever) -> list[Found]:
    """Return all problems, each with its place below `http`."""
    calls: dict[str, HttpCall | HttpSearch | None] = {
        "search": options.search,
        "rerank": options.rerank,
        "ingest": options.ingest,
        "delete": options.delete,
    }
    in_url = [
        (("url",), f"{{{{{name}}}}} is not replaced in a url; move it to a path")
        for name in list_placeholders(options.url)
    ]
    return in_url + [
        ((kind, *place), message)
        for kind, call in calls.items()
        if call is not None
        for place, message in _find_problems(kind, call)
    ]


def reports_scope(options: HttpRetriever) -> bool:
    """Return whether ingest sends the scope to the service. If not, the ids must begin with the scope."""
    ingest = options.ingest
    return ingest is not None and _SCOPE in list_placeholders([ingest.path, ingest.request, ingest.document])


def _find_problems(kind: str, call: HttpCall | HttpSearch) -> Iterator[Found]:
    if not isinstance(call, HttpSearch):
        yield from _find_call_problems(kind, call)
    elif (problem := check_preset(call)) is not None:
        key, message = problem
        yield (key,), message
    else:
        yield from _find_call_problems(kind, apply_preset(call))


def _find_call_problems(kind: str, call: HttpCall | HttpSearch) -> Iterator[Found]:
    carries = _CARRIES[kind]
    names = list(list_placeholders([call.path, call.request]))
    given = {WHOLE if takes_input(name) else name for name in names}
    known = carries.known
    if kind == "ingest" and "documents" in names:
        known = ("documents", _SCOPE)
    unknown = [*_unknown_placeholders("path", call.path, known), *_unknown_placeholders("request", call.request, known)]
    yield from unknown
    for wanted, message in carries.needed.items():
        if not unknown and not given.intersection(wanted):
            yield ("request",), f"{message}; add {' or '.join(f'{{{{{name}}}}}' for name in wanted)}"
    yield from ((("request",), message) for message in list_foreign_values(call.request))
    if call.method == "GET" and not isinstance(call.request, dict | None):
        yield ("request",), "a GET request has no body; write an object, which becomes the url's query"
    if isinstance(call, HttpSearch) and call.response is not None:
        queries = call.response.model_dump(by_alias=True, exclude_none=True)
        yield from ((("response", key), message) for key, message in list_bad_queries(queries))
    if isinstance(call, HttpIngest):
        yield from _find_document_problems(call, "documents" in names)


def _find_document_problems(call: HttpIngest, in_batches: bool) -> Iterator[Found]:
    if call.document is None:
        return
    if not in_batches:
        yield ("document",), "the request does not use it; add {{documents}} to request, or remove document"
    yield from _unknown_placeholders("document", call.document, _OF_DOCUMENT)
    yield from ((("document",), message) for message in list_foreign_values(call.document))
    if "text" not in list_placeholders(call.document):
        yield ("document",), "the document does not contain its text; add {{text}}"


def _unknown_placeholders(key: str, template: object, known: tuple[str, ...]) -> Iterator[Found]:
    """Yield a problem per placeholder that is not known. Names with KEY stand for those with any key."""
    is_open = OPEN_NAMES[0] in known
    for name in list_placeholders(template):
        if name not in known and not (is_open and is_of_query(name)):
            yield (key,), f"unknown placeholder {{{{{name}}}}}; {near_miss(name, known)}"
