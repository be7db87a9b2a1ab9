"""What becomes of a valid file: changes of its bytes, its lines, its values, and of the file itself. All is data.

`mutate(kind, chance, content)` gives the changed bytes and the names of the changes. Kinds: json, jsonl, yaml, lines
(words in lines: TREC, TSV), binary. The same chance and content give the same bytes.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml

Change = Callable[[Random, bytes], bytes]


@dataclass(frozen=True)
class Raw:
    """Text that stands in a document as it is, whether it is JSON or not."""

    text: str


@dataclass
class Pairs:
    """An object that may have a key more than once."""

    items: list[tuple[Any, Any]]


HOSTILE_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e308, 10**400, -(2**63), 2**64, [], {}, [[]], [{}], [None], {"": None},
    Raw("NaN"), Raw("-Infinity"), Raw("1e999"), Raw("-"), Raw("9" * 5000), Raw("0x10"), Raw("1_000"), Raw("nul"),
    Raw("[" * 3000 + "]" * 3000), Raw('{"a":' * 3000 + "1" + "}" * 3000), Raw("[" * 100_000), Raw(""), Raw("'x'"),
    Raw('"\\ud800"'), Raw('"\\udfff\\ud800"'), Raw('"\\u0000"'), Raw('"\\x"'), Raw('"\x01"'), Raw("2024-05-01"),
    "", " ", "\n", "\t\r", "\0", "a\0b", "é", "e\u0301", "\u202e", "\u2028", "\ufeff", "\U0001f600", "x" * 70_000,
    "..", ".", "/", "../..", "/dev/null", "/etc", "~", "a/b", "CON", "%s%n{0}{x}", "{{input}}", "{{", "$.a[?@.b]",
    "$env:PATH", "$env:NOT_SET", "$env:", "$file:", "$file:agent.yaml", "$file:/", "$secret:x", "$func:now_iso",
    "$func:x", "${env:PATH}", "${env:", "module:object", ":", "os:getcwd", "http://[", "http://127.0.0.1:99999",
    "ftp://x", "http://\u2100.example", "http://127.0.0.1:9", "true", "null", "0", "1.5", "-1", "nan", "inf", "1e5",
    "Recall@", "Recall@0", "Recall@99999999999999999999", "nDCG@1.5", "@5",
    "evalspec: x", "::error ::x", "\x1b]52;c;x\x07",
    "*", "&a", "!!python/object:os.system", "- x", "? x", "=1+1", "<script>", "NaN", "tags", "__proto__", "id",
)  # fmt: skip
HOSTILE_WORDS = tuple(
    value for value in HOSTILE_VALUES if isinstance(value, str) and not value.startswith(("$", "http", "\n"))
)


def write_json(value: Any) -> str:
    """JSON, but for raw texts and repeated keys."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        value = Pairs(list(value.items()))
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{_write_key(key)}: {write_json(one)}" for key, one in value.items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(write_json, value)) + "]"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 2000:
        return "1" + "0" * 400
    return json.dumps(value, default=str)


def _write_key(key: Any) -> str:
    return key.text if isinstance(key, Raw) else json.dumps(key if isinstance(key, str) else str(key))


# Values


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) below a value."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        one = todo.pop()
        keys = range(len(one)) if isinstance(one, list) else list(one) if isinstance(one, dict) else ()
        for key in keys:
            found.append((one, key))
            todo.append(one[key])
    return found


def _replace(chance: Random, into: Any, key: Any) -> None:
    into[key] = chance.choice(HOSTILE_VALUES)


def _retype(chance: Random, into: Any, key: Any) -> None:
    value = into[key]
    plain = json.dumps(value, default=str)
    into[key] = chance.choice(
        [[value], {"value": value}, plain, str(value), len(plain), not value, None, [value, value]]
    )


def _remove(chance: Random, into: Any, key: Any) -> None:
    del into[key]


def _repeat(chance: Random, into: Any, key: Any) -> None:
    """An element or a key that is there twice; the second may have another value."""
    value = chance.choice([into[key], None, 0, "x"])
    if isinstance(into, list):
        into.insert(key, value)
        return
    pairs = [(name, one) for name, one in into.items()] + [(key, value)]
    into.clear()
    into[
        Raw(", ".join(f"{_write_key(name)}: {write_json(one)}" for name, one in pairs[:-1]) + f", {_write_key(key)}")
    ] = value


