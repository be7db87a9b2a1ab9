"""The texts of blocks: pinned ones in `blocks/<hash>`, and those of corpora.

A pin is `sha256:` and the first 32 hex digits of SHA-256 over the text that reviewers see: the title, a line break and
the text, or the text alone if there is no title. The file `blocks/<hash>` has exactly these bytes.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.files import show, write_text
from evalspec.curation.gold.layout import BLOCKS
from evalspec.curation.gold.permission import read_grants
from evalspec.curation.gold.redaction import find_terms
from evalspec.curation.gold.schema import AnyOf, Block, Blocks, Triple
from evalspec.curation.remap.corpus import Corpus, load_corpus
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset
from evalspec.model import Document

PIN = "sha256:"
_DIGITS, _SHORTEST = 32, 16
_PIN = re.compile(r"sha256:([0-9a-f]{16,64})")
Item = TypeVar("Item")

BlockKey = tuple[str, str | None]
"""The id and the version of a block, which determine its text."""


def key_of(block: Block) -> BlockKey:
    """Return id and version of a block."""
    return block.block_id, block.version


def render_document(document: Document) -> str:
    """Return the text that a reviewer sees: title, line break and text."""
    return f"{document.title}\n{document.text}" if document.title else document.text


def hash_text(text: str) -> str:
    """Return the first 32 hex digits of SHA-256 over a text in UTF-8. Half a surrogate pair counts as `?`."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_DIGITS]


def make_pin(text: str) -> str:
    """Return the `version` that pins a text."""
    return f"{PIN}{hash_text(text)}"


def parse_pin(version: str | None) -> str | None:
    """Return the hash of a pin, at least 16 hex digits. None if the version is a label or is missing."""
    found = _PIN.fullmatch(version or "")
    return found[1] if found else None


def is_pin_of(version: str | None, text: str) -> bool:
    """Return whether a version pins this text."""
    wanted = parse_pin(version)
    return wanted is not None and hashlib.sha256(text.encode(errors="replace")).hexdigest().startswith(wanted)


def read_corpus(path: Path) -> Corpus:
    """Return the corpus in a file, or in a folder of a dataset, in any format with documents.

    Raises:
        InvalidInput: There are no documents, or the file is invalid.
    """
    problems: list[Problem] = []
    corpus = load_corpus(path, show(path), problems, [])
    if problems:
        data = load_dataset(Source(path, show(path)))
        if data.problems or not data.content.documents:
            raise InvalidInput(problems)
        return Corpus(path, show(path), (), data.content.documents)
    return corpus


def read_documents(path: Path) -> dict[str, Document]:
    """Return the documents of a corpus by id.

    Raises:
        InvalidInput: There are none, or the file is invalid.
    """
    return {document.id: document for document in read_corpus(path).documents}


def read_texts(path: Path) -> dict[str, str]:
    """Return the texts of a corpus by id, as reviewers see them.

    Raises:
        InvalidInput: There are none, or the file is invalid.
    """
    return {name: render_document(document) for name, document in read_documents(path).items()}


def store_text(root: Path, text: str) -> str:
    """Keep a text in the set, and return the `version` that pins it.

    Raises:
        InvalidInput: The file cannot be written, or the text has a term of a grant, which a pinned text must keep.
    """
    path = root / BLOCKS / hash_text(text)
    if not path.is_file():
        _refuse_terms(root, text)
        write_text(path, text)
    return make_pin(text)


def _refuse_terms(root: Path, text: str) -> None:
    for customer, grant in read_grants(root, []).items():
        if find_terms(text, grant.terms):
            message = (
                f"the text of the block has a term of permissions/{customer}.yaml, so it cannot be kept in the set"
            )
            fix = "pin the block by the name of a release instead: --block ID@VERSION"
            raise InvalidInput(Problem(message, fix, field="expected_block"))


def find_text(root: Path, block: Block) -> str | None:
    """Return the pinned text of a block, None if it is not pinned, or its text is missing or was changed."""
    texts = map(_read_text, list_block_files(root, block))
    return next((text for text in texts if text is not None and is_pin_of(block.version, text)), None)


def list_block_files(root: Path, block: Block) -> list[Path]:
    """Return the files in `blocks/` whose names agree with the pin of a block: mostly one, none without a pin."""
    wanted = parse_pin(block.version)
    if wanted is None:
        return []
    exact = root / BLOCKS / wanted[:_DIGITS]
    return [exact] if exact.is_file() else sorted((root / BLOCKS).glob(f"{wanted[:_SHORTEST]}*"))


def find_texts(root: Path, triple: Triple, corpus: Mapping[str, str] | None = None) -> dict[BlockKey, str]:
    """Return the known texts of a triple's blocks. A text of the corpus must be the pinned one, if there is a pin."""
    found: dict[BlockKey, str] = {}
    for block in triple.blocks:
        text = find_text(root, block)
        if text is None and corpus is not None:
            other = corpus.get(block.block_id)
            fits = other is not None and (parse_pin(block.version) is None or is_pin_of(block.version, other))
            text = other if fits else None
        if text is not None:
            found[key_of(block)] = text
    return found


def list_damaged(root: Path) -> Iterator[Problem]:
    """Yield a problem for each file of blocks/ whose content is not that of its name."""
    folder = root / BLOCKS
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.startswith("."):
            continue
        if path.is_symlink() or not path.is_file():
            yield Problem("only texts of blocks belong here", "remove it", show(path))
            continue
        text = _read_text(path)
        if text is None or not is_pin_of(f"{PIN}{path.name}", text):
            yield Problem("the text is not the one that its name pins", "restore it from git", show(path))


def replace_blocks(blocks: Blocks, changed: Mapping[BlockKey, Sequence[Block]]) -> Blocks:
    """Return the blocks of a triple with some of them replaced. Several in one's place are alternatives."""
    if isinstance(blocks, Block):
        own = _replace(blocks, changed)
        return own[0] if len(own) == 1 else [AnyOf(any=own)]
    parts: list[Block | AnyOf] = []
    for part in blocks:
        inner = part.any if isinstance(part, AnyOf) else [part]
        own = _unique([new for old in inner for new in _replace(old, changed)])
        parts.append(AnyOf(any=own) if isinstance(part, AnyOf) or len(own) > 1 else own[0])
    return _unique(parts)


def _unique(parts: list[Item]) -> list[Item]:
    return [part for place, part in enumerate(parts) if part not in parts[:place]]


def _replace(block: Block, changed: Mapping[BlockKey, Sequence[Block]]) -> list[Block]:
    return list(changed.get(key_of(block), (block,)))


def _read_text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None
