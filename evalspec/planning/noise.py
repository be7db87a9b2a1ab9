"""Estimate how much scores of an unchanged agent differ between runs: measured on a baseline, otherwise assumed."""

import math
from collections.abc import Sequence
from random import Random
from statistics import NormalDist, fmean, pvariance

from msgspec import Struct, structs

from evalspec.attempts import combine_attempts
from evalspec.comparison.pairing import Pair, has_all_attempts, pair_scores, to_paired
from evalspec.model import DatasetResult, SampleResult, Score
from evalspec.validity.changes import PairedScores

_REDRAWN = 0.25
"""Share of scores that are redrawn from all scores of a baseline with one attempt."""

_FLIPPED = 0.05
_DEVIATION = 0.2
_NORMAL = NormalDist()


class Noise(Struct, frozen=True):
    """A metric in two runs of an unchanged agent. `source`: the origin of the differences, in one sentence.

    `is_measured`: whether they are differences between attempts of a baseline.
    """

    scores: PairedScores
    source: str
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
    samples = [structs.replace(one, metadata=planned[one.id].metadata) for one in before.samples if one.id in planned]
    attempts = count_attempts(samples)
    if attempts < 2:
        return _assume_from_scores(metric, samples, after)
    return _measure(metric, samples, after, attempts, repeats)


def count_attempts(samples: Sequence[SampleResult]) -> int:
    """Return the number of attempts with scores that every sample has; 1 if only means are known."""
    return min((len(sample.attempts) if has_all_attempts(sample) else 1 for sample in samples), default=1)


def _measure(metric: str, samples: Sequence[SampleResult], after: DatasetResult, attempts: int, repeats: int) -> Noise:
    """Return the noise between the first attempts and the next ones of a baseline.

    Each side has as many attempts as the run and the baseline share. With fewer, the differences are scaled: the
    variance of a mean falls with the number of attempts.
    """
    shared = min(attempts, repeats)
    side = min(shared, attempts // 2)
    halves = [
        (combine_attempts(one, one.attempts[:side], ()), combine_attempts(one, one.attempts[side : 2 * side], ()))
        for one in samples
    ]
    paired = _pair(metric, halves, after)
    source = f"noise measured on {attempts} attempts of the baseline"
    if side < shared:
        source = f"{source}: means of {side} and {side}, scaled to means of {shared}"
    values = {attempt.scores[metric].value for one in samples for attempt in one.attempts}
    if side == shared and not (shared > 1 and values <= {0, 1, None}):
        return Noise(paired, source, is_measured=True)
    scale = math.sqrt(side / shared)
    scaled = [difference * scale for difference in paired.differences]
    return Noise(_with(paired, scaled, is_binary=values <= {0, 1, None}), source, is_measured=True)


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
        return Noise(_assume(paired, after.name, metric, flipped=_REDRAWN * passed * (1 - passed)), source)
    deviation = math.sqrt(2 * _REDRAWN * pvariance(values)) if values else 0.0
    return Noise(_assume(paired, after.name, metric, deviation=deviation), source)


def _assume_all(metric: str, after: DatasetResult, repeats: int, *, is_binary: bool) -> Noise:
    blank = [structs.replace(sample, scores={metric: Score.scored(0.0)}) for sample in after.samples]
    paired = _pair(metric, [(sample, sample) for sample in blank], after)
    means = f", before each score becomes the mean of {repeats} attempts" if repeats > 1 else ""
    if is_binary:
        source = f"assumed: {100 * _FLIPPED:g} % of the 0/1 scores flip each way between two runs{means}"
        assumed = _assume(paired, after.name, metric, flipped=_FLIPPED)
    else:
        source = f"assumed: scores differ by a standard deviation of {_DEVIATION:g} between two runs{means}"
        assumed = _assume(paired, after.name, metric, deviation=_DEVIATION)
    if repeats == 1:
        return Noise(assumed, source)
    scaled = [difference / math.sqrt(repeats) for difference in assumed.differences]
    return Noise(_with(assumed, scaled, is_binary=is_binary), source)


def _pair(metric: str, pairs: Sequence[Pair], after: DatasetResult) -> PairedScores:
    return to_paired(pair_scores(pairs, metric).pick(), metric, after, after.cluster)


def _assume(
    paired: PairedScores, dataset: str, metric: str, *, flipped: float | None = None, deviation: float = 0.0
) -> PairedScores:
    """Return the pairs with assumed differences in random order: flips each way, or a normal distribution."""
    count = len(paired)
    if flipped is None:
        differences = _spread(count, deviation)
    else:
        flips = min(max(1, round(flipped * count)), count // 2)
        differences = [1.0] * flips + [-1.0] * flips + [0.0] * (count - 2 * flips)
    Random(f"{dataset} {metric}").shuffle(differences)  # noqa: S311 - no secret
    return _with(paired, differences, is_binary=flipped is not None)


def _spread(count: int, deviation: float) -> list[float]:
    """Return normal quantiles with exactly that standard deviation."""
    quantiles = [_NORMAL.inv_cdf((place + 0.5) / count) for place in range(count)]
    size = math.sqrt(fmean(q * q for q in quantiles)) if count > 1 else 1.0
    return [quantile * deviation / size for quantile in quantiles]


def _with(paired: PairedScores, differences: Sequence[float], *, is_binary: bool) -> PairedScores:
    """Return the pairs with other differences. `is_binary`: whether single replies score 0 or 1, so changes flip some.

    Means of such scores are not 0 or 1, but a change still breaks some samples and not every sample a little. They are
    tested as means of clusters of one sample each, with that kind of change.
    """
    is_mean = is_binary and not {*differences} <= {-1, 0, 1}
    baseline = [float(difference < 0 and not is_mean) if is_binary else 0.5 for difference in differences]
    candidate = baseline if is_mean else [old + change for old, change in zip(baseline, differences, strict=True)]
    values = (*baseline, *candidate, *(differences if is_mean else ()))
    reach = (min(values), max(values)) if values and min(values) < max(values) else None
    return structs.replace(
        paired,
        baseline=baseline,
        candidate=candidate,
        differences=differences,
        bounds=reach,
        is_clustered=paired.is_clustered or is_mean,
    )