def _rename(chance: Random, into: Any, key: Any) -> None:
    if isinstance(into, dict):
        value = into.pop(key)
        into[chance.choice([str(key).upper(), str(key) + "s", f" {key}", str(key)[:-1], *HOSTILE_WORDS])] = value


def _add(chance: Random, into: Any, key: Any) -> None:
    value = chance.choice(HOSTILE_VALUES)
    if isinstance(into, list):
        into.append(value)
    else:
        into[chance.choice(HOSTILE_WORDS)] = value


def _stretch(chance: Random, into: Any, key: Any) -> None:
    """Many of what there is one."""
    value = into[key]
    if isinstance(value, str):
        into[key] = value * chance.choice([2, 1000])
    elif isinstance(value, list):
        into[key] = value * chance.choice([0, 2, 500])
    else:
        into[key] = [value] * 500


def _put_aside(chance: Random, into: Any, key: Any) -> None:
    """The value of another place."""
    into[key] = json.loads(json.dumps(chance.choice(_places(into) or [(into, key)])[0], default=str, skipkeys=True))


TREE_CHANGES: Mapping[str, Callable[[Random, Any, Any], None]] = {
    "replace": _replace,
    "retype": _retype,
    "remove": _remove,
    "repeat": _repeat,
    "rename": _rename,
    "add": _add,
    "stretch": _stretch,
    "put aside": _put_aside,
}
_WEIGHTS = (6, 3, 2, 1, 1, 1, 1, 1)


def change_value(chance: Random, value: Any) -> tuple[Any, list[str]]:
    """A document with one to three changed places."""
    whole, names = [value], []
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        places = [place for place in _places(whole) if not isinstance(place[1], Raw)]
        name = chance.choices(list(TREE_CHANGES), _WEIGHTS)[0]
        into, key = chance.choice(places[1:] or places)
        try:
            TREE_CHANGES[name](chance, into, key)
        except (TypeError, ValueError):  # of a raw text or a date there are no parts
            continue
        names.append(f"{name} {key if not isinstance(key, Raw) else '…'}")
        if not whole:
            return Raw(""), names
    return whole[0], names


def _change_json(chance: Random, content: bytes) -> tuple[bytes, list[str]]:
    value, names = change_value(chance, json.loads(content))
    return write_json(value).encode("utf-8", "surrogatepass"), names


def _change_yaml(chance: Random, content: bytes) -> tuple[bytes, list[str]]:
    value, names = change_value(chance, yaml.load(content, yaml.CSafeLoader))
    return write_json(value).encode("utf-8", "surrogatepass"), names


def _change_jsonl(chance: Random, content: bytes) -> tuple[bytes, list[str]]:
    lines = content.splitlines()
    place = chance.randrange(len(lines))
    lines[place], names = _change_json(chance, lines[place])
    return b"\n".join(lines) + b"\n", [f"line {place + 1}: {name}" for name in names]


def _change_words(chance: Random, content: bytes) -> tuple[bytes, list[str]]:
    """Words or fields of lines."""
    lines = content.decode().splitlines()
    place = chance.randrange(len(lines))
    parts = re.split(r"(\s)", lines[place])
    names = []
    for _ in range(chance.choice([1, 1, 2])):
        part = chance.randrange(len(parts))
        parts[part] = chance.choice([*HOSTILE_WORDS, "9" * 5000, "-9" * 3, "1e400", "\t", "\u00a0", "\x0b", "\x85"])
        names.append(f"line {place + 1}: word {part}")
    lines[place] = "".join(parts)
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"), names


# Lines and bytes


def _flip(chance: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 3, 30])):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _insert(chance: Random, content: bytes) -> bytes:
    place = chance.randrange(len(content) + 1)
    return content[:place] + chance.choice(_INSERTED) + content[place:]


_INSERTED = (
    b"\0", b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b'"', b"{", b"}", b"[", b",", b":",
    b"\xe2\x80\xae", b"\x1b[2J", b"---\n", b"\n%YAML 9.9\n---\n", b"!!python/object/apply:os.getcwd []", b"*a", b"&a ",
    b"<<: *x", b"!!binary x", b"!!set {a}", b"\\", b"\\u", b"#", b"'", b"|", b">", b"? ", b"- ", b"@",
    b"`", b"NaN", b"1e999",
)  # fmt: skip


