"""Estimate how much scores of an unchanged agent differ between runs: measured on a baseline, otherwise assumed."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise
from statistics import NormalDist, fmean, pvariance

from msgspec import Struct, structs

from evalspec.model import DatasetResult, SampleResult, Score
from evalspec.verdict.attempts import combine_attempts
from evalspec.verdict.comparison.pairing import Pair, has_all_attempts, is_edited, pair_scores, to_paired
from evalspec.verdict.stats.clusters import number_clusters
from evalspec.verdict.stats.power import AttemptModel
from evalspec.verdict.validity.changes import PairedScores

_REDRAWN = 0.25
"""Share of scores that are redrawn from all scores of a baseline with one attempt."""

_FLIPPED = 0.05
_DEVIATION = 0.2
_PASSED = 0.8
"""Assumed share of 0/1 scores that pass, without a baseline."""
_QUIET, _LOUD = 0.4, 1.6
"""Factors of an assumed variance, for the range of what can be detected."""
_NORMAL_90 = 1.645
_MOST_GRADES = 20
_NORMALS = 200
_HALF = 0.5 + 1e-9
_NORMAL = NormalDist()

Models = tuple[AttemptModel, AttemptModel]
"""Models of single attempts, with the least and the most noise that is plausible."""


class Noise(Struct, frozen=True):
    """A metric in two runs of an unchanged agent. `source`: the origin of the models, in one sentence.

    `scores`: the pairs that the gate would test. If the noise is measured, they are the first two attempts of the
    baseline, whose differences show how far metrics rise and fall together.
    """

    scores: PairedScores
    source: str
    models: Models
    is_measured: bool = False


def estimate_noise(
    metric: str, before: DatasetResult | None, after: DatasetResult, repeats: int, *, is_binary: bool
) -> Noise:
    """Return the noise of a metric over the samples that the gate would pair.

    `before`: the baseline, if there is one. `after`: the planned run, with samples but no scores. `is_binary`: whether
    each reply scores 0 or 1; with a baseline, its scores decide.
    """
    if before is None:
        return _assume_all(metric, after, repeats, is_binary=is_binary)
    planned = {sample.id: sample for sample in after.samples}
    samples = [
        structs.replace(one, metadata=planned[one.id].metadata, unit=planned[one.id].unit)
        for one in before.samples
        if one.id in planned and not is_edited(one, planned[one.id])
    ]
    attempts = count_attempts(samples)
    if attempts < 2:
        return _assume_from_scores(metric, samples, after)
    first, second = ([combine_attempts(one, one.attempts[at : at + 1], ()) for one in samples] for at in (0, 1))
    scores = _pair(metric, list(zip(first, second, strict=True)), after)
    source = f"noise measured on {attempts} attempts of the baseline"
    return Noise(scores, source, _model_measured(metric, samples, after, attempts), is_measured=True)


def count_attempts(samples: Sequence[SampleResult]) -> int:
    """Return the number of attempts with scores that every sample has; 1 if only means are known."""
    return min((len(sample.attempts) if has_all_attempts(sample) else 1 for sample in samples), default=1)


def _model_measured(metric: str, samples: Sequence[SampleResult], after: DatasetResult, attempts: int) -> Models:
    """Return models with the ends of the 90 % interval of the variance between the attempts at a sample."""
    rows = {one.id: [attempt.scores[metric].value for attempt in one.attempts[:attempts]] for one in samples}
    known = {id: [value for value in row if value is not None] for id, row in rows.items() if None not in row}
    paired = _pair(metric, [(one, one) for one in samples if one.id in known], after)
    if {value for row in known.values() for value in row} <= {0, 1}:
        within = [sum(row) * (attempts - sum(row)) / (attempts * (attempts - 1)) for row in known.values()]
        doubt = _NORMAL_90 * math.sqrt(pvariance(within) / max(1, len(within)))
        return _model_passes(paired, fmean(paired.baseline), fmean(within), doubt)
    sums: dict[Hashable, list[float]] = {}
    for unit, row in zip(paired.units, known.values(), strict=True):
        sums[unit] = [total + value for total, value in zip(sums.get(unit, [0.0] * attempts), row, strict=True)]
    spread = math.sqrt(attempts / (attempts - 1))
    deviations = [spread * (value - fmean(row)) for row in sums.values() for value in row]
    squares = [deviation**2 for deviation in deviations]
    freedom = max(1, len(sums) * (attempts - 1))
    doubt = _NORMAL_90 * math.sqrt(pvariance(squares) / freedom) / (fmean(squares) or 1.0)
    return _model_scores(paired, deviations, max(0.0, 1 - doubt), 1 + doubt)


def _model_passes(paired: PairedScores, passed: float, within: float, doubt: float) -> Models:
    """Return models of 0/1 scores. `within`: mean of rate x (1 - rate) over the samples. `doubt`: half its interval.

    Samples have one of two rates, r and 1 - r, so that mean and variance are as given.
    """
    count, sizes = len(paired), _measure_clusters(paired) if paired.is_clustered else ()

    def model(variance: float) -> AttemptModel:
        bounded = min(max(variance, 0.0), passed * (1 - passed))
        rate = (1 + math.sqrt(max(0.0, 1 - 4 * bounded))) / 2
        likely = round(count * (passed - 1 + rate) / (2 * rate - 1)) if rate > _HALF else count
        return AttemptModel([rate] * likely + [1 - rate] * (count - likely), sizes=sizes)

    return model(within - doubt), model(within + doubt)


def _model_scores(paired: PairedScores, deviations: Sequence[float], least: float, most: float) -> Models:
    """Return models of other scores. `least`, `most`: factors of the variance of the deviations."""
    sizes = _measure_clusters(paired)
    grades = sorted({*paired.baseline, *paired.candidate})
    gaps = [after - before for before, after in pairwise(grades)]
    step = min(gaps, default=0.0) if len(grades) <= _MOST_GRADES else 0.0
    quiet, loud = (
        AttemptModel((), [math.sqrt(factor) * deviation for deviation in deviations], sizes, step)
        for factor in (least, most)
    )
    return quiet, loud


def _measure_clusters(paired: PairedScores) -> list[int]:
    return list(Counter(number_clusters(paired.units, len(paired))).values())


def _model_assumed(paired: PairedScores, deviation: float) -> Models:
    """Return models of normal deviations. `deviation`: the standard deviation of single attempts at a sample."""
    sizes = Counter(paired.units).values()
    each = deviation * math.sqrt(fmean(sizes)) if sizes else 0.0
    return _model_scores(paired, _spread(_NORMALS, each), _QUIET, _LOUD)


def _assume_from_scores(metric: str, samples: Sequence[SampleResult], after: DatasetResult) -> Noise:
    """Return noise in which some scores are redrawn from all scores, with equal gains and losses."""
    paired = _pair(metric, [(sample, sample) for sample in samples], after)
    values = paired.baseline
    source = (
        f"assumed: {100 * _REDRAWN:g} % of the scores are redrawn from the baseline's scores in each run, since it has "
        "one attempt; promote a run with --repeat 2 or more to measure the noise"
    )
    if paired.is_binary:
        passed = (sum(values) + 1) / (len(values) + 2)
        flipped = _REDRAWN * passed * (1 - passed)
        return Noise(paired, source, _model_passes(paired, passed, flipped, (_LOUD - 1) * flipped))
    return Noise(paired, source, _model_assumed(paired, math.sqrt(_REDRAWN * pvariance(values)) if values else 0.0))


def _assume_all(metric: str, after: DatasetResult, repeats: int, *, is_binary: bool) -> Noise:
    blank = [structs.replace(sample, scores={metric: Score.scored(0.0)}) for sample in after.samples]
    paired = _pair(metric, [(sample, sample) for sample in blank], after)
    means = f", before each score becomes the mean of {repeats} attempts" if repeats > 1 else ""
    if is_binary:
        source = f"assumed: {100 * _FLIPPED:g} % of the 0/1 scores flip each way between two runs{means}"
        return Noise(paired, source, _model_passes(paired, _PASSED, _FLIPPED, (_LOUD - 1) * _FLIPPED))
    source = f"assumed: scores differ by a standard deviation of {_DEVIATION:g} between two runs{means}"
    return Noise(paired, source, _model_assumed(paired, _DEVIATION / math.sqrt(2)))


def _pair(metric: str, pairs: Sequence[Pair], after: DatasetResult) -> PairedScores:
    return to_paired(pair_scores(pairs, metric).pick(), metric, after, after.cluster)


def _spread(count: int, deviation: float) -> list[float]:
    """Return normal quantiles with exactly that standard deviation."""
    quantiles = [_NORMAL.inv_cdf((place + 0.5) / count) for place in range(count)]
    size = math.sqrt(fmean(q * q for q in quantiles)) if count > 1 else 1.0
    return [quantile * deviation / size for quantile in quantiles]
