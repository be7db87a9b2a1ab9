"""What the pages of datasets show: rows of the list, problems, balance and coverage, samples."""

from typing import Any

from msgspec import Struct

from evalspec.base.plural import counted
from evalspec.inputs.datasets.base import list_relevant
from evalspec.model import Sample
from evalspec.runs.planning.profile import Balance, DatasetProfile
from evalspec.service.dataset_checks import DatasetCheck

_LONGEST_TEXT = 300
_TAGS_SHOWN = 10
_VALUES_SHOWN = 12
_KEYS_SHOWN = 20
_PROBLEMS_SHOWN = 50
_FIELDS = {
    "expected": "expected answer",
    "context": "retrieved contexts",
    "reference_contexts": "reference contexts",
    "relevant": "relevant documents",
    "tags": "tags",
    "answerable: false": "marked as unanswerable",
}


class ListedDataset(Struct, frozen=True):
    """One row. `samples`: None if unknown. `detail`: where the dataset is, or when it came. `state`: chip."""

    name: str
    link: str
    detail: str
    format: str
    samples: int | None
    version: int | None
    state: tuple[str, str, str]


class ShownShare(Struct, frozen=True):
    """A number of samples as a share of all. `percent`: rounded to a whole number; `shown`: in words."""

    name: str
    count: int
    percent: int
    shown: str


class ShownBalance(Struct, frozen=True):
    """The values of a metadata key. `note`: what is left out."""

    key: str
    shares: tuple[ShownShare, ...]
    note: str


class ListedSample(Struct, frozen=True):
    """One sample, clipped. `relevant`: number of relevant documents, None if the sample has no judgements."""

    id: str
    line: int | None
    question: str
    expected: str | None
    relevant: int | None
    tags: tuple[str, ...]


def describe_state(check: DatasetCheck | None) -> tuple[str, str, str]:
    """Return tone, mark and word of a check. None: the dataset is not checked yet."""
    if check is None:
        return "none", "", "not checked yet"
    if check.problems:
        return "fail", "✗", counted(len(check.problems) + check.more_problems, "error")
    if check.warnings:
        return "warn", "!", counted(len(check.warnings) + check.more_warnings, "warning")
    return "pass", "✓", "valid"


def describe_check(check: DatasetCheck | None) -> dict[str, Any]:
    """Return what pages show of a check. None: the dataset is not checked yet."""
    known = check or DatasetCheck("")
    return {
        "state": describe_state(check),
        "problems": known.problems[:_PROBLEMS_SHOWN],
        "more_problems": max(len(known.problems) - _PROBLEMS_SHOWN, 0) + known.more_problems,
        "warnings": known.warnings[:_PROBLEMS_SHOWN],
        "more_warnings": max(len(known.warnings) - _PROBLEMS_SHOWN, 0) + known.more_warnings,
        "fields": _list_fields(known.profile),
        "balances": _list_balances(known.profile),
        "relevant": _describe_relevant(known.profile),
    }


def _list_fields(profile: DatasetProfile) -> list[ShownShare]:
    """Return how many samples have each field."""
    return [_share(_FIELDS.get(name, name), count, profile.samples) for name, count in profile.fields]


def _list_balances(profile: DatasetProfile) -> list[ShownBalance]:
    """Return how the samples are spread over tags and metadata keys."""
    return [_show_balance(one, profile.samples) for one in profile.balances[:_KEYS_SHOWN]]


def _show_balance(one: Balance, samples: int) -> ShownBalance:
    shares = tuple(_share(name, count, samples) for name, count in one.values[:_VALUES_SHOWN])
    hidden = len(one.values) - len(shares)
    notes = ["and many more values" if one.more is None else f"and {counted(one.more + hidden, 'more value')}"]
    notes = notes if one.more is None or one.more + hidden else []
    if one.samples < samples:
        notes.append(f"{counted(samples - one.samples, 'sample')} without")
    return ShownBalance(one.key, shares, "; ".join(notes))


def _share(name: str, count: int, of: int) -> ShownShare:
    percent = 100 * count / of if of else 0.0
    shown = f"{percent:.0f} %" if percent >= 1 or not count else "< 1 %"
    return ShownShare(name, count, round(percent), f"{count:,} ({'all' if count == of else shown})")


def _describe_relevant(profile: DatasetProfile) -> str:
    """Return a sentence about the relevant documents of the samples; empty without judgements."""
    found = profile.relevant
    if found is None:
        return ""
    said = f"relevant documents per sample: {found.least:,} to {found.most:,}, median {found.median:g}"
    said += f"; grades {', '.join(map(str, found.grades))}" if len(found.grades) > 1 else ""
    return said + (f"; {counted(found.none, 'judged sample')} without any" if found.none else "")


def list_sample(sample: Sample) -> ListedSample:
    """Return a row of the samples."""
    return ListedSample(
        sample.id,
        sample.line,
        sample.question[:_LONGEST_TEXT],
        sample.reference[:_LONGEST_TEXT] if sample.reference is not None else None,
        None if sample.qrels is None else len(list_relevant(sample)),
        sample.tags[:_TAGS_SHOWN],
    )
