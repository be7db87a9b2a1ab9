"""`evalspec init`: create an evaluation that runs immediately and can be adapted."""

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from evalspec.api.repository import GITLAB, GITLAB_MAIN, Repository, find_repository, find_source
from evalspec.base.errors import InvalidInput, Problem, split_fix
from evalspec.base.foreign_text import encodable, inert
from evalspec.base.output_files import replace_file
from evalspec.cli.connecting import FirstContact, connect_options
from evalspec.cli.options import field_option, option, warn
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.scaffold import read_starting_data, render_files, render_workflows
from evalspec.cli.streams import emit, emit_line
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.inputs.user_code.modules import check_module

if TYPE_CHECKING:
    pass


@click.command("init", cls=OrderedCommand)
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=Path())
@option("--url", metavar="URL", help="Base URL of your agent; by default, an example agent is created.")
@option("--agent", metavar="MODULE:FUNCTION", help="Your agent in Python, in DIRECTORY, such as bot:answer.")
@option(
    "--data", type=click.Path(path_type=Path), metavar="FILE", help="Your questions and right answers: CSV and others."
)
@field_option
@option("--ci", is_flag=True, help="Create only the CI workflow, for the agent.yaml in DIRECTORY.")
@option("--force", is_flag=True, help="Overwrite existing files.")
@connect_options
def command(
    directory: Path,
    url: str | None,
    agent: str | None,
    data: Path | None,
    fields: tuple[tuple[str, str], ...],
    ci: bool,
    force: bool,
    only_new: bool = False,
    **asking: Any,
) -> None:
    """Create an agent.yaml and two datasets in DIRECTORY (default: the current directory), and a CI workflow.

    The workflow is for GitHub or GitLab, where the platform reads it: at the root of the git repository. An existing
    .gitlab-ci.yml is not changed; the line to add is printed.

    Without --url or --agent, an example agent is created too, so the evaluation runs immediately and without an API
    key. --data evaluates your own questions in place of the two datasets, with a metric that fits the right answers.
    With --url and a question, the agent is asked it, as by `evalspec connect`. If any of the files already exists,
    nothing is written unless --force is given. Symbolic links are not followed.

    \b
    Examples:
      evalspec init
      evalspec init --agent bot:answer --data questions.csv
      evalspec init --agent bot:answer --data tickets.csv --field input=subject
      evalspec init shop --url http://localhost:4000 --data questions.csv --yes
      evalspec init --ci shop
    """
    problems = [*_agent_problems(directory, url, agent), *_choice_problems(url, agent, data, fields)]
    problems += _ci_problems(directory, url or agent or data) if ci else ()
    if url is None and (asking["questions"] or asking["headers"]):
        problems.append(Problem("only an agent behind HTTP is asked", "pass --url", field="--question, --header"))
    if problems:
        raise InvalidInput(problems)
    found = None if data is None else read_starting_data(data, dict(fields))
    repository, (source, origin) = find_repository(directory), find_source()
    root = directory if repository.folder == "." else Path(os.path.relpath(repository.root))
    contents = {} if ci else render_files(url, agent, found, directory)
    workflows = render_workflows(repository, source, contents.get("agent.yaml", ""))
    created = [*((directory, name) for name in contents), *((root, name) for name in workflows)]
    created = [(base, name) for base, name in created if not (only_new and (base / name).is_file())]
    problems = [problem for base, name in created for problem in _path_problems(base, name, force)]
    if problems:
        raise InvalidInput(dict.fromkeys(problems))
    if found is not None:
        for warning in found.warnings:
            warn(warning)
        emit_line(found.describe())
    connection = None if url is None else FirstContact(url, **asking)
    answered = connection.recognise(found.questions if found else (), directory) if connection else None
    contents = {} if ci else render_files(url, agent, found, directory, answered)
    manifest_text = contents.get("agent.yaml") or (directory / "agent.yaml").read_text(
        encoding="utf-8", errors="replace"
    )
    texts = render_workflows(repository, source, manifest_text) | contents
    for base, name in created:
        _write(base / name, texts[name])
        emit_line(f"wrote {base / name}")
    manifest = inert(shlex.quote(str(directory / "agent.yaml")))
    if connection is not None and answered is not None:
        connection.prove(directory / "agent.yaml", answered.reply.response)
    elif url is not None:
        target = f"{url.rstrip('/')}{ChatEndpoint().path}"
        emit_line(f"requests go to POST {target}; to change that, edit url and chatEndpoint.path in {manifest}")
        emit_line("the agent was not asked, because there is no question; pass --data FILE or --question TEXT")
    emit(f"\nNext:\n  evalspec validate {manifest}\n  evalspec evaluate {manifest}\n")
    _say_next(repository, workflows, source, str(directory / "vendor"), origin)


def _say_next(
    repository: Repository, workflows: Mapping[str, str], source: str | None, vendor: str, origin: str | None
) -> None:
    """Say what is left to do until the workflow runs."""
    if source is None:
        wheels, place = (inert(shlex.quote(text)) for text in (vendor, origin or "PATH_TO_EVALSPEC"))
        emit("The workflow installs evalspec from a wheel. Build it before the first pull request, and commit it:")
        emit(f"  pip wheel --no-deps -w {wheels} {place}")
    else:
        emit_line(f"The workflow installs {source}. It runs as soon as these files are pushed.")
    if not repository.exists:
        emit("There is no git repository here. The workflow is where its root has to be.")
    elif GITLAB in repository.platforms and GITLAB_MAIN not in workflows:
        included = next(name for name in workflows if name.startswith(".gitlab/"))
        emit(f"init does not change {GITLAB_MAIN}. Add this to it, below the `include:` that it may have:")
        emit(f"include:\n  - local: {included}")


def _ci_problems(directory: Path, other: object) -> Iterator[Problem]:
    if other is not None:
        yield Problem("it is for the agent.yaml that is there", "remove the other options", field="--ci")
    elif not (directory / "agent.yaml").is_file():
        yield Problem("no such file", "without --ci, init creates it", str(directory / "agent.yaml"))


def _choice_problems(
    url: str | None, agent: str | None, data: Path | None, fields: tuple[tuple[str, str], ...]
) -> Iterator[Problem]:
    if url is not None and agent is not None:
        yield Problem("--url and --agent name two agents", "remove one of them", field="--agent")
    if data is not None and url is None and agent is None:
        fix = "pass --agent module:function, or --url"
        yield Problem("the example agent knows nothing about these questions", fix, field="--data")
    if data is not None and encodable(str(data)) != str(data):
        yield Problem("the path is not UTF-8 text, so no manifest can name it", "rename the file", field="--data")
    if fields and data is None:
        yield Problem("there is no file whose columns it could name", "pass --data FILE", field="--field")


def _agent_problems(directory: Path, url: str | None, agent: str | None) -> Iterator[Problem]:
    if url is not None:
        yield from _url_problems(url)
    if agent is not None:
        module, colon, name = agent.partition(":")
        if not (colon and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))):
            yield Problem(f"'{agent}' is not module:function", "name yours, as in bot:answer", field="--agent")
            return
        for message in check_module(directory, module, name.partition(".")[0]):
            said, fix = split_fix(message)
            yield Problem(said.replace("the manifest", f"'{directory / 'agent.yaml'}'"), fix, field="--agent")


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