def _cut(chance: Random, content: bytes) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def _cut_out(chance: Random, content: bytes) -> bytes:
    first, last = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    return content[:first] + content[last:]


def _double(chance: Random, content: bytes) -> bytes:
    return content * chance.choice([2, 3])


def _shuffle_lines(chance: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    chance.shuffle(lines)
    return b"".join(lines)


def _double_line(chance: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([*lines, *([chance.choice(lines)] * chance.choice([1, 300]) if lines else [])])


def _drop_line(chance: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[chance.randrange(len(lines)) : chance.randrange(len(lines)) + 1 if lines else 0]
    return b"".join(lines)


def _recode(encoding: str) -> Change:
    return lambda _chance, content: content.decode("utf-8", "replace").encode(encoding, "replace")


_ALIASES = b"a: &a [x, x]\n" + b"".join(
    b"%c: &%c [*%c, *%c, *%c]\n" % (98 + n, 98 + n, 97 + n, 97 + n, 97 + n) for n in range(20)
)

_SCALARS = (b"null", b"1", b'"x"', b"[]", b"{}", b"[1]", b"true", b"1e999", b"NaN")
_OPENINGS = (b"[", b'{"a":', b"- ", b"[{")

BYTE_CHANGES: Mapping[str, Change] = {
    "flip bits": _flip,
    "insert": _insert,
    "cut": _cut,
    "cut out": _cut_out,
    "double": _double,
    "shuffle lines": _shuffle_lines,
    "double a line": _double_line,
    "drop lines": lambda chance, content: _drop_line(chance, content) if content.splitlines() else b"",
    "empty": lambda _chance, _content: b"",
    "blank": lambda chance, _content: chance.choice([b"\n", b" ", b"\n\n\t\n", b"\r\n"]),
    "BOM": lambda _chance, content: b"\xef\xbb\xbf" + content,
    "UTF-16": _recode("utf-16"),
    "UTF-32": _recode("utf-32"),
    "UTF-16 without BOM": _recode("utf-16-le"),
    "Latin-1": lambda _chance, content: content + "# é\n".encode("latin-1"),
    "CRLF": lambda _chance, content: content.replace(b"\n", b"\r\n"),
    "CR": lambda _chance, content: content.replace(b"\n", b"\r"),
    "NUL for blanks": lambda _chance, content: content.replace(b" ", b"\0"),
    "gzip": lambda _chance, _content: b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01",
    "scalar": lambda chance, _content: chance.choice(_SCALARS),
    "deep": lambda chance, _content: chance.choice(_OPENINGS) * chance.choice([200, 2000, 100_000]),
    "aliases": lambda _chance, content: _ALIASES + content,
    "long line": lambda _chance, content: content.rstrip() + b"x" * 1_200_000 + b"\n",
}  # fmt: skip

_STRUCTURED: Mapping[str, Callable[[Random, bytes], tuple[bytes, list[str]]]] = {
    "json": _change_json,
    "jsonl": _change_jsonl,
    "yaml": _change_yaml,
    "lines": _change_words,
}


_LARGE = 2**20
"""Bytes; a change more could make of it what no machine holds."""


def mutate(kind: str, chance: Random, content: bytes) -> tuple[bytes, list[str]]:
    """The changed content, and what was changed."""
    names: list[str] = []
    structured = _STRUCTURED.get(kind)
    if structured is not None and chance.random() < 0.7:
        content, names = structured(chance, content)
        if chance.random() < 0.9:
            return content, names
    for _ in range(chance.choice([1, 1, 2])):
        if len(content) > _LARGE:
            break
        name = chance.choice(list(BYTE_CHANGES))
        content = BYTE_CHANGES[name](chance, content)
        names.append(name)
    return content, names


# The file itself


def _remove_file(path: Path) -> None:
    path.unlink()


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _make_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _make_dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("not-there")


def _make_other(path: Path) -> None:
    """What is no regular file and never ends, or ends at once."""
    path.unlink()
    path.symlink_to("/dev/null")


FILE_CHANGES: Mapping[str, Callable[[Path], None]] = {
    "missing": _remove_file,
    "a folder": _make_folder,
    "a link to itself": _make_loop,
    "a link to nothing": _make_dangling,
    "a device": _make_other,
}
