"""`evalspec init`: create an evaluation that runs immediately and can be adapted."""

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import click
from msgspec import Struct
from msgspec.structs import replace

from evalspec.api.repository import GITHUB, GITLAB, GITLAB_MAIN, WHEEL, Repository, find_repository, find_source
from evalspec.base.errors import InvalidInput, Problem, split_fix
from evalspec.base.foreign_text import encodable, inert
from evalspec.base.output_files import replace_file
from evalspec.base.plural import counted
from evalspec.cli.options import field_option, option, warn
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.streams import emit, emit_line
from evalspec.inputs.datasets.base import DatasetFormat, Source
from evalspec.inputs.datasets.load import discard, load_dataset
from evalspec.inputs.datasets.record_names import NAME_COLUMNS, NAME_INPUT
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.inputs.user_code.modules import check_module
from evalspec.model import Sample, Turn

_SHORT_WORDS = 5
"""Right answers of at most so many words, as the median, are looked for in the replies."""


_COLUMNS_SHOWN = 8
_BY_OPTIONS = "pass --field input=COLUMN --field expected=COLUMN"


class FirstMetric(Struct, frozen=True):
    """A metric to start with. `limit`: of its threshold. `meaning`, `limit_meaning`: comments. `why`: for the user."""

    name: str
    limit: str
    meaning: str
    limit_meaning: str
    why: str


_IN_REPLY = FirstMetric(
    "string_match", "0.8", "the right answer occurs in the reply", "share of the samples", "the right answers are short"
)
_OVERLAP = FirstMetric(
    "rouge",
    "0.4",
    "words that the reply and the right answer share, in order",
    "mean, from 0 to 1; adapt it after the first run",
    "the right answers are sentences",
)
_REPLIED = FirstMetric(
    "error_rate",
    "{max: 0}",
    "share of the samples without a usable reply",
    "no question may fail",
    "not every sample has a right answer",
)
_CHECKED = FirstMetric(
    "checks_all", "0.8", "all checks of the sample are right", "share of the samples", "each sample has checks"
)
_CALLED = FirstMetric(
    "tool_calls_exact",
    "0.8",
    "the agent made the expected calls and no others; tool_calls_any_order allows others",
    "share of the samples",
    "each sample has expected_tools",
)
_OF_EXPECTATIONS: Mapping[FirstMetric, Callable[[Sample | Turn], bool]] = {
    _CHECKED: lambda side: bool(side.checks),
    _CALLED: lambda side: side.expected_tools is not None,
}
"""Metrics for what a sample expects of more than the answer, and whether it or one of its turns does."""


class StartingData(Struct, frozen=True):
    """A dataset as `init` found it. `warnings`: what its reader noticed."""

    path: Path
    fields: Mapping[str, str]
    format: str
    samples: int
    answered: int
    metrics: Sequence[FirstMetric]
    warnings: tuple[Problem, ...]

    @property
    def name(self) -> str:
        """The name of the dataset: that of the file."""
        return self.path.name.partition(".")[0] or "data"

    def describe(self) -> str:
        """Return what the file has, and why it gets its metrics."""
        found = f"{counted(self.samples, 'sample')}, {self.answered:,} with a right answer"
        which = "the" if len(self.metrics) == 1 else "one"
        reasons = [f"{metric.why}, so {which} metric is {metric.name}" for metric in self.metrics]
        said = f"{self.path}: {found} (format {self.format}); {'; '.join(reasons)}"
        if self.answered in (0, self.samples) or _REPLIED not in self.metrics:
            return said
        return f"{said}, which does not look at the answers. to gate on them, move the other samples to another file"


