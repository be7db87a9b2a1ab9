"""The pages of the reference that come from the code: a function each, which returns Markdown."""

import ast
import enum
import inspect
import json
import re
import subprocess
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import msgspec
from gallery import render_gallery
from markdown_parts import code, describe_keys, describe_type, escape, fence, join, render_docstring, table
from pydantic import BaseModel

import evalspec
from evalspec.api.arguments import Options
from evalspec.cli.main import group
from evalspec.curation.gold import schema as gold
from evalspec.inputs.datasets.base import DATASETS
from evalspec.model import Need
from evalspec.reports.parquet import MORE_COLUMNS, SPAN_COLUMNS
from evalspec.reports.rows import COLUMNS
from evalspec.scoring.metrics.base import METRICS, MetricDefinition, read_text

PENDING = "*`make docs` writes the rest of this page from the code.*"
"""The line of a page that is replaced."""

_COLUMNS = 80
_METHODS = ("get", "post", "put", "patch", "delete")


def render_commands() -> str:
    """Return the help of evalspec, of each command and of each subcommand."""
    root = click.Context(group, info_name="evalspec", terminal_width=_COLUMNS)
    return join([fence(group.get_help(root)), *_render_subcommands(root, 2)])


def _render_subcommands(context: click.Context, level: int) -> Iterator[str]:
    if not isinstance(context.command, click.Group):
        return
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        if command is None:
            raise ValueError(f"{context.command_path} {name} is listed and cannot be imported")
        inner = click.Context(command, info_name=name, parent=context)
        yield f"{'#' * level} {inner.command_path}"
        yield fence(command.get_help(inner))
        yield from _render_subcommands(inner, level + 1)


def render_python() -> str:
    """Return every public name: functions, then classes, then the rest."""
    named = [(name, getattr(evalspec, name)) for name in evalspec.__all__]
    kinds: tuple[tuple[str, Callable[[Any], bool], Callable[[str, Any], str]], ...] = (
        ("Functions", inspect.isfunction, _render_function),
        ("Classes", inspect.isclass, _render_class),
        ("Values", lambda thing: not callable(thing), _render_value),
    )
    blocks = (
        block
        for title, is_kind, render in kinds
        for block in (f"## {title}", *(render(name, thing) for name, thing in named if is_kind(thing)))
    )
    return join([*blocks, "## Options", render_docstring(Options), _render_options()])


def _render_options() -> str:
    types = typing.get_type_hints(Options).items()
    return table(("option", "type"), [(code(name), code(_shorten(found))) for name, found in types])


def _render_function(name: str, function: Callable[..., Any]) -> str:
    return join([f"### {name}", fence(_render_signature(function), "python"), render_docstring(function)])


def _render_signature(function: Callable[..., Any]) -> str:
    """Return the signature as the code has it: a parameter a line if there are many."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    result = f" -> {_unquote(tree.returns)}" if tree.returns else ""
    lead = "async def" if isinstance(tree, ast.AsyncFunctionDef) else "def"
    parameters = list(_list_parameters(tree.args))
    line = f"{lead} {tree.name}({', '.join(parameters)}){result}"
    if len(line) <= _COLUMNS:
        return line
    return "\n".join([f"{lead} {tree.name}(", *(f"    {one}," for one in parameters), f"){result}"])


def _list_parameters(found: ast.arguments) -> Iterator[str]:
    plain = [*found.posonlyargs, *found.args]
    defaults = [None] * (len(plain) - len(found.defaults)) + found.defaults
    for place, (one, default) in enumerate(zip(plain, defaults, strict=True), 1):
        yield _render_parameter(one, default)
        if place == len(found.posonlyargs):
            yield "/"
    if found.vararg:
        yield f"*{_render_parameter(found.vararg, None)}"
    elif found.kwonlyargs:
        yield "*"
    yield from map(_render_parameter, found.kwonlyargs, found.kw_defaults)
    if found.kwarg:
        yield f"**{_render_parameter(found.kwarg, None)}"


def _render_parameter(found: ast.arg, default: ast.expr | None) -> str:
    typed = f": {_unquote(found.annotation)}" if found.annotation else ""
    equals = " = " if typed else "="
    return f"{found.arg}{typed}" + (f"{equals}{ast.unparse(default)}" if default else "")


def _unquote(annotation: ast.expr) -> str:
    """Return an annotation without the quotes that delay its evaluation."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation)


