"""Replace or delete one triple in its file, which mostly has no other."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.files import YamlFile, read_documents, render_yaml, show, to_plain, write_record, write_text
from evalspec.curation.gold.schema import GoldTriple


def replace_triple(path: Path, name: str, triple: GoldTriple) -> None:
    """Write a triple to its file: in its place if the file has several, else as the whole file.

    A file that says the same already stays as it is, with its comments.

    Raises:
        InvalidInput: The file cannot be read or written.
    """
    documents = _read(path)
    plain = {"id": name, **{key: value for key, value in to_plain(triple).items() if key != "id"}}
    own = [value for one in documents for value in _list_values(one) if _is_named(value, name, path)]
    if any({**value, "id": name} == plain for value in own):
        return
    if not _is_shared(documents):
        write_record(path, triple)
        return
    _write_documents(path, [text for one in documents if (text := _edit(one, name, path, plain)) is not None])


def delete_triple(path: Path, name: str) -> None:
    """Delete a triple from its file, and the file if it has no other triple.

    If one other triple is left, the file gets its name before it is written, unless another file has that name.

    Raises:
        InvalidInput: The file cannot be read or written.
    """
    documents = _read(path)
    kept = [text for one in documents if (text := _edit(one, name, path, None)) is not None]
    if not _is_shared(documents) or not kept:
        path.unlink(missing_ok=True)
        return
    others = [value for one in documents for value in _list_values(one) if not _is_named(value, name, path)]
    if len(others) == 1 and path.stem != others[0]["id"]:
        free = path.with_name(f"{others[0]['id']}.yaml")
        if free.exists():
            kept = [render_yaml(others)]  # a list may have any name
        else:
            path = path.replace(free)
    _write_documents(path, kept)


def has_triple(path: Path, name: str) -> bool:
    """Return whether a file has a triple of this id. It may have others only, or not exist.

    Raises:
        InvalidInput: The file cannot be read.
    """
    return any(_is_named(value, name, path) for one in _read(path) for value in _list_values(one))


def drop_triples(path: Path, names: Collection[str]) -> None:
    """Delete triples from a file outside of a set, which may list them under the key `triples`, and an empty file.

    Raises:
        InvalidInput: The file cannot be read or written.
    """
    problems: list[Problem] = []
    texts = [_drop(document, names) for document in read_documents(path, show(path), problems)]
    if problems:
        raise InvalidInput(problems)
    kept = [text for text in texts if text is not None]
    if kept:
        _write_documents(path, kept)
    else:
        path.unlink()


def _drop(document: YamlFile, names: Collection[str]) -> str | None:
    """Return the text of a document without some triples. None: nothing is left."""
    data = document.data
    is_named = isinstance(data, dict) and isinstance(data.get("triples"), list)
    values = data["triples"] if is_named else _list_values(document)
    left = [value for value in values if not isinstance(value, dict) or value.get("id") not in names]
    if len(left) == len(values):
        return document.text
    if not left:
        return None
    return render_yaml({**data, "triples": left} if is_named else left)


def _read(path: Path) -> list[YamlFile]:
    """Return all documents of a file, none if there is no file. Writing back a part of them would lose the others.

    Raises:
        InvalidInput: One of them cannot be read.
    """
    problems: list[Problem] = []
    documents = read_documents(path, show(path), problems) if path.exists() else []
    if problems:
        raise InvalidInput(problems)
    return documents


def _is_shared(documents: list[YamlFile]) -> bool:
    return len(documents) > 1 or any(isinstance(one.data, list) for one in documents)


def _list_values(document: YamlFile) -> list[Any]:
    return document.data if isinstance(document.data, list) else [document.data]


def _is_named(value: Any, name: str, path: Path) -> bool:
    return isinstance(value, dict) and value.get("id", path.stem) == name


def _edit(document: YamlFile, name: str, path: Path, plain: dict[str, Any] | None) -> str | None:
    """Return the text of a document with a triple replaced, or without it. None: nothing is left."""
    values = _list_values(document)
    own = [_is_named(value, name, path) for value in values]
    if not any(own):
        return document.text
    edited = [plain if is_own else value for value, is_own in zip(values, own, strict=True)]
    left = [value for value in edited if value is not None]
    if not left:
        return None
    return render_yaml(left if isinstance(document.data, list) else left[0])


def _write_documents(path: Path, texts: list[str]) -> None:
    lines = (text if text.endswith("\n") else f"{text}\n" for text in texts)
    write_text(
        path,
        "".join(text if text.startswith("---") or not place else f"---\n{text}" for place, text in enumerate(lines)),
    )
