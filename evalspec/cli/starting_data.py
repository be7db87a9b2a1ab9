"""The dataset that `evalspec init --data` starts with: what it has, and which metric fits its right answers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.base.foreign_text import inert
from evalspec.base.plural import counted
from evalspec.inputs.datasets.base import DatasetFormat, Source
from evalspec.inputs.datasets.load import discard, load_dataset
from evalspec.inputs.datasets.record_names import NAME_COLUMNS, NAME_INPUT
from evalspec.model import Sample

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


class StartingData(Struct, frozen=True):
    """A dataset as `init` found it. `warnings`: what its reader noticed."""

    path: Path
    fields: Mapping[str, str]
    format: str
    samples: int
    answered: int
    metric: FirstMetric
    warnings: tuple[Problem, ...]

    @property
    def name(self) -> str:
        """The name of the dataset: that of the file."""
        return self.path.name.partition(".")[0] or "data"

    def describe(self) -> str:
        """Return what the file has, and why it gets its metric."""
        found = f"{counted(self.samples, 'sample')}, {self.answered:,} with a right answer"
        said = f"{self.path}: {found} (format {self.format}); {self.metric.why}, so the metric is {self.metric.name}"
        if self.answered in (0, self.samples):
            return said
        return f"{said}, which does not look at the answers. to gate on them, move the other samples to another file"


def read_starting_data(path: Path, fields: Mapping[str, str]) -> StartingData:
    """Return what a dataset has. `fields`: the columns of its fields.

    Raises:
        InvalidInput: the dataset is invalid, or has no right answers although a column may have them.
    """
    lengths: Counter[int] = Counter()
    columns: Counter[str] = Counter()

    def watch(samples: Iterable[Sample], form: DatasetFormat) -> Iterator[Sample]:
        for sample in samples:
            columns.update(_list_texts(sample) if form.takes_fields else ())
            lengths[min((len(text.split()) for text in sample.references), default=0)] += 1
            yield sample

    data = load_dataset(Source(path, str(path), fields=fields), None, discard, watch)
    if data.problems:
        raise InvalidInput(map(_fix_by_options, data.problems))
    total = lengths.total()
    if lengths[0] == total and columns and "expected" not in fields:
        named = ", ".join(inert(name) for name, _ in columns.most_common(_COLUMNS_SHOWN))
        fix = f"add --field expected=COLUMN ({named}), or remove these columns if there are no right answers"
        raise InvalidInput(Problem("no right answers found", fix, str(path)))
    metric = _REPLIED if lengths[0] else _IN_REPLY if median(lengths.elements()) <= _SHORT_WORDS else _OVERLAP
    return StartingData(path, fields, data.format, total, total - lengths[0], metric, data.warnings)


def _list_texts(sample: Sample) -> Iterator[str]:
    """Yield the columns of a sample that no field reads and that have a text."""
    yield from (name for name, value in sample.metadata.items() if isinstance(value, str) and value.strip())


def _fix_by_options(problem: Problem) -> Problem:
    """Return a problem of columns with the options that name them: there is no manifest yet."""
    fix = problem.fix.replace(NAME_INPUT, f"P{_BY_OPTIONS[1:]}").replace(NAME_COLUMNS, _BY_OPTIONS)
    return replace(problem, fix=fix)
