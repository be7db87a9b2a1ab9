"""`evalspec init`: an evaluation that runs at once, to be changed into the user's own."""

import json
import shlex
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import click

from evalspec.cli.options import option
from evalspec.cli.streams import emit, emit_line
from evalspec.errors import InvalidInput, Problem
from evalspec.foreign_text import inert
from evalspec.output_files import replace_file

_DATA_AND_CI = {
    "evals/rag.jsonl": "rag.jsonl",
    "evals/regression.jsonl": "regression.jsonl",
    ".github/workflows/evalspec.yml": "workflow.yml",
}
"""Files by the place where they are written, and their templates in the folder scaffold."""
_WITH_EXAMPLE_AGENT = {"agent.yaml": "agent.yaml", "agent.py": "agent.py.txt", **_DATA_AND_CI}
_WITH_OWN_AGENT = {"agent.yaml": "agent-at-url.yaml", **_DATA_AND_CI}
_URL_PLACEHOLDER = "URL-GIVEN-TO-INIT"


@click.command("init")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=Path())
@option("--url", metavar="URL", help="Your agent's base url; without it a small example agent is written too.")
@option("--force", is_flag=True, help="Overwrite files that exist already.")
def command(directory: Path, url: str | None, force: bool) -> None:
    """Write an agent.yaml, two datasets and a CI workflow into DIRECTORY (here where none is named).

    Without --url an example agent comes with them, so that the evaluation runs as it is, without a key.
    Files that exist already are never overwritten without --force: then nothing is written at all. Symbolic links are
    not followed.

    \b
    Examples:
      evalspec init
      evalspec init shop --url http://localhost:4000
    """
    contents = _render(url)
    problems = [] if url is None else list(_url_problems(url))
    problems += [problem for name in contents for problem in _path_problems(directory, name, force)]
    if problems:
        raise InvalidInput(dict.fromkeys(problems))
    for name, text in contents.items():
        _write(directory / name, text)
        emit_line(f"wrote {directory / name}")
    manifest = inert(shlex.quote(str(directory / "agent.yaml")))
    emit(f"\nNext:\n  evalspec validate {manifest}\n  evalspec evaluate {manifest}")


def _render(url: str | None) -> Mapping[str, str]:
    """The text of each file by its place; a JSON string is a YAML string too, whatever the url holds."""
    templates = files("evalspec.cli") / "scaffold"
    chosen = _WITH_EXAMPLE_AGENT if url is None else _WITH_OWN_AGENT
    texts = {name: (templates / template).read_text(encoding="utf-8") for name, template in chosen.items()}
    return {name: text.replace(_URL_PLACEHOLDER, json.dumps(url)) for name, text in texts.items()}


def _url_problems(url: str) -> Iterator[Problem]:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        yield Problem(f"'{url}' is not a url of an agent", "write it like http://localhost:4000", field="--url")


def _path_problems(directory: Path, name: str, force: bool) -> Iterator[Problem]:
    """What stands in the way of one file: the file itself, or something else where it or its folder belongs."""
    path = directory / name
    links = [one for one in (path, *(directory / part for part in Path(name).parents[:-1])) if one.is_symlink()]
    for link in links:
        yield Problem("is a symbolic link, which init does not follow", "move it away", str(link))
    if links:
        return
    if path.is_dir():
        yield Problem("is a folder", "move it away, or choose another directory", str(path))
    elif path.exists() and not path.is_file():
        yield Problem("is not a regular file", "move it away", str(path))
    elif path.is_file() and not force:
        yield Problem("exists already", "--force overwrites it", str(path))
    for folder in (directory / part for part in Path(name).parents):
        if folder.exists() and not folder.is_dir():
            yield Problem("is a file where a folder is needed", "move it away", str(folder))


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, [text.encode()])
    except OSError as error:
        raise InvalidInput(
            Problem(f"cannot be written: {error.strerror}", "choose another directory", str(path))
        ) from error