def read_starting_data(path: Path, fields: Mapping[str, str]) -> StartingData:
    """Return what a dataset has. `fields`: the columns of its fields.

    Raises:
        InvalidInput: the dataset is invalid, or has no right answers although a column may have them.
    """
    lengths: Counter[int] = Counter()
    columns: Counter[str] = Counter()
    expected: Counter[FirstMetric] = Counter()

    def watch(samples: Iterable[Sample], form: DatasetFormat) -> Iterator[Sample]:
        for sample in samples:
            columns.update(_list_texts(sample) if form.takes_fields else ())
            sides: tuple[Sample | Turn, ...] = (sample, *sample.turns)
            expected.update(metric for metric, has in _OF_EXPECTATIONS.items() if any(map(has, sides)))
            lengths[min((len(text.split()) for side in sides for text in side.references), default=0)] += 1
            yield sample

    data = load_dataset(Source(path, str(path), fields=fields), None, discard, watch)
    if data.problems:
        raise InvalidInput(map(_fix_by_options, data.problems))
    total = lengths.total()
    if lengths[0] == total and not expected and columns and "expected" not in fields:
        named = ", ".join(inert(name) for name, _ in columns.most_common(_COLUMNS_SHOWN))
        fix = f"add --field expected=COLUMN ({named}), or remove these columns if there are no right answers"
        raise InvalidInput(Problem("no right answers found", fix, str(path)))
    of_answers = [] if lengths[0] else [_IN_REPLY if median(lengths.elements()) <= _SHORT_WORDS else _OVERLAP]
    metrics = [*of_answers, *(metric for metric, count in expected.items() if count == total)] or [_REPLIED]
    return StartingData(path, fields, data.format, total, total - lengths[0], metrics, data.warnings)


def _list_texts(sample: Sample) -> Iterator[str]:
    """Yield the columns of a sample that no field reads and that have a text."""
    yield from (name for name, value in sample.metadata.items() if isinstance(value, str) and value.strip())


def _fix_by_options(problem: Problem) -> Problem:
    """Return a problem of columns with the options that name them: there is no manifest yet."""
    fix = problem.fix.replace(NAME_INPUT, f"P{_BY_OPTIONS[1:]}").replace(NAME_COLUMNS, _BY_OPTIONS)
    return replace(problem, fix=fix)


_EXAMPLE_DATA = {"evals/rag.jsonl": "rag.jsonl", "evals/regression.jsonl": "regression.jsonl"}
_WITH_EXAMPLE_AGENT = {"agent.yaml": "agent.yaml", "agent.py": "agent.py.txt", **_EXAMPLE_DATA}
"""Paths of the created files to their templates in the scaffold folder."""
_PARTS = {"PART-API": ("api-url.yaml", "api-python.yaml"), "PART-DATA": ("data-example.yaml", "data-own.yaml")}
"""Places of the manifest for agents or data of one's own, to the two templates for each."""
_WORKFLOWS = {GITHUB: (".github/workflows/{}.yml", "workflow.yml"), GITLAB: (".gitlab/{}.yml", "gitlab.yml")}
"""Where the workflow of each platform is, from the root of the repository, and its template."""


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
def command(
    directory: Path,
    url: str | None,
    agent: str | None,
    data: Path | None,
    fields: tuple[tuple[str, str], ...],
    ci: bool,
    force: bool,
) -> None:
    """Create an agent.yaml and two datasets in DIRECTORY (default: the current directory), and a CI workflow.

    The workflow is for GitHub or GitLab, where the platform reads it: at the root of the git repository. An existing
    .gitlab-ci.yml is not changed; the line to add is printed.

    Without --url or --agent, an example agent is created too, so the evaluation runs immediately and without an API
    key. --data evaluates your own questions in place of the two datasets, with a metric that fits the right answers. If
    any of the files already exists, nothing is written unless --force is given. Symbolic links are not followed.

    \b
    Examples:
      evalspec init
      evalspec init --agent bot:answer --data questions.csv
      evalspec init --agent bot:answer --data tickets.csv --field input=subject
      evalspec init shop --url http://localhost:4000
      evalspec init --ci shop
    """
    problems = [*_agent_problems(directory, url, agent), *_choice_problems(url, agent, data, fields)]
    problems += _ci_problems(directory, url or agent or data) if ci else ()
    if problems:
        raise InvalidInput(problems)
    found = None if data is None else read_starting_data(data, dict(fields))
    repository, (source, origin) = find_repository(directory), find_source()
    root = directory if repository.folder == "." else Path(os.path.relpath(repository.root))
    workflows = _render_workflows(repository, source)
    contents = {} if ci else _render(url, agent, found, directory)
    created = [(directory, *one) for one in contents.items()] + [(root, *one) for one in workflows.items()]
    problems = [problem for base, name, _ in created for problem in _path_problems(base, name, force)]
    if problems:
        raise InvalidInput(dict.fromkeys(problems))
    if found is not None:
        for warning in found.warnings:
            warn(warning)
        emit_line(found.describe())
    for base, name, text in created:
        _write(base / name, text)
        emit_line(f"wrote {base / name}")
    manifest = inert(shlex.quote(str(directory / "agent.yaml")))
    if url is not None:
        target = f"{url.rstrip('/')}{ChatEndpoint().path}"
        emit_line(f"requests go to POST {target}; to change that, edit url and chatEndpoint.path in {manifest}")
    emit(f"\nNext:\n  evalspec validate {manifest}\n  evalspec evaluate {manifest}\n")
    if source is None:
        wheels, place = (inert(shlex.quote(text)) for text in (str(directory / "vendor"), origin or "PATH_TO_EVALSPEC"))
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


