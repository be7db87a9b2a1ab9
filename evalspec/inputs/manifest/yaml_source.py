"""Read YAML safely, with the line of every value.

PyYAML's safe loader creates no objects. This module also refuses duplicate keys (YAML silently keeps the last one),
aliases that expand to far more than was written, and files over MAX_BYTES.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from msgspec import Struct, field

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.trust import Act, explain

if TYPE_CHECKING:
    _Loader = yaml.SafeLoader | yaml.CSafeLoader

MAX_BYTES = 1_048_576
MAX_EXPANDED_NODES = 50_000
_WORTH_LIBYAML = 100_000
"""Characters from which libyaml reads a text. It is ten times as fast, and a little less strict about tabs."""
_DEEPEST = 100
_AS_WRITTEN = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:timestamp")
_BOOLEAN = "tag:yaml.org,2002:bool"
_INTEGER = "tag:yaml.org,2002:int"
_STANDARD_TAGS = tuple(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp")
)

Place = tuple[str | int, ...]


class YamlSource(Struct):
    """A parsed document: `data` as plain Python values, and `lines` from each value's path to its line, from 1."""

    file: str
    data: Any = None
    lines: dict[Place, int] = field(default_factory=dict)

    def line(self, path: Place) -> int:
        """Return the line of the value at `path`, or of the nearest enclosing value in the file."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)

    def problem(self, path: Place, message: str, fix: str = "") -> Problem:
        """Return a problem of the value at `path`."""
        return Problem(message, fix, self.file, self.line(path), render_path(path))

    def rename(self, place: Place, name: str) -> None:
        """Give the last key of a place its right name. If the mapping has that key too, the wrong one is removed."""
        section = self.data
        for step in place[:-1]:
            section = section[step]
        section.setdefault(name, section.pop(place[-1]))
        moved = {path: line for path, line in self.lines.items() if path[: len(place)] == place}
        self.lines = {(*place[:-1], name, *path[len(place) :]): line for path, line in moved.items()} | self.lines


class _TooManyNodes(Exception):
    """The document has too many values to be read in acceptable time."""


class _CountingLoader(yaml.SafeLoader):
    """PyYAML's Python loader, limited to `most` values: 70 µs per value. Its error messages are shown to the user.

    As libyaml and other tools do, it takes a question mark within a text in brackets for a part of the text:
    `{question: How long is the trial?}`.
    """

    def __init__(self, text: str, most: int) -> None:
        super().__init__(text)
        self._left = most

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._left -= 1
        if self._left < 0:
            raise _TooManyNodes
        return super().compose_node(parent, index)

    def scan_plain(self) -> yaml.ScalarToken:
        if not self.flow_level:
            return super().scan_plain()
        vars(self)["peek"] = self._peek_no_key
        try:
            return super().scan_plain()
        finally:
            del vars(self)["peek"]

    def _peek_no_key(self, index: int = 0) -> str:
        """Return the sign at `index`, or a letter for a question mark, which would end the text."""
        sign = super().peek(index)
        return "x" if sign == "?" else sign


def _compose(text: str, most: int) -> tuple["_Loader", yaml.Node | None]:
    """Return the loader and the root node of a text.

    libyaml reads long texts, if it is available. A text that libyaml refuses is read again by PyYAML's Python loader,
    so that messages do not depend on the machine.

    Raises:
        _TooManyNodes: there are more than `most`.
        yaml.YAMLError: it is not one YAML document.
    """
    if len(text) >= _WORTH_LIBYAML and yaml.__with_libyaml__:
        with suppress(yaml.YAMLError, ValueError):
            if _is_shallow(text, most):
                fast = yaml.CSafeLoader(text)
                return fast, fast.get_single_node()
    loader = _CountingLoader(text, most)
    return loader, loader.get_single_node()


def _is_shallow(text: str, most: int) -> bool:
    """Return whether libyaml can compose the text without overflowing the stack, since it does not limit the depth.

    Raises:
        _TooManyNodes: there are more than `most` values.
    """
    depth = nodes = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.NodeEvent):
            nodes += 1
            depth += isinstance(event, yaml.CollectionStartEvent)
        if nodes > most:
            raise _TooManyNodes
        if depth > _DEEPEST:
            return False
    return True


def load_yaml(path: Path, shown_as: str) -> YamlSource:
    """Read and check one YAML document.

    Raises:
        InvalidInput: the file is missing, a directory, empty, too large, not UTF-8 or not YAML, or has duplicate keys
            or aliases that expand to too many values.
    """
    source = parse_yaml(_read_text(path, shown_as), shown_as)
    if not source.lines:
        raise InvalidInput(Problem("the file is empty", "create one with: evalspec init", shown_as))
    return source


def parse_yaml(text: str, shown_as: str, max_nodes: int = MAX_EXPANDED_NODES) -> YamlSource:
    """Parse and check one YAML document. For an empty text the source has no lines.

    `max_nodes`: maximum number of values with aliases expanded.

    Raises:
        InvalidInput: the text is not YAML, or has several documents, duplicate keys, tags, or aliases that expand to
            too many values.
    """
    source = YamlSource(shown_as)
    problems: list[Problem] = []
    try:
        loader, root = _compose(text, max_nodes)
        if root is None:
            return source
        _refuse_bombs(root, shown_as, max_nodes)
        source.data = _construct(loader, root, (), source, problems)
    except _TooManyNodes as error:
        message = f"it has more than {max_nodes:,} values"
        raise InvalidInput(Problem(message, "move data into datasets", shown_as)) from error
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
        raise InvalidInput(Problem("no such file", "create one with: evalspec init", shown_as)) from error
    except OSError as error:
        raise InvalidInput(Problem(f"cannot be read: {error.strerror}", file=shown_as)) from error
    if len(raw) > MAX_BYTES:
        message = f"the file has {len(raw):,} bytes; manifests are limited to {MAX_BYTES:,}"
        raise InvalidInput(Problem(message, "move data into datasets", shown_as))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InvalidInput(Problem("not UTF-8 text", "save the file as UTF-8", shown_as, line)) from error


def _refuse_bombs(root: yaml.Node, shown_as: str, max_nodes: int) -> None:
    """Refuse a document with more than `max_nodes` nodes once aliases are expanded. Each node is measured once."""
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
        message = f"aliases expand to {expanded:,} values; the limit is {max_nodes:,}"
        raise InvalidInput(Problem(message, "remove aliases, or move data into datasets", shown_as))


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _construct(loader: "_Loader", node: yaml.Node, path: Place, source: YamlSource, problems: list[Problem]) -> Any:
    source.lines[path] = node.start_mark.line + 1
    if not node.tag.startswith(_STANDARD_TAGS):
        problems.append(source.problem(path, f"the YAML tag {node.tag} is not supported", "write plain values"))
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
        is_word = key_node.tag == _BOOLEAN  # `on` and `yes` are names here, and true and false only as values
        key = key_node.value if is_word else loader.construct_object(key_node, deep=True)
        field_name = render_path((*path, str(key)))
        if key in mapping:
            problems.append(Problem("duplicate key", "remove one of them", source.file, line, field_name))
        mapping[key] = _construct(loader, value_node, (*path, key), source, problems)
        source.lines[(*path, key)] = line
    return mapping


def _scalar(loader: "_Loader", node: yaml.Node) -> Any:
    """Return the value of a scalar. Timestamps stay text, because a label such as `2026-01-01` must not become a date.

    Text and plain decimal integers are handled here, because PyYAML takes 15 µs for each and most values are of these.
    """
    if node.tag in _AS_WRITTEN:
        return node.value
    if node.tag == _INTEGER and node.value.isascii() and node.value.isdecimal() and node.value[0] != "0":
        return int(node.value)
    return loader.construct_object(node, deep=True)


def find_texts(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield every text in a value of a manifest, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping | list):
        for step, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from find_texts(item, (*place, step))


def render_path(path: Place) -> str:
    """Return `("spec", "datasets", 0, "name")` as `spec.datasets[0].name`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
