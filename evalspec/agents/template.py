"""The JSON template of a custom request: placeholders in it are replaced by values of the sample."""

from collections.abc import Callable, Mapping
from typing import Any

from evalspec.errors import AgentError
from evalspec.json_http.template import fill_json, find_foreign_values, find_placeholders
from evalspec.records import Sample
from evalspec.registry import near_miss

_METADATA = "metadata."


def build_messages(sample: Sample) -> list[dict[str, str]]:
    """The conversation as role and content; a plain question is one user message."""
    if isinstance(sample.user_input, str):
        return [{"role": "user", "content": sample.user_input}]
    return [{"role": message.role, "content": message.content} for message in sample.user_input]


_VALUES: Mapping[str, Callable[[Sample], Any]] = {
    "input": lambda sample: sample.question,
    "messages": build_messages,
    "id": lambda sample: sample.id,
}
_CARRIES_INPUT = {"input", "messages"}


def fill_template(template: Any, sample: Sample) -> Any:
    """The template with its placeholders replaced by values of one sample.

    Raises:
        AgentError: the sample lacks a metadata key that the template names.
    """
    return fill_json(template, lambda name: _value(name, sample))


def find_template_problems(template: Any) -> list[str]:
    """What is wrong with a request template, each with what to write instead; empty for a good one."""
    names = list(find_placeholders(template))
    problems = [
        f"unknown placeholder {{{{{name}}}}}; {near_miss(name, [*_VALUES, _METADATA + 'KEY'])}"
        for name in names
        if not _is_known(name)
    ]
    if not problems and not _CARRIES_INPUT.intersection(names):
        problems.append("the request does not carry the question; put {{input}} or {{messages}} where it belongs")
    return problems + list(find_foreign_values(template))


def _value(name: str, sample: Sample) -> Any:
    if name in _VALUES:
        return _VALUES[name](sample)
    key = name.removeprefix(_METADATA)
    if key not in sample.metadata:
        raise AgentError(f"the request template names {{{{{name}}}}}, and sample {sample.id} has no metadata '{key}'")
    return sample.metadata[key]


def _is_known(name: str) -> bool:
    return name in _VALUES or (name.startswith(_METADATA) and name != _METADATA)
