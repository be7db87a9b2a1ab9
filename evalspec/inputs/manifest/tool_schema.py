"""The tools of the agent, `spec.evaluation.tools`: declarations as models get them, and what evalspec answers for them.

A declaration may be written as for OpenAI, Anthropic or MCP, or plainly. Keys of theirs that say nothing about calls
are ignored.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import yaml
from msgspec import UNSET, UnsetType
from pydantic import Field, StrictBool, StrictStr, ValidationError, model_validator

from evalspec.base.errors import Problem
from evalspec.base.json_schema import build_matcher, find_schema_problems
from evalspec.inputs.manifest.fields import Lenient, ModuleObject, Name, explain_error, find_place
from evalspec.inputs.manifest.loader import LoadedManifest
from evalspec.inputs.manifest.references import UnresolvedReference
from evalspec.inputs.manifest.yaml_source import Place, render_path
from evalspec.model import ToolCall

PLACE: Place = ("spec", "evaluation", "tools")
_FILE = "$file:"
_SCHEMAS = ("parameters", "inputSchema", "input_schema")


class ToolHints(Lenient):
    """What a tool does to the world."""

    destructive_hint: StrictBool = Field(False, description="Whether a call can destroy something.")


class DeclaredTool(Lenient):
    """A tool that the agent has."""

    name: Name = Field(description="Its name in calls.")
    description: StrictStr = Field("", description="What it does, for the model.")
    parameters: dict[StrictStr, Any] | None = Field(
        None, description="The JSON Schema of its arguments; also `inputSchema` or `input_schema`."
    )
    annotations: ToolHints = ToolHints.model_construct()
    result: Any = Field(UNSET, description="What evalspec answers to each call, if the agent is a bare model.")
    python: ModuleObject | None = Field(
        None, description="The function that answers calls, module:function; it gets the arguments by name."
    )

    @model_validator(mode="before")
    @classmethod
    def _flatten(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        inner = value.get("function")
        flat = {**value, **inner} if isinstance(inner, dict) else dict(value)
        given = [key for key in _SCHEMAS if flat.get(key) is not None]
        if len(given) > 1:
            raise ValueError(f"{given[0]} and {given[1]} are two schemas; remove one of them")
        return flat | {"parameters": flat.pop(given[0])} if given else flat

    @model_validator(mode="after")
    def _answers_once(self) -> "DeclaredTool":
        if self.is_answered and self.python and not isinstance(self.result, UnsetType):
            raise ValueError("result and python answer the same calls; remove one of them")
        return self

    @property
    def is_answered(self) -> bool:
        """Whether evalspec answers its calls."""
        return self.python is not None or not isinstance(self.result, UnsetType)

    @cached_property
    def _find_mismatch(self) -> Callable[[Any], Any]:
        return build_matcher(self.parameters or {})

    def explain_invalid(self, call: ToolCall) -> str | None:
        """Return why the arguments of a call are not valid by the schema, or None."""
        if call.problem is not None:
            return call.problem
        found = self._find_mismatch(call.arguments)
        return None if found is None else ": ".join(filter(None, (render_path(found[0]), found[1])))


Tools = Mapping[str, DeclaredTool]
"""All tools that the agent has, by name."""


def declare_tools(loaded: LoadedManifest, problems: list[Problem]) -> Tools | None:
    """Return the declared tools; None if the manifest has no list of them. Problems are added with their place."""
    given = loaded.manifest.spec.evaluation.tools
    if given is None:
        return None
    found: dict[str, dict[str, Any]] = {}
    for place, file, entry in _list_entries(loaded, given, problems):
        name = _find_name(entry)
        found[name] = {"entry": found.get(name, {}).get("entry", {}) | entry, "place": place, "file": file}
    tools = {}
    for one in found.values():
        tool = _read_tool(loaded, one["entry"], one["place"], one["file"], problems)
        if tool is not None:
            tools[tool.name] = tool
    for name in _read_agentspec_tools(loaded):
        tools.setdefault(name, DeclaredTool.model_construct(name=name))
    return tools


def list_destructive(loaded: LoadedManifest, tools: Tools | None) -> list[str]:
    """Return the tools that can destroy something, as their declaration or AgentSpec's `spec.tools` says."""
    hints = _read_agentspec_tools(loaded)
    declared = {name: tool.annotations.destructive_hint for name, tool in (tools or {}).items()}
    return sorted(name for name in {**hints, **declared} if hints.get(name) or declared.get(name))


def _read_agentspec_tools(loaded: LoadedManifest) -> dict[str, bool]:
    """Return the names in AgentSpec's `spec.tools`, and whether each tool can destroy something."""
    listed = loaded.manifest.spec.tools
    named = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    hints = {one["name"]: one.get("annotations") for one in named if isinstance(one.get("name"), str)}
    return {name: isinstance(hint, dict) and hint.get("destructiveHint") is True for name, hint in hints.items()}


def _find_name(entry: Mapping[str, Any]) -> str:
    inner = entry.get("function")
    return str((inner if isinstance(inner, dict) else entry).get("name"))


def _list_entries(
    loaded: LoadedManifest, given: Any, problems: list[Problem]
) -> Iterator[tuple[Place, str | None, dict[str, Any]]]:
    """Yield each declaration with its place, and the file that it is from if that is not the manifest."""
    if isinstance(given, dict):
        for name, entry in given.items():
            yield (*PLACE, name), None, {"name": name} | (entry if isinstance(entry, dict) else {"entry": entry})
        return
    items = [(PLACE, given)] if isinstance(given, str) else [((*PLACE, n), item) for n, item in enumerate(given)]
    for place, item in items:
        if isinstance(item, str):
            for entry in _read_file(loaded, item, place, problems):
                yield place, item.removeprefix(_FILE), entry
        else:
            yield place, None, item


def _read_file(loaded: LoadedManifest, text: str, place: Place, problems: list[Problem]) -> list[dict[str, Any]]:
    """Return the declarations of a file: JSON or YAML, a list or an object with the list as `tools`."""
    name = text.removeprefix(_FILE)
    try:
        content = yaml.safe_load(loaded.references.resolve(f"{_FILE}{name}"))
    except UnresolvedReference as error:
        problems.append(loaded.problem(place, error.message, error.fix))
        return []
    except yaml.YAMLError as error:
        problems.append(Problem(f"it is neither JSON nor YAML: {' '.join(str(error).split())}", file=name))
        return []
    listed = content.get("tools") if isinstance(content, dict) else content
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        problems.append(Problem("it has no list of tools", 'write [{"name": …, "parameters": {…}}]', name))
        return []
    return listed


def _read_tool(
    loaded: LoadedManifest, entry: dict[str, Any], place: Place, file: str | None, problems: list[Problem]
) -> DeclaredTool | None:
    def add(steps: Place, message: str, fix: str = "") -> None:
        if file is None:
            problems.append(loaded.problem((*place, *steps), message, fix))
        else:
            problems.append(Problem(message, fix, file, field=render_path((_find_name(entry), *steps))))

    try:
        tool = DeclaredTool.model_validate(entry)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            missing = details["loc"][-1:] if details["type"] == "missing" else ()
            add((*find_place(details["loc"], entry), *missing), *explain_error(details, DeclaredTool))
        return None
    for steps, message in find_schema_problems(tool.parameters):
        add(("parameters", *steps), message)
    return tool
