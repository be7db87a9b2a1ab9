"""The JSON template of a custom request: placeholders in it are replaced by values of the sample.

A string that is one placeholder becomes the value itself (a list stays a list); inside longer text the value is
written as text. Values are data: they are never searched for placeholders, nor spliced into JSON text.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evalspec.errors import AgentError
from evalspec.records import Sample
from evalspec.registry import near_miss

_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")
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
    if isinstance(template, str):
        return _fill_text(template, sample)
    if isinstance(template, list):
        return [fill_template(item, sample) for item in template]
    if isinstance(template, dict):
        return {key: fill_template(item, sample) for key, item in template.items()}
    return template


def find_template_problems(template: Any) -> list[str]:
    """What is wrong with a request template, each with what to write instead; empty for a good one."""
    names = list(_placeholders(template))
    problems = [
        f"unknown placeholder {{{{{name}}}}}; {near_miss(name, [*_VALUES, _METADATA + 'KEY'])}"
        for name in names
        if not _is_known(name)
    ]
    if not problems and not _CARRIES_INPUT.intersection(names):
        problems.append("the request does not carry the question; put {{input}} or {{messages}} where it belongs")
    return problems + list(_foreign_values(template))


def _fill_text(text: str, sample: Sample) -> Any:
    only = _PLACEHOLDER.fullmatch(text)
    if only:
        return _value(only[1].strip(), sample)
    return _PLACEHOLDER.sub(lambda found: _as_text(_value(found[1].strip(), sample)), text)


def _value(name: str, sample: Sample) -> Any:
    if name in _VALUES:
        return _VALUES[name](sample)
    key = name.removeprefix(_METADATA)
    if key not in sample.metadata:
        raise AgentError(f"the request template names {{{{{name}}}}}, and sample {sample.id} has no metadata '{key}'")
    return sample.metadata[key]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_known(name: str) -> bool:
    return name in _VALUES or (name.startswith(_METADATA) and name != _METADATA)


def _placeholders(template: Any) -> Iterator[str]:
    if isinstance(template, str):
        yield from (name.strip() for name in _PLACEHOLDER.findall(template))
    elif isinstance(template, list | dict):
        for item in template.values() if isinstance(template, dict) else template:
            yield from _placeholders(item)


def _foreign_values(template: Any) -> Iterator[str]:
    """What YAML can say and JSON cannot, and placeholders in keys, which stay as they are."""
    if isinstance(template, dict):
        for key, item in template.items():
            if not isinstance(key, str):
                yield f"the key {key!r} is not text; put it in quotes"
            elif _PLACEHOLDER.search(key):
                yield f"the key '{key}' holds a placeholder; only values are replaced"
            yield from _foreign_values(item)
    elif isinstance(template, list):
        for item in template:
            yield from _foreign_values(item)
    elif isinstance(template, float) and not math.isfinite(template):
        yield f"{template} is not a JSON number; write a finite one"
    elif not isinstance(template, str | int | float | None):
        yield f"a {type(template).__name__} is not a JSON value; put it in quotes"
