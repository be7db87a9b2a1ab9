"""Findings of a run with their locations, for SARIF, annotations and failed JUnit cases."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from evalspec.model import (
    UNDECIDED,
    DatasetResult,
    RegressionOutcome,
    Run,
    SampleResult,
    SampleStatus,
    Score,
    ScoreStatus,
    Threshold,
    VerdictStatus,
)
from evalspec.verdict.summary import in_slice, reply_limits
from evalspec.verdict.wording import DEMONSTRATION, name_threshold, render_beyond, render_limit

NO_REPLY = "no_reply"
OPINION = "the judge's opinion"
"""What a limit that passes only by the word of a judge is called."""
NEW_FAILURES = "new_failures"
BASELINE = "baseline"
VERDICT = "verdict"

_NO_REASON = "undecided"
_VARYING = re.compile(r"\([^)]*\)?|[\d.,]+|s\b")
"""Numbers, plurals and names of samples in a reason, which change from run to run."""


class Level(StrEnum):
    """Severity of a finding. ERROR: a broken limit. WARNING: something could not be measured.

    Runs that exit with 0 have only notes, because the gate tolerates their findings, or is off.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


_LEVELS = {VerdictStatus.FAIL: Level.ERROR, VerdictStatus.INCOMPLETE: Level.WARNING}


class Finding(Struct, frozen=True):
    """One finding.

    `rule`: a metric, NO_REPLY, NEW_FAILURES, BASELINE or VERDICT. `dataset`: empty if the finding is about the run.
    `sample`: None if the finding is about the whole dataset.
    `scope`: distinguishes findings with the same rule and sample. `excess`: distance from the limit, as a share of it.
    """

    level: Level
    rule: str
    dataset: str
    file: str | None
    message: str
    sample: SampleResult | None = None
    scope: str = ""
    excess: float = float("inf")

    @property
    def title(self) -> str:
        """Dataset, sample and rule."""
        sample = [self.sample.id] if self.sample else []
        return ": ".join([self.dataset or "evalspec", *sample, self.rule])


def list_demonstrations(run: Run) -> list[str]:
    """Return a line for each dataset that no people reviewed."""
    return [f"{one.name}: {DEMONSTRATION}" for one in run.datasets if one.gold and one.gold.demonstration]


def list_findings(run: Run) -> list[Finding]:
    """Return broken limits, then what could not be measured. In each part datasets come before samples, worst first.

    Every reason why a run does not pass has a finding.
    """
    files = {dataset.name: dataset.file for dataset in run.datasets}
    found = [finding for dataset in run.datasets for finding in _in_dataset(dataset)]
    found += [
        _of_regression(outcome, files.get(outcome.dataset)) for outcome in run.regressions if outcome.status in _LEVELS
    ]
    found += _of_other_reasons(run)
    found.sort(key=lambda finding: (finding.level is not Level.ERROR, finding.sample is not None, -finding.excess))
    return [replace(finding, level=Level.NOTE) for finding in found] if run.exit_code == 0 else found


def scores_beyond_limits(dataset: DatasetResult) -> Mapping[tuple[str, str], Threshold]:
    """Return the scores that exceed a broken limit, as {(sample id, metric): limit that the score exceeds most}.

    Limits that are met are ignored. Single scores may exceed them without consequence. The same holds for limits on
    percentiles.
    """
    return find_beyond(dataset, limits_of_replies(dataset))


def limits_of_replies(dataset: DatasetResult) -> list[Threshold]:
    """Return the limits that apply to a single reply."""
    statistics = {metric: summary.statistic for metric, summary in dataset.metrics.items()}
    return reply_limits((limit for limit in dataset.thresholds if limit.metric in statistics), statistics)


def metrics_of(dataset: DatasetResult) -> list[str]:
    """Return every metric with a summary or a score."""
    scored = (metric for sample in dataset.samples for metric in sample.scores)
    return list(dict.fromkeys([*dataset.metrics, *scored]))


def limits_of(dataset: DatasetResult) -> Mapping[str, list[Threshold]]:
    """Return the thresholds that apply to a single reply, by metric."""
    found = defaultdict(list)
    for limit in limits_of_replies(dataset):
        found[limit.metric].append(limit)
    return found


def is_beyond(sample: SampleResult, metric: str, score: Score | None, limits: Mapping[str, list[Threshold]]) -> bool:
    """Return whether a score fails a threshold that applies to the sample."""
    if score is None or score.value is None:
        return False
    return any(in_slice(sample, limit.slice) and not limit.holds(score.value) for limit in limits.get(metric, ()))


