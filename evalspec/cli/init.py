"""`evalspec init`: create an evaluation that runs immediately and can be adapted."""

import json
import shlex
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import click

from evalspec.cli.options import option
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.streams import emit, emit_line
from evalspec.errors import InvalidInput, Problem
from evalspec.foreign_text import inert
from evalspec.output_files import replace_file

_DATA_AND_CI = {
    "evals/rag.jsonl": "rag.jsonl",
    "evals/regression.jsonl": "regression.jsonl",
    ".github/workflows/evalspec.yml": "workflow.yml",
}
"""Paths of the created files to their templates in the scaffold folder."""
_WITH_EXAMPLE_AGENT = {"agent.yaml": "agent.yaml", "agent.py": "agent.py.txt", **_DATA_AND_CI}
_WITH_OWN_AGENT = {"agent.yaml": "agent-at-url.yaml", **_DATA_AND_CI}
_URL_PLACEHOLDER = "URL-GIVEN-TO-INIT"


@click.command("init", cls=OrderedCommand)
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=Path())
@option("--url", metavar="URL", help="Base URL of your agent; by default, an example agent is created.")
@option("--force", is_flag=True, help="Overwrite existing files.")
def command(directory: Path, url: str | None, force: bool) -> None:
    """Create an agent.yaml, two datasets and a CI workflow in DIRECTORY (default: the current directory).

    Without --url, an example agent is created too, so the evaluation runs immediately and without an API key. If any
    of the files already exists, nothing is written unless --force is given. Symbolic links are not followed.

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
    """Return the text of each file by its path. The URL is inserted as a JSON string, which is valid YAML too."""
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
        yield Problem(f"'{url}' is not an HTTP URL", "use a URL like http://localhost:4000", field="--url")


def _path_problems(directory: Path, name: str, force: bool) -> Iterator[Problem]:
    """Yield the problems that prevent writing a file: an existing file, link or folder at its path or its parents."""
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
        yield Problem("already exists", "--force overwrites it", str(path))
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
