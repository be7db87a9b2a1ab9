"""The request template of protocol custom: placeholders become values of the sample."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from evalspec.base.errors import ServiceError
from evalspec.base.registry import near_miss
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.model import Sample
from evalspec.targets.agents.wire import build_messages
from evalspec.targets.http.template import as_text, fill_json, fill_path, list_foreign_values, list_placeholders

_METADATA = "metadata."
_SYSTEM = "system"
_VALUES: Mapping[str, Callable[[Sample], Any]] = {
    "input": lambda sample: sample.question,
    "messages": build_messages,
    "history": lambda sample: [one for one in build_messages(sample)[:-1] if one["role"] != _SYSTEM],
    "system": lambda sample: "\n\n".join(one["content"] for one in build_messages(sample) if one["role"] == _SYSTEM),
    "session": lambda sample: sample.session or "",
    "id": lambda sample: sample.id,
}
_CARRIES_INPUT = {"input", "messages"}
_FOR_INPUT = {"question", "query", "prompt", "message", "text"}
"""What other tools call the input."""


def check_template(template: Any) -> list[str]:
    """Return the problems of a request template, each with its fix. The list is empty for a valid template."""
    names = list(list_placeholders(template))
    problems = _list_unknown(names)
    if not problems and not _CARRIES_INPUT.intersection(names):
        problems.append("the request does not contain the question; add {{input}} or {{messages}}")
    return problems + list(list_foreign_values(template))


def fill_template(template: Any, sample: Sample) -> Any:
    """Return a template with the values of a sample.

    Raises:
        ServiceError: the sample lacks a metadata key of the template.
    """
    return fill_json(template, lambda name: _value(name, sample))


def drops_messages(endpoint: ChatEndpoint) -> bool:
    """Return whether only the last question of a conversation is sent, and nobody is said to know the rest.

    The session id that evalspec makes is new for each request, so an agent can know the rest only by one of the sample.
    """
    if endpoint.request is None:
        return False
    has_id = "id" in list_placeholders([endpoint.request, endpoint.headers]) or bool(list_metadata_keys(endpoint))
    is_known = endpoint.session_mode == "stateful" and has_id
    return {"messages", "history"}.isdisjoint(list_placeholders(endpoint.request)) and not is_known


def list_metadata_keys(endpoint: ChatEndpoint) -> list[str]:
    """Return the metadata keys whose values a request or its headers have."""
    names = dict.fromkeys(list_placeholders([endpoint.request, endpoint.headers]))
    return [name.removeprefix(_METADATA) for name in names if name.startswith(_METADATA)]


def check_header(text: str) -> list[str]:
    """Return the problems of the value of a header, or of the path, each with its fix."""
    return _list_unknown(list_placeholders(text))


def _list_unknown(names: Iterable[str]) -> list[str]:
    """Return the problems of placeholders that nothing fills."""
    known = [*_VALUES, _METADATA + "KEY"]
    fixes = {name: "did you mean 'input'?" if name in _FOR_INPUT else near_miss(name, known) for name in names}
    return [f"unknown placeholder {{{{{name}}}}}; {fix}" for name, fix in fixes.items() if not _is_known(name)]


def fill_headers(headers: Mapping[str, str], sample: Sample) -> dict[str, str]:
    """Return headers with the values of a sample. A secret may look like a placeholder: unknown ones stay.

    Raises:
        ServiceError: the sample lacks a metadata key of a header.
    """
    return {name: as_text(fill_json(text, lambda key: _find_known(key, sample))) for name, text in headers.items()}


def fill_url(url: str, sample: Sample) -> str:
    """Return the url of an endpoint, in whose path the values of a sample are filled in.

    Raises:
        ServiceError: the sample lacks a metadata key of the path, or a value would address another resource.
    """
    return fill_path(url, lambda key: _find_known(key, sample))


def _find_known(name: str, sample: Sample) -> Any:
    return _value(name, sample) if _is_known(name) else f"{{{{{name}}}}}"


def _value(name: str, sample: Sample) -> Any:
    if name in _VALUES:
        return _VALUES[name](sample)
    key = name.removeprefix(_METADATA)
    if key not in sample.metadata:
        raise ServiceError(f"the request template has {{{{{name}}}}}, but sample {sample.id} has no metadata '{key}'")
    return sample.metadata[key]


def _is_known(name: str) -> bool:
    return name in _VALUES or (name.startswith(_METADATA) and name != _METADATA)
