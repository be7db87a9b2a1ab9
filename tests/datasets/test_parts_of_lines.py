"""A file is parsed in parts. Nothing may depend on where a part ends, nor on what else is in it."""

import gzip
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalspec.base import jsonl as base
from evalspec.base.jsonl import number_lines
from evalspec.inputs.datasets import jsonl, jsonl_lines
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset

PLAIN = b'{"input": "q: [\xc3\xa9]}{", "expected": "a", "relevant": ["d", "e"], "metadata": {"k": {"l": 1}}}'
ASKED = b'{"input": [{"role": "user", "content": "q"}], "expected": ["a", " "], "max_steps": 2}'
ODD = {
    "blank": b" ",
    "mark": b"\xef\xbb\xbf" + PLAIN,
    "return": PLAIN + b"\r",
    "return inside": b'{"input": "q",\r"expected": "a"}',
    "key twice": b'{"input": "q", "expected": "a", "input": "b"}',
    "inner key twice": b'{"input": "q", "expected": "a", "metadata": {"k": 1, "k": 2}}',
    "escaped": rb'{"input": "q", "input": "a\u003ab", "expected": "a"}',
    "two objects": ASKED + b" " + ASKED,
    "two with a comma": ASKED + b", " + ASKED,
    "over two lines": b'{"input": "q",\n"expected": "a"}',
    "over two lines, no comma": b'{"input": "q"\n"expected": "a"}',
    "over three lines": b'{\n"input": "q", "expected": "a"\n}',
    "line in a text": b'{"input": "q\nr", "expected": "a"}',
    "zero": b'{"input": "q\0", "expected": "a"}',
    "not UTF-8": b'{"input": "\xff", "expected": "a"}',
    "half": b'{"input": "q", "expe',
    "null": b'{"input": "q", "expected": "a", "tags": null}',
    "groups": b'{"input": "q", "expected": "a", "relevant": [["a", "b"], ["a"]]}',
    "last word": b'{"input": [{"role": "tool", "content": "q"}], "expected": "a"}',
    "too long": b'{"input": "' + b"x" * 400 + b'", "expected": "a"}',
    "long": b'{"input": "' + b"x" * 250 + b'", "expected": "a"}',
    "list": b"[1]",
    "number": b"1",
}
MOST = 300
"""The longest line, in these tests."""


def read(path):
    return repr(load_dataset(Source(path, "d.jsonl")))


def read_by_lines(path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "_read_lines", number_lines)
        return read(path)


@given(
    file=st.lists(st.sampled_from([PLAIN, PLAIN, PLAIN, ASKED, *ODD.values()]), min_size=1, max_size=12),
    end=st.sampled_from([b"\n", b"", b"\n\n", b"\r\n"]),
    size=st.integers(1, 700),
)
@example(file=[ODD["over two lines, no comma"], ODD["two with a comma"]], end=b"\n", size=700)
@example(file=[ODD["over two lines"], ODD["two objects"]], end=b"\n", size=700)
@example(file=[PLAIN, ODD["too long"], PLAIN], end=b"\n", size=100)
@example(file=[PLAIN, ODD["blank"], PLAIN, ODD["half"]], end=b"", size=10)
def test_parts_of_any_size_are_read_as_lines_are(file, end, size, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "parts.jsonl"
    path.write_bytes(b"\n".join(file) + end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl_lines, "_PART_BYTES", size)
        for module in (base, jsonl_lines):
            patch.setattr(module, "MAX_LINE_BYTES", MOST)
        assert read(path) == read_by_lines(path)


def write_lines(count):
    """Lines of different lengths that compress badly, so that parts end at any place of a line."""
    lines = ({"id": f"s{n}", "input": f"{n * 7919 % 999_983:x} " * (n % 9 + 1), "expected": "a"} for n in range(count))
    return [json.dumps(line).encode() for line in lines]


@pytest.mark.parametrize("odd", [*ODD])
def test_an_odd_line_of_a_large_file_is_read_as_it_is_alone(odd, tmp_path):
    lines = write_lines(600)
    for place in (590, 300, 299, 0):
        lines.insert(place, ODD[odd])
    path = tmp_path / "d.jsonl"
    path.write_bytes(b"\n".join(lines))
    assert path.stat().st_size > 3 * jsonl_lines._PART_BYTES
    assert read(path) == read_by_lines(path)


def test_common_lines_of_a_large_file_are_parsed_together(tmp_path, monkeypatch):
    path, parts = tmp_path / "d.jsonl", []
    path.write_bytes(b"\n".join(write_lines(600)))
    parse = jsonl_lines.parse_plain_samples
    with path.open("rb") as stream:
        for number, records in jsonl_lines.read_plainly(stream, lambda part: parts.append(part) or parse(part)):
            assert number == 1 + sum(part.count(b"\n") for part in parts[:-1])
            assert len(records) == len(parts[-1].splitlines())
    assert b"".join(parts) == path.read_bytes()
    assert len(parts) < 10


@given(cut=st.integers(20, 14_000), flipped=st.integers(20, 14_000) | st.none())
@example(cut=9_000, flipped=None)
def test_the_lines_before_the_damage_of_a_gzip_file_are_read(cut, flipped, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "parts.jsonl"
    packed = bytearray(gzip.compress(b"\n".join(write_lines(2000)), mtime=0))
    assert len(packed) > 14_000
    if flipped is not None:
        packed[flipped] ^= 16
    path.write_bytes(packed[:cut])
    assert read(path) == read_by_lines(path)
