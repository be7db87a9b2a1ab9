"""Find what makes the numbers of a run doubtful, whatever it is compared with. None of it blocks the gate."""

from collections import Counter
from collections.abc import Iterator, Sequence

from evalspec.model import DatasetResult, MeasurementChange
from evalspec.outline import RunOutline
from evalspec.plural import counted, pluralize

_FEWEST_SAME = 5
_SHARE_SAME = 0.25
_FEWEST_JUDGED = 10


def list_doubts(datasets: Sequence[DatasetResult], outline: RunOutline) -> Iterator[MeasurementChange]:
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
    for dataset in datasets:
        questions = {sample.digest or sample.id: sample.answer_digest for sample in dataset.samples}
        answers = Counter(answer for answer in questions.values() if answer is not None)
        count = max(answers.values(), default=0)
        if count >= _FEWEST_SAME and count > _SHARE_SAME * len(questions):
            said = f"{count} of {len(questions)} different questions have the same answer"
            yield MeasurementChange("answers", dataset.name, said)


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