def _render_class(name: str, kind: type) -> str:
    bases = [code(base.__name__) for base in kind.__bases__ if issubclass(kind, Exception)]
    return join(
        [
            f"### {name}",
            f"An exception: {', '.join(bases)}." if bases else "",
            render_docstring(kind),
            _render_members(kind) if issubclass(kind, enum.Enum) else "",
            _render_fields(kind) if issubclass(kind, msgspec.Struct) else "",
            *_render_methods(kind),
        ]
    )


def _render_members(kind: type[enum.Enum]) -> str:
    return table(("member", "value"), [(code(f"{kind.__name__}.{one.name}"), code(one.value)) for one in kind])


def _render_fields(kind: type[msgspec.Struct]) -> str:
    plain, noted = typing.get_type_hints(kind), typing.get_type_hints(kind, include_extras=True)
    rows = (
        (code(field), code(_shorten(plain[field])), escape(_find_description(noted[field])))
        for field in kind.__struct_fields__
    )
    return table(("field", "type", "meaning"), rows)


def _shorten(annotation: Any) -> str:
    """Return a type without the modules of its names."""
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", inspect.formatannotation(annotation))


def _find_description(annotation: Any) -> str:
    found = (one.description for one in getattr(annotation, "__metadata__", ()) if isinstance(one, msgspec.Meta))
    return next(filter(None, found), "")


def _render_methods(kind: type) -> Iterator[str]:
    for name, member in vars(kind).items():
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        title = code(f"{kind.__name__}.{name}")
        yield f"#### {title}"
        if isinstance(member, property):
            yield f"A property: {code(_shorten(inspect.signature(function).return_annotation))}."
        else:
            yield fence(_render_signature(function), "python")
        yield render_docstring(function)


def _render_value(name: str, value: Any) -> str:
    said = f"{code(json.dumps(value))}." if isinstance(value, str) else render_docstring(type(value))
    return join([f"### {name}", said, *_render_methods(type(value))])


def render_metrics() -> str:
    """Return the facts of the metrics, which lead to their pages. The metrics of stages have a table elsewhere."""
    head = ("metric", "measures", "better", "range", "needs", "engine")
    listed = list_metrics()
    kinds = (
        ("Judged metrics", [one for one in listed if Need.JUDGE in one.needs]),
        ("Other metrics", [one for one in listed if Need.JUDGE not in one.needs]),
    )
    tables = (block for title, metrics in kinds for block in (f"## {title}", table(head, map(_describe, metrics))))
    stages = (
        "Metrics of the [stages of a retriever](../metrics.md#stages-of-a-retriever) have these names with a prefix."
    )
    tree = "```{toctree}\n:hidden:\n:glob:\n\nmetrics/*\n```"
    return join([*tables, "## Stages", stages, tree])


def list_metrics() -> list[MetricDefinition]:
    """Return the metrics that have a page."""
    return [metric for metric in METRICS if not metric.is_staged]


def _describe(metric: MetricDefinition) -> tuple[str, ...]:
    aliases = f" (also {', '.join(map(code, metric.aliases))})" if metric.aliases else ""
    return (
        f"[{code(metric.name)}](metrics/{metric.name}.md){aliases}",
        escape(metric.summary),
        metric.direction,
        _say_range(metric),
        _say_needs(metric),
        escape(metric.engine),
    )


def _say_range(metric: MetricDefinition) -> str:
    low, high = ("…" if bound is None else f"{bound:g}" for bound in metric.bounds)
    return f"{low} to {high}"


def _say_needs(metric: MetricDefinition) -> str:
    return ", ".join(need for need in Need if need in metric.needs) or "nothing but a reply"


