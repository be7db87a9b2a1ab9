"""The texts of blocks, for people who review triples, and the words that they share with an answer."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from evalspec.curation.gold.blocks import find_text, is_pin_of, list_block_files, parse_pin
from evalspec.curation.gold.files import show
from evalspec.curation.gold.schema import Block
from evalspec.scoring.judge.belonging import content_words

_HOW = "keep it with: evalspec gold pin --corpus FILE, or pass --corpus FILE"

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_TOKEN = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+(?:[.,:'’][^\W{_UNSPACED}]+)*")
_SHORTEST_STEM = 4
_ENDING = re.compile(r".{0,2}|ing|ion")
"""Two words are forms of one if the shorter, of at least four letters, begins the other and only an ending follows."""


class BlockText(Struct, frozen=True):
    """The text of a block. `text`: None if it is not available, and `why` says why not and how to get it."""

    block: Block
    text: str | None = None
    why: str = ""


def read_block_text(root: Path, block: Block, corpus: Mapping[str, str] | None = None) -> BlockText:
    """Return the text of a block: the pinned one in `blocks/`, or that of a corpus.

    `corpus`: texts by id of the block. If the block is pinned, only the pinned text is returned.
    """
    text = find_text(root, block)
    if text is not None:
        return BlockText(block, text)
    damaged = [path for path in list_block_files(root, block) if path.is_file()]
    if damaged:
        return BlockText(block, why=f"{show(damaged[0])} is not the pinned text; restore it from git")
    text = None if corpus is None else corpus.get(block.block_id)
    if text is None:
        where = "the set has no text of it" if corpus is None else "neither the set nor the corpus has it"
        return BlockText(block, why=f"{where}; {_HOW}")
    if parse_pin(block.version) is not None and not is_pin_of(block.version, text):
        return BlockText(block, why="the text in the corpus is not the pinned one; see: evalspec gold check")
    return BlockText(block, text)


def find_shared(text: str, answers: Sequence[str]) -> list[tuple[int, int]]:
    """Return the (start, end) of each stretch of a text whose content words an answer has too, in any common form."""
    answer = "\n".join(answers)
    wanted = content_words(answer)
    found: list[tuple[int, int]] = []
    for token in _TOKEN.finditer(text):
        for start, end in _match_token(token[0], wanted, answer):
            start, end = token.start() + start, token.start() + end
            if found and not text[found[-1][1] : start].strip(" -"):
                found[-1] = found[-1][0], end
            else:
                found.append((start, end))
    return found


def find_different(text: str, others: Sequence[str]) -> list[tuple[int, int]]:
    """Return the (start, end) of each content word of a text that none of the others has, in any common form."""
    other = "\n".join(others)
    wanted = content_words(other)
    return [
        (token.start() + start, token.start() + end)
        for token in _TOKEN.finditer(text)
        for start, end in _list_unmatched(token[0], wanted, other)
    ]


def _list_unmatched(token: str, wanted: frozenset[str], other: str) -> list[tuple[int, int]]:
    """Return the parts of a token that others lack: the whole token, or characters of a script without spaces."""
    shared = _match_token(token, wanted, other)
    if not re.match(f"[{_UNSPACED}]", token):
        return [(0, len(token))] if _split(token) and not shared else []
    kept = {at for start, end in shared for at in range(start, end)}
    return [(at, at + 1) for at in range(len(token)) if at not in kept and token[at] not in other]


def _match_token(token: str, wanted: frozenset[str], answer: str) -> list[tuple[int, int]]:
    """Return the parts of a token that an answer shares. Scripts without spaces are compared by pairs of characters."""
    if re.match(f"[{_UNSPACED}]", token):
        return [(at, at + 2) for at in range(len(token) - 1) if token[at : at + 2] in answer]
    return [(0, len(token))] if any(_is_wanted(word, wanted) for word in _split(token)) else []


@lru_cache(maxsize=8192)
def _split(token: str) -> frozenset[str]:
    return content_words(token)


def _is_wanted(word: str, wanted: frozenset[str]) -> bool:
    return word in wanted or (word.isalpha() and any(_is_form(word, other) for other in wanted))


def _is_form(one: str, two: str) -> bool:
    short, long = sorted((one, two), key=len)
    if len(short) < _SHORTEST_STEM or not long.startswith(short):
        return False
    return _ENDING.fullmatch(long, len(short)) is not None