def _render_workflows(repository: Repository, source: str | None) -> dict[str, str]:
    """Return the text of each workflow by its path from the root. An existing .gitlab-ci.yml stays as it is."""
    folder = repository.folder
    gate, job = ("-".join([word, *re.findall("[A-Za-z0-9]+", folder)]) for word in ("evalspec", "evaluate"))
    prefix = "" if folder == "." else f"{folder}/"
    values = {
        "NAME-OF-GATE": gate,
        "NAME-OF-JOB": job,
        "FOLDER-OF-AGENT": json.dumps(folder),
        "COMMAND-TO-FOLDER": json.dumps(f"cd {shlex.quote(folder)}"),
        "FILES-OF-CACHE": json.dumps(f".github/workflows/{gate}.yml\n{prefix}agent.yaml"),
        "CACHE-OF-JUDGE": json.dumps(f"{prefix}.evalspec/cache"),
        "SOURCE-OF-EVALSPEC": json.dumps(source or WHEEL),
    }
    found = {}
    for path, template in (_WORKFLOWS[platform] for platform in repository.platforms):
        found[path.format(gate)] = _fill(_read_template(template), values)
    if GITLAB in repository.platforms and not (repository.root / GITLAB_MAIN).exists():
        found[GITLAB_MAIN] = f"include:\n  - local: .gitlab/{gate}.yml\n"
    return found


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template with the values in their places, all at once: a value may look like a place."""
    return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], template)


def _render(url: str | None, agent: str | None, data: StartingData | None, directory: Path) -> Mapping[str, str]:
    """Return the text of each file by its path. What users give is inserted as JSON, which is valid YAML too."""
    if url is None and agent is None:
        return {name: _read_template(template) for name, template in _WITH_EXAMPLE_AGENT.items()}
    manifest = _read_template("manifest.yaml")
    for place, templates in _PARTS.items():
        is_second = agent is not None if place == "PART-API" else data is not None
        manifest = manifest.replace(f"{place}\n", _read_template(templates[is_second]))
    manifest = _fill(manifest, dict(_list_values(url, agent, data, directory)))
    files = {} if data is not None else _EXAMPLE_DATA
    return {"agent.yaml": manifest} | {name: _read_template(template) for name, template in files.items()}


def _read_template(name: str) -> str:
    return (files("evalspec.cli") / "scaffold" / name).read_text(encoding="utf-8")


def _list_values(
    url: str | None, agent: str | None, data: StartingData | None, directory: Path
) -> Iterator[tuple[str, str]]:
    """Yield the placeholders of the templates with their values."""
    if data is not None:
        fields = f"fields: {json.dumps(dict(data.fields), ensure_ascii=False)}\n" if data.fields else ""
        yield "        fields: FIELDS-OF-DATA\n", f"        {fields}" if fields else ""
        yield "NAME-OF-DATA", json.dumps(data.name, ensure_ascii=False)
        yield "PATH-OF-DATA", json.dumps(f"$file:{_relate(data.path, directory)}", ensure_ascii=False)
        listed = [f"- {metric.name} # {metric.meaning}\n" for metric in data.metrics]
        limits = [f"{metric.name}: {metric.limit} # {metric.limit_meaning}\n" for metric in data.metrics]
        yield "- METRIC-OF-DATA\n", "          ".join(listed)
        yield "LIMIT-OF-DATA\n", "      ".join(limits)
    yield "URL-GIVEN-TO-INIT", json.dumps(url)
    yield "PYTHON-GIVEN-TO-INIT", json.dumps(agent)


def _relate(path: Path, directory: Path) -> str:
    """Return a path as the manifest in a directory names it."""
    return Path(os.path.relpath(path, directory)).as_posix()


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
