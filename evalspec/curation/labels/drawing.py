"""Which replies a person scores without sight of the judge, in which order, and with which probability each was drawn.

The random order of a dataset depends only on the seed and on the ids, so the first 50 replies are among the first 100.

Labels go to strata in proportion to size × spread (Neyman 1934). Whole numbers come from Wright (2012, The American
Statistician 66(4)): the next label goes to the stratum with the largest size × spread / √(n (n + 1)) after n labels,
which is the optimal allocation of every total.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.labels.binding import is_open
from evalspec.curation.labels.judged_run import CaseFilter, JudgedRun
from evalspec.inputs.datasets.selection import rank_replies
from evalspec.model import SampleResult, SampleStatus, Score, Threshold
from evalspec.model.corrections import Draw, DrawKind
from evalspec.model.labels import Label, Target
from evalspec.verdict.correction.estimates import FEWEST
from evalspec.verdict.correction.people import Correctable
from evalspec.verdict.correction.sufficiency import is_decided
from evalspec.verdict.outline import MetricOutline
from evalspec.verdict.validity.estimates import CONFIDENCE

_MOST_VALUES = 6
"""Scores of a judge with more distinct values are put into so many strata of equal size."""

PILOT = 20
"""Labels at random before replies are drawn within strata."""


class LabelDesign(Struct, frozen=True):
    """How replies are drawn for one metric.

    `kind`: RANDOM, STRATIFIED by the judge's value after a random pilot, or SEQUENTIAL until the threshold is decided.
    `size`: replies of each dataset; None: no limit. `is_new`: ask only about replies without a label, first where a
    label narrows the interval most.
    """

    metric: str
    kind: DrawKind = DrawKind.RANDOM
    size: int | None = None
    seed: int = 0
    datasets: Sequence[str] = ()
    is_new: bool = False

    @property
    def wanted(self) -> CaseFilter:
        """The replies that can be drawn."""
        return CaseFilter(self.metric, self.datasets, is_rated=True)


class Stratum(Struct, frozen=True):
    """Replies with the same score of the judge. `size`: replies. `labels`: labelled ones. `spread`: as the scores."""

    size: int
    labels: int = 0
    spread: float = 1.0

    @property
    def gain(self) -> float:
        """What one more label narrows the interval by, up to a factor; −1 if every reply is labelled."""
        if self.labels >= self.size:
            return -1.0
        return math.inf if not self.labels else self.size * self.spread / math.sqrt(self.labels * (self.labels + 1))


class Population(Struct, frozen=True):
    """The replies of a dataset to which a metric applies, in random order, without those that were used up.

    `judged`: the judge's score of each; None: it has none.
    """

    dataset: str
    metric: MetricOutline
    judged: Mapping[Target, float | None]

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of the scores, which `check_ratable` has checked."""
        return self.metric.reach or (0.0, 1.0)

    def stratify(self) -> dict[int, list[Target]]:
        """Return the replies by the judge's value, in random order; those without one are a stratum of their own."""
        values = sorted(value for value in self.judged.values() if value is not None)
        distinct = sorted(set(values))
        if len(distinct) > _MOST_VALUES:
            distinct = sorted({values[len(values) * part // _MOST_VALUES] for part in range(_MOST_VALUES)})
        strata: dict[int, list[Target]] = {}
        for target, value in self.judged.items():
            place = -1 if value is None else sum(value >= one for one in distinct)
            strata.setdefault(place, []).append(target)
        return strata


def list_used_up(labels: Iterable[Label]) -> set[Target]:
    """Return the replies that no draw has any more: they were drawn, and their labels have helped to choose something.

    The other replies are as random as they were. They would not be without replies that somebody chose.
    """
    return {one.target for one in labels if one.used_for is not None and one.draw.kind is not DrawKind.CHOSEN}


def read_populations(run: JudgedRun, design: LabelDesign, used_up: Collection[Target] = ()) -> list[Population]:
    """Return the population of each dataset that has the metric.

    Raises:
        InvalidInput: There is no such dataset or metric.
    """
    run.check(design.wanted)
    names = [name for name in design.datasets or run.outlines if run.has_metric(name, design.metric)]
    return [_read_population(run, name, design, used_up) for name in names]


def _read_population(run: JudgedRun, dataset: str, design: LabelDesign, used_up: Collection[Target]) -> Population:
    judged: dict[tuple[str, int], tuple[Target, float | None]] = {}
    for sample, attempts in run.list_answered(dataset):
        for number, scores in attempts:
            score, target = scores.get(design.metric), (dataset, sample.id, number, design.metric)
            if score is not None and is_open(score) and target not in used_up:
                judged[sample.id, number] = target, score.value
    order = rank_replies(judged, design.seed)
    return Population(dataset, run.find_metric(dataset, design.metric), dict(judged[name] for name in order))


def plan_draws(population: Population, design: LabelDesign, given: Mapping[Target, Label]) -> dict[Target, Draw]:
    """Return the replies to label, in their order, with how each is drawn.

    `given`: the label of each reply that has one, and for `is_new` those of everybody.
    """
    if design.is_new:
        return dict(_plan_new(population, design, given))
    if design.kind is DrawKind.STRATIFIED:
        return _plan_strata(population, design, given)
    total = len(population.judged)
    size = total if design.size is None else min(design.size, total)
    first = zip(count(1), list(population.judged)[:size], strict=False)
    if design.kind is DrawKind.SEQUENTIAL:
        return {target: _draw(design, place, place / total) for place, target in first}
    return {target: _draw(design, place, size / total) for place, target in first}


def _draw(design: LabelDesign, place: int, probability: float) -> Draw:
    return Draw(kind=design.kind, seed=design.seed, probability=min(1.0, probability), place=place)


def _plan_strata(population: Population, design: LabelDesign, given: Mapping[Target, Label]) -> dict[Target, Draw]:
    """Return the pilot, and once it is labelled what is drawn within the strata."""
    total, places = len(population.judged), {target: place for place, target in enumerate(population.judged, 1)}
    pilot = replace(design, kind=DrawKind.RANDOM, size=None)
    drawn = [target for target, label in given.items() if label.draw.kind is DrawKind.RANDOM and target in places]
    if len(drawn) < min(PILOT, total):
        every = list(population.judged)[: design.size]
        return {target: _draw(pilot, places[target], min(PILOT, total) / total) for target in every}
    strata = list(population.stratify().values())
    counts = allocate_labels([_describe(one, population, given, drawn) for one in strata], design.size or total)
    found = {target: _draw(pilot, places[target], PILOT / total) for target in drawn}
    for stratum, wanted in zip(strata, counts, strict=True):
        others = [target for target in stratum if target not in found]
        more = wanted - (len(stratum) - len(others))
        found |= {target: _draw(design, places[target], wanted / len(stratum)) for target in others[: max(more, 0)]}
    return dict(sorted(found.items(), key=lambda entry: places[entry[0]]))


def _plan_new(
    population: Population, design: LabelDesign, given: Mapping[Target, Label]
) -> Iterator[tuple[Target, Draw]]:
    strata = list(population.stratify().values())
    waiting = [[target for target in one if target not in given] for one in strata]
    known = [_describe(one, population, given, given) for one in strata]
    for place in count(1):
        best = find_next(known)
        if best is None or place > (design.size or place):
            return
        known[best] = replace(known[best], labels=known[best].labels + 1)
        yield waiting[best].pop(0), _draw(design, place, known[best].labels / known[best].size)


def _describe(
    stratum: Sequence[Target], population: Population, given: Mapping[Target, Label], counted: Collection[Target]
) -> Stratum:
    """Return size, labels and spread of a stratum. `counted`: the replies whose labels count."""
    values = [given[one].value for one in stratum if one in given and one in counted]
    spread = compute_spread([value for value in values if value is not None], population.bounds)
    return Stratum(len(stratum), len(values), spread)


def compute_spread(values: Sequence[float], bounds: tuple[float, float]) -> float:
    """Return the standard deviation of scores and of one more at each bound, so that few equal scores have a spread."""
    every = [*values, *bounds]
    mean = math.fsum(every) / len(every)
    return math.sqrt(math.fsum((one - mean) ** 2 for one in every) / len(every))


def find_next(strata: Sequence[Stratum]) -> int | None:
    """Return the stratum to take the next label from; None if all are labelled. Of equal ones, the largest."""
    best = max(range(len(strata)), key=lambda place: (strata[place].gain, strata[place].size), default=None)
    return None if best is None or strata[best].gain < 0 else best


def allocate_labels(strata: Sequence[Stratum], total: int) -> list[int]:
    """Return the number of labels of each stratum, the given ones included.

    Each gets what its estimate needs, or all that it has, even if that is more than `total`. The rest follows size ×
    spread.
    """
    given = [replace(one, labels=max(one.labels, min(FEWEST, one.size))) for one in strata]
    for _ in range(total - sum(one.labels for one in given)):
        place = find_next(given)
        if place is None:
            break
        given[place] = replace(given[place], labels=given[place].labels + 1)
    return [one.labels for one in given]


def read_replies(run: JudgedRun, dataset: str) -> list[SampleResult]:
    """Return all samples of a dataset that has one attempt at each, with their scores. Those without a reply failed."""
    found = []
    for sample, attempts in run.list_answered(dataset):
        status = SampleStatus.ANSWERED if attempts else SampleStatus.FAILED
        known = dict(attempts[0][1]) if attempts else {}
        lacking = {one.name: Score.failed("no reply") for one in run.outlines[dataset].metrics if one.name not in known}
        found.append(SampleResult(id=sample.id, status=status, scores=known | lacking))
    return found


def find_decision(said: Correctable, limits: Sequence[Threshold]) -> str | None:
    """Return in words how people's labels decide the thresholds of a mean, as the gate does; None if they do not yet.

    A threshold is met or missed if all of the interval is on one side of it, which holds at every number of labels.
    """
    found = [_describe_end(said, limit) for limit in limits]
    missed = next((ends for is_met, ends in found if is_met is False), None)
    if missed is None and not all(is_met for is_met, _ in found):
        return None
    return f"decided: the threshold is {f'missed; {missed}' if missed else f'met; {found[0][1]}'}"


def _describe_end(said: Correctable, limit: Threshold) -> tuple[bool | None, str]:
    """Return whether a threshold is met or missed, None if that is undecided, and the interval in words."""
    confidence = limit.confidence or CONFIDENCE
    estimate = said.estimate(confidence)
    if estimate is None:
        return None, ""
    low, high = estimate.interval
    ends = f"the mean is between {low:.3g} and {high:.3g} ({100 * confidence:g} % {estimate.method})"
    return is_decided(limit, estimate.interval), f"after {len(said.scores)} labels {ends}"


def find_limits_of_mean(run: JudgedRun, dataset: str, metric: MetricOutline) -> list[Threshold]:
    """Return the thresholds on the mean over a whole dataset.

    Raises:
        InvalidInput: There is none, so that no number of labels decides.
    """
    limits = [
        one
        for one in run.outlines[dataset].thresholds
        if one.metric == metric.name and one.slice is None and (one.stat or metric.statistic) == "mean"
    ]
    if not limits:
        message = f"dataset '{dataset}' has no threshold on the mean of {metric.name}"
        raise InvalidInput(Problem(message, "use --random N", field="--until-decided"))
    return limits
