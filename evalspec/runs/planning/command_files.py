"""Find the files of an agent that a command names: scripts, modules with what they import, and other files."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from evalspec.inputs.user_code.modules import list_module_files

_SERVED = re.compile(r"([^\W\d][\w.]*):[^\W\d][\w.]*(?:\(.*\))?")
"""What uvicorn, gunicorn and hypercorn serve: `module:attribute`, or a call of it."""
_BREAKS = re.compile(r"[\s;&|()'\"=]+")
_LONGEST = 255
"""Bytes of a file name. Code in an argument is longer."""


def find_command_files(command: Sequence[str], folder: Path) -> set[Path]:
    """Return the files of a command, or of a script for a shell in it: Python code with all it imports from its folder,
    and the arguments that are files.

    `folder`: where the command runs. What is not there is looked for in the folders that the command names.
    """
    words = [*_split(command)]
    folders = [folder, *(folder / word for word in words if (folder / word).is_dir())]
    code = {file for base in folders for file in _find_modules(base, words)}
    return code | {base / word for base in folders for word in words if (base / word).is_file()}


def _split(command: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of a command, and their words: those of a script for a shell, the value of `--key=value`."""
    for argument in command:
        for word in (argument, *_BREAKS.split(argument)):
            if 0 < len(word.encode(errors="replace")) <= _LONGEST:
                yield word


def _find_modules(base: Path, words: Sequence[str]) -> Iterator[Path]:
    """Yield the files of the Python code that words name in a folder."""
    for before, word in zip(["", *words], words, strict=False):
        if word.endswith(".py"):
            script = base / word
            yield from list_module_files(script.parent, script.stem)
        elif before == "-m":
            yield from list_module_files(base, word) | list_module_files(base, f"{word}.__main__")
        elif served := _SERVED.fullmatch(word):
            yield from list_module_files(base, served[1])