def render_metric(metric: MetricDefinition) -> str:
    """Return the page of a metric: its facts, and the text that `evalspec metrics NAME` prints."""
    facts = {
        "better": metric.direction,
        "range": _say_range(metric),
        "needs": _say_needs(metric),
        "also called": ", ".join(map(code, metric.aliases)),
        "parameters": "; ".join(f"{code(one.name)}: {escape(one.describe())}" for one in metric.parameters),
        "cut-off": code(f"{metric.name}@10") if metric.takes_cutoff else "",
        "over a dataset": metric.statistic,
        "cost": _say_cost(metric),
        "computed by": escape(metric.engine),
    }
    text = _TO_METRIC.sub(lambda link: f"]({find_metric(link['slug'])}.md)", read_text(metric.name))
    text = text.replace("](../../../", "](../../../../").replace("](../../../../docs/", "](../../../")
    text = re.sub(r"^#(?=#+ )", "", text, flags=re.MULTILINE)
    definition, example, values = text.partition("```json\n")
    return join(
        [
            f"# {metric.name}",
            escape(metric.summary),
            "\n".join(f"- **{name}**: {fact}" for name, fact in facts.items() if fact),
            definition,
            f"## Example\n\nA sample, a reply and its score. The tests of evalspec compute it.\n\n{example}{values}",
            f"[All metrics](../metrics.md). In a terminal: {code(f'evalspec metrics {metric.name}')}.\n",
        ]
    )


_TO_METRIC = re.compile(r"\]\((?:\w+\.md)?#(?P<slug>[\w-]+)\)")


def find_metric(slug: str) -> str:
    """Return the name of the metric that an anchor stands for."""
    slug = slug.removeprefix("#")
    return next(one.name for one in METRICS if one.name.lower().replace(".", "") == slug)


def _say_cost(metric: MetricDefinition) -> str:
    """Return the calls that a score needs, as `evalspec plan` counts them."""
    found = METRICS.find(metric.base) if metric.base else metric
    calls = found.judge_calls if found else None
    if calls is None:
        return "no judge"
    fixed, each = calls(0), calls(1) - calls(0)
    parts = [f"{each} for each passage"] * bool(each) + [str(fixed)] * bool(fixed)
    embedded = ", and embeddings" if Need.EMBEDDINGS in metric.needs else ""
    shared = f", shared with {code(metric.base)}" if metric.base else ""
    return f"judge calls for a sample: {' + '.join(parts)}{shared}{embedded}"


def render_manifest() -> str:
    """Return the keys of the manifest."""
    return _render_schema("manifest", defaults=True)


def render_gold() -> str:
    """Return the keys of the files of a gold set."""
    return join(block for title, kind in GOLD.items() for block in _render_file(title, kind))


def _render_file(title: str, kind: type[BaseModel]) -> Iterator[str]:
    schema = kind.model_json_schema()
    definitions = schema.get("$defs", {})

    def name(found: str) -> str:
        choices = definitions[found].get("enum")
        return ", ".join(map(code, choices)) if choices else "mapping"

    yield f"## {title}"
    yield render_docstring(kind)
    yield describe_keys(schema, name, {key: {} for key in definitions})  # the text of the model has all meanings


GOLD: Mapping[str, type[BaseModel]] = {
    "set.yaml": gold.SetFile,
    "people": gold.Person,
    "targets": gold.Targets,
    "rules": gold.Rules,
    "triples": gold.Triple,
    "blocks": gold.Block,
    "metadata": gold.TripleMetadata,
    "events": gold.Event,
    "slices": gold.SliceFile,
    "permissions": gold.Grant,
}
"""The files of a gold set and the mappings in them, by what they are called."""


def render_formats() -> str:
    """Return the formats of datasets, whether evalspec writes them, and the texts beside their code."""
    rows = ((code(one.name), escape(one.summary), "yes" if one.write else "–") for one in DATASETS)
    files = (path for folder in FORMATS for path in folder.rglob("*.md"))
    texts = (path.read_text(encoding="utf-8") for path in sorted(files, key=lambda path: path.name))
    return join([table(("format", "what it is", "`convert --to`"), rows), *map(_place_text, texts)])


