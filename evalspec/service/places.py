"""Paths in messages: callers of the API see paths in the project, never where the server keeps the project."""

from pathlib import Path
from typing import Any

from evalspec.base.json_text import change_values


def hide_folder(text: str, folder: Path) -> str:
    """Return a text with the paths below a folder relative to that folder."""
    if folder == Path(folder.anchor):
        return text
    return text.replace(f"{folder}/", "").replace(str(folder), ".")


def hide_folder_within(value: Any, folder: Path) -> Any:
    """Return a JSON value with the paths below a folder relative to it, in every text of the value."""
    return change_values(value, lambda one: hide_folder(one, folder) if isinstance(one, str) else one)


def show_place(path: str, folder: Path) -> str:
    """Return a path relative to a project's folder if it is inside, so that all its spellings are equal."""
    place = folder / path
    try:
        return str(place.resolve().relative_to(folder.resolve()))
    except (ValueError, OSError):
        return path
