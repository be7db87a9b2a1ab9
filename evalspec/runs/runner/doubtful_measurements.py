"""Find what makes the numbers of a run doubtful, whatever it is compared with. None of it blocks the gate."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from evalspec.base.plural import counted, pluralize
from evalspec.model import DatasetResult, MeasurementChange, SampleResult
from evalspec.verdict.outline import RunOutline
from evalspec.verdict.stats import compute_statistic

_FEWEST_SAME = 5
_SHARE_SAME = 0.25
_SHARE_STUCK = 0.9
_FEWEST_JUDGED = 10
_INTERVAL_SECONDS = 0.02


class LagMeter:
    """A meter of event loop lag. It sleeps for short intervals and records how late it wakes up.

    Latency is measured in an event loop, and a busy loop reads replies late.
    """

    def __init__(self) -> None:
        self._lags_ms: list[float] = []

    async def measure(self) -> None:
        """Measure until cancelled."""
        while True:
            due = time.perf_counter() + _INTERVAL_SECONDS
            await asyncio.sleep(_INTERVAL_SECONDS)
            self._lags_ms.append((time.perf_counter() - due) * 1000)

    @property
    def p95_ms(self) -> float:
        """The 95th percentile of the lag in milliseconds. 0 without measurements."""
        return compute_statistic(self._lags_ms, "p95") if self._lags_ms else 0.0


def list_doubtful_measurements(datasets: Sequence[DatasetResult], outline: RunOutline) -> Iterator[MeasurementChange]:
    """Yield retries of the agent, equal answers to different questions, and judged metrics with a single value."""
    yield from _list_retries(datasets)
    yield from _list_same_answers(datasets)
    yield from _list_one_value(datasets, outline)


def _list_retries(datasets: Sequence[DatasetResult]) -> Iterator[MeasurementChange]:
    for dataset in datasets:
        retries = sum(sample.retries or 0 for sample in dataset.samples)
        if retries:
            attempts = sum(len(sample.attempts) or 1 for sample in dataset.samples)
            repeated = f"{counted(retries, 'request')} failed and {pluralize(retries, 'was', 'were')} repeated"
            yield MeasurementChange("retries", dataset.name, f"{repeated}, for {counted(attempts, 'attempt')}")


def _list_same_answers(datasets: Sequence[DatasetResult]) -> Iterator[MeasurementChange]:
    """Yield an answer to many questions: if those samples fail, or if it is the answer to nearly all."""
    for dataset in datasets:
        total = len({sample.digest or sample.id for sample in dataset.samples})
        failing = [sample for sample in dataset.samples if sample.pass_rate != 1]
        counts = [(_count_same(failing), _SHARE_SAME), (_count_same(dataset.samples), _SHARE_STUCK)]
        doubtful = [count for count, share in counts if count >= _FEWEST_SAME and count > share * total]
        if doubtful:
            said = f"{doubtful[-1]} of {total} different questions have the same answer"
            yield MeasurementChange("answers", dataset.name, said)


def _count_same(samples: Sequence[SampleResult]) -> int:
    """Return the number of different questions with the most frequent answer."""
    questions = {sample.digest or sample.id: sample.answer_digest for sample in samples}
    answers = Counter(answer for answer in questions.values() if answer is not None)
    return max(answers.values(), default=0)


def _list_one_value(datasets: Sequence[DatasetResult], outline: RunOutline) -> Iterator[MeasurementChange]:
    for planned, dataset in zip(outline.datasets, datasets, strict=True):
        for metric in planned.metrics:
            values = _list_values(dataset, metric.name) if metric.judged else []
            if len(values) >= _FEWEST_JUDGED and min(values) == max(values):
                said = f"the judge gave {metric.name} {values[0]:g} to all {len(values)} samples"
                yield MeasurementChange("judge", dataset.name, said)


def _list_values(dataset: DatasetResult, metric: str) -> list[float]:
    values = (sample.scores[metric].value for sample in dataset.samples)
    return [value for value in values if value is not None]