PACKAGE = Path(evalspec.__file__).parent
FORMATS = (PACKAGE / "inputs" / "formats", PACKAGE / "curation" / "formats")
"""Where dataset formats are. A text is a file of Markdown beside the module of its format."""


def _place_text(text: str) -> str:
    """Return a text of the package as a section of a generated page, which its links lead from."""
    text = re.sub(r"\]\((?:\.\./)+docs/reference/generated/", "](", text)
    text = re.sub(r"\]\((?:\.\./)+docs/reference/", "](../", text)
    text = re.sub(r"\]\((?:\.\./)+docs/", "](../../", text)
    text = re.sub(r"\]\((?:\.\./)+evalspec/", "](../../../evalspec/", text)
    return f"#{text}"


def render_dataset() -> str:
    """Return the keys of a line of a dataset."""
    return _render_schema("dataset", defaults=True)


def render_report() -> str:
    """Return the keys of the JSON report, which has all of them."""
    columns = {**COLUMNS, **MORE_COLUMNS}
    rows = [(code(name), code(kind)) for name, kind in columns.items()]
    spans = [(code(name), code(kind)) for name, kind in SPAN_COLUMNS.items()]
    return join(
        [
            _render_schema("report", defaults=False),
            "## Columns of Parquet",
            table(("column", "type"), rows),
            "## Columns of spans",
            table(("column", "type"), spans),
        ]
    )


def _render_schema(what: str, *, defaults: bool) -> str:
    """Return the keys of a JSON Schema: a table for each object, under the path of its first place."""
    schema = read_schema(what)
    definitions = schema["$defs"]
    top = definitions[_name_of(schema)] if "$ref" in schema else schema

    def link(name: str) -> str:
        return _link_key(what, name, definitions)

    blocks = []
    for name, place in {"": "Top level", **dict(_list_places(top, "", definitions))}.items():
        whole = definitions[name] if name else top
        definition = _find_object(whole)
        if definition:
            blocks += [f"({_anchor(what, name)})=", f"## {place}", escape(whole.get("description", ""))]
            blocks.append(describe_keys(definition, link, definitions, defaults=defaults))
    return join(blocks)


def _name_of(reference: Mapping[str, Any]) -> str:
    """Return the name of the definition that a reference points to."""
    return str(reference["$ref"]).rpartition("/")[2]


