"""Load the texts of documents that a dataset refers to by a `loaderRef`.

evalspec reads `file:PATH`, relative to the dataset's folder and never outside it. Every other reference is passed to
the user's own function, sync or async, which returns the text.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from evalspec.base.errors import EvalspecError, InvalidInput, Problem
from evalspec.base.trust import Act, explain
from evalspec.inputs.datasets.base import settings_finder
from evalspec.inputs.datasets.query_input import FILE_SCHEME, locate_beside
from evalspec.inputs.user_code.calls import UserCode, describe_value
from evalspec.model import Document


class LoaderError(EvalspecError):
    """The text of one document could not be loaded. The errors become one InvalidInput before anything is deleted."""


class DocumentLoader:
    """Loads texts by their references. `hook`: the user's function, given as `module:function`."""

    def __init__(self, dataset_folder: Path, hook: UserCode | None = None) -> None:
        self._folder = dataset_folder.resolve()
        self._hook = hook

    async def open_hook(self) -> None:
        """Import the user's module, if there is one.

        Raises:
            InvalidInput: the import fails.
        """
        if self._hook is None:
            return
        try:
            await self._hook.load_aside()
        except LoaderError as error:
            raise InvalidInput(f"the loader {self._hook.target} cannot be imported: {error}") from error

    async def load(self, reference: str) -> str:
        """Return the text of a reference.

        Raises:
            LoaderError: there is no text, it is blank, or nothing can load it.
        """
        if reference.startswith(FILE_SCHEME):
            text = self._read_file(reference.removeprefix(FILE_SCHEME))
        elif self._hook is None:
            raise LoaderError("no loader for it; write file:PATH, or set loader to a function of your own")
        else:
            text = await self._ask_hook(self._hook, reference)
        if not text.strip():
            raise LoaderError("the text is blank")
        return text

    def _read_file(self, name: str) -> str:
        try:
            return locate_beside(self._folder, name).read_text(encoding="utf-8-sig")
        except OSError as error:
            raise LoaderError(f"it cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise LoaderError(f"it is not UTF-8 text (byte {error.start + 1})") from error
        except ValueError as error:
            raise LoaderError(str(error)) from error

    async def _ask_hook(self, hook: UserCode, reference: str) -> str:
        text: Any = await hook.call(await hook.load_aside(), reference)
        if not isinstance(text, str):
            raise LoaderError(f"{hook.target} returned {describe_value(text)}, not text")
        return text


def open_loader(dataset_folder: Path, hook: str | None, manifest_folder: Path) -> DocumentLoader:
    """Return the loader of a dataset. `hook`: `module:function` beside the manifest, imported when first needed."""
    return DocumentLoader(dataset_folder, UserCode(hook, manifest_folder, LoaderError) if hook else None)


async def load_documents(documents: Sequence[Document], loader: DocumentLoader) -> tuple[Document, ...]:
    """Return the documents with their texts, and without metadata that only their format uses.

    A document's own text takes precedence over its reference.

    Raises:
        InvalidInput: with every text that could not be loaded.
    """
    await loader.open_hook()
    loaded, problems = [], []
    find_settings = settings_finder()
    for document in documents:
        own = find_settings(document.metadata)
        reference = own.get("loaderRef")
        metadata = {key: value for key, value in document.metadata.items() if value is not own}
        text = document.text
        if reference is not None and not text:
            try:
                text = await loader.load(reference)
            except LoaderError as error:
                problems.append(Problem(f"{error}", field=f"document '{document.id}': loaderRef '{reference}'"))
        loaded.append(replace(document, text=text, metadata=metadata))
    if problems:
        raise InvalidInput(problems)
    return tuple(loaded)


def list_unloadable(documents: Iterable[Document]) -> list[str]:
    """Return the ids of documents without a text whose reference needs the user's function."""
    return [name for name, reference in _list_references(documents) if not reference.startswith(FILE_SCHEME)]


def is_missing(file: Path) -> bool:
    """Return whether a file does not exist. Loading reports everything else that is wrong with it."""
    try:
        return explain(Act.READ_FILE, str(file)) is None and not os.path.lexists(file)
    except (OSError, ValueError):
        return False


def list_loaded_files(documents: Iterable[Document], dataset_folder: Path) -> list[Path]:
    """Return the files that documents without a text refer to."""
    references = (reference for _, reference in _list_references(documents) if reference.startswith(FILE_SCHEME))
    return [dataset_folder / reference.removeprefix(FILE_SCHEME) for reference in references]


def _list_references(documents: Iterable[Document]) -> Iterator[tuple[str, str]]:
    """Yield the id and the reference of each document that has a reference in place of a text."""
    find_settings = settings_finder()
    for document in documents:
        reference = None if document.text else find_settings(document.metadata).get("loaderRef")
        if isinstance(reference, str):
            yield document.id, reference


def count_assets(documents: Sequence[Document]) -> int:
    """Return the number of documents with assets, which are not ingested: retrievers get texts only."""
    find_settings = settings_finder()
    return sum(bool(find_settings(document.metadata).get("assets")) for document in documents)