def find_beyond(dataset: DatasetResult, limits: Iterable[Threshold]) -> Mapping[tuple[str, str], Threshold]:
    """Return the scores that exceed a broken one of these limits, as `scores_beyond_limits` does."""
    worst: dict[tuple[str, str], tuple[float, Threshold]] = {}
    for threshold in limits:
        if threshold.status is not VerdictStatus.FAIL:
            continue
        for sample in dataset.samples:
            score, key = sample.scores.get(threshold.metric), (sample.id, threshold.metric)
            if score is None or score.value is None or threshold.holds(score.value):
                continue
            excess = threshold.excess(score.value)
            if in_slice(sample, threshold.slice) and excess > worst.get(key, (0.0,))[0]:
                worst[key] = excess, threshold
    return {key: threshold for key, (_, threshold) in worst.items()}


def describe_limit(threshold: Threshold) -> str:
    """Return a threshold in words: `string_match min [advanced] ≥ 0.80`."""
    return f"{name_threshold(threshold)} {render_limit(threshold)}"


def describe_beyond(score: Score, threshold: Threshold) -> str:
    """Return how a score exceeds a limit, `0.499 is below 0.80`, with the reason of the score."""
    where = f" (limit of {threshold.slice})" if threshold.slice else ""
    said = f"{render_beyond(score.value or 0.0, threshold)}{where}"
    return f"{said}: {score.reason}" if score.reason else said


def describe_failure(score: Score) -> str:
    """Return why a score could not be computed."""
    return score.reason or "the score could not be computed; the reason was not stored"


def describe_unscored(score: Score) -> str:
    """Return why a score is skipped, or not applicable: `the response is empty (cause: reply)`."""
    said = score.reason or score.status.replace("_", " ")
    return f"{said} (cause: {score.cause})" if score.cause else said


def describe_regression(outcome: RegressionOutcome) -> str:
    """Return the subject of a regression limit: `string_match against the baseline`, or `new failures`."""
    return f"{outcome.metric} against the {outcome.against}" if outcome.metric else outcome.title


def _in_dataset(dataset: DatasetResult) -> Iterator[Finding]:
    for threshold in dataset.thresholds:
        if threshold.status in _LEVELS:
            yield _of_limit(threshold, dataset)
    beyond = scores_beyond_limits(dataset)
    for sample in dataset.samples:
        if sample.status is SampleStatus.FAILED:
            message = f"no usable reply: {sample.error}" if sample.error else "no usable reply"
            yield Finding(Level.WARNING, NO_REPLY, dataset.name, dataset.file, message, sample)
            continue
        for metric, score in sample.scores.items():
            if score.status is ScoreStatus.FAILED:
                message = describe_failure(score)
                yield Finding(Level.WARNING, metric, dataset.name, dataset.file, message, sample)
            elif broken := beyond.get((sample.id, metric)):
                message = describe_beyond(score, broken)
                excess = broken.excess(score.value or 0.0)
                yield Finding(Level.ERROR, metric, dataset.name, dataset.file, message, sample, excess=excess)


def _of_limit(threshold: Threshold, dataset: DatasetResult) -> Finding:
    sides = [side for side in ("min", "max") if getattr(threshold, side) is not None]
    return Finding(
        _LEVELS[threshold.status],
        threshold.metric,
        dataset.name,
        dataset.file,
        f"{describe_limit(threshold)}: {threshold.reason or _NO_REASON}",
        scope="/".join([threshold.slice or "", threshold.stat or "", *sides]),
    )


def _of_regression(outcome: RegressionOutcome, file: str | None) -> Finding:
    return Finding(
        _LEVELS[outcome.status],
        outcome.metric or (BASELINE if outcome.of_baseline else NEW_FAILURES),
        outcome.dataset,
        file,
        f"{describe_regression(outcome)}: {outcome.reason or _NO_REASON}",
        scope=outcome.against,
    )


def _of_other_reasons(run: Run) -> Iterator[Finding]:
    """Yield the reasons of a verdict that no limit gives, such as `minPassRate`, or a run that was ended."""
    limits = [limit for dataset in run.datasets for limit in dataset.thresholds]
    outcomes = [(one.status, one.reason) for one in limits] + [(one.status, one.reason) for one in run.regressions]
    given = tuple(f": {reason}" for status, reason in outcomes if status in _LEVELS)
    for reason in run.reasons if run.exit_code else ():
        said = reason.removeprefix(UNDECIDED)
        if f": {said}".endswith(given):
            continue
        level = Level.ERROR if run.verdict is VerdictStatus.FAIL and said == reason else Level.WARNING
        about = next((one for one in run.datasets if said.startswith(f"{one.name}: ")), None)
        dataset, file = (about.name, about.file) if about else ("", None)
        message = said.removeprefix(f"{dataset}: ")
        yield Finding(level, VERDICT, dataset, file, message, scope=_VARYING.sub("", message))