@cache
def read_schema(what: str) -> Any:
    """Return a JSON Schema, as the command prints it."""
    command = [sys.executable, "-m", "evalspec", "schema", what]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _list_places(schema: Mapping[str, Any], place: str, definitions: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each definition that a schema leads to, with the path of its first place."""
    seen: set[str] = set()

    def walk(found: Any, place: str, *, is_variant: bool = False) -> Iterator[tuple[str, str]]:
        if "$ref" in found:
            name = _name_of(found)
            if name not in seen:
                seen.add(name)
                yield name, place + (f" ({_name_variant(definitions[name])})" if is_variant else "")
                yield from walk(definitions[name], place)
        options = (*found.get("anyOf", ()), *found.get("oneOf", ()))
        for option in options:
            yield from walk(option, place, is_variant=sum("$ref" in one for one in options) > 1)
        for key, inner in found.get("properties", {}).items():
            yield from walk(inner, f"{place}.{key}" if place else key)
        if isinstance(found.get("items"), dict):
            yield from walk(found["items"], f"{place}[]")
        if isinstance(found.get("additionalProperties"), dict):
            yield from walk(found["additionalProperties"], f"{place}.NAME")

    return walk(schema, place)


def _name_variant(definition: Mapping[str, Any]) -> str:
    """Return what one of several objects at a place is recognized by: a key and its value, or a required key."""
    keys = definition["properties"].items()
    return next((f"{key}: {one['const']}" for key, one in keys if "const" in one), definition["required"][0])


def _find_object(definition: Mapping[str, Any]) -> Mapping[str, Any] | None:
    options = [definition, *definition.get("anyOf", ())]
    return next((one for one in options if one.get("properties")), None)


def _anchor(what: str, name: str) -> str:
    return f"{what}-{name.lower()}"


def _link_key(what: str, name: str, definitions: Mapping[str, Any]) -> str:
    def link(other: str) -> str:
        return _link_key(what, other, definitions)

    definition = definitions[name]
    found = _find_object(definition)
    if found is None:
        return describe_type(definition, link) if definition else "any value"
    others = [one for one in definition.get("anyOf", ()) if one is not found and one.get("type") != "null"]
    words = [describe_type(one, link) for one in others]
    return " or ".join([*words, f"[{name}](#{_anchor(what, name)})"])


@cache
def read_openapi() -> Any:
    """Return the OpenAPI document of the service. Nothing is served, and the database stays empty."""
    from sqlalchemy import create_engine

    from evalspec.service.app import create_app
    from evalspec.service.settings import ServiceSettings

    return create_app(ServiceSettings({}, "sqlite://"), create_engine("sqlite://")).openapi()


def render_rest() -> str:
    """Return the operations of the service, by tag."""
    operations = [
        (operation["tags"][0], path, method, operation)
        for path, methods in read_openapi()["paths"].items()
        for method, operation in methods.items()
        if method in _METHODS
    ]
    tags = list(dict.fromkeys(tag for tag, *_ in operations))
    operations.sort(key=lambda one: tags.index(one[0]))
    blocks = []
    for tag, found in groupby(operations, key=lambda one: one[0]):
        blocks.append(f"## {tag.capitalize()}")
        blocks += [_render_operation(path, method, operation) for _, path, method, operation in found]
    return join(blocks)


def _render_operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    head = ("parameter", "in", "type", "default", "meaning")
    return join(
        [
            f"### {operation['summary']}",
            fence(f"{method.upper()} {path}"),
            escape(operation.get("description", "")),
            table(head, map(_describe_parameter, operation.get("parameters", ()))),
            _describe_body(operation.get("requestBody", {}).get("content", {})),
            "\n".join(_list_answers(operation["responses"])),
        ]
    )


def _describe_parameter(found: Mapping[str, Any]) -> tuple[str, ...]:
    schema = found["schema"]
    default = "required" if found.get("required") else schema.get("default")
    return (
        code(found["name"]),
        found["in"],
        describe_type(schema, _link_object),
        "–" if default is None else str(default),
        escape(found.get("description", "")),
    )


def _describe_body(content: Mapping[str, Any]) -> str:
    return f"The body: {_list_forms(content)}." if content else ""


def _list_answers(responses: Mapping[str, Any]) -> Iterator[str]:
    """Yield the answers of success. The service's page has the problems, which all operations share."""
    for status, answer in responses.items():
        if status < "4":
            yield f"- {status}: {_list_forms(answer.get('content', {})) or 'no body'}"


def _list_forms(content: Mapping[str, Any]) -> str:
    """Return the media types of a body, with the object that each contains."""
    return ", or ".join(f"{code(media)}{_name_object(one.get('schema', {}))}" for media, one in content.items())


def _name_object(schema: Mapping[str, Any]) -> str:
    return f" with {describe_type(schema, _link_object)}" if "$ref" in schema or "items" in schema else ""


def _link_object(name: str) -> str:
    return f"[{name}](rest-objects.md#{name.lower()})"


def render_rest_objects() -> str:
    """Return the objects of the REST operations, by name."""
    schemas = read_openapi()["components"]["schemas"]
    return join(
        block
        for name, schema in sorted(schemas.items())
        for block in (
            f"## {name}",
            escape(schema.get("description", "")),
            describe_keys(schema, _link_local, schemas) or f"{describe_type(schema, _link_local)}.",
        )
    )


def _link_local(name: str) -> str:
    return f"[{name}](#{name.lower()})"


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/generated/commands": render_commands,
    "reference/generated/python": render_python,
    "reference/generated/metrics": render_metrics,
    "reference/generated/manifest": render_manifest,
    "reference/generated/dataset": render_dataset,
    "reference/generated/formats": render_formats,
    "reference/generated/gold": render_gold,
    "reference/generated/report": render_report,
    "reference/generated/gallery": render_gallery,
    "reference/generated/rest": render_rest,
    "reference/generated/rest-objects": render_rest_objects,
}
"""What replaces `PENDING` in each page."""
