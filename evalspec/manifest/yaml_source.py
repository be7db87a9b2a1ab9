"""YAML read safely, with the line of every value.

PyYAML's safe loader builds no objects; on top of it this module refuses duplicate keys (YAML lets the last one win
in silence), aliases that expand to far more than was written, and files over MAX_BYTES.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from evalspec.errors import InvalidInput, Problem
from evalspec.trust import Act, explain

MAX_BYTES = 1_048_576
MAX_EXPANDED_NODES = 50_000
_STANDARD_TAGS = tuple(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp")
)

Place = tuple[str | int, ...]


@dataclass(slots=True)
class YamlSource:
    """A parsed document: `data` as plain Python values, `lines` from the path of each value to its line, from 1."""

    file: str
    data: Any = None
    lines: dict[Place, int] = field(default_factory=dict)

    def line(self, path: Place) -> int:
        """The line of the value at `path`, or of the nearest value around it that stands in the file."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)


class _TooManyNodes(Exception):
    """Reading on would take longer than anyone waits: 70 µs a value."""


class _CountingLoader(yaml.SafeLoader):
    def __init__(self, text: str, most: int) -> None:
        super().__init__(text)
        self._left = most

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._left -= 1
        if self._left < 0:
            raise _TooManyNodes
        return super().compose_node(parent, index)


def load_yaml(path: Path, shown_as: str) -> YamlSource:
    """Read and check one YAML document.

    Raises:
        InvalidInput: the file is missing, a directory, too large, not UTF-8, not YAML, has duplicate keys or bombs.
    """
    source = parse_yaml(_read_text(path, shown_as), shown_as)
    if not source.lines:
        raise InvalidInput(Problem("the file is empty", "evalspec init writes one to start from", shown_as))
    return source


def parse_yaml(text: str, shown_as: str, max_nodes: int = MAX_EXPANDED_NODES) -> YamlSource:
    """Check one YAML document; a text that holds none gives a source without lines.

    `max_nodes`: how many values it may have once its aliases are expanded.

    Raises:
        InvalidInput: not YAML, several documents, duplicate keys, tags, or bombs.
    """
    source = YamlSource(shown_as)
    problems: list[Problem] = []
    try:
        loader = _CountingLoader(text, max_nodes)
        root = loader.get_single_node()
        if root is None:
            return source
        _refuse_bombs(root, shown_as, max_nodes)
        source.data = _construct(loader, root, (), source, problems)
    except _TooManyNodes as error:
        message = f"it has more than {max_nodes:,} values"
        raise InvalidInput(Problem(message, "keep data in datasets", shown_as)) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"not valid YAML: {error.problem or error.context}"
        raise InvalidInput(Problem(message, file=shown_as, line=mark.line + 1 if mark else None)) from error
    except (yaml.YAMLError, ValueError) as error:
        message = f"not valid YAML: {' '.join(str(error).split())}"
        raise InvalidInput(Problem(message, file=shown_as)) from error
    except RecursionError as error:
        raise InvalidInput(Problem("the YAML is nested too deeply", file=shown_as)) from error
    if problems:
        raise InvalidInput(problems)
    return source


def _read_text(path: Path, shown_as: str) -> str:
    refused = explain(Act.READ_FILE, str(path))
    if refused is not None:
        raise InvalidInput(Problem(*refused, shown_as))
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise InvalidInput(Problem("no such file", "evalspec init writes one", shown_as)) from error
    except OSError as error:
        raise InvalidInput(Problem(f"cannot be read: {error.strerror}", file=shown_as)) from error
    if len(raw) > MAX_BYTES:
        message = f"the file has {len(raw):,} bytes; a manifest may have {MAX_BYTES:,}"
        raise InvalidInput(Problem(message, "keep data in datasets, not in the manifest", shown_as))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InvalidInput(Problem("not UTF-8 text", "save the file as UTF-8", shown_as, line)) from error


def _refuse_bombs(root: yaml.Node, shown_as: str, max_nodes: int) -> None:
    """Count the nodes that the document has once its aliases are expanded, each distinct node measured once."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in open_nodes:
            raise InvalidInput(Problem("an alias contains itself", file=shown_as, line=node.start_mark.line + 1))
        if id(node) not in sizes:
            open_nodes.add(id(node))
            sizes[id(node)] = 1 + sum(size(child) for child in _children(node))
            open_nodes.discard(id(node))
        return sizes[id(node)]

    expanded = size(root)
    if expanded > max_nodes:
        message = f"its aliases expand to {expanded:,} values; at most {max_nodes:,} are accepted"
        raise InvalidInput(Problem(message, "write the values out or remove the aliases", shown_as))


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _construct(
    loader: yaml.SafeLoader, node: yaml.Node, path: Place, source: YamlSource, problems: list[Problem]
) -> Any:
    source.lines[path] = node.start_mark.line + 1
    if not node.tag.startswith(_STANDARD_TAGS):
        message = f"the tag {node.tag} is not accepted"
        problems.append(Problem(message, "write plain values", source.file, source.lines[path], render_path(path)))
        return None
    if isinstance(node, yaml.SequenceNode):
        return [_construct(loader, child, (*path, i), source, problems) for i, child in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return _scalar(loader, node)
    loader.flatten_mapping(node)
    mapping: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            problems.append(Problem("a key must be plain text", file=source.file, line=line, field=render_path(path)))
            continue
        key = loader.construct_object(key_node, deep=True)
        field_name = render_path((*path, str(key)))
        if key in mapping:
            problems.append(Problem("this key stands twice", "remove one of them", source.file, line, field_name))
        mapping[key] = _construct(loader, value_node, (*path, key), source, problems)
        source.lines[(*path, key)] = line
    return mapping


def _scalar(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    """Timestamps stay text: no field of a manifest is a date, and `2026-01-01` as a label must not become one."""
    if node.tag == "tag:yaml.org,2002:timestamp":
        return node.value
    return loader.construct_object(node, deep=True)


def render_path(path: Place) -> str:
    """`("spec", "datasets", 0, "name")` as `spec.datasets[0].name`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
