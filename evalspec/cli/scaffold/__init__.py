"""The files that `evalspec init` creates: templates beside this module, and what fills them."""

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
from typing import TYPE_CHECKING

import yaml
from msgspec import Struct
from msgspec.structs import replace

from evalspec.api.repository import GITHUB, GITLAB, GITLAB_MAIN, WHEEL, Repository, read_stages
from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.foreign_text import inert
from evalspec.base.json_text import compute_digest
from evalspec.base.plural import counted
from evalspec.inputs.datasets.base import DatasetFormat, Source
from evalspec.inputs.datasets.load import discard, load_dataset
from evalspec.inputs.datasets.record_names import NAME_COLUMNS, NAME_INPUT
from evalspec.inputs.manifest.references import find_variables
from evalspec.model import Sample, Turn

if TYPE_CHECKING:
    from evalspec.targets.agents.recognition import Recognised

_EXAMPLE_DATA = {"evals/rag.jsonl": "rag.jsonl", "evals/regression.jsonl": "regression.jsonl"}
_WITH_EXAMPLE_AGENT = {"agent.yaml": "agent.yaml", "agent.py": "agent.py.txt", **_EXAMPLE_DATA}
"""Paths of the created files to their templates in the scaffold folder."""
_PARTS = {"PART-API": ("api-url.yaml", "api-python.yaml"), "PART-DATA": ("data-example.yaml", "data-own.yaml")}
"""Places of the manifest for agents or data of one's own, to the two templates for each."""
_WORKFLOWS = {GITHUB: (".github/workflows/{}.yml", "workflow.yml"), GITLAB: (".gitlab/{}.yml", "gitlab.yml")}
"""Where the workflow of each platform is, from the root of the repository, and its template."""
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


def render_files(
    url: str | None, agent: str | None, data: StartingData | None, directory: Path, found: "Recognised | None" = None
) -> dict[str, str]:
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
    manifest = _fill(manifest, values)
    examples = {} if data is not None else _EXAMPLE_DATA
    return {"agent.yaml": manifest} | {name: _read_template(template) for name, template in examples.items()}


def render_workflows(repository: Repository, source: str | None, manifest: str) -> dict[str, str]:
    """Return the text of each workflow by its path from the root. An existing .gitlab-ci.yml stays as it is.

    `manifest`: its text, whose variables the workflow of GitHub passes. Jobs of GitLab have them already.
    """
    folder = repository.folder
    suffix = "" if folder == "." else f"-{_name_of(folder)}"
    gate, job = f"evalspec{suffix}", f"evaluate{suffix}"
    prefix = "" if folder == "." else f"{folder}/"
    values = {
        "NAME-OF-GATE": gate,
        "NAME-OF-JOB": job,
        "FOLDER-OF-AGENT": json.dumps(folder),
        "COMMAND-TO-FOLDER": json.dumps(f"cd {shlex.quote(folder)}"),
        "FILES-OF-CACHE": json.dumps(f".github/workflows/{gate}.yml\n{prefix}agent.yaml"),
        "KEPT-FOLDERS": json.dumps(f"{prefix}.evalspec/cache\n{prefix}.evalspec/baselines"),
        "SOURCE-OF-EVALSPEC": json.dumps(source or WHEEL),
        "  stage: STAGE-OF-JOB\n": _render_stage(read_stages(repository.root)),
        "          VARIABLES-OF-MANIFEST\n": "".join(
            f"          {name}: ${{{{ secrets.{name} }}}}\n"
            for name in find_variables(manifest)
            if name != "OPENAI_API_KEY"
        ),
    }
    found = {}
    for path, template in (_WORKFLOWS[platform] for platform in repository.platforms):
        found[path.format(gate)] = _fill(_read_template(template), values)
    if GITLAB in repository.platforms and not (repository.root / GITLAB_MAIN).exists():
        found[GITLAB_MAIN] = f"include:\n  - local: .gitlab/{gate}.yml\n"
    return found


def _name_of(folder: str) -> str:
    """Return a name of ASCII letters that no other folder has: with a digest, unless it is of words and dashes."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", folder.replace("/", "--")).strip("-")
    is_plain = re.fullmatch(r"\w+(-\w+)*(/\w+(-\w+)*)*", folder, re.ASCII)
    return name if is_plain else "-".join(filter(None, [name, compute_digest(folder)[:8]]))


def _render_stage(stages: Sequence[str]) -> str:
    """Return the line of a job's stage. Without one it is in `test`, which GitLab has unless a file lists others."""
    return f"  stage: {json.dumps(stages[-1])}\n" if stages and "test" not in stages else ""


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template with the values in their places, all at once: a value may look like a place."""
    return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], template)


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
