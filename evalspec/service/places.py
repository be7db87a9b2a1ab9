"""Paths in messages: callers of the API see paths in the project, never where the server keeps the project."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any


def hide_folder(text: str, folder: Path) -> str:
    """Return a text with the paths below a folder relative to that folder."""
    if folder == Path(folder.anchor):
        return text
    return text.replace(f"{folder}/", "").replace(str(folder), ".")


def hide_folders(value: Any, folders: Iterable[Path]) -> Any:
    """Return a JSON value with the paths below some folders relative to their folder, in every text of the value."""
    known = sorted(folders, key=lambda folder: -len(str(folder)))
    return _hide(value, known)


def _hide(value: Any, folders: list[Path]) -> Any:
    if isinstance(value, str):
        for folder in folders:
            value = hide_folder(value, folder)
        return value
    if isinstance(value, dict):
        return {key: _hide(item, folders) for key, item in value.items()}
    return [_hide(item, folders) for item in value] if isinstance(value, list | tuple) else value


def show_place(path: str, folder: Path) -> str:
    """Return a path relative to a project's folder if it is inside, so that all its spellings are equal."""
    place = folder / path
    try:
        return str(place.resolve().relative_to(folder.resolve()))
    except (ValueError, OSError):
        return path
