"""`evalspec init`: create an evaluation that runs immediately and can be adapted."""

import json
import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import median
from textwrap import indent
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
import yaml
from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem, split_fix
from evalspec.base.foreign_text import encodable, inert
from evalspec.base.output_files import replace_file
from evalspec.base.plural import counted
from evalspec.cli.connecting import FirstContact, connect_options
from evalspec.cli.options import field_option, option, warn
from evalspec.cli.ordered_command import OrderedCommand
from evalspec.cli.streams import emit, emit_line
from evalspec.inputs.datasets.base import DatasetFormat, Source
from evalspec.inputs.datasets.load import discard, load_dataset
from evalspec.inputs.datasets.record_names import NAME_COLUMNS, NAME_INPUT
from evalspec.inputs.manifest.agent_schema import ChatEndpoint
from evalspec.inputs.user_code.modules import check_module
from evalspec.model import Sample, Turn

if TYPE_CHECKING:
    from evalspec.targets.agents.recognition import Recognised

_SHORT_WORDS = 5
"""Right answers of at most so many words, as the median, are looked for in the replies."""


_COLUMNS_SHOWN = 8
_QUESTIONS = 2
"""What `connect` sends: one to find out how the agent is asked, and one to prove it."""

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
    """A dataset as `init` found it. `questions`: its first two different ones. `warnings`: what its reader noticed."""

    path: Path
    fields: Mapping[str, str]
    format: str
    samples: int
    answered: int
    metrics: Sequence[FirstMetric]
    questions: Sequence[str]
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
    questions: dict[str, None] = {}

    def watch(samples: Iterable[Sample], form: DatasetFormat) -> Iterator[Sample]:
        for sample in samples:
            columns.update(_list_texts(sample) if form.takes_fields else ())
            if len(questions) < _QUESTIONS:
                questions[sample.question] = None
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
    return StartingData(path, fields, data.format, total, total - lengths[0], metrics, [*questions], data.warnings)


def _list_texts(sample: Sample) -> Iterator[str]:
    """Yield the columns of a sample that no field reads and that have a text."""
    yield from (name for name, value in sample.metadata.items() if isinstance(value, str) and value.strip())


def _fix_by_options(problem: Problem) -> Problem:
    """Return a problem of columns with the options that name them: there is no manifest yet."""
    fix = problem.fix.replace(NAME_INPUT, f"P{_BY_OPTIONS[1:]}").replace(NAME_COLUMNS, _BY_OPTIONS)
    return replace(problem, fix=fix)


_WORKFLOW = {".github/workflows/evalspec.yml": "workflow.yml"}
_EXAMPLE_DATA = {"evals/rag.jsonl": "rag.jsonl", "evals/regression.jsonl": "regression.jsonl"}
_WITH_EXAMPLE_AGENT = {"agent.yaml": "agent.yaml", "agent.py": "agent.py.txt", **_EXAMPLE_DATA, **_WORKFLOW}
"""Paths of the created files to their templates in the scaffold folder."""
_PARTS = {"PART-API": ("api-url.yaml", "api-python.yaml"), "PART-DATA": ("data-example.yaml", "data-own.yaml")}
"""Places of the manifest for agents or data of one's own, to the two templates for each."""


@click.command("init", cls=OrderedCommand)
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=Path())
@option("--url", metavar="URL", help="Base URL of your agent; by default, an example agent is created.")
@option("--agent", metavar="MODULE:FUNCTION", help="Your agent in Python, in DIRECTORY, such as bot:answer.")
@option(
    "--data", type=click.Path(path_type=Path), metavar="FILE", help="Your questions and right answers: CSV and others."
)
@field_option
@option("--force", is_flag=True, help="Overwrite existing files.")
@connect_options
def command(
    directory: Path,
    url: str | None,
    agent: str | None,
    data: Path | None,
    fields: tuple[tuple[str, str], ...],
    force: bool,
    only_new: bool = False,
    **asking: Any,
) -> None:
    """Create an agent.yaml, two datasets and a CI workflow in DIRECTORY (default: the current directory).

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
    """
    problems = [*_agent_problems(directory, url, agent), *_choice_problems(url, agent, data, fields)]
    if url is None and (asking["questions"] or asking["headers"]):
        problems.append(Problem("only an agent behind HTTP is asked", "pass --url", field="--question, --header"))
    if problems:
        raise InvalidInput(problems)
    found = None if data is None else read_starting_data(data, dict(fields))
    contents = _render(url, agent, found, directory)
    names = [name for name in contents if not (only_new and (directory / name).is_file())]
    problems = [problem for name in names for problem in _path_problems(directory, name, force)]
    if problems:
        raise InvalidInput(dict.fromkeys(problems))
    if found is not None:
        for warning in found.warnings:
            warn(warning)
        emit_line(found.describe())
    connection = None if url is None else FirstContact(url, **asking)
    answered = connection.recognise(found.questions if found else (), directory) if connection else None
    contents = _render(url, agent, found, directory, answered)
    for name in names:
        _write(directory / name, contents[name])
        emit_line(f"wrote {directory / name}")
    manifest, wheels = (inert(shlex.quote(str(directory / name))) for name in ("agent.yaml", "vendor"))
    if connection is not None and answered is not None:
        connection.prove(directory / "agent.yaml", answered.reply.response)
    elif url is not None:
        target = f"{url.rstrip('/')}{ChatEndpoint().path}"
        emit_line(f"requests go to POST {target}; to change that, edit url and chatEndpoint.path in {manifest}")
        emit_line("the agent was not asked, because there is no question; pass --data FILE or --question TEXT")
    emit(f"\nNext:\n  evalspec validate {manifest}\n  evalspec evaluate {manifest}\n")
    emit("The workflow installs evalspec from a wheel. Build it before the first pull request, and commit it:")
    emit(f"  pip wheel --no-deps -w {wheels} PATH_TO_EVALSPEC")


def _render(
    url: str | None, agent: str | None, data: StartingData | None, directory: Path, found: "Recognised | None" = None
) -> Mapping[str, str]:
    """Return the text of each file by its path. What users give is inserted as JSON, which is valid YAML too.

    `found`: how the agent at the url is asked.
    """
    if url is None and agent is None:
        return {name: _read_template(template) for name, template in _WITH_EXAMPLE_AGENT.items()}
    manifest = _read_template("manifest.yaml")
    for place, templates in _PARTS.items():
        is_second = agent is not None if place == "PART-API" else data is not None
        template = "api-connected.yaml" if place == "PART-API" and found else templates[is_second]
        manifest = manifest.replace(f"{place}\n", _read_template(template))
    values = dict(_list_values(found.url if found else url, agent, data, directory))
    if found:
        as_yaml = yaml.safe_dump(found.endpoint, sort_keys=False, allow_unicode=True, width=math.inf)
        values["      ENDPOINT-FOUND\n"] = indent(as_yaml, " " * 6)
    places = re.compile("|".join(map(re.escape, values)))
    manifest = places.sub(lambda found: values[found[0]], manifest)  # at once: a value may look like a place
    files = _WORKFLOW if data is not None else {**_EXAMPLE_DATA, **_WORKFLOW}
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
