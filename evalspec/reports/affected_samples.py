"""The samples that a reason of the verdict is about. A run stores its reasons as text; this module resolves them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from evalspec.model import (
    UNDECIDED,
    DatasetResult,
    RegressionOutcome,
    Run,
    SampleResult,
    SampleStatus,
    ScoreStatus,
    Threshold,
    VerdictStatus,
)
from evalspec.verdict.summary import in_slice
from evalspec.verdict.wording import name_threshold

_NAMED = re.compile(r"(?:new failures?|unknown|samples?) \(")
"""Precedes a list of sample ids, which may end after the first few."""
_ENDS_TRIED = 100
_WRONG = (VerdictStatus.FAIL, VerdictStatus.INCOMPLETE)
_MORE = ", …"

Rule = tuple[re.Pattern[str], Callable[[SampleResult, re.Match[str]], bool]]


class AffectedSamples(Struct, frozen=True):
    """The samples of a dataset that a reason is about, by their places in it. `complete`: whether these are all."""

    dataset: int
    places: tuple[int, ...]
    complete: bool = True


def find_affected(run: Run) -> list[AffectedSamples | None]:
    """Return the samples that each reason of a run is about. None: a reason is about no samples that are known."""
    limits = {
        _name_reason(dataset, limit): (number, limit)
        for number, dataset in enumerate(run.datasets)
        for limit in dataset.thresholds
    }

    regressions = {one.explain(): one for one in run.regressions if one.worsened}

    def resolve(reason: str) -> AffectedSamples | None:
        if reason in limits:
            return _of_limit(run, *limits[reason])
        return _of_regression(run, regressions[reason]) if reason in regressions else _of_samples(run, reason)

    return [resolve(one) or resolve(one.removeprefix(UNDECIDED)) for one in run.reasons]


def _name_reason(dataset: DatasetResult, limit: Threshold) -> str:
    """Return the reason of the verdict that a threshold gives, if it does."""
    return f"{dataset.name}: {name_threshold(limit)}: {limit.reason}"


class FailureCauses(Struct, frozen=True):
    """What decides a FAIL or INCOMPLETE in a dataset: its samples, by their places, and regressions."""

    places: set[int]
    regressions: tuple[RegressionOutcome, ...]

    def __bool__(self) -> bool:
        """Return whether any sample decides."""
        return bool(self.places)


def find_failure_causes(run: Run) -> list[FailureCauses | None]:
    """Return what decides a FAIL or INCOMPLETE in each dataset.

    If the run has another verdict, it is the samples beyond a broken limit. None: there are none.
    """
    is_wrong = run.verdict in _WRONG
    found = find_affected(run) if is_wrong else []
    for number, dataset in enumerate(run.datasets):
        wrong = [limit for limit in dataset.thresholds if limit.status in (_WRONG if is_wrong else _WRONG[:1])]
        found += [_of_limit(run, number, limit) for limit in wrong]
    worse = [one for one in run.regressions if is_wrong and one.worsened]
    blamed = [FailureCauses(set(), tuple(one for one in worse if one.dataset == part.name)) for part in run.datasets]
    for one in filter(None, found):
        blamed[one.dataset].places.update(one.places)
    return [one if is_wrong or one else None for one in blamed]


def _of_limit(run: Run, number: int, limit: Threshold) -> AffectedSamples | None:
    """Return the samples beyond a limit, furthest first; those without a value if the limit is undecided."""
    samples = [(place, one) for place, one in enumerate(run.datasets[number].samples) if in_slice(one, limit.slice)]
    excess = {place: _excess(one, limit) for place, one in samples}
    beyond = tuple(sorted((place for place in excess if excess[place]), key=lambda place: -excess[place]))
    lacking = tuple(place for place, one in samples if _lacks(one, limit.metric))
    places = (beyond or lacking) if limit.status is VerdictStatus.FAIL else (lacking or beyond)
    return AffectedSamples(number, places) if places else None


def _excess(sample: SampleResult, limit: Threshold) -> float:
    """Return how far a score exceeds a limit, 0.0 if it does not."""
    score = sample.scores.get(limit.metric)
    return 0.0 if score is None or score.value is None or limit.holds(score.value) else limit.excess(score.value)


def _lacks(sample: SampleResult, metric: str) -> bool:
    score = sample.scores.get(metric)
    return score is not None and score.value is None and score.status is not ScoreStatus.NOT_APPLICABLE


def _of_regression(run: Run, outcome: RegressionOutcome) -> AffectedSamples | None:
    """Return the samples that got worse, furthest first."""
    for number, dataset in enumerate(run.datasets):
        if dataset.name == outcome.dataset:
            lost = {place: find_loss(one, outcome) for place, one in enumerate(dataset.samples)}
            places = sorted((place for place in lost if lost[place]), key=lambda place: -lost[place])
            return AffectedSamples(number, tuple(places)) if places else None
    return None


def find_loss(sample: SampleResult, outcome: RegressionOutcome) -> float:
    """Return how much worse a sample is than in the baseline, 0.0 if it is not, or not known to be."""
    before, score = outcome.worsened.get(sample.id), sample.scores.get(outcome.metric or "")
    return 0.0 if before is None or score is None or score.value is None else abs(score.value - before)


def _has_no_reply(sample: SampleResult, _: re.Match[str]) -> bool:
    return any(one.status is SampleStatus.FAILED for one in sample.attempts or (sample,))


def _is_below(sample: SampleResult, found: re.Match[str]) -> bool:
    return sample.pass_rate is not None and sample.pass_rate < float(found[1])


_RULES: Sequence[Rule] = (
    (re.compile(r" have no usable reply, maxErrorRate is \S+$"), _has_no_reply),
    (re.compile(r"\) below minPassRate ([\d.e+-]+)$"), _is_below),
)
"""The endings of reasons that apply to all samples of a dataset for which a function is true."""


def _of_samples(run: Run, reason: str) -> AffectedSamples | None:
    """Return the samples of a reason that is not about a threshold. A dataset's name may begin with another's."""
    for number in sorted(range(len(run.datasets)), key=lambda one: -len(run.datasets[one].name)):
        dataset = run.datasets[number]
        if reason.startswith(f"{dataset.name}: "):
            return _by_rule(dataset, number, reason) or _by_name(dataset, number, reason)
    return None


def _by_rule(dataset: DatasetResult, number: int, reason: str) -> AffectedSamples | None:
    for pattern, applies in _RULES:
        if found := pattern.search(reason):
            places = tuple(place for place, one in enumerate(dataset.samples) if applies(one, found))
            return AffectedSamples(number, places) if places else None
    return None


def _by_name(dataset: DatasetResult, number: int, reason: str) -> AffectedSamples | None:
    """Return the samples that a reason names in parentheses."""
    known = {sample.id: place for place, sample in enumerate(dataset.samples)} if _NAMED.search(reason) else {}
    places: dict[int, None] = {}
    complete = True
    for found in _NAMED.finditer(reason):
        ids, rest = _read_ids(reason[found.end() :], known)
        places |= dict.fromkeys(known[one] for one in ids)
        complete = complete and not rest.startswith(_MORE)
    return AffectedSamples(number, tuple(places), complete) if places else None


def _read_ids(text: str, known: Mapping[str, int]) -> tuple[list[str], str]:
    """Return the known ids at the beginning of a list, and the text after them. Ids may have commas themselves."""
    ids: list[str] = []
    while (longest := next(_list_ids(text, known), None)) is not None:
        ids.append(longest)
        text = text[len(longest) :]
        if not text.startswith(", ") or text.startswith(_MORE):
            break
        text = text[len(", ") :]
    return ids, text


def _list_ids(text: str, known: Mapping[str, int]) -> Iterator[str]:
    """Yield the ids that a text may begin with, longest first."""
    ends = [found.start() for found in islice(re.finditer(r", |\)", text), _ENDS_TRIED)]
    return (text[:end] for end in reversed(ends) if text[:end] in known)
