"""Markdown from data: text, tables, types of a JSON Schema, and docstrings."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

Link = Callable[[str], str]
"""Returns a link to the definition of this name in a JSON Schema."""

_CODE = re.compile(r"(`[^`]+`)")
_SPECIAL = re.compile(r"([\\*_\[\]<>])")
_SECTION = re.compile(r"^(Args|Returns|Yields|Raises):$", re.MULTILINE)
_ITEM = re.compile(r"^([*\w.]+): ", re.MULTILINE)
_TITLES = {"Args": "Arguments"}
_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
    "object": "mapping",
    "array": "list",
}
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
_NO_BOUND = 1e15
"""From here on, a bound only prevents overflows."""


def escape(text: str) -> str:
    """Return text that Markdown shows as it is. What is between backticks stays code."""
    parts = _CODE.split(text)
    return "".join(part if place % 2 else _SPECIAL.sub(r"\\\1", part) for place, part in enumerate(parts))


def code(text: object) -> str:
    """Return a text as code."""
    return f"`{text}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table without its empty columns, or nothing if there are no rows. The cells are Markdown."""
    cells = [[" ".join(cell.replace("|", r"\|").split()) for cell in row] for row in rows]
    columns = [column for column in zip(head, *cells, strict=True) if any(column[1:])]
    lines = [f"| {' | '.join(line)} |" for line in zip(*columns, strict=True)]
    return "\n".join([lines[0], "|---" * len(columns) + "|", *lines[1:]]) if lines else ""


def fence(text: str, language: str = "text") -> str:
    """Return a block of code."""
    return f"```{language}\n{text.rstrip()}\n```"


def join(blocks: Iterable[str]) -> str:
    """Return the blocks that have text, as paragraphs."""
    return "\n\n".join(block for block in blocks if block)


def describe_type(schema: Mapping[str, Any], link: Link) -> str:
    """Return the type of a value in words. Null is left out where other types are possible."""
    if "$ref" in schema:
        return link(schema["$ref"].rpartition("/")[2])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            options = [one for one in schema[key] if one.get("type") != "null"] or schema[key]
            return " or ".join(dict.fromkeys(describe_type(one, link) for one in options))
    if "enum" in schema or "const" in schema:
        return ", ".join(code(_show(one)) for one in schema.get("enum", [schema.get("const")]))
    return _describe_plain(schema, link)


def describe_default(schema: Mapping[str, Any], is_required: bool) -> str:
    """Return the default of a key. Null and whole objects, whose keys have defaults, are a dash."""
    default = schema.get("default")
    if is_required:
        return "required"
    return "–" if default is None or isinstance(default, dict) else code(_show(default))


def describe_keys(
    schema: Mapping[str, Any], link: Link, definitions: Mapping[str, Any], *, defaults: bool = True
) -> str:
    """Return the table of an object's keys. A key without a description has that of its type.

    `defaults`: the object is input, whose keys have defaults. Of output, the types include null instead.
    """
    required = schema.get("required", ())
    rows = []
    for key, one in schema.get("properties", {}).items():
        meaning = escape(find_description(one, definitions))
        default = describe_default(one, key in required) if defaults else ""
        or_null = " or null" if not defaults and {"type": "null"} in one.get("anyOf", ()) else ""
        rows.append((code(key), describe_type(one, link) + or_null, default, meaning))
    return table(("key", "type", "default", "meaning"), rows)


def find_description(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the description of a value, or else that of the one definition that it refers to; empty without any."""
    named = [one["$ref"].rpartition("/")[2] for one in (schema, *schema.get("anyOf", ())) if "$ref" in one]
    found = schema.get("description") or (definitions[named[0]].get("description") if len(named) == 1 else None)
    return found or ""


def _describe_plain(schema: Mapping[str, Any], link: Link) -> str:
    name = schema.get("type")
    if "prefixItems" in schema:
        items = [describe_type(one, link) for one in schema["prefixItems"]]
        return f"list of {len(items)}: {', '.join(items)}"
    if name == "array":
        return f"list of {describe_type(schema['items'], link)}" if schema.get("items") else "list"
    inner = schema.get("additionalProperties")
    if name == "object" and isinstance(inner, dict) and inner:
        return f"mapping to {describe_type(inner, link)}"
    names = name if isinstance(name, list) else [name]
    bounds = [f"{sign} {schema[key]:g}" for key, sign in _BOUNDS.items() if abs(schema.get(key, _NO_BOUND)) < _NO_BOUND]
    return ", ".join([" or ".join(_WORDS.get(str(one), "any value") for one in names), *bounds])


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def render_docstring(thing: Any) -> str:
    """Return a docstring with its sections `Args`, `Returns`, `Yields` and `Raises` as Markdown."""
    text, *sections = _SECTION.split(inspect.getdoc(thing) or "")
    return join([_paragraphs(text), *_render_sections(sections)])


def _render_sections(sections: Sequence[str]) -> Iterator[str]:
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        text = inspect.cleandoc(body)
        yield f"**{_TITLES.get(title, title)}**"
        names = _ITEM.split(text)
        pairs = zip(names[1::2], names[2::2], strict=True)
        yield _paragraphs(text) if names[0] else "\n".join(f"- {code(name)}: {_line(said)}" for name, said in pairs)


def _paragraphs(text: str) -> str:
    return join(_line(part) for part in text.split("\n\n"))


def _line(text: str) -> str:
    return escape(" ".join(text.split()))
