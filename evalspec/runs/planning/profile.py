"""Describe the samples of a dataset while they are read: which fields they have, how balanced they are, duplicates."""

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from statistics import median
from typing import Any

from msgspec import Struct, field

from evalspec.inputs.datasets.base import list_relevant
from evalspec.inputs.datasets.filters import TAGS, list_spellings
from evalspec.model import Need, Sample
from evalspec.runs.planning.survey import Survey

_MOST_VALUES = 20
"""Number of distinct values of a metadata key beyond which the key identifies samples rather than groups them."""
_MOST_TAGS = 1000
_MOST_KEYS = 50
_TAGS_KEPT = 30
_LONGEST_VALUE = 100
_DUPLICATES_KEPT = 10
_DIGEST_BYTES = 8
_FIELDS = (Need.EXPECTED, Need.CONTEXT, Need.REFERENCE_CONTEXTS, Need.RELEVANT)


class Balance(Struct, frozen=True):
    """How samples are spread over the values of a metadata key, or over tags. `values`: by number of samples.

    `samples`: number of samples with the key. `more`: number of further values; None: there are too many to count.
    """

    key: str
    samples: int
    values: tuple[tuple[str, int], ...]
    more: int | None = 0


class RelevantCounts(Struct, frozen=True):
    """Numbers of relevant documents of the judged samples. `none`: samples without any. `grades`: the grades in use."""

    judged: int
    none: int
    least: int
    median: float
    most: int
    grades: tuple[int, ...]


class DatasetProfile(Struct, frozen=True):
    """What the samples of a dataset have. `fields`: number of samples with each field.

    `duplicates`: number of samples whose question an earlier one has; `twins`: ids of the first of them, each with that
    of the earlier one.
    """

    samples: int = 0
    fields: tuple[tuple[str, int], ...] = ()
    balances: tuple[Balance, ...] = ()
    more_keys: int = 0
    relevant: RelevantCounts | None = None
    duplicates: int = 0
    twins: tuple[tuple[str, str], ...] = ()


class Profiler(Struct):
    """Collects the profile of the samples that pass by. Memory is bounded, except for about 150 bytes a sample."""

    survey: Survey = field(default_factory=Survey)
    tags: Counter[str] = field(default_factory=Counter)
    tagged: int = 0
    unanswerable: int = 0
    values: dict[str, Counter[str] | None] = field(default_factory=dict)
    having: Counter[str] = field(default_factory=Counter)
    relevant: Counter[int] = field(default_factory=Counter)
    grades: set[int] = field(default_factory=set)
    questions: dict[bytes, str] = field(default_factory=dict)
    duplicates: int = 0
    twins: list[tuple[str, str]] = field(default_factory=list)

    def watch(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Yield the samples and add them to the profile."""
        for sample in self.survey.watch(samples):
            self._add(sample)
            yield sample

    def finish(self) -> DatasetProfile:
        """Return the profile of all samples that have passed."""
        count = self.survey.count
        having = {str(need): count - self.survey.count_lacking(need) for need in _FIELDS}
        having |= {"tags": self.tagged, "answerable: false": self.unanswerable}
        keys = [key for key, values in self.values.items() if values is not None and len(values) > 1]
        balances = [Balance(TAGS, self.tagged, *_keep(self.tags))] if self.tags else []
        balances += [Balance(key, self.having[key], *_keep(self.values[key] or Counter())) for key in keys]
        return DatasetProfile(
            count,
            tuple((name, number) for name, number in having.items() if number),
            tuple(balances),
            len(self.values) - len(keys),
            _count_relevant(self.relevant, self.grades),
            self.duplicates,
            tuple(self.twins),
        )

    def _add(self, sample: Sample) -> None:
        self.tagged += bool(sample.tags)
        self.unanswerable += sample.answerable is False
        for tag in sample.tags:
            if tag in self.tags or len(self.tags) < _MOST_TAGS:
                self.tags[tag[:_LONGEST_VALUE]] += 1
        for key, value in sample.metadata.items():
            self._add_value(key[:_LONGEST_VALUE], value)
        if sample.qrels is not None:
            self.relevant[len(list_relevant(sample))] += 1
            self.grades.update(sample.qrels.values())
        self._add_question(sample)

    def _add_value(self, key: str, value: Any) -> None:
        if key not in self.values and len(self.values) >= _MOST_KEYS:
            return
        self.having[key] += 1
        known = self.values.setdefault(key, Counter())
        if known is None:
            return
        if isinstance(value, str | int | bool):
            known[list_spellings(value)[0][:_LONGEST_VALUE]] += 1
        if not isinstance(value, str | int | bool) or len(known) > _MOST_VALUES:
            self.values[key] = None

    def _add_question(self, sample: Sample) -> None:
        asked = sample.user_input if isinstance(sample.user_input, str) else repr(sample.user_input)
        digest = blake2b(asked.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()
        earlier = self.questions.setdefault(digest, sample.id)
        if earlier != sample.id:
            self.duplicates += 1
            if len(self.twins) < _DUPLICATES_KEPT:
                self.twins.append((sample.id[:_LONGEST_VALUE], earlier[:_LONGEST_VALUE]))


def _keep(values: Counter[str]) -> tuple[tuple[tuple[str, int], ...], int | None]:
    """Return the most frequent values, and how many are left out; None: there are too many to count."""
    ordered = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    left = len(ordered) - _TAGS_KEPT
    return tuple(ordered[:_TAGS_KEPT]), None if len(ordered) >= _MOST_TAGS else max(left, 0)


def _count_relevant(counts: Counter[int], grades: set[int]) -> RelevantCounts | None:
    judged = counts.total()
    if not judged:
        return None
    ordered = sorted(counts.elements())
    kept = tuple(sorted(grades)[:_MOST_VALUES])
    return RelevantCounts(judged, counts[0], ordered[0], median(ordered), ordered[-1], kept)
