"""Forecast how many labels of people decide a limit of a judged metric."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from evalspec.base.errors import EvalspecError
from evalspec.inputs.manifest.gate_schema import JudgePolicy
from evalspec.model import Need, Threshold
from evalspec.model.calibrations import JudgeCalibration
from evalspec.model.corrections import JudgeCorrection
from evalspec.model.forecasts import LabelForecast
from evalspec.runs.planning.draft import PlannedDataset
from evalspec.runs.planning.outlining import identify_measure
from evalspec.verdict.correction.calibration_file import FOLDER, read_calibration
from evalspec.verdict.stats.detection import count_needed_to_decide
from evalspec.verdict.validity.estimates import CONFIDENCE

_ASSUMED = (0.25, 0.5, 0.75)
"""What people say, as shares of the room between a limit and the best score."""


def foresee_labels(dataset: PlannedDataset, policy: JudgePolicy, folder: Path) -> list[LabelForecast]:
    """Return the labels that decide each limit on the mean of a judged metric that people can score.

    What people will say is taken from the newest calibration beside the manifest. Without one it is assumed.
    `folder`: of the manifest.
    """
    limits = [] if policy.correct is JudgeCorrection.OFF else [*_list_limits(dataset)]
    calibrations = _read_calibrations(folder / FOLDER) if limits else []
    return [
        found
        for limit, reach in limits
        for known in [_find_people(dataset, limit.metric, folder, calibrations)]
        for found in _foresee(dataset, limit, reach, known)
    ]


def _list_limits(dataset: PlannedDataset) -> Iterator[tuple[Threshold, tuple[float, float]]]:
    """Yield the limits with one end, each with the range of its metric's scores."""
    for limit in dataset.thresholds:
        metric = dataset.find_metric(limit.metric)
        low, high = metric.bounds
        is_judged = Need.JUDGE in metric.needs and Need.EMBEDDINGS not in metric.needs
        is_mean = metric.definition.statistic == "mean" and limit.stat in (None, "mean")
        has_one_end = (limit.min is None) != (limit.max is None)
        if not (is_judged and is_mean and has_one_end) or limit.slice is not None or low is None or high is None:
            continue
        if low < _find_end(limit) < high:  # at the end of the range, no number of labels decides
            yield limit, (low, high)


def _foresee(
    dataset: PlannedDataset, limit: Threshold, reach: tuple[float, float], known: float | None
) -> Iterator[LabelForecast]:
    low, high = reach
    stated = _find_end(limit)
    best = high if limit.max is None else low
    truths = [known] if known is not None else [stated + share * (best - stated) for share in _ASSUMED]
    for truth in truths:
        shares = [(value - low) / (high - low) for value in (truth, stated)]
        replies = len(dataset.samples)
        labels = count_needed_to_decide(shares[0], shares[1], 1 - (limit.confidence or CONFIDENCE), replies)
        yield LabelForecast(limit.metric, stated, truth, labels, replies, known is not None)


def _find_end(limit: Threshold) -> float:
    return limit.min if limit.min is not None else limit.max or 0.0


def _find_people(
    dataset: PlannedDataset, metric: str, folder: Path, calibrations: Sequence[JudgeCalibration]
) -> float | None:
    """Return the mean of people's scores in the newest calibration of a metric; None without one.

    What people said about another rubric says nothing. The judge may be another.
    """
    measured = identify_measure(folder, dataset.metrics[metric]).items() if calibrations else ()
    found = (
        (one.at, of.people)
        for one in calibrations
        for of in one.metrics
        if (of.dataset, of.metric) == (dataset.name, metric) and of.people is not None
        if of.identity.items() >= set(measured)
    )
    return max(found, default=(None, None))[1]


def _read_calibrations(folder: Path) -> list[JudgeCalibration]:
    """Return the calibrations of a folder. Those that cannot be read are left out: `judge apply` reports them."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(read_calibration(path))
        except EvalspecError:
            continue
    return found
